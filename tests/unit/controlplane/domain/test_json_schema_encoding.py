"""Values that a JSON Schema validates, with references of the registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.domain.json_schema_encoding import encode_json
from controlplane.domain.value_faults import ValueMisfit
from weir_common.schema_formats import Schema, SchemaType, SchemaUnavailable

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "state": {"enum": ["NEW", "PAID"]},
        "lines": {"type": "array", "items": {"$ref": "line.json"}},
        "note": {"type": ["string", "null"]},
        "pay": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
    },
    "required": ["id", "state"],
    "additionalProperties": False,
}
LINE = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}


def schema(definition: Any, **references: Any) -> Schema:
    return Schema(5, SchemaType.JSON, json.dumps(definition), tuple((n, json.dumps(d)) for n, d in references.items()))


SCHEMA = schema(ORDER, **{"line.json": LINE})


def test_a_valid_value_is_kept_as_typed() -> None:
    text = '{"id":  1, "state": "NEW", "lines": [{"price": 1.0}]}'
    assert encode_json(SCHEMA, text) == text.encode()


def test_all_faults_at_once_with_their_paths() -> None:
    wrong = {"id": 0, "lines": [{"price": "x"}, {}, 3], "note": 1, "extra": {}, "pay": 2}
    with pytest.raises(ValueMisfit) as misfit:
        encode_json(SCHEMA, json.dumps(wrong))
    assert [f.sentence for f in misfit.value.faults] == [
        "The schema has no field $.extra: rename or remove it. Fields here: id, lines, note, pay, state.",
        "$.id must be at least 1, but it is the number 0.",
        '$.lines[0].price must be a number, but it is the text "x".',
        "$.lines[1].price is missing, and the schema requires it: add a number.",
        "$.lines[2] must be an object, but it is the number 3.",
        "$.note must be text or null, but it is the number 1. Put it in quotation marks.",
        "$.pay must be a value that fits one of the 2 schemas of oneOf (it fits none), but it is the number 2.",
        '$.state is missing, and the schema requires it: add one of "NEW", "PAID".',
    ]


def test_a_reference_below_the_id_of_the_schema() -> None:
    based = schema({"$id": "http://example.com/order.json", "$ref": "line.json"}, **{"line.json": LINE})
    with pytest.raises(ValueMisfit, match=r"\$\.price is missing"):
        encode_json(based, "{}")


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"$ref": "http://127.0.0.1:1/other.json"}, "references 'http://127.0.0.1:1/other.json', which is not among"),
        ({"type": "nothing"}, "is not a valid JSON Schema"),
    ],
)
def test_a_schema_that_cannot_validate_is_named(definition: Any, reason: str) -> None:
    with pytest.raises(SchemaUnavailable, match=reason):
        encode_json(schema(definition), "{}")


def test_a_schema_that_is_false_accepts_nothing() -> None:
    with pytest.raises(ValueMisfit, match="The schema does not allow the number 1 here: remove it"):
        encode_json(schema({"properties": {"a": False}}), '{"a": 1}')
