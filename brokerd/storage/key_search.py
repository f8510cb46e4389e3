"""The search for records by key in one segment, newest first, as a job of another thread.

The index of the segment names candidates; each is compared with the log. Without a valid index, and behind the part that is built of an index, the log is
read backwards in chunks that start at entries of the sparse index. Does not contain: the choice of segments, the time limit, leadership
(`apis/key_lookups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.storage.disk import Disk, FileDamaged
from brokerd.storage.index import SparseIndex
from brokerd.storage.key_hashes import batch_records
from brokerd.storage.key_index import InvalidKeyIndex, KeyIndex, KeyIndexPart, header_hash, header_seed, key_hash
from brokerd.storage.key_index_build import open_index, open_part
from brokerd.storage.segment import Segment
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import records
from brokerd.wire.records import HEADER_BYTES, BatchHeader, CorruptBatch, Record

CHUNK_BYTES = 1024 * 1024
"""Bytes per read of a scan."""
PAGE_BYTES = 4_096
"""Number of bytes that count for a read of a batch header, so that the limit of bytes also limits the number of candidates outside the time range."""


@dataclass(frozen=True, slots=True)
class KeyCriteria:
    """Records with `key`, or with `key` as a value of the header `header_name` if it is not empty, in [start_offset, .), with timestamps in
    [from_ms, to_ms], where -1 is unbounded. Records of `aborted` transactions are skipped."""

    key: bytes
    header_name: str = ""
    start_offset: int = 0
    from_ms: int = -1
    to_ms: int = -1
    aborted: Sequence[AbortedTxn] = ()

    @property
    def hash(self) -> int:
        return header_hash(self.key, header_seed(self.header_name)) if self.header_name else key_hash(self.key)

    def may_match(self, header: BatchHeader) -> bool:
        """Return whether a batch may contain a match, by its header only."""
        return not header.is_control and (self.from_ms < 0 or header.max_timestamp >= self.from_ms)

    def matches(self, record: Record, header: BatchHeader) -> bool:
        if self.header_name:
            if all(name != self.header_name or value != self.key for name, value in record.headers):
                return False
        elif record.key != self.key:
            return False
        return (
            record.offset >= self.start_offset
            and (self.from_ms < 0 or record.timestamp >= self.from_ms)
            and (self.to_ms < 0 or record.timestamp <= self.to_ms)
            and not (header.is_transactional and self._is_aborted(record.offset, header.producer_id))
        )

    def _is_aborted(self, offset: int, producer_id: int) -> bool:
        return any(a.producer_id == producer_id and a.first_offset <= offset <= a.last_offset for a in self.aborted)


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment as it was when the job was planned. `index`: a copy of the sparse index of the active segment; None for a closed one, which
    reads its files."""

    disk: Disk
    path: Path
    base_offset: int
    end_offset: int
    size: int
    interval: int
    index: SparseIndex | None

    @staticmethod
    def of(segment: Segment, *, active: bool) -> SegmentView:
        return SegmentView(
            segment.disk,
            segment.path,
            segment.base_offset,
            segment.end_offset,
            segment.size,
            segment.interval,
            segment.index.copy() if active else None,
        )

    def open(self) -> Segment:
        """Open the segment with a file handle of its own. Raises DiskFailed."""
        segment = Segment(self.path.parent, self.base_offset, self.disk, self.interval)
        segment.attach(self.disk.open(self.path), self.size, self.end_offset, self.index)
        return segment


