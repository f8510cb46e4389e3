"""Points of charts from frames and chunks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.domain.errors import Rejected
from controlplane.domain.history import POINTS_MAX
from controlplane.models import HistorySeries
from controlplane.monitoring.history import FINE_S, HOUR_S, SPAN_S, HistoryRecorder, maintain_block
from controlplane.selectors import history
from tests.unit.controlplane.history_rows import record

pytestmark = pytest.mark.django_db
RATE, SIZE = ("topic:flights", "records_per_s"), ("topic:flights", "size_bytes")
HOUR = int(timezone.now().timestamp()) // SPAN_S * SPAN_S - 20 * SPAN_S


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def maintain(now_s: int) -> None:
    for block in {i // 1000 for i in HistorySeries.objects.values_list("id", flat=True)}:
        maintain_block(block, now_s)


def values(since: int, until: int) -> list[float | None]:
    return [s.value for s in history.lines([RATE], at(since), at(until))[RATE].steps]


def test_frames_and_chunks_make_one_line() -> None:
    record(HistoryRecorder(), {HOUR + 10 * i: {RATE: i % 100} for i in range(400)})
    whole = values(HOUR + 3500, HOUR + 3700)
    assert whole == [i % 100 for i in range(350, 370)]
    maintain(HOUR + 3990)
    assert values(HOUR + 3500, HOUR + 3700) == whole


def test_a_gap_stays_a_gap() -> None:
    record(HistoryRecorder(), {HOUR + 10 * i: {RATE: 1} for i in (0, 1, 4)})
    assert values(HOUR, HOUR + 60) == [1, 1, None, None, 1, None]
    maintain(HOUR + HOUR_S)
    assert values(HOUR, HOUR + 60) == [1, 1, None, None, 1, None]


def test_a_long_range_has_averages_and_peaks() -> None:
    record(HistoryRecorder(), {HOUR + 10 * i: {RATE: 100 if i == 3 else 0} for i in range(12)})
    line = history.lines([RATE], at(HOUR), at(HOUR + 6 * 3600))[RATE]
    assert (line.step_s, len(line.steps)) == (60, 360)
    assert [(s.value, s.peak) for s in line.steps[:3]] == [(16.667, 100), (0, 0), (None, None)]
    assert len(history.lines([RATE], at(HOUR), at(HOUR + 31 * 86_400))[RATE].steps) <= POINTS_MAX


def test_old_values_have_steps_of_a_minute() -> None:
    record(HistoryRecorder(), {HOUR + 10 * i: {RATE: i} for i in range(12)})
    maintain(HOUR + SPAN_S + FINE_S)
    line = history.lines([RATE], at(HOUR), at(HOUR + 180))[RATE]
    assert (line.step_s, [s.value for s in line.steps]) == (60, [2.5, 8.5, None])


def test_a_value_that_is_not_written_yet_is_no_gap() -> None:
    now = int(timezone.now().timestamp()) // 10 * 10
    record(HistoryRecorder(), {now - 60: {RATE: 3}, now - 40: {RATE: 4}, now - 20: {RATE: 5}})
    steps = history.lines([RATE], at(now - 60), at(now + 9))[RATE].steps
    assert [s.value for s in steps] == [3, None, 4, None, 5]


def test_all_charts_of_a_page_cost_three_queries() -> None:
    record(HistoryRecorder(), {HOUR: {RATE: 1, SIZE: 2, ("cluster", "offline"): 3}})
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = history.lines([RATE, SIZE, ("cluster", "offline"), ("broker:1", "leaders")], at(HOUR), at(HOUR + 20))
    assert len(queries) == 3
    assert [line.steps[0].value for line in found.values()] == [1, 2, 3, None]
    assert [line.recorded for line in found.values()] == [True, True, True, False]


def test_the_history_of_a_figure_has_its_unit_and_range() -> None:
    record(HistoryRecorder(), {HOUR: {RATE: 1}})
    found = history.figure_history(*RATE, at(HOUR), at(HOUR + 20))
    assert found is not None
    assert (found.unit, found.step_s, found.total, found.rows[0].at) == ("records/s", 10, 2, at(HOUR))
    assert history.figure_history(*SIZE) is None, "never recorded"


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (timedelta(hours=1), None),
        (timedelta(hours=-1), timedelta(hours=-2)),
        (timedelta(hours=-1), timedelta(hours=-1)),
        (timedelta(days=-32), None),
    ],
)
def test_an_impossible_range_is_rejected(since: timedelta, until: timedelta | None) -> None:
    now = timezone.now()
    with pytest.raises(Rejected) as e:
        history.checked_range(now + since, None if until is None else now + until)
    assert e.value.field == "since"


def test_a_range_before_the_first_year_is_rejected() -> None:
    with pytest.raises(Rejected):
        history.checked_range(None, datetime.min.replace(tzinfo=UTC))


def test_a_range_ends_now_at_most() -> None:
    begin, end = history.checked_range(None, timezone.now() + timedelta(days=1))
    assert timezone.now() - end < timedelta(minutes=1) and end - begin == history.RANGE_DEFAULT
