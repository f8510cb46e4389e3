"""Look-ups of records by key in remote segments, in the helper process: from the newest segment to the oldest.

Invariants: with a key index only the header of the index, one bucket per run and the batches of candidates are read; without one the whole segment is
read. No chunk of a consumer is evicted, because look-ups do not use the chunk cache. Every byte counts for the fetch quota. The limits of the query
are checked between parts of a segment. Does not contain: the choice of the segments (`replication/remote_key_lookups`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.remote.auxiliary import Auxiliary
from brokerd.remote.chunk_cache import ObjectFile
from brokerd.remote.stored_segment import KEY_INDEX, LOG, StoredSegment
from brokerd.remote.stores import ObjectStore, Spend
from brokerd.storage.disk import Disk, File
from brokerd.storage.index import SparseIndex
from brokerd.storage.key_index import KeyIndex, LogFile, header_seed
from brokerd.storage.key_search import KeyCriteria, SegmentSearch, SegmentView
from brokerd.storage.segment import Segment
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire.key_matches import match_of
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record

PART_BYTES = 4 * 1024 * 1024
"""Bytes of a segment that are read between two checks of the time."""
WINDOW_BYTES = 64 * 1024
"""Minimum number of bytes of one range request: the header of a batch and most batches are one request."""


class RangedObject(ObjectFile):
    """An object of the store that is read by range requests. The last range is kept."""

    __slots__ = ("_spend", "_store", "_window", "_window_at")

    def __init__(self, store: ObjectStore, name: str, size: int, spend: Spend) -> None:
        super().__init__(name, size)
        self._store, self._spend = store, spend
        self._window, self._window_at = b"", 0

    def pread(self, length: int, position: int) -> bytes:
        """Raises StoreUnavailable, ObjectMissing."""
        length = max(0, min(length, self._size - position))
        at = position - self._window_at
        if at < 0 or at + length > len(self._window):
            needed = min(max(length, WINDOW_BYTES), self._size - position)
            self._spend(needed)
            self._window, self._window_at, at = self._store.get(self._name, position, needed), position, 0
        return self._window[at : at + length]


@dataclass(frozen=True, slots=True)
class RemoteSegmentView(SegmentView):
    """`key_index`: the object with the key index. `load_sparse_index`: reads the auxiliary object, which is large; not needed by a search
    of a whole segment with its key index."""

    log: File
    key_index: File
    load_sparse_index: Callable[[], SparseIndex]

    def open(self) -> Segment:
        segment = Segment(self.path.parent, self.base_offset, self.disk, self.interval)
        segment.attach(self.log, self.size, self.end_offset, None)
        return segment


class RemoteSegmentSearch(SegmentSearch):
    """The search in one remote segment. Raises StoreUnavailable, ObjectMissing, FileDamaged."""

    __slots__ = ()
    view: RemoteSegmentView

    def _index(self, segment: Segment, seed: int) -> KeyIndex:
        v = self.view

        def read(length: int, position: int) -> bytes:
            self._count_index_bytes(length)
            return v.key_index.pread(length, position)

        return KeyIndex.of_file(read, v.key_index.size(), LogFile(segment.file.pread, v.base_offset, v.size), seed)

    def _scan(self, segment: Segment, low: int) -> bool:
        self._attach_sparse_index(segment)
        return SegmentSearch._scan(self, segment, low)

    def _limit(self, segment: Segment) -> int:
        if self.below < self.view.end_offset:
            self._attach_sparse_index(segment)
        return SegmentSearch._limit(self, segment)

    def _attach_sparse_index(self, segment: Segment) -> None:
        v = self.view
        segment.attach(v.log, v.size, v.end_offset, v.load_sparse_index())


@dataclass(slots=True)
class RemoteKeySearch:
    """`segments`: ascending, those that the query may need, and later ones with aborted transactions. `start_offset`: older records are deleted.
    `aborted`: aborted transactions that the broker knows from its local log. None: uncommitted records count too."""

    disk: Disk
    store: ObjectStore
    spend: Spend
    auxiliary: Callable[[str], Auxiliary]
    mono_ms: Callable[[], int]
    segments: Sequence[StoredSegment]
    start_offset: int
    aborted: Sequence[AbortedTxn] | None
    query: KeyLookupRequest
    matches: list[Record] = field(default_factory=list)
    log_bytes: int = 0
    index_bytes: int = 0
    indexed: set[str] = field(default_factory=set)
    scanned: set[str] = field(default_factory=set)

    def run(self) -> KeyLookupResponse:
        """Search until the start of the first segment, or a limit of the query. Raises StoreUnavailable, ObjectMissing, FileDamaged."""
        query, below = self.query, self.query.before_offset
        deadline_ms = self.mono_ms() + query.duration_ms_max
        for i in reversed(range(len(self.segments))):
            segment = self.segments[i]
            if segment.start_offset >= below or segment.end_offset <= self.start_offset:
                continue
            if 0 <= segment.max_timestamp < query.from_ms:
                below = segment.start_offset
                continue
            view, criteria = self._view(segment), self._criteria(i)
            while below > segment.start_offset:
                stop = self._limit_reached(deadline_ms)
                if stop is not None:
                    return self._response(stop, below)
                search = RemoteSegmentSearch(
                    view,
                    criteria,
                    min(below, segment.end_offset),
                    query.matches_max - len(self.matches),
                    min(PART_BYTES, query.bytes_max - self.log_bytes),
                    self._usable_seed(segment),
                )
                search.run()
                below = search.below
                self._add(segment, search)
        return self._response(LookupStop.LOG_START, max(self.start_offset, min(below, self._first_offset)))

    @property
    def _first_offset(self) -> int:
        return self.segments[0].start_offset if self.segments else self.start_offset

    def _limit_reached(self, deadline_ms: int) -> LookupStop | None:
        if len(self.matches) >= self.query.matches_max:
            return LookupStop.MATCHES
        if self.log_bytes >= self.query.bytes_max:
            return LookupStop.BYTES
        return LookupStop.TIME if self.mono_ms() >= deadline_ms else None

    def _usable_seed(self, segment: StoredSegment) -> int | None:
        """The header seed of the key index of the segment. None if it has none for this query."""
        header_name = self.query.header_name
        if not segment.key_index_bytes or (header_name and header_seed(header_name) != segment.key_index_seed):
            return None
        return segment.key_index_seed

    def _view(self, segment: StoredSegment) -> RemoteSegmentView:
        return RemoteSegmentView(
            disk=self.disk,
            path=Path(segment.name),
            base_offset=segment.start_offset,
            end_offset=segment.end_offset,
            size=segment.size_bytes,
            interval=1,
            index=None,
            log=RangedObject(self.store, segment.name + LOG, segment.size_bytes, self.spend),
            key_index=RangedObject(self.store, segment.name + KEY_INDEX, segment.key_index_bytes, self.spend),
            load_sparse_index=lambda: self.auxiliary(segment.name).index,
        )

    def _criteria(self, i: int) -> KeyCriteria:
        q = self.query
        aborted = [] if self.aborted is None else [*self.aborted, *self._aborted_transactions(i)]
        return KeyCriteria(q.key, q.header_name, self.start_offset, q.from_ms, q.to_ms, aborted)

    def _aborted_transactions(self, i: int) -> Iterator[AbortedTxn]:
        """Aborted transactions that overlap the segment. The marker may be in a later one."""
        searched = self.segments[i]
        for s in self.segments[i:]:
            if not s.aborted_count:
                continue
            for entry in self.auxiliary(s.name).aborted:
                if entry.last_offset >= searched.start_offset and entry.first_offset < searched.end_offset:
                    yield entry
                if entry.stable >= searched.end_offset:
                    return

    def _add(self, segment: StoredSegment, search: RemoteSegmentSearch) -> None:
        self.matches += search.matches
        self.log_bytes += search.log_bytes
        self.index_bytes += search.index_bytes
        if search.used_index:
            self.indexed.add(segment.name)
        if search.scanned:
            self.scanned.add(segment.name)

    def _response(self, stop: LookupStop, below: int) -> KeyLookupResponse:
        return KeyLookupResponse(
            matches=[match_of(r) for r in self.matches],
            stop=stop,
            next_before_offset=below,
            log_bytes=self.log_bytes,
            index_bytes=self.index_bytes,
            segments_indexed=len(self.indexed),
            segments_scanned=len(self.scanned - self.indexed),
        )
