"""Texts and names of Avro types."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.avro_type_names import branch_name, expected_text, json_kind
from controlplane.domain.value_faults import JsonKind

RECORD = {"type": "record", "name": "shop.Order", "fields": []}
DATE = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    ("kind", "text", "json"),
    [
        ("long", "an integer of 64 bits", JsonKind.NUMBER),
        ("shop.Order", "an object (shop.Order)", None),
        ({"type": {"type": "array", "items": "int"}}, "an array", None),
        (DATE, "a date (2024-01-31) or the days since 1970", None),
        (["null", DATE], "null or a date (2024-01-31) or the days since 1970", None),
        (["null", "boolean"], "null or true or false", JsonKind.BOOLEAN),
        (["null", "long", RECORD], "a value of one of the types null, long, shop.Order", None),
        ({"type": "fixed", "name": "F", "size": 1}, "1 byte in hexadecimal", None),
    ],
)
def test_a_type_has_a_text_and_a_kind_of_json_value(kind: Any, text: str, json: JsonKind | None) -> None:
    named = {"shop.Order": RECORD}
    assert json_kind(kind, named) is json
    assert expected_text(kind, named) == text


def test_the_type_below_a_logical_one_has_its_own_text() -> None:
    assert expected_text(DATE, {}, logical=False) == "an integer of 32 bits"


def test_a_branch_has_the_name_of_its_type() -> None:
    assert [branch_name(kind) for kind in (RECORD, {"type": "map", "values": "int"}, "null")] == [
        "shop.Order",
        "map",
        "null",
    ]
