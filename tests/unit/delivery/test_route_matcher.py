"""Which bindings match: against a slow and obvious implementation, and RabbitMQ's own examples of patterns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from brokerd.cluster.routes import Match, MatchKind, Route, route_of
from brokerd.delivery.route_matcher import RouteMatcher
from brokerd.wire.records import Record


def matcher(*bindings: dict[str, Any]) -> RouteMatcher:
    return RouteMatcher(route(*bindings).bindings)


def route(*bindings: dict[str, Any]) -> Route:
    return route_of("r", 1, {"source": "s", "bindings": [{"target": f"t{i}", **b} for i, b in enumerate(bindings)]})


def record(key: str | None = "k", headers: dict[str, str | None] | None = None, offset: int = 0) -> Record:
    given = tuple((n, None if v is None else v.encode()) for n, v in (headers or {}).items())
    return Record(offset, 0, None if key is None else key.encode(), b"v", given)


def pattern(text: str) -> dict[str, Any]:
    return {"match": {"kind": "pattern", "value": text}}


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        (
            "*.orange.*",
            ["quick.orange.rabbit", "lazy.orange.elephant"],
            ["orange", "quick.orange.male.rabbit", "quick.orange"],
        ),
        ("*.*.rabbit", ["quick.orange.rabbit", "lazy.pink.rabbit"], ["rabbit", "pink.rabbit"]),
        ("lazy.#", ["lazy", "lazy.orange.male.rabbit"], ["quick.lazy"]),
        ("#", ["", "a", "a.b"], []),
        ("#.#", ["", "a", "a.b.c"], []),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b", "a.b.b"], ["a", "a.b.c"]),
        ("#.b.#", ["b", "a.b", "b.c", "a.b.c"], ["a", ""]),
        ("*.#", ["a", "a.b"], [""]),
        ("a.*", ["a.b", "a."], ["a", "a.b.c"]),
    ],
)
def test_patterns_are_those_of_rabbitmq(text: str, matching: list[str], others: list[str]) -> None:
    found = matcher(pattern(text))
    assert [k for k in matching if not found.bindings_of(record(k))] == []
    assert [k for k in others if found.bindings_of(record(k))] == []
    assert found.bindings_of(record(None)) == []


def obviously_matches(words: list[str], pattern_words: list[str]) -> bool:
    if not pattern_words:
        return not words
    first, rest = pattern_words[0], pattern_words[1:]
    if first == "#":
        return any(obviously_matches(words[i:], rest) for i in range(len(words) + 1))
    return bool(words) and first in ("*", words[0]) and obviously_matches(words[1:], rest)


def test_patterns_agree_with_an_obvious_implementation() -> None:
    rng = random.Random(7)
    patterns = [".".join(rng.choice(["a", "b", "*", "#"]) for _ in range(rng.randint(1, 5))) for _ in range(150)]
    found = matcher(*map(pattern, patterns))
    for _ in range(500):
        words = [rng.choice(["a", "b", "c"]) for _ in range(rng.randint(1, 6))]
        expected = [i for i, p in enumerate(patterns) if obviously_matches(words, p.split("."))]
        assert found.bindings_of(record(".".join(words))) == expected


def test_headers_match_all_or_any_and_presence() -> None:
    both = [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    found = matcher(
        {"match": {"kind": "headers_all", "headers": both}}, {"match": {"kind": "headers_any", "headers": both}}
    )
    assert found.bindings_of(record(headers={"a": "1", "b": "x"})) == [0, 1]
    assert found.bindings_of(record(headers={"a": "1"})) == [1]
    assert found.bindings_of(record(headers={"b": None})) == [1]
    assert found.bindings_of(record(headers={"a": "2", "c": "1"})) == []


def test_only_presence_of_headers() -> None:
    rules = [{"name": "a", "value": None}, {"name": "b", "value": None}]
    found = matcher({"match": {"kind": "headers_all", "headers": rules}})
    assert found.bindings_of(record(headers={"a": "1", "b": "2"})) == [0]
    assert found.bindings_of(record(headers={"a": "1"})) == []


def test_the_first_binding_of_a_target_applies() -> None:
    found = matcher(
        {"target": "x", "match": {"kind": "key", "value": "k"}, "set_headers": [{"name": "by", "value": "first"}]},
        {"target": "x", "match": {"kind": "all"}},
        {"target": "y", "match": {"kind": "all"}},
    )
    assert [(m.number, m.target, m.record.headers) for m in found.match(record())] == [
        (0, "x", (("by", b"first"),)),
        (2, "y", ()),
    ]
    assert [(m.number, m.target) for m in found.match(record("other"))] == [(1, "x"), (2, "y")]


def test_a_sample_is_the_same_for_each_leader_and_keeps_keys_together() -> None:
    first, second = (matcher({"match": {"kind": "all"}, "sample_percent": 25}) for _ in range(2))
    chosen = {k for k in range(4_000) if first.match(record(f"key-{k}"))}
    assert chosen == {k for k in range(4_000) if second.match(record(f"key-{k}", offset=k))}
    assert 850 < len(chosen) < 1_150
    by_offset = matcher({"match": {"kind": "all"}, "sample_percent": 25, "sample_by": "offset"})
    assert 850 < sum(1 for o in range(4_000) if by_offset.match(record("one key", offset=o))) < 1_150


def test_headers_and_key_are_changed() -> None:
    found = matcher(
        {
            "match": {"kind": "all"},
            "set_headers": [{"name": "x", "value": "new"}],
            "remove_headers": ["gone"],
            "key_from_header": "customer",
        },
        {"match": {"kind": "all"}, "drop_key": True},
    )
    given = record("k", {"x": "old", "gone": "1", "customer": "c-7", "kept": None})
    changed, dropped = (m.record for m in found.match(given))
    assert changed.key == b"c-7" and changed.value == b"v"
    assert changed.headers == (("customer", b"c-7"), ("kept", None), ("x", b"new"))
    assert dropped.key is None and dropped.headers == given.headers
    assert found.match(record("k"))[0].record.key == b"k"


def test_a_thousand_bindings_are_compiled_into_indexes() -> None:
    keys = [{"match": {"kind": "key", "value": f"key-{i}"}} for i in range(1_000)]
    assert matcher(*keys).bindings_of(record("key-617")) == [617]
    match = route(pattern("a")).bindings[0].match
    assert match == Match(MatchKind.PATTERN, "a")
