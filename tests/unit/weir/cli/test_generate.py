"""The stored table of commands is that of the REST API, and each operation of the API has a command."""

from __future__ import annotations

import pytest

from weir.cli import generate
from weir_common.rest_operations import TABLE


def test_the_stored_table_is_current() -> None:
    assert TABLE.read_text() == generate.text(), "run `python -m weir.cli.generate`"


def test_two_operations_with_one_command_are_rejected() -> None:
    operation = {"operationId": "x", "responses": {}}
    paths = {"/api/v1/things/{id}/stop": {"post": operation}, "/api/v1/things/{id}/{name}/stop": {"post": operation}}
    with pytest.raises(ValueError, match="stop"):
        generate.table({"paths": paths, "components": {"schemas": {}}})


def test_an_option_of_every_command_cannot_be_a_field() -> None:
    wait = {"in": "query", "name": "wait", "schema": {"type": "string"}}
    paths = {"/api/v1/things": {"get": {"operationId": "things_list", "parameters": [wait]}}}
    with pytest.raises(ValueError, match="wait"):
        generate.table({"paths": paths, "components": {"schemas": {}}})


def test_types_of_fields_come_through_references_and_variants() -> None:
    schemas = {
        "Mode": {"enum": ["copy", "tail"], "type": "string"},
        "Blank": {"enum": [""]},
        "Create": {
            "properties": {
                "mode": {"oneOf": [{"$ref": "#/components/schemas/Mode"}, {"$ref": "#/components/schemas/Blank"}]},
                "brokers": {"type": "array", "items": {"type": "integer"}, "nullable": True},
                "configs": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
                "scope": {},
                "id": {"type": "integer", "readOnly": True},
            }
        },
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Create"}}}}
    paths = {"/api/v1/things": {"post": {"operationId": "things_create", "requestBody": body}}}
    (row,) = generate.table({"paths": paths, "components": {"schemas": schemas}})
    assert row["fields"] == [
        {"name": "mode", "type": "string", "choices": ["copy", "tail"]},
        {"name": "brokers", "type": "integers"},
        {"name": "configs", "type": "map"},
        {"name": "scope", "type": "json"},
    ]
