"""The recorder of the history: frames, chunks of 10 s, chunks of a minute, deletion, failures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from controlplane.domain.history import ROWS_KEPT_S
from controlplane.models import HistoryChunk, HistoryFrame, HistorySeries
from controlplane.monitoring import history as module
from controlplane.monitoring.history import (
    BLOCKS_PER_JOB,
    FINE_S,
    HOUR_S,
    PENDING_MAX,
    SERIES_EMPTY_S,
    SPAN_S,
    HistoryRecorder,
    maintain_block,
)
from controlplane.monitoring.samples import MetricsCache
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.world import World
from weir_common.history_codes import code_of, unpack, value_of

pytestmark = pytest.mark.django_db
RATE, LAG = ("topic:flights", "records_per_s"), ("group:g", "lag_records")
HOUR = 100 * SPAN_S


class InlineExecutor:
    """Runs each job on the caller's thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "connection", type("Open", (), {"close": staticmethod(lambda: None)}))

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[None]:
        job(*args)
        return Future()


def frames() -> list[int]:
    return sorted(HistoryFrame.objects.values_list("at", flat=True))


def block_of(key: tuple[str, str]) -> int:
    return HistorySeries.objects.get(subject=key[0], metric=key[1]).id // 1000


def chunk(key: tuple[str, str], step_s: int) -> dict[int, list[float | None]]:
    rows = HistoryChunk.objects.filter(series__subject=key[0], series__metric=key[1], step_s=step_s)
    return {c.begins: [value_of(x) for x in unpack(c.codes)] for c in rows}


def observe_at(recorder: HistoryRecorder, world: World, pool: InlineExecutor, *ats: float) -> None:
    for at in ats:
        recorder.observe(world.image, MetricsCache(), pool, round(at * 1000))  # type: ignore[arg-type]


def test_one_frame_per_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    observe_at(
        HistoryRecorder(), world, InlineExecutor(monkeypatch), HOUR + 1, HOUR + 2, HOUR + 9.9, HOUR + 10, HOUR + 21
    )
    assert frames() == [HOUR, HOUR + 10, HOUR + 20]


def test_a_slow_round_leaves_no_gap_but_an_absence_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, recorder = InlineExecutor(monkeypatch), HistoryRecorder()
    observe_at(recorder, world, pool, HOUR, HOUR + 29, HOUR + 80)
    assert frames() == [HOUR, HOUR + 10, HOUR + 20, HOUR + 80]
    observe_at(HistoryRecorder(), world, pool, HOUR + 101)
    assert frames()[4:] == [HOUR + 100], "a new process does not fill the time before its start"


def test_a_clock_that_is_set_back_a_little_repeats_no_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, recorder = InlineExecutor(monkeypatch), HistoryRecorder()
    observe_at(recorder, world, pool, HOUR + 60, HOUR + 31, HOUR + 70)
    assert frames() == [HOUR + 60, HOUR + 70]
    observe_at(recorder, world, pool, HOUR - 2 * HOUR_S)
    assert HOUR - 2 * HOUR_S in frames(), "a clock that was wrong by hours does not end the recording"


