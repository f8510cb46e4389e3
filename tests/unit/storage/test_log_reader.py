"""Reads of ranges of offsets, with and without cached ends of appends."""

from __future__ import annotations

import random
from pathlib import Path

from brokerd.storage.log_reader import APPEND_ENDS_MAX, LogReader
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk

FOLDER = Path("/data/t-0")
EVERYTHING = 1 << 40


class WrittenSegments:
    """Segments with batches of 1 to 4 records, and the base offset of each batch."""

    def __init__(self, segments: int, batches: int, seed: int = 1) -> None:
        self.disk, self.rng = SimDisk(), random.Random(seed)
        self.disk.mkdir(FOLDER)
        self.segments: list[Segment] = []
        self.reader = LogReader(self.segments)
        self.starts: list[int] = []
        self.end = 0
        for _ in range(segments):
            self.roll()
            for _ in range(batches):
                self.append()

    def roll(self) -> None:
        segment = Segment(FOLDER, self.end, self.disk, 300, 0)
        segment.create()
        self.segments.append(segment)
        self.reader.clear()

    def append(self) -> None:
        segment = self.segments[-1]
        data = bytearray(records.build([Record(i, 1, b"k", bytes(40)) for i in range(self.rng.randint(1, 4))]))
        records.stamp(data, 0, self.end, 0)
        (header,) = [h for _, h in records.batches(data)]
        segment.file.pwrite(data, segment.size)
        segment.note(header, self.end, segment.size)
        self.starts.append(self.end)
        self.end = segment.end_offset
        self.reader.on_appended(self.end, segment.size)

    def bases(self, offset: int, upto: int, bytes_max: int = EVERYTHING, reader: LogReader | None = None) -> list[int]:
        found = (reader or self.reader).read(offset, bytes_max, upto, True)
        return [h.base_offset for _, h in records.batches(found.bytes())]


def test_a_read_with_cached_ends_equals_a_read_by_the_index() -> None:
    w = WrittenSegments(3, 12)
    by_index = LogReader(w.segments)
    for offset in range(w.end + 2):
        for upto in range(offset, w.end + 1):
            for bytes_max in (1, 250, EVERYTHING):
                assert w.bases(offset, upto, bytes_max) == w.bases(offset, upto, bytes_max, by_index)


def test_the_first_batch_contains_the_offset_and_all_batches_are_of_its_segment() -> None:
    w = WrittenSegments(4, 5)
    for offset in range(w.end):
        containing = max(s for s in w.starts if s <= offset)
        segment = max(s.base_offset for s in w.segments if s.base_offset <= offset)
        following = min([s.base_offset for s in w.segments if s.base_offset > offset], default=w.end)
        assert w.bases(offset, w.end) == [s for s in w.starts if max(containing, segment) <= s < following]


def test_a_read_in_a_gap_at_the_end_of_a_segment_continues_in_the_next_one() -> None:
    w = WrittenSegments(1, 3)
    gap = w.end
    w.end += 5
    w.roll()
    w.append()
    w.append()
    for offset in range(gap, gap + 6):
        assert w.bases(offset, w.end) == w.starts[3:]


def test_positions_of_a_truncated_segment_are_not_used() -> None:
    w = WrittenSegments(1, 4)
    cut = w.starts[2]
    w.segments[0].truncate(cut)
    w.reader.clear()
    w.end = cut
    del w.starts[2:]
    w.append()
    assert w.bases(cut, w.end) == [cut] and w.bases(0, w.end) == w.starts


def test_the_number_of_cached_ends_is_limited() -> None:
    w = WrittenSegments(1, 3 * APPEND_ENDS_MAX)
    assert len(w.reader._append_ends) == APPEND_ENDS_MAX and w.end in w.reader._append_ends


def test_headers_continue_over_segments() -> None:
    w = WrittenSegments(3, 6)
    for offset in range(w.end):
        containing = max(s for s in w.starts if s <= offset)
        assert [h.base_offset for h in w.reader.headers(offset)] == [s for s in w.starts if s >= containing]


def test_the_bound_of_a_region_is_above_its_records_and_unknown_without_its_segment() -> None:
    w = WrittenSegments(2, 6)
    for offset in (0, w.starts[3], w.starts[8]):
        (region,) = w.reader.read(offset, 200, w.end, True).regions
        last = w.bases(offset, w.end, 200)[-1]
        bound = w.reader.bound_after(offset, region)
        assert bound is not None and last < bound <= w.end
    (region,) = w.reader.read(0, 200, w.end, True).regions
    del w.segments[0]
    assert w.reader.bound_after(0, region) is None
