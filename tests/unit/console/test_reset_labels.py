"""Words of offset resets on pages."""

from __future__ import annotations

from console.reset_labels import LIMITS, PROBLEMS, STATES, TARGETS, reset_span, reset_value
from controlplane.domain.offset_reset_types import LimitedBy, ResetState, ResetTarget, RowProblem


def test_the_value_of_a_reset_is_shown() -> None:
    assert "2026-11-21 03:04:05 UTC" in reset_value({"time_ms": 1795230245000})
    assert "ms" in reset_value({"time_ms": 10**18})
    assert (reset_value({"shift": -2500}), reset_value({"offset": 4200})) == ("−2,500", "4,200")
    assert "source" in reset_value({"source_group": "source"})


def test_every_state_target_and_problem_has_a_label() -> None:
    assert set(STATES) == set(ResetState)
    assert set(TARGETS) == {t.value for t in ResetTarget}
    assert set(PROBLEMS) == {p.value for p in RowProblem}
    assert set(LIMITS) == {x.value for x in LimitedBy if x}


def test_an_unknown_time_and_a_lower_bound_are_marked() -> None:
    assert "–" in reset_span(None, False) and reset_span(90_000, False) == "1 min 30 s"
    assert "&gt; 1 min 30 s" in reset_span(90_000, True)
