"""Operations of the helper process for the broker: copy a segment, read records, search by time or key, compute a bootstrap snapshot, delete, list.

Invariants: a copy is complete when its last object is stored: first the log, then the key index if the topic has one, then the auxiliary object. Reads return regions of chunk files with complete
batches only, below the offset that the request names. Every call may block, and may run on any thread. Does not contain: the protocol (`helper`).
"""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from brokerd.remote import auxiliary
from brokerd.remote.auxiliary import Auxiliary
from brokerd.remote.chunk_cache import CHUNK_BYTES, ChunkCache, RemoteFile
from brokerd.remote.helper_requests import CopyFields, HelperOperation, KeysFields, ReadFields, ReadResult, TimeFields
from brokerd.remote.key_indexes import put_key_index
from brokerd.remote.key_lookups import RemoteKeySearch
from brokerd.remote.stored_segment import AUXILIARY, KEY_INDEX, LOG, StoredSegment
from brokerd.remote.stores import ObjectStore, Spend
from brokerd.storage.disk import Disk
from brokerd.storage.segment import Segment
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import records, versioned
from brokerd.wire.messages.key_lookups import VERSION, KeyLookupRequest
from brokerd.wire.records import UnpackBudget
from brokerd.wire.scan import first_since
from brokerd.wire.steps import run_now

AUXILIARIES_MAX = 64
"""Maximum number of parsed auxiliary objects in memory: up to about 5 MB each, for a segment of 1 GiB."""
AUXILIARY_BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of bytes of one auxiliary object. Most of it is the index: 16 bytes for 4 KiB of the segment."""
AHEAD_CHUNKS_MIN, AHEAD_CHUNKS_MAX = 2, 8
"""Chunks that are loaded ahead of a reader: a store that limits each connection is as fast as the number of its requests."""
AHEAD_SHARE = 8
"""One reader loads ahead at most one part in this many of a small cache, so that readers do not evict each other's next chunk."""


