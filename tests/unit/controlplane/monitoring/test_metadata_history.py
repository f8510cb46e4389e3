"""The recorder of the metadata log: restarts, repeated entries, missing entries, retention, credentials."""

from __future__ import annotations

import pytest
from django.db import DatabaseError

from brokerd.cluster.metadata import AccessChanged, AccessKind, RequestCompleted
from controlplane.domain.metadata_history import unpack_entries, unpack_image
from controlplane.models import MetadataImage, MetadataSegment
from controlplane.monitoring import metadata_history as module
from controlplane.monitoring.metadata_history import KEPT_MS, MetadataHistoryRecorder, prune
from controlplane.selectors.cluster_history import kept_time, moment
from tests.unit.controlplane.metadata_log import START_MS, KeptLog, flights, time_at

pytestmark = pytest.mark.django_db


def kept_entries() -> list[tuple[int, int]]:
    """(number, minute) of each kept entry."""
    rows = MetadataSegment.objects.order_by("first_seq").values_list("data", flat=True)
    return [(e.seq, (e.at_ms - START_MS) // 60_000) for data in rows for e in unpack_entries(bytes(data))]


def test_entries_have_the_time_of_zookeeper_else_that_of_the_read() -> None:
    log = KeptLog()
    log.begin()
    log.write(3, log.down(3), read_at=5)
    log.write(4, log.broker_up(3, 2))
    log.keep(9)
    assert kept_entries() == [(1, 0), (2, 5), (3, 5)], "a clock that steps back does not change the order"


def test_a_restarted_monitor_continues_with_the_times_of_its_absence() -> None:
    log = KeptLog()
    flights(log)
    before = kept_entries()
    log.recorder = MetadataHistoryRecorder()
    log.image = type(log.image)()
    flights_again = KeptLog()
    flights_again.begin()
    log.image, log.recorder = flights_again.image, flights_again.recorder
    # The new monitor reads the log from its first entry on, then entries of its absence.
    for minute in (1, 10, 10, 10, 19, 20):
        log.write(minute, log.broker_up(1))
    log.write(25, log.down(1))
    log.keep(60)
    assert kept_entries() == [*before, (8, 25)]
    assert len(kept_time().spans) == 1


def test_missing_entries_without_an_image_begin_a_new_time() -> None:
    log = KeptLog()
    flights(log)
    log.recorder = MetadataHistoryRecorder()
    log.image.seq += 5
    log.write(40, log.down(1))
    log.keep(41)
    assert len(kept_time().spans) == 1, "an entry that follows no kept state is not kept"
    log.keep(42)
    assert [s.since for s in kept_time().spans] == [time_at(0), time_at(42)]
    assert not moment(time_at(42)).image.alive(1)


def test_too_many_waiting_entries_become_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KeptLog()
    flights(log)
    monkeypatch.setattr(module, "PENDING_MAX", 3)
    for minute in (31, 31, 31, 32, 32):
        log.write(minute, log.down(1), log.broker_up(1))
    log.keep(33)
    log.keep(34)
    assert [(s.since, s.entries) for s in kept_time().spans] == [(time_at(0), 10), (time_at(34), 0)]
    assert moment(time_at(34)).seq == log.image.seq


def test_a_failed_write_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KeptLog()
    log.begin()

    def raise_database_error(*args: object, **kwargs: object) -> None:
        raise DatabaseError("locked")

    with monkeypatch.context() as broken:
        broken.setattr(MetadataSegment.objects, "get_or_create", raise_database_error)
        with pytest.raises(DatabaseError):
            log.keep()
    log.write(1, log.down(1))
    log.keep()
    assert kept_entries() == [(1, 0), (2, 1)]


def test_rows_of_another_cluster_are_deleted() -> None:
    flights(KeptLog())
    other = KeptLog()
    other.begin(brokers=1)
    other.keep(60)
    other.keep(61)
    assert list(moment(time_at(61)).image.brokers) == [1]
    assert kept_entries() == [(1, 0)]


def test_a_first_read_in_parts_does_not_delete_rows() -> None:
    log = KeptLog()
    flights(log)
    again = MetadataHistoryRecorder()
    again.write(None, START_MS)
    assert len(kept_entries()) == log.image.seq


def test_images_follow_entries_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KeptLog()
    log.begin()
    log.keep()
    assert MetadataImage.objects.count() == 1
    for day in (1, 2):
        log.write(1440 * day, log.down(1), log.broker_up(1))
        log.keep()
        log.keep()
    assert MetadataImage.objects.count() == 3
    log.keep(1440 * 5)
    log.keep(1440 * 5)
    assert MetadataImage.objects.count() == 3, "a cluster without changes needs no image"
    monkeypatch.setattr(module, "IMAGE_EVERY_BYTES", 100)
    for minute in range(20):
        log.write(1440 * 5 + minute, *(log.broker_up(1, epoch) for epoch in range(minute)))
        log.keep()
    log.keep()
    assert MetadataImage.objects.count() > 3


def test_retention_keeps_the_image_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KeptLog()
    log.begin()
    for day in range(1, 40):
        log.write(1440 * day, log.down(1), log.broker_up(1))
        log.keep()
        log.keep()
    now_ms = START_MS + 40 * 86_400_000
    prune(now_ms)
    (span,) = kept_time().spans
    assert span.since <= time_at(1440 * 40) - (time_at(KEPT_MS / 60_000) - time_at(0)) < time_at(1440 * 11)
    assert moment(span.since).image.alive(1)
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", kept_time().size_bytes // 2)
    prune(now_ms)
    assert kept_time().size_bytes <= module.KEPT_BYTES_MAX
    assert kept_time().spans[0].until == time_at(1440 * 39)


def test_credentials_and_answers_are_not_kept() -> None:
    log = KeptLog()
    log.begin()
    log.write(
        1, AccessChanged(AccessKind.SCRAM, "alice", 3, {"stored_key": "secret"}), RequestCompleted("r", 0, None, {})
    )
    log.recorder._image_due = True
    log.keep(2)
    data = [bytes(d) for d in MetadataSegment.objects.values_list("data", flat=True)]
    records = [r for d in data for e in unpack_entries(d) for r in e.records]
    assert records[-1] == AccessChanged(AccessKind.SCRAM, "alice", 3, {})
    image = MetadataImage.objects.get(seq=2)
    assert "secret" not in str(list(unpack_image(bytes(image.data))) + records)
    assert log.image.access_to(AccessKind.SCRAM, "alice")[1] == {"stored_key": "secret"}
