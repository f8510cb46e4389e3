"""The form of an offset reset."""

from __future__ import annotations

import pytest

from console.reset_forms import ResetForm, time_of
from controlplane.domain.errors import Rejected
from controlplane.domain.offset_reset_types import ResetSpec, ResetTarget


def test_the_form_becomes_a_spec() -> None:
    def spec(**values: str) -> ResetSpec:
        form = ResetForm(values)
        assert form.is_valid(), form.errors
        return form.spec()

    assert spec(target="time", value="2026-11-21 03:04:05") == ResetSpec(ResetTarget.TIME, time_ms=1795230245000)
    assert spec(target="shift", value="-500", topics="a b:1") == ResetSpec(
        ResetTarget.SHIFT, topics=("a",), partitions=(("b", 1),), shift=-500
    )
    assert spec(target="group", value="source").source_group == "source"
    assert spec(target="file", offsets="a,0,5").offsets == {("a", 0): 5}
    assert time_of("1h") < time_of("15m")
    with pytest.raises(Rejected):
        time_of("")


def test_the_target_says_that_a_time_may_be_an_age() -> None:
    labels = dict(ResetForm().fields["target"].choices)
    assert str(labels["time"]) == "Timestamp or time ago" and str(labels["offset"]) == "Offset"
