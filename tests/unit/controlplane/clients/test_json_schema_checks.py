"""Validation with a JSON Schema in a limited process, with schemas that do not end without a limit."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from controlplane.clients.json_schema_checks import encode_limited
from controlplane.domain.json_schema_encoding import encode_json
from controlplane.domain.value_faults import ValueMisfit
from tests.unit.controlplane.domain.test_json_schema_encoding import SCHEMA, schema
from weir_common.phrases import TranslatableText, reason_of
from weir_common.schema_formats import SchemaUnavailable

EXPONENTIAL = "^(a+)+$"
HOSTILE_TEXT = "a" * 60 + "!"


def test_the_results_are_those_of_the_unlimited_validation() -> None:
    valid = '{"id":  1, "state": "NEW", "lines": [{"price": 1.0}]}'
    assert encode_limited(SCHEMA, valid) == encode_json(SCHEMA, valid)
    wrong = json.dumps({"id": 0, "lines": [{"price": "ä"}], "note": 1})
    with pytest.raises(ValueMisfit) as expected:
        encode_json(SCHEMA, wrong)
    with pytest.raises(ValueMisfit) as misfit:
        encode_limited(SCHEMA, wrong)
    assert misfit.value.faults == expected.value.faults
    with pytest.raises(json.JSONDecodeError):
        encode_limited(SCHEMA, "{")
    with pytest.raises(SchemaUnavailable, match=r"references 'gone\.json'") as unavailable:
        encode_limited(schema({"$ref": "gone.json"}), "{}")
    assert isinstance(reason_of(unavailable.value), TranslatableText), "the process returns the phrase"


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "string", "pattern": EXPONENTIAL}, HOSTILE_TEXT),
        ({"patternProperties": {EXPONENTIAL: True}}, {HOSTILE_TEXT: 1}),
        ({"patternProperties": {EXPONENTIAL: True}, "additionalProperties": False}, {HOSTILE_TEXT: 1}),
    ],
)
def test_a_hostile_pattern_ends_after_its_time_with_a_reason(definition: Any, value: Any) -> None:
    began = time.process_time()
    with pytest.raises(SchemaUnavailable, match="CPU time") as rejection:
        encode_limited(schema(definition), json.dumps(value))
    assert "nested repetitions" in str(rejection.value)
    assert time.process_time() - began < 1, "the CPU time of this process"
