"""Unknown names are found at every depth of a body, and the nearest known name is offered."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework import serializers

from controlplane.api.errors import InvalidInput
from controlplane.api.strict import unknown_parameters, validate_body


class Place(serializers.Serializer[Any]):
    topic = serializers.CharField()
    number = serializers.IntegerField(read_only=True)


class Order(serializers.Serializer[Any]):
    places = Place(many=True)
    first = Place(required=False)
    configs = serializers.DictField(child=serializers.CharField(), default=dict)


def faults(data: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as rejection:
        validate_body(Order, data)
    return {e.field: e.code.value for e in rejection.value.errors}


def test_a_body_of_known_fields_is_returned() -> None:
    body = {"places": [{"topic": "t"}], "configs": {"any.key": "v"}}
    assert validate_body(Order, body) == body


def test_unknown_fields_of_nested_objects_are_found() -> None:
    body = {"places": [{"topic": "t"}, {"topic": "t", "topik": 1, "number": 2}], "first": {"topic": "t", "x": 1}}
    assert faults(body) == {
        "places.1.topik": "unknown_field",
        "places.1.number": "unknown_field",
        "first.x": "unknown_field",
    }


def test_unknown_and_invalid_fields_are_named_together() -> None:
    assert faults({"places": [{}], "y": 1}) == {"y": "unknown_field", "places.0.topic": "required"}


@pytest.mark.parametrize("data", [[], "text", None, 7])
def test_a_body_that_is_no_object_is_invalid(data: Any) -> None:
    assert set(faults(data)) == {""}


@pytest.mark.parametrize(
    ("known", "hint"),
    [(("limit", "page"), "Did you mean page?"), (("x",), "Known are: x."), ((), "there is none here")],
)
def test_a_hint_has_the_nearest_name_or_all_names(known: tuple[str, ...], hint: str) -> None:
    (error,) = unknown_parameters(["pages"], known)
    assert hint in error.detail


@pytest.mark.parametrize(("name", "meant"), [("page", "cursor"), ("per_page", "limit"), ("working", "state")])
def test_a_usual_name_of_another_api_is_recognized(name: str, meant: str) -> None:
    known = ("cursor", "limit", "state", "workings")
    (error,) = unknown_parameters([name], known)
    assert f"Did you mean {meant}?" in error.detail
    (error,) = unknown_parameters([name], ("x",))
    assert "Known are: x." in error.detail