@dataclass(slots=True)
class SegmentSearch:
    """`run` finds at most `matches_max` records below `below` and reads about `bytes_max` bytes of the log. `seed`: the header seed of the index, None
    without one. `part`: what is built of one. After `run`, `below` is the offset below which the search continues, the base offset when the segment is done."""

    view: SegmentView
    criteria: KeyCriteria
    below: int
    matches_max: int
    bytes_max: int
    seed: int | None
    part: KeyIndexPart | None = None
    matches: list[Record] = field(default_factory=list)
    log_bytes: int = 0
    index_bytes: int = 0
    used_index: bool = False
    scanned: bool = False
    """True if a part of the log was scanned."""
    index_problem: str | None = None
    """The reason why the index was not used."""

    def run(self) -> None:
        """Raises DiskFailed."""
        segment = self.view.open()
        v, part = self.view, self.part
        try:
            if self.seed is not None:
                self._by_index(segment, self._index(segment, self.seed))
            elif part is not None and self._scan(segment, part.log_end):
                self._by_index(segment, open_part(v.disk, v.path, part, self._count_index_bytes))
        except InvalidKeyIndex as e:
            self.index_problem, self.used_index = str(e), False
            self._scan(segment, 0)
            return
        if self.seed is None and part is None:
            self._scan(segment, 0)

    # -- with the index --------------------------------------------------------------------------------------------------
    def _index(self, segment: Segment, seed: int) -> KeyIndex:
        v = self.view
        return open_index(v.disk, v.path, segment.file, v.base_offset, v.size, seed, self._count_index_bytes)

    def _count_index_bytes(self, length: int) -> None:
        self.index_bytes += length

    def _by_index(self, segment: Segment, index: KeyIndex) -> None:
        limit = self._limit(segment)
        self.used_index = True
        for position in index.positions(self.criteria.hash, limit):
            header = self._header(segment, position)
            if header.base_offset >= self.below:
                continue
            self.log_bytes += PAGE_BYTES
            if self.criteria.may_match(header):
                self._batch(segment.file.pread(header.size, position), 0, header)
                self.log_bytes += max(0, header.size - PAGE_BYTES)
            if self._full():
                return
            self.below = header.base_offset
            if self.log_bytes >= self.bytes_max:
                return
        self.below = self.view.base_offset

    def _header(self, segment: Segment, position: int) -> BatchHeader:
        """Raises DiskFailed if there is no batch: the log is damaged, or compaction or a truncation has changed the file since the job was planned."""
        head = segment.file.pread(HEADER_BYTES, position)
        header = records.peek(head) if len(head) == HEADER_BYTES else None
        if header is None or header.size < HEADER_BYTES or position + header.size > self.view.size:
            raise FileDamaged(f"{self.view.path}: no batch at position {position}")
        return header

    # -- without an index ------------------------------------------------------------------------------------------------
    def _scan(self, segment: Segment, low: int) -> bool:
        """Scan the batches from the position `low` on. Returns whether the search continues below them."""
        for start, end in self._chunks(segment, low):
            self.scanned = True
            data = segment.file.pread(end - start, start)
            self.log_bytes += len(data)
            batches = list(records.batches(data))
            if not batches or batches[-1][0] + batches[-1][1].size != end - start:
                raise FileDamaged(f"{self.view.path}: no complete batches from position {start} to {end}")
            for pos, header in reversed(batches):
                if header.base_offset >= self.below:
                    continue
                if self.criteria.may_match(header):
                    self._batch(data, pos, header)
                if self._full():
                    return False
                self.below = header.base_offset
            if self.log_bytes >= self.bytes_max:
                return False
        if not low:
            self.below = self.view.base_offset
        return True

    def _chunks(self, segment: Segment, low: int) -> Iterator[tuple[int, int]]:
        """(start, end) positions of complete batches, from the batch that contains `below` backwards to the position `low`."""
        end = self._limit(segment)
        while end > low:
            start = max(low, segment.index.start_of_chunk(end, CHUNK_BYTES))
            yield start, end
            end = start

    def _limit(self, segment: Segment) -> int:
        """Position after the batches that have records below `below`."""
        return self.view.size if self.below >= self.view.end_offset else segment.position_after(self.below)

    # -- both ------------------------------------------------------------------------------------------------------------
    def _batch(self, data: bytes, pos: int, header: BatchHeader) -> None:
        """Add the matches of a batch, newest first. A damaged batch raises FileDamaged; one that cannot be decoded has no matches."""
        if not records.crc_is_right(data, pos, header):
            raise FileDamaged(f"{self.view.path}: the batch at offset {header.base_offset} is damaged")
        try:
            if self.criteria.key not in bytes(batch_records(data, pos, header)):
                return
            found = [r for r in records.records_of(data, pos, header) if self.criteria.matches(r, header)]
        except CorruptBatch:
            return
        self.matches.extend(r for r in reversed(found) if r.offset < self.below)

    def _full(self) -> bool:
        """Return whether there are enough matches. The search continues below the last one that is kept."""
        if len(self.matches) < self.matches_max:
            return False
        del self.matches[self.matches_max :]
        self.below = self.matches[-1].offset
        return True
