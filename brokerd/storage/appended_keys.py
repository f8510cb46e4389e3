"""The key index entries of the batches that are appended to a segment, collected while the bytes are in memory. So the build of the index does not
read these batches again.

Invariants: only batches that are written, and whose CRCs are right, are collected. The entries are those of one range of the segment without a gap, and
their number is limited. Does not contain: the build (`key_index_build`), the choice of segments (`maintenance/key_indexing`).
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from brokerd.storage.key_hashes import HashedKeys, walk_of_appended
from brokerd.wire import records

ENTRIES_FIRST: Final = 1024
"""Number of entries for which there is space at first."""
ENTRIES_MAX: Final = 256 * 1024
"""Maximum number of entries: 2 MiB."""
ENTRY_BYTES: Final = 8


class CollectedRange(NamedTuple):
    """The batches from position `start` to `end` of a segment. `entries`: `hash << 32 | position of the batch`, in log order; a key that occurs several
    times in a batch has several entries. `last`: position of the last batch. `next_offset`: the offset after it."""

    start: int
    end: int
    entries: array[int]
    last: int
    next_offset: int


class AppendedKeys:
    """Collects the batches of one segment from `position` on, up to the first one that is compressed, or for which there is no space."""

    def __init__(self, hashed: HashedKeys, position: int) -> None:
        self.hashed = hashed
        self._entries_per_record = 2 if hashed.header_name else 1
        self._start_range(position)

    def _start_range(self, position: int) -> None:
        self._entries = array("Q", bytes(ENTRY_BYTES * ENTRIES_FIRST))
        self._walk = walk_of_appended(self.hashed, self._entries)
        self._start = self._end = position
        self._last = self._next_offset = 0

    @property
    def count(self) -> int:
        """Number of entries in memory."""
        return self._walk.count

    def on_appended(self, data: bytearray | memoryview, position: int) -> None:
        """The complete batches `data` were written at `position` of the segment."""
        if position != self._end:
            return  # a batch before was not collected
        walk = self._walk
        after = walk.collect(data, 0, position, None)
        while after < len(data) and self._make_space(self._entries_per_record * records.peek(data, after).record_count):
            walk = self._walk
            after = walk.collect(data, after, position, None)
        if after:
            self._end = position + after
            self._last = position + walk.last
            self._next_offset = walk.next_offset

    def take(self, position: int) -> CollectedRange | None:
        """The range that was collected, if any. The next range begins at `position`, the size of the segment."""
        taken = None
        if self._end > self._start:
            entries = self._entries[: self._walk.count]
            taken = CollectedRange(self._start, self._end, entries, self._last, self._next_offset)
        self._start_range(position)
        return taken

    def _make_space(self, needed: int) -> bool:
        """Make space for the `needed` entries of the next batch. False if it was not collected for another reason, or if it would be above ENTRIES_MAX."""
        count, size = self.count, len(self._entries)
        if needed <= size - count or count + needed > ENTRIES_MAX:
            return False
        size = min(ENTRIES_MAX, max(2 * size, count + needed))
        walk = self._walk
        self._entries = self._entries[:count]
        self._entries.frombytes(bytes(ENTRY_BYTES * (size - count)))
        self._walk = walk_of_appended(self.hashed, self._entries)
        self._walk.count, self._walk.last, self._walk.next_offset = count, walk.last, walk.next_offset
        return True
