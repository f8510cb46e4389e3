"""Texts for the values of Protobuf fields."""

from __future__ import annotations

from controlplane.domain.protobuf_encoding import message_type
from controlplane.domain.protobuf_field_texts import expected_text, json_kind
from controlplane.domain.value_faults import JsonKind
from tests.unit.controlplane.domain.protobuf_files import order_schema


def test_each_field_says_which_values_it_has() -> None:
    descriptor, _ = message_type(order_schema(), "Order")
    texts = {field.name: expected_text(field) for field in descriptor.fields}
    assert texts["id"] == "an integer of 64 bits"
    assert texts["state"] == "one of NEW, PAID"
    assert texts["tags"] == "an object (a map)"
    assert texts["created_at"] == "a time (2024-01-31T12:30:00Z)"
    assert texts["parent"] == "a value of the type shop.Order"


def test_only_texts_and_booleans_depend_on_quotation_marks() -> None:
    """Protobuf accepts numbers in quotation marks."""
    descriptor, _ = message_type(order_schema(), "Order")
    kinds = {field.name: json_kind(field) for field in descriptor.fields}
    assert (kinds["id"], kinds["state"], kinds["card"], kinds["cash"]) == (None, None, JsonKind.TEXT, JsonKind.BOOLEAN)
