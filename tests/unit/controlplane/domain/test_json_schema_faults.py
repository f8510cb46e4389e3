"""Sentences for the errors of the package jsonschema, by keyword."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from controlplane.domain.json_schema_encoding import encode_json
from controlplane.domain.json_schema_faults import TEXTS
from controlplane.domain.value_faults import ValueMisfit
from tests.unit.controlplane.domain.test_json_schema_encoding import schema


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
