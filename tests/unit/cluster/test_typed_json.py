"""Dataclasses as JSON: each supported type, defaults, stored names, and the path in the error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.typed_json import DEPTH_MAX, INT_MAX, MalformedJson, decode, encode, parse


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    n: int
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...] = field(default=(), metadata={"stored": "topics"})
    pair: tuple[int, str] = (1, "a")
    by_number: Mapping[int, float] = field(default_factory=dict)
    id: UUID | None = None
    plain: Any = None


def test_a_value_is_read_as_it_was_written() -> None:
    tree = Tree((Leaf(1), Leaf(-INT_MAX)), (2, "ä"), {3: 1.5, -1: 2.0}, UUID(int=5), {"a": [1, None, True]})
    data = encode(tree)
    assert data["topics"] == [{"n": 1, "colour": "red"}, {"n": -INT_MAX, "colour": "red"}]
    assert data["by_number"] == {"3": 1.5, "-1": 2.0}
    assert decode(Tree, data) == tree
    assert decode(Tree, {}) == Tree()


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ([], "request"),
        ({"topics": [{"n": 1}, {"n": True}]}, "topics[1].n"),
        ({"topics": [{}]}, "topics[0]: n is missing"),
        ({"topics": [{"n": 1, "colour": "blue"}]}, "topics[0].colour"),
        ({"topics": {}}, "topics"),
        ({"pair": [1]}, "pair"),
        ({"pair": [1, 2]}, "pair[1]"),
        ({"by_number": {"x": 1.0}}, "by_number"),
        ({"by_number": {"٣": 1.0}}, "by_number"),
        ({"by_number": {"--3": 1.0}}, "by_number"),
        ({"by_number": {"3": "1"}}, "by_number.3"),
        ({"id": "no"}, "id"),
        ({"id": 5}, "id"),
        ({"topics": [{"n": INT_MAX + 1}]}, "topics[0].n"),
        ({"plain": {"\ud800": 1}}, "plain"),
        ({"plain": [1e999]}, "plain"),
    ],
)
def test_another_value_is_malformed_and_the_path_is_named(data: Any, path: str) -> None:
    with pytest.raises(MalformedJson) as error:
        decode(Tree, data)
    assert str(error.value).startswith(path)


def test_a_plain_value_has_a_limit_of_nesting() -> None:
    value: Any = 1
    for _ in range(DEPTH_MAX - 1):
        value = [value]
    assert decode(Tree, {"plain": value}).plain == value
    with pytest.raises(MalformedJson, match="nested"):
        decode(Tree, {"plain": [value]})


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b"[Infinity]", b"\xff", b"[" * 100_000, b"1" * 10_000])
def test_bytes_that_are_no_json_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"topics": [{"n": 1, "colour": "blue"}]}, "topics[0].colour: invalid value 'blue', expected one of red"),
        ({"topics": [{"n": True}]}, f"topics[0].n: invalid value True, expected a whole number of at most {INT_MAX}"),
        ({"pair": [1]}, "pair: invalid value [1], expected an array of 2 values"),
        ({"id": "no"}, "id: invalid value 'no', expected a UUID"),
        ({"by_number": []}, "by_number: invalid value [], expected an object"),
    ],
)
def test_the_message_has_the_value_and_what_is_expected(data: Any, message: str) -> None:
    with pytest.raises(MalformedJson, match=f"^{re.escape(message)}$"):
        decode(Tree, data)
