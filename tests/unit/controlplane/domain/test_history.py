"""The points of a chart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.errors import Rejected
from controlplane.domain.history import (
    METRICS,
    POINTS_MAX,
    RANGE_S_MAX,
    STEPS_S,
    ChartPoint,
    HistorySubject,
    metric_of,
    step_for,
    steps_of,
)


@given(st.floats(min_value=1, max_value=RANGE_S_MAX))
def test_every_range_has_a_step_with_few_points(span: float) -> None:
    step = step_for(span)
    assert len(steps_of([], 12_345, 12_345 + span, step)) <= POINTS_MAX
    assert step == STEPS_S[0] or len(steps_of([], 0, span, STEPS_S[STEPS_S.index(step) - 1])) >= POINTS_MAX - 1


def test_the_step_is_not_below_the_resolution() -> None:
    assert (step_for(900), step_for(900, 60)) == (10, 60)


def test_points_are_averages_and_peaks_and_a_gap_stays_a_gap() -> None:
    found = steps_of([(100, 1.0), (110, 2.0), (125, 9.0), (165, 4.0)], 105, 181, 20)
    assert found == [
        ChartPoint(100, 1.5, 2.0),
        ChartPoint(120, 9.0, 9.0),
        ChartPoint(140, None, None),
        ChartPoint(160, 4.0, 4.0),
        ChartPoint(180, None, None),
    ]


@pytest.mark.parametrize("subject", ["cluster", "topic:a", "group:a:b", "broker:1", "partition:orders:0"])
def test_every_kind_of_subject_has_metrics(subject: str) -> None:
    for metric in METRICS[HistorySubject(subject.partition(":")[0])]:
        assert metric_of(subject, metric.name) is metric


@pytest.mark.parametrize("subject", ["", "topic", "topic:", "cluster:1", "clusters", "move:1"])
def test_an_unknown_subject_is_rejected(subject: str) -> None:
    with pytest.raises(Rejected) as e:
        metric_of(subject, "records_per_s")
    assert e.value.field == "subject"


def test_an_unknown_metric_is_rejected_with_the_existing_ones() -> None:
    with pytest.raises(Rejected, match="records_per_s, bytes_in_per_s") as e:
        metric_of("topic:orders", "lag_records")
    assert e.value.field == "metric"
