"""The two sparse indexes of a segment: offset -> position, timestamp -> offset.

Laws: an entry names a batch's first offset and its edge in the file; there is one per `index.interval.bytes`, so a search ends
with a short walk over headers. No checksum: an index is a shortcut and is rebuilt from the batches whenever an entry does not
name what stands in the log (a checksum would cost a rewrite at each entry and prove no more). Files have Kafka's formats: 8 bytes
(relative offset, position) and 12 bytes (largest timestamp so far, relative offset), big-endian, growing; Kafka names a batch's
last offset where we name its first, and both searches find the right batch in either. Not noticed: a rotten time entry in the
middle, which can make a search by time begin too late (never a deletion: the newest time is always checked). Called by `segment`. Must not come in:
batches, decisions what to keep.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from brokerd.storage.disk import Disk

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
RELATIVE_MAX = 2**31 - 1
"""Offsets within a segment are written as 32 bits (KAFKA-6264): a segment is rolled before they overflow."""


class SparseIndex:
    """In memory: 16 bytes per entry, the time of each entry beside its offset."""

    __slots__ = ("_saved", "_time_entries", "_time_last", "offsets", "positions", "times")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        self.times = array("q")
        """The largest timestamp up to and including the entry's batch."""
        self._saved = 0
        self._time_entries = 0
        self._time_last = -1

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, relative: int, position: int, newest: int) -> None:
        self.offsets.append(relative)
        self.positions.append(position)
        self.times.append(newest)

    # -- searching: each gives an entry's number, -1 for none ---------------------------------------------------------------
    def at_or_before(self, relative: int) -> int:
        """The last batch known to begin at or before `relative`."""
        return bisect_right(self.offsets, min(relative, RELATIVE_MAX)) - 1

    def edge_within(self, position: int, relative: int) -> int:
        """The last known edge at or before `position` whose batches before it all lie below `relative`."""
        return (
            min(
                bisect_right(self.positions, min(position, RELATIVE_MAX)),
                bisect_right(self.offsets, min(relative, RELATIVE_MAX)),
            )
            - 1
        )

    def at_or_after(self, position: int) -> int:
        """The first batch known to begin at or beyond `position`."""
        i = bisect_left(self.positions, min(position, RELATIVE_MAX))
        return i if i < len(self.positions) else -1

    def before_time(self, timestamp: int) -> int:
        """The last entry up to which every timestamp is smaller than `timestamp`."""
        return bisect_left(self.times, timestamp) - 1

    def cut(self, position: int) -> None:
        """Forget entries at or beyond `position`."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:], self.positions[keep:], self.times[keep:]
        self._saved = min(self._saved, keep)
        self._time_entries = 0  # how many of the file's were of these is not known: written anew

    # -- files -------------------------------------------------------------------------------------------------------------
    def save(self, disk: Disk, log: Path, newest: int, newest_relative: int) -> None:
        """Write what the files lack. The last time entry is the segment's largest timestamp, wherever that stands."""
        start = self._saved
        pairs = zip(self.offsets[start:], self.positions[start:], strict=True)
        data = b"".join(OFFSET_ENTRY.pack(relative, position) for relative, position in pairs)
        _write(disk, log.with_suffix(".index"), data, start * OFFSET_ENTRY.size)
        if not self._time_entries:
            start, self._time_last = 0, -1
        entries = []
        for relative, time in zip(self.offsets[start:], self.times[start:], strict=True):
            if time > self._time_last:
                entries.append(TIME_ENTRY.pack(time, relative))
                self._time_last = time
        at = self._time_entries * TIME_ENTRY.size
        self._saved, self._time_entries = len(self), self._time_entries + len(entries)
        if newest > self._time_last or not self._time_entries:
            entries.append(TIME_ENTRY.pack(newest, newest_relative))
        _write(disk, log.with_suffix(".timeindex"), b"".join(entries), at)

    @staticmethod
    def load(disk: Disk, log: Path, size: int) -> SparseIndex | None:
        """The entries for the first `size` bytes; None when the files are missing or cannot be true."""
        offsets = disk.read(log.with_suffix(".index"))
        times = disk.read(log.with_suffix(".timeindex"))
        if not offsets or not times or len(offsets) % OFFSET_ENTRY.size or len(times) % TIME_ENTRY.size:
            return None
        self = SparseIndex()
        stamps = list(TIME_ENTRY.iter_unpack(times))
        stamp, newest = 0, -1
        last_relative = last_position = -1
        for relative, position in OFFSET_ENTRY.iter_unpack(offsets):
            if relative <= last_relative or position <= last_position:
                return None
            if position >= size:
                break
            last_relative, last_position = relative, position
            while stamp < len(stamps) and stamps[stamp][1] <= relative:
                if stamps[stamp][0] < newest:
                    return None
                newest = stamps[stamp][0]
                stamp += 1
            self.add(relative, position, newest)
        self._saved = len(self)
        return self if len(self) and self.positions[0] == 0 else None

    @staticmethod
    def newest_of(disk: Disk, log: Path) -> tuple[int, int] | None:
        """The last time entry (timestamp, relative offset) without loading the rest; None when there is none."""
        path = log.with_suffix(".timeindex")
        size = disk.size(path)
        if size < TIME_ENTRY.size or size % TIME_ENTRY.size:
            return None
        timestamp, relative = TIME_ENTRY.unpack(disk.open(path).pread(TIME_ENTRY.size, size - TIME_ENTRY.size))
        return timestamp, relative


def _write(disk: Disk, path: Path, data: bytes, at: int) -> None:
    file = disk.open(path, create=True)
    if data:
        file.pwrite(data, at)
    if file.size() != at + len(data):
        file.truncate(at + len(data))
