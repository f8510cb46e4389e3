"""A segment: its sparse index is checked against the batches, and damage is found where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.storage.disk import DiskFailed
from brokerd.storage.segment import Segment
from brokerd.wire import records
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log import batch

FOLDER = Path("/data/t-0")


def segment_with_batches(*timestamps: int, interval: int = 0, base: int = 100) -> Segment:
    """Batches of two records; the first offset is `base`."""
    disk = SimDisk()
    disk.mkdir(FOLDER)
    segment = Segment(FOLDER, base, disk, interval)
    segment.create()
    for timestamp in timestamps:
        data = batch(2, timestamp=timestamp)
        records.stamp(data, 0, segment.end_offset, 0)
        position = segment.size
        segment.file.pwrite(data, position)
        segment.note(records.peek(data), segment.end_offset, position)
    return segment


def reopen(segment: Segment) -> Segment:
    """As after a start: size and end are known, the index is read from its files."""
    segment.save_indexes()
    again = Segment(FOLDER, segment.base_offset, segment.disk, segment.interval)
    assert again.adopt(segment.size, segment.end_offset)
    return again


@pytest.mark.parametrize("interval", [0, 300, 1 << 20])
def test_a_batch_is_found_by_its_offset_with_any_index(interval: int) -> None:
    segment = segment_with_batches(*range(10), interval=interval)
    edges = list(segment.edges(0))
    for position, base, following, after in edges:
        for offset in range(base, following):
            assert segment.position_of(offset) == position
        assert segment.position_after(following) == after
    assert segment.position_of(999) == segment.size == edges[-1][3]


def test_a_range_ends_at_a_batch_within_its_limits() -> None:
    segment = segment_with_batches(*range(6))
    edges = list(segment.edges(0))
    size = edges[0][3]
    assert segment.end_of_range(0, 2 * size, 999, at_least_one=True) == 2 * size
    assert segment.end_of_range(0, 2 * size - 1, 999, at_least_one=True) == size
    assert segment.end_of_range(0, 1, 999, at_least_one=True) == size
    assert segment.end_of_range(0, 1, 999, at_least_one=False) == 0
    assert segment.end_of_range(0, 1 << 30, 103, at_least_one=True) == size, "the second batch contains 102 and 103"
    assert segment.end_of_range(size, 1 << 30, 104, at_least_one=True) == 2 * size


def test_a_sequential_reader_continues_without_a_read_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = segment_with_batches(*range(6), interval=1 << 20)
    edges = list(segment.edges(0))
    end = segment.end_of_range(0, 2 * edges[0][3], 999, at_least_one=True)
    reads: list[int] = []
    pread = type(segment.file).pread
    monkeypatch.setattr(type(segment.file), "pread", lambda file, n, at: (reads.append(at), pread(file, n, at))[1])
    assert segment.position_of(104) == end and not reads
    assert segment.position_of(105) == end and reads, "an offset within a batch is searched"


@pytest.fixture
def read_positions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Positions of the reads of all simulated files."""
    found: list[int] = []
    file_type = type(segment_with_batches(0).file)
    pread = file_type.pread
    monkeypatch.setattr(file_type, "pread", lambda file, n, at: (found.append(at), pread(file, n, at))[1])
    return found


def test_a_second_reader_of_the_same_records_reads_no_batch_headers(read_positions: list[int]) -> None:
    segment = segment_with_batches(*range(6), interval=1 << 20)
    size = next(segment.edges(0))[3]
    assert segment.end_of_range(0, 2 * size, 999, at_least_one=True) == 2 * size
    read_positions.clear()
    assert segment.end_of_range(0, 2 * size, 104, at_least_one=True) == 2 * size and not read_positions
    assert segment.end_of_range(0, 2 * size, 103, at_least_one=True) == size and read_positions, (
        "a lower bound of offsets is searched"
    )


def test_remembered_reads_are_forgotten_with_the_bytes(read_positions: list[int]) -> None:
    segment = segment_with_batches(*range(9))
    size = next(segment.edges(0))[3]
    assert segment.end_of_range(0, 5 * size, 999, at_least_one=True) == 5 * size
    segment.truncate(106)
    assert segment.end_of_range(0, 5 * size, 999, at_least_one=True) == segment.size == 3 * size
    assert segment.position_of(110) == segment.size


def test_a_damaged_index_is_rebuilt_from_the_batches(caplog: pytest.LogCaptureFixture) -> None:
    segment = reopen(segment_with_batches(*range(8)))
    index = segment.disk.names[segment.path.with_suffix(".index")]
    index.live[:] = index.live[8:] + index.live[:8]
    assert segment.position_of(106) == segment_with_batches(*range(8)).position_of(106)
    assert "index rebuilt: path=" in caplog.text


def test_a_wrong_newest_timestamp_of_the_index_is_corrected_before_it_is_used() -> None:
    segment = segment_with_batches(10, 90, 20)
    segment.max_timestamp = 500
    again = reopen(segment)
    assert again.max_timestamp == 500
    assert again.sure_newest() == 90 == again.max_timestamp


def test_batches_since_a_time_start_before_the_first_match() -> None:
    segment = segment_with_batches(10, 20, 30, 40)
    assert [h.max_timestamp for _, h in segment.batches_since(30)] == [20, 30, 40], "from the last entry below"
    assert len(list(segment.batches_since(0))) == 4


def test_a_truncation_keeps_whole_batches_and_their_timestamps() -> None:
    segment = segment_with_batches(10, 90, 20)
    segment.truncate(103)
    assert (segment.end_offset, segment.max_timestamp, segment.size) == (102, 10, next(segment.edges(0))[3])


def test_verification_ends_before_the_first_damaged_batch() -> None:
    segment = segment_with_batches(*range(5))
    positions = [p for p, _, _, _ in segment.edges(0)]
    segment.disk.names[segment.path].live[positions[3] + 70] ^= 1
    assert [p for p, _ in segment.valid_batches(0, 100)] == positions[:3]
    assert len(list(segment.headers(0))) == 5, "a scan of headers does not read the records"


def test_an_offset_that_decreases_ends_the_valid_batches() -> None:
    segment = segment_with_batches(*range(4))
    positions = [p for p, _, _, _ in segment.edges(0)]
    live = segment.disk.names[segment.path].live
    live[positions[2] : positions[2] + 8] = (100).to_bytes(8, "big")
    assert [p for p, _ in segment.valid_batches(0, 100)] == positions[:2]


def test_a_cut_off_file_is_a_failed_disk_for_readers_and_unfinished_for_recovery() -> None:
    segment = segment_with_batches(*range(3))
    positions = [p for p, _, _, _ in segment.edges(0)]
    segment.file.truncate(positions[2] + 80)
    with pytest.raises(DiskFailed):
        list(segment.edges(0, segment.size + 100))
    segment.rebuild(segment.file.size())
    assert segment.end_offset == 104 and segment.unfinished(segment.size)


def test_an_unused_segment_closes_its_file_and_forgets_its_index() -> None:
    segment = reopen(segment_with_batches(*range(3)))
    segment.position_of(102)
    segment.release_idle()
    assert segment._file is not None, "it was used since the last call"
    segment.release_idle()
    assert segment._file is None and segment._index is None and segment.position_of(102) > 0
