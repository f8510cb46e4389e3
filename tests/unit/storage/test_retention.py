"""Retention of a log by size and by time, alone and after another replica has deleted records."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import Now
from tests.unit.storage.test_log import FOLDER, NOW, append, batch, open_log, sim


def test_retention_by_size_keeps_at_least_the_configured_size() -> None:
    log = open_log(segment_bytes="400", retention_bytes="1000")
    for _ in range(20):
        append(log, batch(2))
    log.retain(NOW, log.end_offset)
    assert 1_000 <= log.size_bytes < 1_400
    assert log.start_offset == log.segments[0].base_offset > 0


def test_retention_never_passes_the_high_watermark() -> None:
    log = open_log(segment_bytes="400", retention_ms="1")
    for _ in range(10):
        append(log, batch(2))
    late = Now(0, 10_000_000)
    log.retain(late, 9)
    assert log.start_offset <= 9 < log.segments[1].base_offset
    log.retain(late, 20)
    assert (log.start_offset, log.size_bytes) == (20, 0)
    assert log.last_epoch == 0, "the epoch outlives its records"


def test_retention_by_time_uses_the_newest_record_of_a_segment() -> None:
    log = open_log(segment_bytes="400", retention_ms="1000")
    for t in (100, 2_000, 100, 100, 100, 100, 100, 5_000):
        append(log, batch(3, timestamp=t))
    log.retain(Now(0, 3_001), log.end_offset)
    assert log.start_offset == log.segments[0].base_offset > 3
    assert all(s.max_timestamp >= 2_001 or s is not log.segments[0] for s in log.segments)


def test_a_wrong_time_index_causes_no_deletion() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    for _ in range(4):
        append(log, batch(3))
    log.close()
    index = disk.names[FOLDER / f"{0:020d}.timeindex"]
    index.live[:] = bytes(len(index.live))
    again = open_log(disk, segment_bytes="400", retention_ms="1000")
    again.retain(Now(0, 1_000_500), again.end_offset)
    assert again.start_offset == 0


def test_records_deleted_by_another_replica_are_deleted_within_a_segment_if_old_enough() -> None:
    log = open_log(retention_ms="1000")
    for t in (100, 900, 100, 5_000, 100):
        append(log, batch(3, timestamp=t))
    now = Now(0, 2_000)
    log.retain(now, log.end_offset)
    assert log.start_offset == 0, "its one segment has a young record"
    assert not log.retain_as(12, now, log.end_offset), "the recent record has a lower offset"
    assert not log.retain_as(9, Now(0, 1_900), log.end_offset), "not old enough yet"
    assert not log.retain_as(9, now, 8), "not committed"
    assert log.retain_as(9, now, log.end_offset) and log.start_offset == 9
    assert not log.retain_as(6, now, log.end_offset), "it has gone already"


def test_records_deleted_by_another_replica_are_deleted_by_size_if_enough_remain() -> None:
    log = open_log(segment_bytes="400", retention_bytes="600")
    for _ in range(6):
        append(log, batch(2))
    size = log.segments[0].size // 2
    stays = [log.segments[0].base_offset + 2 * i for i in range(6) if (6 - i) * size >= 600]
    assert not log.retain_as(stays[-1] + 2, NOW, log.end_offset)
    assert log.retain_as(stays[-1], NOW, log.end_offset) and log.start_offset == stays[-1]


@pytest.mark.parametrize(
    "more",
    [{}, {"cleanup_policy": "compact", "retention_ms": "1"}, {"cleanup_policy": "", "retention_ms": "1"}],
    ids=["kept for ever", "compacted", "no policy"],
)
def test_records_deleted_by_another_replica_are_kept_without_retention(more: dict[str, str]) -> None:
    log = open_log(**{"retention_ms": "-1", **more})
    append(log, batch(3, timestamp=1))
    append(log, batch(3, timestamp=1))
    assert not log.retain_as(3, Now(0, 10_000_000), log.end_offset)
