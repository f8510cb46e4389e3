"""Finds the batches of a range of offsets in the segments of a log.

Consumers at the log end and high watermarks are usually at the end of a recent append. The positions of these ends are cached and need no
index search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from brokerd.storage.segment import Segment
from brokerd.storage.slices import NOTHING, Slice
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import BatchHeader

APPEND_ENDS_MAX = 32
"""Maximum number of cached ends of appends."""

_BASE_OFFSET = attrgetter("base_offset")


class LogReader:
    """Reads `segments`, the list of the log itself: ascending by base offset."""

    __slots__ = ("_append_ends", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._append_ends: dict[int, int] = {}
        """{end offset of an append: its position in the active segment}, oldest first."""

    def on_appended(self, end_offset: int, position: int) -> None:
        """The append that ends at `end_offset` was written to the active segment up to `position`."""
        ends = self._append_ends
        ends[end_offset] = position
        if len(ends) > APPEND_ENDS_MAX:
            del ends[next(iter(ends))]

    def clear(self) -> None:
        """The active segment was replaced or truncated: cached positions are wrong."""
        self._append_ends.clear()

    def _index_of(self, offset: int) -> int:
        """Index of the last segment with a base offset at or below `offset`; 0 if there is none."""
        return max(0, bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1)

    def read(self, offset: int, bytes_max: int, upto_offset: int, at_least_one: bool) -> Slice:
        """See `Log.read`."""
        segments = self._segments
        segment = segments[-1]
        if offset >= upto_offset or offset >= segment.end_offset:
            return NOTHING
        start = self._append_ends.get(offset, -1)
        if start >= 0:
            end = self._append_ends.get(upto_offset, -1)
            if end < start or end - start > bytes_max:
                end = segment.end_of_range(start, bytes_max, upto_offset, at_least_one)
        else:
            i = self._index_of(offset)
            segment = segments[i]
            start = segment.position_of(offset)
            while start >= segment.size and i + 1 < len(segments):
                i += 1
                segment = segments[i]
                start = segment.position_of(offset)
            end = segment.end_of_range(start, bytes_max, upto_offset, at_least_one)
        if end <= start:
            return NOTHING
        return Slice((segment.region(start, end),))

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches from the one that contains `from_offset` on."""
        for segment in self._segments[self._index_of(from_offset) :]:
            for _, header in segment.headers(segment.position_of(from_offset)):
                yield header

    def bound_after(self, offset: int, region: FileRegion) -> int | None:
        """An offset above all records of `region`, which was read from `offset` on, and close to the last one. None: its segment was deleted."""
        for segment in self._segments[self._index_of(offset) :]:
            if segment.file is region.file:
                return segment.bound_after(region.position + region.length)
        return None
