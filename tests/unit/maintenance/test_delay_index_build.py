"""The build of a delay index: it has what a leader reads from the segment, at any slice size, and damage of the log ends it."""

from __future__ import annotations

import pytest

from brokerd.delivery.delay_schedule import BUCKET_MS
from brokerd.delivery.delayed_records import key_digest
from brokerd.delivery.front_log import FrontTarget, journal_key
from brokerd.delivery.journal import Confirmation, ProducerIdentity, encode
from brokerd.maintenance import delay_index_build
from brokerd.maintenance.delay_index_build import DelayIndexBuild, IndexedRange
from brokerd.maintenance.segment_indexing import IndexNotBuilt
from brokerd.storage import delay_index
from brokerd.storage.delay_index import STORED, IndexContents
from brokerd.storage.delay_index_file import open_delay_index
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log import Log
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log import NOW, append, open_log, sim

AT = 1_790_000_000_000
ENTRY = encode(Confirmation(ProducerIdentity(7, 0), 3))


def delayed_record(position: int, at: int, key: bytes | None = b"k") -> Record:
    return Record(position, AT, key, b"v" * 40, (("x-deliver-at-ms", b"%d" % at),))


def log_with_closed_segment() -> tuple[SimDisk, Log]:
    """A closed segment: three delayed records, a tombstone, a record without a time, two records of an aborted transaction, a journal entry."""
    disk = sim()
    log = open_log(disk, segment_bytes="100000000")
    append(
        log,
        bytearray(
            records.build([delayed_record(0, AT), delayed_record(1, AT + BUCKET_MS, None), delayed_record(2, AT + 1)])
        ),
    )
    append(log, bytearray(records.build([Record(0, AT, b"k", None), Record(1, AT, b"k", b"no time")])))
    pending = [delayed_record(0, AT), delayed_record(1, AT)]
    append(log, bytearray(records.build(pending, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)))
    append(log, bytearray(records.build([Record(0, 5, journal_key(FrontTarget.TOPIC), ENTRY)], control=True)))
    log.roll(NOW)
    return disk, log


def range_of(log: Log, segment: Segment) -> IndexedRange:
    return IndexedRange(segment.path, segment.base_offset, segment.end_offset, segment.size, ((9, 5, 8),), 9)


def build_index(disk: SimDisk, log: Log, segment: Segment, slice_bytes: int = 1_000_000) -> DelayIndexBuild:
    build = DelayIndexBuild(disk, range_of(log, segment))
    while not build.finished:
        build.run(slice_bytes)
    disk.rename(build.temporary, build.target)
    return build


def contents_of(disk: SimDisk, segment: Segment) -> IndexContents:
    return open_delay_index(disk, segment.path, segment.base_offset, segment.size, BUCKET_MS)


@pytest.mark.parametrize("slice_bytes", [1, 300, 1_000_000])
def test_an_index_has_the_records_tombstones_and_journal_entries_of_its_segment(
    slice_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_index, "RUN_RECORDS", 2)
    disk, log = log_with_closed_segment()
    segment = log.segments[0]
    build_index(disk, log, segment, slice_bytes)
    contents = contents_of(disk, segment)
    data = b"".join(map(contents.index.records_of, contents.index.groups()))
    assert sorted(o for _, o, _ in STORED.iter_unpack(data)) == [0, 1, 2]
    assert contents.bitmap == bytes([7]) and contents.discarded == 1
    assert contents.tombstones == {key_digest(b"k"): 3}
    assert contents.journal == ((7, ENTRY),)
    again = DelayIndexBuild(disk, range_of(log, segment))
    again.check_existing()
    assert again.finished and again.reused


def test_a_missing_or_foreign_file_is_not_reused() -> None:
    disk, log = log_with_closed_segment()
    build = DelayIndexBuild(disk, range_of(log, log.segments[0]))
    build.check_existing()
    disk.replace(log.segments[0].path.with_suffix(delay_index.SUFFIX), b"something else")
    build.check_existing()
    assert not build.finished and not build.reused


def test_a_damaged_log_ends_the_build() -> None:
    disk, log = log_with_closed_segment()
    segment = log.segments[0]
    segment.file.pwrite(b"\xff", 100)
    with pytest.raises(DiskFailed, match="damaged"):
        DelayIndexBuild(disk, range_of(log, segment)).run(1_000_000)


def test_a_segment_with_too_many_offsets_has_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_index, "OFFSETS_MAX", 0)
    disk, log = log_with_closed_segment()
    with pytest.raises(IndexNotBuilt, match="too far"):
        DelayIndexBuild(disk, range_of(log, log.segments[0])).run(1_000_000)
    assert delay_index_build.TEMPORARY.endswith(".tmp"), "the next start removes it"
