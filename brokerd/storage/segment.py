"""A log segment: a file of record batches and its two sparse indexes.

A file is opened when it is needed. An index entry is compared with the batch that it refers to; a wrong index is rebuilt immediately. A
closed segment keeps its file and index open only for a short time (`release_idle`). Does not contain epochs, producer state, roles or retention.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path

from brokerd.storage import delay_index, key_index, nonblocking
from brokerd.storage.appended_keys import AppendedKeys
from brokerd.storage.disk import Disk, File, FileDamaged
from brokerd.storage.index import RELATIVE_MAX, SparseIndex
from brokerd.storage.recent_reads import RecentReads
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, BatchHeader, crc_is_right, peek

log = logging.getLogger(__name__)

SCAN_BYTES = 8 * 1024
"""Bytes per read while batch headers are scanned: about the distance of two index entries."""
VERIFY_BYTES = 4 * 1024 * 1024
"""Bytes per read while complete batches are checked."""
_EDGE = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta: the fields that a scan needs."""


class IndexFileState(Enum):
    """State of an optional index file next to a segment: of the key index, or of the delay index."""

    ABSENT = auto()
    UNCHECKED = auto()
    """A file of an earlier run, or of another setting."""
    CURRENT = auto()


class Segment:
    """`end_offset` is the offset after the last batch; for a closed segment it may be the base offset of the next one, which is not lower.
    `size` is the number of valid bytes; the file may be longer before recovery."""

    __slots__ = (
        "_file",
        "_index",
        "_recent_reads",
        "_times_sure",
        "_touched",
        "_unindexed",
        "appended_keys",
        "base_offset",
        "created_wall_ms",
        "delay_index",
        "delay_index_decided",
        "disk",
        "end_offset",
        "first_timestamp",
        "folder",
        "interval",
        "key_index",
        "key_index_part",
        "max_timestamp",
        "max_timestamp_base",
        "path",
        "size",
    )

    def __init__(self, folder: Path, base_offset: int, disk: Disk, interval: int, created_wall_ms: int = 0) -> None:
        self.folder, self.base_offset, self.disk, self.interval = folder, base_offset, disk, interval
        self.path = folder / f"{base_offset:020d}.log"
        self.created_wall_ms = created_wall_ms
        self.size = 0
        self.end_offset = base_offset
        self.first_timestamp = -1
        """Maximum timestamp of the first batch. `segment.ms` starts at it."""
        self.max_timestamp = -1
        self.max_timestamp_base = base_offset
        """An offset at or before the first batch with the maximum timestamp."""
        self.key_index = self.delay_index = IndexFileState.ABSENT
        self.key_index_part: key_index.KeyIndexPart | None = None
        """The finished part of a key index that is being built, also for the active segment."""
        self.appended_keys: AppendedKeys | None = None
        """Collects the entries of its key index."""
        self.delay_index_decided = 0
        """The delay index depends on the log up to this offset."""
        self._file: File | None = None
        self._index: SparseIndex | None = SparseIndex()
        self._times_sure = True
        self._touched = False
        self._recent_reads = RecentReads()
        self._unindexed = interval  # the first batch always gets an entry

    def __repr__(self) -> str:
        return f"Segment({self.path.name}, {self.base_offset}..{self.end_offset}, {self.size} bytes)"

    # -- opening and closing files -----------------------------------------------------------------------------------------------
    @property
    def file(self) -> File:
        self._touched = True
        file = self._file
        if file is None:
            file = self._file = self.disk.open(self.path)
            if self.disk.open_files is not None:
                self.disk.open_files.on_opened(self)
        return file

    def let_go(self) -> bool:
        used, self._touched = self._touched, False
        if not used:
            self._file = None
        return not used

    def create(self) -> None:
        """Create the empty file. Existing files of the same name are replaced."""
        self._touched = True
        file = self._file = self.disk.open(self.path, create=True)
        if self.disk.open_files is not None:
            self.disk.open_files.on_opened(self)
        if file.size():
            file.truncate(0)

    @property
    def index(self) -> SparseIndex:
        self._touched = True
        if self._index is None:
            index = SparseIndex.load(self.disk, self.path, self.size)
            if index is not None and self._names_a_batch(index, len(index) - 1):
                self._index = index
            else:
                log.warning("missing or invalid index rebuilt: path=%s", self.path)
                self.rebuild(self.size)
            assert self._index is not None
        return self._index

    def _names_a_batch(self, index: SparseIndex, i: int) -> bool:
        data = self.file.pread(HEADER_BYTES, index.positions[i])
        return (
            len(data) == HEADER_BYTES
            and peek(data).base_offset == self.base_offset + index.offsets[i]
            and peek(data).magic == MAGIC
        )

    def release_idle(self) -> None:
        """Close the file and free the index of a closed segment that was not used since the last call. Files that are being sent stay open."""
        if not self._touched:
            self._file = self._index = None
            self._recent_reads.clear()
        self._touched = False

    def release(self) -> None:
        self._file = None

    def on_moved(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / self.path.name

    def forget(self) -> None:
        """Forget the open file, the index and the collected key index entries, because the file was replaced."""
        self._file = self._index = self.appended_keys = None
        self._recent_reads.clear()

    def adopt(self, size: int, end_offset: int) -> bool:
        """Trust a closed segment of `size` bytes without reading it. False if its time index is invalid."""
        newest = SparseIndex.newest_of(self.disk, self.path)
        if size and newest is None:
            return False
        self.size, self.end_offset = size, end_offset
        self._recent_reads.clear()
        if newest is not None and size:
            self.max_timestamp, self.max_timestamp_base = newest[0], self.base_offset + newest[1]
        self._index, self._times_sure = None, False
        return True

    def attach(self, file: File, size: int, end_offset: int, index: SparseIndex | None) -> None:
        """Open this segment for a search on another thread, with a file handle of its own and a copy of the index. `index` None: the index files are
        read."""
        self._file, self.size, self.end_offset, self._index, self._times_sure = file, size, end_offset, index, False
        self._recent_reads.clear()

    def adopt_indexed(self, size: int) -> bool:
        """Use the index files for the first `size` bytes of the active segment. False: the caller must `rebuild`."""
        self._index = SparseIndex.load(self.disk, self.path, size)
        if self._index is None or not self._names_a_batch(self._index, len(self._index) - 1):
            return False
        return self._find_end(size)

    def _find_end(self, size: int) -> bool:
        """Compute end offset and timestamps from the last index entry on. False if the batches do not end at `size`."""
        index = self.index
        self.first_timestamp = peek(self.file.pread(HEADER_BYTES, 0)).max_timestamp
        walked = position = index.positions[-1]
        self.size, self._times_sure = size, True
        self.max_timestamp, self.max_timestamp_base = -1, self.base_offset
        if len(index) > 1:
            self.max_timestamp = index.times[-2]
            before = index.before_time(self.max_timestamp)
            self.max_timestamp_base = self.base_offset + (index.offsets[before] if before >= 0 else 0)
        for at, header in self.headers(position, size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_base = header.max_timestamp, header.base_offset
            self.end_offset = header.next_offset
            walked = at + header.size
        self._unindexed = walked - position
        return walked == size

    # -- writing -----------------------------------------------------------------------------------------------------------
    def note(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """Update end offset and timestamps for the batch at `position`, and add an index entry if it is due."""
        timestamp = header.max_timestamp
        if not position:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_base = timestamp, base_offset
        if self._unindexed >= self.interval:
            self.index.add(base_offset - self.base_offset, position, self.max_timestamp)
            self._unindexed = 0
        self._unindexed += header.size
        self.size = position + header.size
        self.end_offset = base_offset + header.last_offset_delta + 1

    def save_indexes(self) -> None:
        if self.size:
            self.index.save(self.disk, self.path, self.max_timestamp, self.max_timestamp_base - self.base_offset)

    # -- finding -----------------------------------------------------------------------------------------------------------
    def edges(self, position: int, end: int | None = None, chunk: bytes = b"") -> Iterator[tuple[int, int, int, int]]:
        """(position, base offset, next offset, next position) of each batch from `position` on. Reads only a part of each header. `chunk`: bytes at
        `position` that were read already."""
        end = self.size if end is None else end
        file, chunk_at = self.file, position
        step = SCAN_BYTES
        while position < end:
            at = position - chunk_at
            if at < 0 or at + HEADER_BYTES > len(chunk):
                chunk, chunk_at, at = file.pread(step, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    raise FileDamaged(f"{self.path}: no batch at position {position}, expected {end} bytes")
            base, length, delta = _EDGE.unpack_from(chunk, at)
            after = position + length + LENGTH_OVERHEAD
            if length < HEADER_BYTES - LENGTH_OVERHEAD or delta < 0 or after > end:
                raise FileDamaged(f"{self.path}: the batch at position {position} is damaged")
            yield position, base, base + delta + 1, after
            step = SCAN_BYTES if after - position < SCAN_BYTES // 2 else HEADER_BYTES
            position = after

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position` on."""
        end = self.size if end is None else end
        file, chunk, chunk_at = self.file, b"", 0
        while position + HEADER_BYTES <= end:
            at = position - chunk_at
            if at < 0 or at + HEADER_BYTES > len(chunk):
                chunk, chunk_at, at = file.pread(SCAN_BYTES, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    return
            header = peek(chunk, at)
            if header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD or position + header.size > end:
                return
            yield position, header
            position += header.size

    def _edges_from_entry(self, i: int) -> Iterator[tuple[int, int, int, int]]:
        """Edges from an index entry on. If the entry is wrong, the index is rebuilt and the scan starts at the start of the file."""
        index = self.index
        if i < 0 or index.positions[i] >= self.size:
            return self.edges(index.positions[i] if i >= 0 else 0)
        position = index.positions[i]
        chunk = self.file.pread(SCAN_BYTES, position)
        if len(chunk) < _EDGE.size or _EDGE.unpack_from(chunk)[0] != self.base_offset + index.offsets[i]:
            log.warning("wrong index entry, index rebuilt: path=%s entry=%d", self.path, i)
            self.rebuild(self.size)
            return self.edges(0)
        return self.edges(position, chunk=chunk)

    def position_of(self, offset: int) -> int:
        """Position of the batch that contains `offset`, or of the first one after it. `size` if there is none."""
        known = self._recent_reads.position_of(offset)
        if known is not None:
            return known
        for position, _, following, _ in self._edges_from_entry(self.index.at_or_before(offset - self.base_offset)):
            if following > offset:
                return position
        return self.size

    def position_after(self, offset: int) -> int:
        """Position after the batches that have records below `offset`."""
        for position, base, _, _ in self._edges_from_entry(self.index.at_or_before(offset - self.base_offset)):
            if base >= offset:
                return position
        return self.size

    def end_of_range(self, start: int, bytes_max: int, upto_offset: int, at_least_one: bool) -> int:
        """End position of a read from the batch at `start`: at most `bytes_max` bytes, below `upto_offset`, complete batches."""
        limit = start + bytes_max
        if upto_offset >= self.end_offset and self.size <= limit:
            return self.size
        known = self._recent_reads.end_of(start, bytes_max, upto_offset, at_least_one)
        if known is not None:
            return known
        index = self.index
        i = index.edge_within(limit, upto_offset - self.base_offset)
        if i >= 0 and index.positions[i] <= start:
            edges, end = self.edges(start), start
        else:
            edges = self._edges_from_entry(i)
            end = start
        for position, base, following, after in edges:
            if position < start:
                continue  # the index was wrong and the scan started again
            end = max(end, position)
            full = after > limit and not (at_least_one and position == start)
            if full or following > upto_offset:
                self._recent_reads.on_read_ended(base, end)
                if full:
                    self._recent_reads.on_read_filled(start, bytes_max, at_least_one, base, end)
                return end
            end = after
        return end

    def region(self, start: int, end: int) -> FileRegion:
        return FileRegion(self.file, start, end - start)

    def batches_since(self, timestamp: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of batches from a position such that all earlier timestamps are smaller than `timestamp`."""
        index = self.index
        i = index.before_time(timestamp)
        return self.headers(index.positions[i] if i >= 0 else 0)

    def bound_after(self, position: int) -> int:
        """An offset at or above every record below `position`: the offset of an index entry, or the end offset."""
        i = self.index.at_or_after(position)
        return self.end_offset if i < 0 else self.base_offset + self.index.offsets[i]

    def sure_newest(self) -> int:
        """The maximum timestamp, checked against the batches, so that a wrong index file never causes a deletion."""
        if not self._times_sure:
            position = self.position_of(self.max_timestamp_base)
            last_max_timestamp, found, found_base = self.max_timestamp, -1, self.max_timestamp_base
            for _, header in self.headers(position):
                if header.max_timestamp > found:
                    found, found_base = header.max_timestamp, header.base_offset
            self.max_timestamp, self.max_timestamp_base = found, found_base
            if self.max_timestamp < last_max_timestamp:
                self.rebuild(self.size)
            self._times_sure = True
        return self.max_timestamp

    # -- truncation and recovery --------------------------------------------------------------------------------------------
    def truncate(self, offset: int) -> None:
        """Truncate at the start of the batch that contains `offset`."""
        self.remove_key_index()
        self.remove_delay_index()
        position = self.position_of(offset)
        self._recent_reads.clear()
        self.file.truncate(position)
        self.index.truncate(position)
        if not len(self.index) or not self._find_end(position):
            self.rebuild(position)

    def rebuild(self, size: int) -> None:
        """Rebuild indexes, end offset and timestamps from all batch headers up to `size`."""
        self.size, self.end_offset = 0, self.base_offset
        self._recent_reads.clear()
        self.max_timestamp, self.max_timestamp_base = -1, self.base_offset
        self._index, self._times_sure, self._unindexed = SparseIndex(), True, self.interval
        with nonblocking.blocking_reads():  # an incomplete index would be used
            for position, header in self.headers(0, size):
                self.note(header, header.base_offset, position)

    def valid_batches(self, position: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Complete, valid batches from `position` on, with offsets from `offset` on. Ends before the first bad batch.

        Base offset and leader epoch are not covered by the CRC. They are compared with the neighbours: they never decrease. If they decrease after a
        jump, the batch that jumped is bad. A jump of the last batch cannot be distinguished from a gap of compaction.
        """
        previous: tuple[int, BatchHeader] | None = None
        previous_jumped, epoch = False, -1
        for at, header in valid_batches(self.file, position, self.file.size()):
            went_back = header.base_offset < offset or header.partition_leader_epoch < epoch
            if went_back or header.last_offset - self.base_offset > RELATIVE_MAX:
                if previous_jumped and went_back:
                    previous = None
                break
            if previous is not None:
                yield previous
            previous = at, header
            previous_jumped = header.base_offset > offset or (header.partition_leader_epoch > epoch >= 0)
            offset, epoch = header.next_offset, header.partition_leader_epoch
        if previous is not None:
            yield previous

    def unfinished(self, position: int) -> bool:
        """Return whether there is only the start of a batch at `position`: an interrupted write, which was not acknowledged."""
        data = self.file.pread(HEADER_BYTES, position)
        if len(data) < HEADER_BYTES:
            return True
        header = peek(data)
        return (
            header.magic == MAGIC
            and header.base_offset == self.end_offset
            and position + header.size > self.file.size()
        )

    def remove_delay_index(self) -> None:
        if self.delay_index is not IndexFileState.ABSENT:
            self.delay_index, self.delay_index_decided = IndexFileState.ABSENT, 0
            self.disk.discard(self.path.with_suffix(delay_index.SUFFIX))

    def remove_key_index(self) -> None:
        self.key_index_part = self.appended_keys = None  # its build ends
        if self.key_index is not IndexFileState.ABSENT:
            self.key_index = IndexFileState.ABSENT
            self.disk.discard(self.path.with_suffix(key_index.SUFFIX))

    def remove(self) -> None:
        """Delete the files. A region that is being sent stays readable."""
        self._file = self._index = None
        self.remove_key_index()
        self.remove_delay_index()
        for suffix in (".log", ".index", ".timeindex"):
            self.disk.discard(self.path.with_suffix(suffix))


def valid_batches(file: File, position: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of batches up to the first one with an invalid length, magic or CRC."""
    chunk, chunk_at = b"", position
    while position + HEADER_BYTES <= size:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.pread(VERIFY_BYTES, position), position, 0
        header = peek(chunk, at)
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD:
            return
        if position + header.size > size or header.last_offset_delta < 0:
            return
        if at + header.size > len(chunk):
            chunk, chunk_at, at = file.pread(max(header.size, VERIFY_BYTES), position), position, 0
        if not crc_is_right(chunk, at, header):
            return
        yield position, header
        position += header.size
