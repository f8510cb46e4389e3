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
    assert {f.path: f.expected for f in misfit.value.faults if f.path not in ("$.nothing", "$.lines[1].prise")} == {
        "$.id": "int64",
        "$.lines[1].price": "double",
        "$.lines[2]": "an object (shop.Order.Line)",
        '$.tags["a b"]': "int32",
        "$.state": "one of NEW, PAID",
        "$.created_at": "google.protobuf.Timestamp",
        "$.raw": "bytes",
        "$.parent.parent.id": "int64",
    }
    unknown = {f.path: f.sentence for f in misfit.value.faults}
    assert unknown["$.lines[1].prise"].endswith("no field of this name; shop.Order.Line has price, found the number 2.")
    assert "$.nothing" in unknown


def test_two_members_of_a_oneof_and_a_missing_required_field_are_rejected() -> None:
    with pytest.raises(ValueMisfit, match="payment"):
        encode_protobuf(ORDER, '{"card": "1", "cash": true}')
    with pytest.raises(ValueMisfit, match=r"\$\.id: expected a value, found nothing"):
        encode_protobuf(required_schema(), "{}")


@pytest.mark.parametrize(("value", "path"), [([], "$"), ({"lines": {}}, "$.lines"), ({"tags": []}, "$.tags")])
def test_the_wrong_container_is_named(value: Any, path: str) -> None:
    with pytest.raises(ValueMisfit) as misfit:
        encode_protobuf(ORDER, json.dumps(value))
    assert [f.path for f in misfit.value.faults] == [path]