def test_values_wait_in_memory_while_the_database_does_not_respond(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, recorder = InlineExecutor(monkeypatch), HistoryRecorder()

    def raise_error(*_: Any, **__: Any) -> None:
        raise DatabaseError("locked")

    with monkeypatch.context() as broken:
        broken.setattr(HistoryFrame.objects, "bulk_create", raise_error)
        observe_at(recorder, world, pool, HOUR, HOUR + 10)
    assert frames() == []
    observe_at(recorder, world, pool, HOUR + 20)
    assert frames() == [HOUR, HOUR + 10, HOUR + 20]
    assert recorder._pending.maxlen == PENDING_MAX


def test_a_defect_does_not_end_the_recording(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, recorder = InlineExecutor(monkeypatch), HistoryRecorder()

    def raise_error(*_: Any) -> None:
        raise ValueError("defect")

    with monkeypatch.context() as broken:
        broken.setattr(recorder, "maintain", raise_error)
        observe_at(recorder, world, pool, HOUR)
    observe_at(recorder, world, pool, HOUR + 10)
    assert frames() == [HOUR, HOUR + 10]


def test_frames_of_an_ended_hour_become_a_chunk_per_series() -> None:
    recorder = HistoryRecorder()
    record(recorder, {HOUR + 10 * i: {RATE: i} for i in range(0, 400, 2)} | {HOUR + 90: {LAG: 5}})
    maintain_block(block_of(RATE), HOUR + 400 * 10)
    rate, lag = chunk(RATE, 10), chunk(LAG, 10)
    assert rate == {HOUR: [i if i % 2 == 0 else None for i in range(360)]}
    assert lag == {HOUR: [5 if i == 9 else None for i in range(360)]}
    assert frames() == [HOUR + 10 * i for i in range(360, 400, 2)], "the hour that has not ended stays"


def test_maintenance_may_be_repeated_and_late_frames_are_added() -> None:
    recorder = HistoryRecorder()
    record(recorder, {HOUR: {RATE: 1}})
    for _ in range(2):
        maintain_block(block_of(RATE), HOUR + HOUR_S)
    record(recorder, {HOUR + 10: {RATE: 2}})
    maintain_block(block_of(RATE), HOUR + HOUR_S)
    assert chunk(RATE, 10)[HOUR][:3] == [1, 2, None] and frames() == []


def test_after_a_day_six_hours_become_averages_of_a_minute() -> None:
    recorder = HistoryRecorder()
    record(recorder, {HOUR + 10 * i: {RATE: i % 6} for i in range(2 * 360)})
    block = block_of(RATE)
    maintain_block(block, HOUR + SPAN_S + FINE_S - 1)
    assert sorted(chunk(RATE, 10)) == [HOUR, HOUR + HOUR_S] and not chunk(RATE, 60)
    maintain_block(block, HOUR + SPAN_S + FINE_S)
    assert chunk(RATE, 60) == {HOUR: [2.5] * 120 + [None] * 240} and not chunk(RATE, 10)


def test_minutes_are_deleted_after_thirty_days_and_empty_series_with_them() -> None:
    recorder = HistoryRecorder()
    record(recorder, {HOUR: {RATE: 1}})
    block = block_of(RATE)
    maintain_block(block, HOUR + 2 * FINE_S)
    maintain_block(block, HOUR + ROWS_KEPT_S + SPAN_S)
    assert HistoryChunk.objects.count() == 1
    maintain_block(block, HOUR + ROWS_KEPT_S + SPAN_S + 1)
    assert HistoryChunk.objects.count() == 0
    recorder._delete_empty()
    assert HistorySeries.objects.count() == 1, "a new series has no chunk yet"
    HistorySeries.objects.update(created_at=timezone.now() - timedelta(seconds=SERIES_EMPTY_S + 1))
    recorder._delete_empty()
    assert HistorySeries.objects.count() == 0
    record(recorder, {HOUR: {RATE: 1}})
    assert HistorySeries.objects.count() == 1, "the object came back"


def test_maintenance_is_spread_over_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, done = HistoryRecorder(), []
    HistorySeries.objects.create(id=4_999, subject="topic:x", metric="records_per_s")
    monkeypatch.setattr(module, "maintain_block", lambda block, now: done.append(block))
    for _ in range(4):
        recorder.maintain(HOUR)
        assert len(done) <= BLOCKS_PER_JOB * 4
    assert done == [0, 1, 2, 3, 4]
    recorder.maintain(HOUR + HOUR_S)
    assert done[5:] == [0, 1]


def test_a_series_of_a_later_block_has_its_own_frame() -> None:
    HistorySeries.objects.create(id=2_005, subject=RATE[0], metric=RATE[1])
    record(HistoryRecorder(), {HOUR: {RATE: 7, ("cluster", "offline"): 1}})
    found = {f.block: bytes(f.codes) for f in HistoryFrame.objects.all()}
    other = HistorySeries.objects.get(subject="cluster").id
    assert sorted(found) == sorted({2, other // 1000})
    assert found[2][10:12] == code_of(7).to_bytes(2, "little")
    maintain_block(2, HOUR + HOUR_S)
    assert chunk(RATE, 10)[HOUR][0] == 7


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERIES_MAX", 3)
    recorder = HistoryRecorder()
    for at in (HOUR, HOUR + 10):
        record(recorder, {at: {(f"topic:{n}", "records_per_s"): n for n in range(5)}})
    assert list(HistorySeries.objects.values_list("subject", flat=True)) == ["topic:0", "topic:1", "topic:2"]
    assert len(frames()) == 2


def test_two_recorders_write_the_same_step_once() -> None:
    one, other = HistoryRecorder(), HistoryRecorder()
    record(one, {HOUR: {RATE: 1}})
    record(other, {HOUR: {RATE: 1, LAG: 2}, HOUR + 10: {RATE: 3}})
    assert HistorySeries.objects.count() == 2 and frames() == [HOUR, HOUR + 10]