def _chunks(s: StoredSegment) -> int:
    return -(-s.size_bytes // CHUNK_BYTES)


class Operations:
    def __init__(
        self,
        disk: Disk,
        store: ObjectStore,
        cache: ChunkCache,
        copy_spend: Spend,
        fetch_spend: Spend,
        wall_ms: Callable[[], int],
        mono_ms: Callable[[], int],
    ) -> None:
        """`fetch_spend`: for auxiliary objects and look-ups by key. The cache applies the same quota to its chunks."""
        self._disk, self._store, self._cache = disk, store, cache
        self._copy_spend, self._fetch_spend, self._wall_ms, self._mono_ms = copy_spend, fetch_spend, wall_ms, mono_ms
        self._auxiliaries: OrderedDict[str, Auxiliary] = OrderedDict()
        self._loading: set[str] = set()
        self._lock = threading.Condition()
        self.ahead_chunks = max(AHEAD_CHUNKS_MIN, min(AHEAD_CHUNKS_MAX, cache.bytes_max // CHUNK_BYTES // AHEAD_SHARE))

    def run(self, operation: str, fields: Mapping[str, Any]) -> object:
        """Run one request. Returns JSON. Raises StoreUnavailable, ObjectMissing, DamagedSegment, DiskFailed, DiskFull, OSError, ValueError."""
        match operation:
            case HelperOperation.COPY:
                return self._copy(cast("CopyFields", fields))
            case HelperOperation.READ:
                return self._read_batches(cast("ReadFields", fields))
            case HelperOperation.TIME:
                return self._time(cast("TimeFields", fields))
            case HelperOperation.KEYS:
                return self._look_up_key(cast("KeysFields", fields))
            case HelperOperation.SNAPSHOT:
                return self._snapshot([StoredSegment.of(s) for s in fields["segments"]], fields["offset"])
            case HelperOperation.DELETE:
                for suffix in (LOG, KEY_INDEX, AUXILIARY):
                    self._store.delete(fields["name"] + suffix)
                return True
            case HelperOperation.NAMES:
                return list(self._store.names(fields["prefix"]))
        raise ValueError(f"unknown operation {operation!r}")

    # -- copying -------------------------------------------------------------------------------------------------------------
    def _copy(self, fields: CopyFields) -> list[object]:
        path, name, size = Path(fields["path"]), fields["name"], fields["size"]
        before = fields.get("producers") or auxiliary.NO_PRODUCERS
        if fields["previous"] is not None:
            before = self._snapshot([StoredSegment.of(fields["previous"])], fields["base"])
        found = auxiliary.examine(
            self._disk, path, fields["base"], fields["end"], size, fields["interval"], before, self._wall_ms()
        )
        self._store.put_file(name + LOG, path, size, self._copy_spend)
        key_index = (0, 0)
        if (header := fields.get("key_index_header")) is not None:
            key_index = put_key_index(
                self._disk,
                self._store,
                name + KEY_INDEX,
                (path, fields["base"], size),
                header,
                self._cache.folder / f"{Path(name).name}{KEY_INDEX}",
                self._copy_spend,
            )
        self._store.put_bytes(name + AUXILIARY, found.to_bytes())
        self._remember(name, found)
        return [size, found.max_timestamp, found.epochs, len(found.aborted), *key_index]

    def _snapshot(self, segments: Sequence[StoredSegment], offset: int) -> list[object]:
        """The producer state at `offset`, which is in one of the segments or at its end."""
        for s in segments:
            if s.start_offset <= offset <= s.end_offset:
                found = self._auxiliary(s.name)
                if offset == s.end_offset:
                    return found.producers_after
                producers = auxiliary.restore_producers(found.producers_before)
                segment = self._open_segment(s, found)
                for position, header in segment.headers(0):
                    if header.base_offset >= offset:
                        break
                    auxiliary.advance(producers, segment.file, position, header, self._wall_ms())
                return auxiliary.state_of(producers)
        raise ValueError(f"no segment contains offset {offset}")

    # -- reading -------------------------------------------------------------------------------------------------------------
    def _auxiliary(self, name: str) -> Auxiliary:
        """Return the auxiliary data of the segment. Concurrent readers and the read-ahead share one request to the store."""
        with self._lock:
            while name in self._loading:
                self._lock.wait()
            found = self._auxiliaries.get(name)
            if found is not None:
                self._auxiliaries.move_to_end(name)
                return found
            self._loading.add(name)
        try:
            data = self._store.get(name + AUXILIARY, 0, AUXILIARY_BYTES_MAX)
            self._fetch_spend(len(data))  # afterwards, because its size is not known earlier
            found = Auxiliary.from_bytes(data)
            self._remember(name, found)
            return found
        finally:
            with self._lock:
                self._loading.discard(name)
                self._lock.notify_all()

    def _remember(self, name: str, segment_state: Auxiliary) -> None:
        with self._lock:
            self._auxiliaries[name] = segment_state
            while len(self._auxiliaries) > AUXILIARIES_MAX:
                self._auxiliaries.popitem(last=False)

    def _open_segment(self, s: StoredSegment, segment_state: Auxiliary) -> Segment:
        segment = Segment(Path(s.name).parent, s.start_offset, self._disk, 1)
        segment.attach(
            RemoteFile(self._cache, self._disk, s.name + LOG, s.size_bytes),
            s.size_bytes,
            s.end_offset,
            segment_state.index,
        )
        return segment

    def _read_batches(self, fields: ReadFields) -> ReadResult:
        """Complete batches from `offset` on, below `upto`. A segment without such batches (a gap of compaction at its end) is skipped."""
        segments = [StoredSegment.of(s) for s in fields["segments"]]
        offset, upto, bytes_max = fields["offset"], fields["upto"], fields["bytes_max"]
        for i, segment in enumerate(segments):
            if segment.start_offset >= upto:
                break
            found = self._auxiliary(segment.name)
            view = self._open_segment(segment, found)
            entry = found.index.at_or_before(offset - segment.start_offset)
            near = found.index.positions[entry] if entry >= 0 else 0
            # Chunks are requested before the first read of the segment, which may wait for one: the store then sends all at the same time.
            self._load_ahead(segment, near, min(near + bytes_max, segment.size_bytes), segments[i + 1 :])
            start = view.position_of(offset)
            end = view.end_of_range(start, bytes_max, upto, True)
            if end <= start:
                continue
            regions = self._cache.regions(segment.name + LOG, start, end - start, segment.size_bytes)
            return ReadResult(
                regions=[(str(r.path), r.position, r.length) for r in regions],
                aborted=self._aborted_transactions(segments[i:], offset, min(upto, view.bound_after(end))),
            )
        return ReadResult(regions=[], aborted=[])

    def _load_ahead(self, s: StoredSegment, start: int, end: int, following: Sequence[StoredSegment]) -> None:
        """Load the chunks of [start, end) after the first one, and the next ones, also of the following segments, in the background."""
        until = (end - 1) // CHUNK_BYTES + 1 + self.ahead_chunks
        for index in range(start // CHUNK_BYTES + 1, min(until, _chunks(s))):
            self._cache.read_ahead(s.name + LOG, index, s.size_bytes)
        left = until - _chunks(s)
        for after in following:
            if left <= 0:
                return
            if after.name not in self._auxiliaries:
                self._cache.submit(after.name + AUXILIARY, partial(self._auxiliary, after.name))
            for index in range(min(left, _chunks(after))):
                self._cache.read_ahead(after.name + LOG, index, after.size_bytes)
            left -= _chunks(after)

    def _aborted_transactions(self, segments: Sequence[StoredSegment], offset: int, upto: int) -> list[list[int]]:
        """[producer id, first offset] of aborted transactions that overlap [offset, upto). The marker may be in a later segment."""
        out = []
        for s in segments:
            if not s.aborted_count:
                continue
            for entry in self._auxiliary(s.name).aborted:
                if entry.last_offset >= offset and entry.first_offset < upto:
                    out.append([entry.producer_id, entry.first_offset])
                if entry.stable >= upto:
                    return out
        return out

    def _time(self, fields: TimeFields) -> list[int] | None:
        """[offset, timestamp, leader epoch] of the first record at or after `timestamp`, within [start, upto)."""
        timestamp, start, upto = fields["timestamp"], fields["start"], fields["upto"]
        budget = UnpackBudget.for_lookups()
        for s in (StoredSegment.of(f) for f in fields["segments"]):
            if s.max_timestamp < timestamp:
                continue
            segment = self._open_segment(s, self._auxiliary(s.name))
            for position, header in segment.batches_since(timestamp):
                if header.base_offset >= upto:
                    return None
                if header.max_timestamp < timestamp or header.last_offset < start:
                    continue
                data = segment.file.pread(header.size, position)
                try:
                    found = run_now(first_since(data, 0, header, timestamp, start, budget))
                except records.CorruptBatch:
                    found = (max(header.base_offset, start), header.max_timestamp)
                if found is not None:
                    return [*found, header.partition_leader_epoch] if found[0] < upto else None
        return None

    # -- look-ups by key -----------------------------------------------------------------------------------------------------
    def _look_up_key(self, fields: KeysFields) -> str:
        """A `KeyLookupResponse` to the `KeyLookupRequest` of the fields, both as base64."""
        aborted = fields["aborted"]
        search = RemoteKeySearch(
            disk=self._disk,
            store=self._store,
            spend=self._fetch_spend,
            auxiliary=self._auxiliary,
            mono_ms=self._mono_ms,
            segments=[StoredSegment.of(s) for s in fields["segments"]],
            start_offset=fields["start"],
            aborted=None if aborted is None else [AbortedTxn(*a) for a in aborted],
            query=versioned.decode(KeyLookupRequest, base64.b64decode(fields["query"]), VERSION),
        )
        return base64.b64encode(versioned.encode(search.run(), VERSION)).decode()
