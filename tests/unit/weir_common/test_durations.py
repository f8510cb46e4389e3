"""Durations as values: their English text and their stored form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weir_common.durations import Duration, DurationUnit, duration_from_json, duration_to_json

HOURS = Duration((("1", DurationUnit.HOUR), ("23", DurationUnit.MINUTE)))


@pytest.mark.parametrize(("value", "text"), [(HOURS, "1 h 23 min"), (Duration.of("0.4", DurationUnit.SECOND), "0.4 s")])
def test_a_duration_is_stored_with_its_units(value: Duration, text: str) -> None:
    stored = json.loads(json.dumps(duration_to_json(value)))
    assert str(duration_from_json(stored["duration"])) == str(value) == text


@pytest.mark.parametrize("amounts", [["1"], [["1"]], [["1", "week"]], [[1, "h"]]])
def test_another_form_is_an_error(amounts: Any) -> None:
    with pytest.raises(TypeError):
        duration_from_json(amounts)
