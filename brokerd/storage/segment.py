"""One segment: a file of batches and its two sparse indexes.

Laws: an index entry names a batch's edge; indexes carry no checksum because they are rebuilt from the batches whenever they do
not fit. Called by `log`. Must not come in: epochs, producers, roles.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from brokerd.storage.disk import Disk, File
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, BatchHeader, crc_is_right, peek

SCAN_BYTES = 64 * 1024
"""Bytes read at once while headers are walked."""
RECOVERY_BYTES = 4 * 1024 * 1024
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class Segment:
    """`end_offset` is the offset after the last batch; `size` the bytes that count (the file may be longer until recovered)."""

    def __init__(self, folder: Path, base_offset: int, disk: Disk, interval: int) -> None:
        self.folder, self.base_offset, self.disk, self.interval = folder, base_offset, disk, interval
        self.path = folder / f"{base_offset:020d}.log"
        self._file: File | None = None
        self.size = 0
        self.end_offset = base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.created_wall_ms = 0
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")  # largest timestamp up to and including the entry's batch
        self._unindexed = interval  # the first batch always gets an entry

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self.disk.open(self.path, create=True)
        return self._file

    def close(self) -> None:
        self._file = None

    # -- writing -----------------------------------------------------------------------------------------------------
    def note(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """A batch stands at `position`: keep the figures and, sparsely, an index entry."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, base_offset + header.last_offset_delta
        if self._unindexed >= self.interval:
            self._offsets.append(base_offset)
            self._positions.append(position)
            self._times.append(self.max_timestamp)
            self._unindexed = 0
        self._unindexed += header.size
        self.size = position + header.size
        self.end_offset = base_offset + header.last_offset_delta + 1

    # -- finding -----------------------------------------------------------------------------------------------------
    def floor(self, offset: int) -> int:
        """The position of an indexed batch at or before `offset`."""
        i = bisect_right(self._offsets, offset) - 1
        return self._positions[i] if i >= 0 else 0

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position` on."""
        end = self.size if end is None else end
        chunk, chunk_at = b"", 0
        while position + HEADER_BYTES <= end:
            if position < chunk_at or position + HEADER_BYTES > chunk_at + len(chunk):
                chunk, chunk_at = self.file.pread(SCAN_BYTES, position), position
                if len(chunk) < HEADER_BYTES:
                    return
            header = peek(chunk, position - chunk_at)
            yield position, header
            position += header.size

    def position_of(self, offset: int) -> int:
        """Where the batch that contains `offset` (or the first one after it) begins; `size` when there is none."""
        for position, header in self.headers(self.floor(offset)):
            if header.last_offset >= offset:
                return position
        return self.size

    def end_of_range(self, start: int, bytes_max: int, upto_offset: int, at_least_one: bool) -> int:
        """The batch edge where a read from `start` ends: within `bytes_max` and below `upto_offset`."""
        limit = start + bytes_max
        if upto_offset >= self.end_offset and self.size <= limit:
            return self.size
        # An index entry's position is the edge before its batch.
        i = min(bisect_right(self._positions, limit), bisect_right(self._offsets, upto_offset)) - 1
        end = self._positions[i] if i >= 0 else 0
        end = max(end, start)
        for position, header in self.headers(end):
            after = position + header.size
            if header.next_offset > upto_offset or (after > limit and not (at_least_one and position == start)):
                break
            end = after
        return end

    def region(self, start: int, end: int) -> FileRegion:
        return FileRegion(self.file, start, end - start)

    def floor_by_time(self, timestamp: int) -> int:
        """A position at or before the first batch whose timestamps reach `timestamp`."""
        i = bisect_left(self._times, timestamp) - 1
        return self._positions[i] if i >= 0 else 0

    # -- cutting and recovering ----------------------------------------------------------------------------------------
    def truncate(self, offset: int) -> None:
        """Cut at the edge of the batch that contains `offset`."""
        position = self.position_of(offset)
        self.file.truncate(position)
        self.rebuild(position)

    def rebuild(self, size: int) -> None:
        """Read every header anew up to `size`."""
        self._reset()
        for position, header in self.headers(0, size):
            self.note(header, header.base_offset, position)

    def _reset(self) -> None:
        self.size, self.end_offset = 0, self.base_offset
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        del self._offsets[:], self._positions[:], self._times[:]
        self._unindexed = self.interval

    def verified(self, position: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Whole, undamaged batches from `position` on, offsets growing from `offset`; ends before the first bad one."""
        size = self.file.size()
        chunk, chunk_at = b"", position
        while position + HEADER_BYTES <= size:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_at, at = self.file.pread(RECOVERY_BYTES, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    return
            header = peek(chunk, at)
            if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD:
                return
            if position + header.size > size or header.base_offset < offset or header.last_offset_delta < 0:
                return
            if at + header.size > len(chunk):
                chunk, chunk_at, at = self.file.pread(max(header.size, RECOVERY_BYTES), position), position, 0
                if len(chunk) < header.size:
                    return
            if not crc_is_right(chunk, at, header):
                return
            yield position, header
            offset = header.next_offset
            position += header.size

    # -- index files (Kafka's formats) -----------------------------------------------------------------------------------
    def write_indexes(self) -> None:
        base = self.base_offset
        offsets = b"".join(OFFSET_ENTRY.pack(o - base, p) for o, p in zip(self._offsets, self._positions, strict=True))
        times = b"".join(TIME_ENTRY.pack(t, o - base) for t, o in zip(self._times, self._offsets, strict=True))
        self.disk.replace(self.path.with_suffix(".index"), offsets)
        self.disk.replace(self.path.with_suffix(".timeindex"), times)

    def load_indexes(self, size: int) -> bool:
        """Take the index files for the first `size` bytes; False when they are missing or do not fit (then `rebuild`)."""
        offsets = self.disk.read(self.path.with_suffix(".index"))
        times = self.disk.read(self.path.with_suffix(".timeindex"))
        if not offsets or not times or len(offsets) % 8 or len(offsets) // 8 != len(times) // 12:
            return False
        self._reset()
        last_offset, last_position = -1, -1
        for (o, p), (t, _) in zip(OFFSET_ENTRY.iter_unpack(offsets), TIME_ENTRY.iter_unpack(times), strict=True):
            if p >= size:
                break
            if o <= last_offset or p <= last_position:
                return False
            last_offset, last_position = o, p
            self._offsets.append(self.base_offset + o)
            self._positions.append(p)
            self._times.append(t)
        if not self._offsets or self._positions[0] != 0:
            return False
        # The last entry must name a batch that is really there; from it on, the rest is walked.
        position, offset = self._positions[-1], self._offsets[-1]
        self.max_timestamp = self._times[-1]
        self.max_timestamp_offset = offset
        walked = position
        for at, header in self.headers(position, size):
            if at == position and header.base_offset != offset:
                return False
            if header.magic != MAGIC or at + header.size > size:
                return False
            if header.max_timestamp >= self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.end_offset = header.next_offset
            walked = at + header.size
        self.size = walked
        self._unindexed = self.size - position
        return walked == size

    def remove(self) -> None:
        self.close()
        for suffix in (".log", ".index", ".timeindex"):
            self.disk.unlink(self.path.with_suffix(suffix))
