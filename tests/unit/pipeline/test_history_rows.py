"""Rows that Django's models and the monitor's recorder wrote, read with SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from controlplane.models import Change, ClusterEvent, HistorySeries
from controlplane.models.change import Outcome
from controlplane.monitoring.history import FINE_S, HistoryRecorder, maintain_block
from pipeline.history_rows import COMMITTED_S, DATABASE_VARIABLE, HistoryRows
from tests.unit.controlplane.history_rows import record
from tests.unit.pipeline.metrics_database import copy_tables
from weir_common.history_codes import unpack, value_of

pytestmark = pytest.mark.django_db
RATE, LAG = ("topic:flights", "records_per_s"), ("group:g", "lag_records")
DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAY_S = int(DAY.timestamp())


def maintain_blocks(now_s: int) -> None:
    for block in {i // 1000 for i in HistorySeries.objects.values_list("id", flat=True)}:
        maintain_block(block, now_s)


def test_a_day_is_settled_when_it_has_averages_of_a_minute_only(tmp_path: Path) -> None:
    record(HistoryRecorder(), {DAY_S + 10 * i: {RATE: i, LAG: 5} for i in range(12)})
    later = DAY + timedelta(days=3)
    assert not HistoryRows(copy_tables(tmp_path / "a")).is_settled(DAY.date(), later)
    maintain_blocks(DAY_S + 4 * FINE_S)
    rows = HistoryRows(copy_tables(tmp_path / "b"))
    assert rows.is_settled(DAY.date(), later) and not rows.is_settled(DAY.date(), DAY + timedelta(days=1))
    assert rows.first_day() == DAY.date()
    series = rows.series()
    assert [(s.subject, s.metric) for s in series] == [LAG, RATE]
    chunks = {c.series_id: c for c in rows.chunks(DAY.date(), series)}
    assert [value_of(c) for c in unpack(chunks[series[1].id].codes)[:3]] == [2.5, 8.5, None]
    assert rows.chunks(DAY.date() + timedelta(days=1), series) == []


def test_changes_are_read_up_to_the_first_one_that_may_still_change(tmp_path: Path) -> None:
    for name, outcome in (
        ("a", Outcome.CONFIRMED),
        ("b", Outcome.REJECTED),
        ("c", Outcome.PENDING),
        ("d", Outcome.CONFIRMED),
    ):
        Change.objects.create(actor="ann", verb="topic.create", object_kind="topic", object_name=name, outcome=outcome)
    rows, now = HistoryRows(copy_tables(tmp_path / "a")), timezone.now()
    assert rows.changes(0, now) == [], "a transaction with a smaller id may be open"
    found = rows.changes(0, now + timedelta(seconds=COMMITTED_S))
    assert [(c.subject, c.outcome) for c in found] == [("a", "confirmed"), ("b", "refused")]
    assert rows.changes(found[-1].id, now + timedelta(seconds=COMMITTED_S)) == []


def test_events_of_the_cluster(tmp_path: Path) -> None:
    ClusterEvent.objects.create(at=DAY, kind="broker_down", subject="2", text="Broker 2 left.")
    ClusterEvent.objects.create(at=DAY, kind="leaders_changed", text="3 leaders changed.")
    found = HistoryRows(copy_tables(tmp_path / "a")).events(0, DAY + timedelta(hours=1))
    assert [(e.source, e.at, e.subject_kind, e.subject, e.text) for e in found] == [
        ("event", DAY, "broker", "2", "Broker 2 left."),
        ("event", DAY, "cluster", "", "3 leaders changed."),
    ]


def test_a_database_is_required() -> None:
    with pytest.raises(ValueError, match=DATABASE_VARIABLE):
        HistoryRows("", {})


def test_an_empty_database(tmp_path: Path) -> None:
    assert HistoryRows(copy_tables(tmp_path / "a")).first_day() is None
