"""Points of charts from frames and chunks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import pyarrow as pa
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.domain.errors import Rejected
from controlplane.domain.history import POINTS_MAX
from controlplane.models import HistorySeries
from controlplane.monitoring.history import FINE_S, HOUR_S, SPAN_S, HistoryRecorder, maintain_block
from controlplane.selectors import history
from controlplane.selectors.history import LakePart
from pipeline.lake import history as lake_history
from pipeline.lake.writing import write_arrow
from tests.unit.controlplane.history_rows import record
from weir_common.lake_catalog import LakeSettings

pytestmark = pytest.mark.django_db
RATE, SIZE = ("topic:flights", "records_per_s"), ("topic:flights", "size_bytes")
HOUR = int(timezone.now().timestamp()) // SPAN_S * SPAN_S - 20 * SPAN_S


def time_at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def maintain(now_s: int) -> None:
    for block in {i // 1000 for i in HistorySeries.objects.values_list("id", flat=True)}:
        maintain_block(block, now_s)


def values(since: int, until: int) -> list[float | None]:
    return [s.value for s in history.lines([RATE], time_at(since), time_at(until))[RATE].steps]


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
    line = history.lines([RATE], time_at(HOUR), time_at(HOUR + 6 * 3600))[RATE]
    assert (line.step_s, len(line.steps)) == (60, 360)
    assert [(s.value, s.peak) for s in line.steps[:3]] == [(16.667, 100), (0, 0), (None, None)]
    assert len(history.lines([RATE], time_at(HOUR), time_at(HOUR + 31 * 86_400))[RATE].steps) <= POINTS_MAX


def test_old_values_have_steps_of_a_minute() -> None:
    record(HistoryRecorder(), {HOUR + 10 * i: {RATE: i} for i in range(12)})
    maintain(HOUR + SPAN_S + FINE_S)
    line = history.lines([RATE], time_at(HOUR), time_at(HOUR + 180))[RATE]
    assert (line.step_s, [s.value for s in line.steps]) == (60, [2.5, 8.5, None])


def test_a_value_that_is_not_written_yet_is_no_gap() -> None:
    now = int(timezone.now().timestamp()) // 10 * 10
    record(HistoryRecorder(), {now - 60: {RATE: 3}, now - 40: {RATE: 4}, now - 20: {RATE: 5}})
    steps = history.lines([RATE], time_at(now - 60), time_at(now + 9))[RATE].steps
    assert [s.value for s in steps] == [3, None, 4, None, 5]


def test_all_charts_of_a_page_cost_three_queries() -> None:
    record(HistoryRecorder(), {HOUR: {RATE: 1, SIZE: 2, ("cluster", "offline"): 3}})
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = history.lines(
            [RATE, SIZE, ("cluster", "offline"), ("broker:1", "leaders")], time_at(HOUR), time_at(HOUR + 20)
        )
    assert len(queries) == 3
    assert [line.steps[0].value for line in found.values()] == [1, 2, 3, None]
    assert [line.recorded for line in found.values()] == [True, True, True, False]


def test_the_history_of_a_metric_has_its_unit_and_range() -> None:
    record(HistoryRecorder(), {HOUR: {RATE: 1}})
    found = history.metric_history(*RATE, time_at(HOUR), time_at(HOUR + 20))
    assert found is not None
    assert (found.unit, found.step_s, found.total, found.rows[0].at) == ("records/s", 10, 2, time_at(HOUR))
    assert history.metric_history(*SIZE) is None, "never recorded"


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (timedelta(hours=1), None),
        (timedelta(hours=-1), timedelta(hours=-2)),
        (timedelta(hours=-1), timedelta(hours=-1)),
        (timedelta(days=-367), None),
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


def copied_to_the_lake(folder: Path, settings: Any, values: dict[int, float]) -> None:
    settings.WEIR = replace(settings.WEIR, lake_dir=folder)
    table = lake_history.points_table(LakeSettings.of_folder(folder).open())
    rows = [{"subject": RATE[0], "metric": RATE[1], "timestamp": time_at(t), "value": v} for t, v in values.items()]
    files = [f for _, f in write_arrow(table, pa.Table.from_pylist(rows, schema=lake_history.POINTS_ARROW))]
    assert lake_history.commit(table, None, "2026-03-02", files, "run-1")


def test_values_older_than_the_rows_come_from_the_lake(tmp_path: Path, settings: Any) -> None:
    now = int(timezone.now().timestamp()) // SPAN_S * SPAN_S
    old, new = now - 40 * 86_400, now - 2 * SPAN_S
    copied_to_the_lake(tmp_path, settings, {old: 4, old + 60: 8, new: 1_000})
    record(HistoryRecorder(), {new + 10 * i: {RATE: 20} for i in range(6)})
    line = history.lines([RATE], time_at(now - 60 * 86_400), time_at(now))[RATE]
    assert (line.lake, line.step_s) == (LakePart.READ, 14_400)
    found = [(s.at_s, s.value, s.peak) for s in line.steps if s.value is not None]
    assert found == [(old // 14_400 * 14_400, 6, 8), (new // 14_400 * 14_400, 20, 20)], "new values come from the rows"


def test_a_metric_that_only_the_lake_has_was_recorded(tmp_path: Path, settings: Any) -> None:
    old = int(timezone.now().timestamp()) // 3600 * 3600 - 40 * 86_400
    copied_to_the_lake(tmp_path, settings, {old: 4, old + 60: 8})
    found = history.metric_history(*RATE, time_at(old), time_at(old + 3600))
    assert found is not None and (found.lake, found.step_s) == ("read", 60)
    assert [r.value for r in found.rows[:3]] == [4, 8, None]


def test_without_a_lake_old_values_are_missing_with_the_reason(tmp_path: Path, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path / "absent")
    line = history.lines([RATE], timezone.now() - timedelta(days=90), timezone.now())[RATE]
    assert (line.lake, line.recorded) == (LakePart.NO_TABLE, False) and line.lake_detail


def test_the_lake_is_not_read_for_rows_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history.lake, "history", lambda *_: pytest.fail("the lake was read"))
    line = history.lines([RATE], timezone.now() - timedelta(days=30), timezone.now())[RATE]
    assert line.lake is LakePart.NOT_NEEDED


def test_reads_of_the_lake_at_a_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_free", BoundedSemaphore(1))
    assert history._free.acquire()
    line = history.lines([RATE], timezone.now() - timedelta(days=90), timezone.now())[RATE]
    assert line.lake is LakePart.FAILED
