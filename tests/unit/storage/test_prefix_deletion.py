"""Deletion of old records: whole segments below the log start offset, which survives a restart."""

from __future__ import annotations

import os
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.storage.log import Log
from brokerd.storage.os_disk import OsDisk
from brokerd.wire import records
from tests.unit.storage.test_log import EVERYTHING, NOW, append, batch, config, open_log, sim


def test_a_raised_log_start_deletes_whole_segments_and_survives_a_restart() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    for i in range(10):
        append(log, batch(2), epoch=i)
    log.raise_start(9)
    assert log.start_offset == 9
    assert log.segments[0].base_offset <= 9 < log.segments[1].base_offset
    assert log.epochs.entries[0] == (4, 9)
    again = open_log(disk.killed(), segment_bytes="400")
    assert (again.start_offset, again.end_offset) == (9, 20)


def test_a_file_region_in_flight_stays_readable_after_the_deletion_of_its_segment(tmp_path: Path) -> None:
    log = Log.open(tmp_path, config(segment_bytes="400"), OsDisk(), NOW)
    for _ in range(10):
        append(log, batch(2))
    under_way = log.read(0, EVERYTHING, EVERYTHING)
    log.raise_start(15)
    assert not (tmp_path / f"{0:020d}.log").exists()
    region = under_way.regions[0]
    assert [r.offset for r in records.iterate(os.pread(region.file.fileno(), region.length, region.position))][:2] == [
        0,
        1,
    ]


def test_without_a_cleanup_policy_nothing_is_deleted_or_compacted() -> None:
    log = open_log(
        cleanup_policy="", retention_ms="1", retention_bytes="1", segment_bytes="200", max_compaction_lag_ms="1"
    )
    for _ in range(6):
        append(log, batch(3, timestamp=1))
    assert not (log.config.deletes or log.config.compacts)
    assert log.retain(Now(0, 10_000_000), log.end_offset) == []
    assert log.start_offset == 0 and len(log.segments) > 1
