"""The state of a log: closed segments release files and memory, and a full disk prevents optional files only."""

from __future__ import annotations

from brokerd.storage.disk import DiskFull
from tests.unit.storage.test_log import NOW, append, batch, offsets, open_log, read_all, sim


def test_a_closed_unread_segment_has_no_open_file_and_no_index_in_memory() -> None:
    log = open_log(segment_bytes="400")
    for _ in range(20):
        append(log, batch(2))
    offsets(log, 0)
    for _ in range(2):
        log.release_idle(NOW)
    assert all(s._file is None and s._index is None for s in log.segments[:-1])
    assert [r.offset for r in read_all(log)] == list(range(40))


def test_a_full_disk_at_a_roll_loses_indexes_and_no_record() -> None:
    for room in range(0, 600, 20):
        disk = sim()
        log = open_log(disk, segment_bytes="400")
        for _ in range(4):
            append(log, batch(1))
        disk.bytes_max = disk.used() + room
        written = 4
        for _ in range(8):
            try:
                append(log, batch(1))
                written += 1
            except DiskFull:
                pass
        disk.bytes_max = 1 << 40
        append(log, batch(1))
        assert [r.offset for r in read_all(log)] == list(range(written + 1))
        again = open_log(disk.killed(), segment_bytes="400")
        assert [r.offset for r in read_all(again)] == list(range(written + 1))
