"""Recently read records: found once by their reader, within a limit of memory."""

from __future__ import annotations

from brokerd.delivery.recent_records import RecentRecords
from brokerd.wire.records import Record


def record(offset: int, size: int = 10) -> Record:
    return Record(offset, 1, b"k", b"v" * size, (("x-half-id", b"%d" % offset),))


def test_a_record_is_found_once_and_only_by_its_reader() -> None:
    recent = RecentRecords()
    first, second = recent.new_reader(), recent.new_reader()
    recent.add(first, record(7))
    assert recent.take(second, 7) is None and recent.take(first, 8) is None
    assert recent.take(first, 7) == record(7)
    assert recent.take(first, 7) is None


def test_the_oldest_records_are_removed_first() -> None:
    recent = RecentRecords(bytes_max=20_000)
    reader = recent.new_reader()
    for offset in range(10):
        recent.add(reader, record(offset, 4_000))
    assert [o for o in range(10) if recent.take(reader, o) is not None] == [6, 7, 8, 9]
    for offset in range(10, 14):
        recent.add(reader, record(offset, 4_000))
    assert [o for o in range(14) if recent.take(reader, o) is not None] == [10, 11, 12, 13], (
        "taken records need no memory"
    )


def test_a_record_above_the_limit_removes_no_other() -> None:
    recent = RecentRecords(bytes_max=20_000)
    reader = recent.new_reader()
    recent.add(reader, record(1))
    recent.add(reader, record(2, 20_000))
    assert recent.take(reader, 2) is None and recent.take(reader, 1) is not None
