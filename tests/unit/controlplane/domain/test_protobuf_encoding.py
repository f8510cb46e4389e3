"""Protobuf messages from JSON, and all faults of a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.domain.protobuf_encoding import UnknownMessage, encode_protobuf
from controlplane.domain.schema_encoding import header
from controlplane.domain.value_faults import ValueMisfit
from tests.unit.controlplane.domain.protobuf_files import order_schema, required_schema
from weir_common.schema_formats import Schema, SchemaType, decode_with_schema

ORDER = order_schema()
VALUE = {
    "id": "7",
    "lines": [{"price": 1.5}, {}],
    "tags": {"a b": 1},
    "state": "PAID",
    "created_at": "2024-01-31T12:30:00Z",
    "raw": "AP8=",
    "card": "4111",
    "parent": {"id": "6"},
}


class SingleSchemaRegistry:
    def schema(self, schema_id: int) -> Schema:
        return ORDER


def encode_and_decode(value: Any, message_name: str = "") -> Any:
    data = header(3) + encode_protobuf(ORDER, json.dumps(value), message_name)
    return decode_with_schema(data, SingleSchemaRegistry(), SchemaType.PROTOBUF)[1]


def test_a_message_of_every_kind_of_field() -> None:
    assert encode_and_decode(VALUE) == VALUE
    assert encode_and_decode({"createdAt": None, "id": 7}) == {"id": "7"}


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("", b"\0"),
        ("Order", b"\0"),
        ("shop.Other", b"\x02\x02"),
        ("Order.Line", b"\x04\0\0"),
        ("Other.Inner", b"\x04\x02\0"),
    ],
)
def test_the_message_type_is_chosen_by_name(name: str, indexes: bytes) -> None:
    assert encode_protobuf(ORDER, "{}", name) == indexes


def test_a_nested_type_is_read_again() -> None:
    assert encode_and_decode({"x": 4}, "Other.Inner") == {"x": 4}


def test_an_unknown_message_type_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(UnknownMessage, match=r"no message type 'Ordr'\. It has shop\.Order, shop\.Order\.Line"):
        encode_protobuf(ORDER, "{}", "Ordr")


def test_all_faults_at_once_with_their_paths() -> None:
    wrong = {
        "id": "x",
        "lines": [{"price": 1}, {"price": "y", "prise": 2}, 3],
        "tags": {"a b": "z", "c": 1},
        "state": "GONE",
        "created_at": "yesterday",
        "raw": 5,
        "parent": {"id": None, "parent": {"id": []}},
        "nothing": 1,
    }
    with pytest.raises(ValueMisfit) as misfit:
        encode_protobuf(ORDER, json.dumps(wrong))
    sentences = {f.path: f.sentence for f in misfit.value.faults}
    wrong_values = {path: text for path, text in sentences.items() if path not in ("$.nothing", "$.lines[1].prise")}
    assert {path: text.partition(" must be ")[2].partition(", but")[0] for path, text in wrong_values.items()} == {
        "$.id": "an integer of 64 bits",
        "$.lines[1].price": "a number",
        "$.lines[2]": "an object (shop.Order.Line)",
        '$.tags["a b"]': "an integer of 32 bits",
        "$.state": "one of NEW, PAID",
        "$.created_at": "a time (2024-01-31T12:30:00Z)",
        "$.raw": "bytes in Base64, for example AP8=",
        "$.parent.parent.id": "an integer of 64 bits",
    }
    assert sentences["$.raw"].endswith("bytes in Base64, for example AP8=, but it is the number 5.")
    assert sentences["$.lines[1].prise"].endswith("Fields of shop.Order.Line: price.")
    assert "$.nothing" in sentences


def test_two_members_of_a_oneof_and_a_missing_required_field_are_rejected() -> None:
    with pytest.raises(
        ValueMisfit, match=r"^The value may have only one of the fields card, cash: remove the others\.$"
    ):
        encode_protobuf(ORDER, '{"card": "1", "cash": true}')
    with pytest.raises(ValueMisfit, match=r"\$\.id is missing, and the schema requires it"):
        encode_protobuf(required_schema(), "{}")


@pytest.mark.parametrize(("value", "path"), [([], "$"), ({"lines": {}}, "$.lines"), ({"tags": []}, "$.tags")])
def test_the_wrong_container_is_named(value: Any, path: str) -> None:
    with pytest.raises(ValueMisfit) as misfit:
        encode_protobuf(ORDER, json.dumps(value))
    assert [f.path for f in misfit.value.faults] == [path]
