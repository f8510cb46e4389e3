"""Values that a JSON Schema validates, with references of the registry."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from controlplane.domain.json_schema_encoding import encode_json
from controlplane.domain.json_schema_faults import TEXTS
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


@pytest.mark.parametrize(
    ("definition", "value", "text"),
    [
        ({"maximum": 3}, 4, "The value must be at most 3, but it is the number 4."),
        ({"exclusiveMinimum": 3}, 3, "The value must be more than 3, but it is the number 3."),
        ({"exclusiveMaximum": 3}, 3, "The value must be less than 3, but it is the number 3."),
        ({"multipleOf": 5}, 3, "The value must be a multiple of 5, but it is the number 3."),
        ({"minLength": 2}, "a", 'The value must be text of at least 2 characters, but it is the text "a".'),
        ({"maxLength": 1}, "ab", 'The value must be text of at most 1 character, but it is the text "ab".'),
        (
            {"pattern": "^x"},
            "y",
            'The value must be text that matches the regular expression ^x, but it is the text "y".',
        ),
        ({"const": "a"}, 1, 'The value must be "a", but it is the number 1.'),
        ({"minItems": 1}, [], "The value must be an array of at least 1 element, but it is an array of 0 elements."),
        ({"maxItems": 0}, [1], "The value must be an array of at most 0 elements, but it is an array of 1 element."),
        ({"uniqueItems": True}, [1, 1], "an array without equal elements"),
        ({"contains": {"const": 1}}, [2], 'an array with an element that fits the schema of "contains"'),
        ({"minProperties": 1}, {}, "an object with at least 1 field, but it is an empty object"),
        ({"maxProperties": 0}, {"a": 1}, "an object with at most 0 fields"),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"a": 1}, "without other fields"),
        ({"dependencies": {"a": ["b"]}}, {"a": 1}, "all fields that its other fields need"),
        ({"items": [True], "additionalItems": False}, [1, 2], "an array without further elements"),
        ({"not": {"type": "null"}}, None, 'a value that does not fit the schema {"type": "null"}, but it is null'),
        ({"oneOf": [{"type": "number"}, {"minimum": 1}]}, 2, "fits only one schema of oneOf (it fits several)"),
        ({"properties": {"a b": {"type": "number"}}}, {"a b": "7"}, '$["a b"] must be a number'),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "The name of the field $.ab must be text of at most 1 character.",
        ),
        (
            {"properties": {"propertyNames": {"type": "number"}}},
            {"propertyNames": "x"},
            "$.propertyNames must be a number, but",
        ),
    ],
)
def test_each_keyword_has_a_plain_sentence(definition: Any, value: Any, text: str) -> None:
    with pytest.raises(ValueMisfit) as misfit:
        encode_json(schema(definition), json.dumps(value))
    (fault,) = misfit.value.faults
    assert text in fault.sentence
    if text[0].isupper():
        assert fault.sentence.startswith(text)


def test_each_keyword_of_the_library_has_a_text() -> None:
    """A new version of the package may have a further keyword."""
    other = {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "required", "properties"}
    other |= {"patternProperties", "propertyNames", "prefixItems", "dependentSchemas"}
    assert set(jsonschema.Draft7Validator.VALIDATORS) | set(jsonschema.Draft202012Validator.VALIDATORS) <= {
        *TEXTS,
        *other,
    }


def test_the_faults_of_the_only_branch_that_can_be_meant_are_shown() -> None:
    card = {"type": "object", "properties": {"kind": {"const": "card"}, "number": {"type": "string"}}}
    cash = {"type": "object", "properties": {"kind": {"const": "cash"}, "amount": {"type": "number"}}}
    definition = schema({"properties": {"pay": {"oneOf": [{"type": "null"}, card, cash]}}})
    with pytest.raises(ValueMisfit) as misfit:
        encode_json(definition, '{"pay": {"kind": "cash", "amount": "3"}}')
    assert [f.sentence for f in misfit.value.faults] == [
        '$.pay.amount must be a number, but it is the text "3". Remove the quotation marks.'
    ]
