"""Reads of records in the remote store: requests to the helper, and a cache of the results. For partitions that this broker leads, and for partitions that it
follows and serves to consumers (KIP-392).

Invariants: a read returns records below the local log only, from the chain of finished segments. Without a response of the helper the error is retriable,
never OFFSET_OUT_OF_RANGE. Requests in flight and cached results are limited. Does not contain: the copy of segments (`runtime/remote_logs`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from brokerd.cluster.model import Now, TopicPartition
from brokerd.remote.frames import HelperError
from brokerd.remote.helper_requests import (
    HelperOperation,
    ReadFields,
    ReadResult,
    SegmentFields,
    SnapshotFields,
    SnapshotResult,
    TimeFields,
)
from brokerd.remote.lineage import in_lineage
from brokerd.remote.segments import RemoteSegment
from brokerd.replication.history_reads import (
    CACHED_ERROR_MS,
    CACHED_MS,
    UNAVAILABLE,
    Done,
    HistoryOperation,
    HistoryPosition,
    HistoryReadResult,
)
from brokerd.replication.replica import Replica
from brokerd.storage.disk import DiskFailed, File
from brokerd.storage.snapshots import Snapshot
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion

READ_TIMEOUT_MS = 30_000
"""Time-out of one read. During this time fetches of the consumer return without records, and the consumer fetches again."""
IN_FLIGHT_MAX = 64
"""Maximum number of reads in flight. Above the limit no request is sent, and the consumer repeats its fetch."""
CACHED_MAX = 256
"""Maximum number of cached results. Each result has open files of the chunk cache."""
FOLLOWING_MAX = 4
"""Maximum number of further segments in a read request: for read-ahead, and for gaps at the end of a segment."""
EARLIEST, MAX_TIMESTAMP = -2, -3
Request = Callable[[str, Mapping[str, object], int, Callable[[HelperError, object], None]], None]


class ReadKey(NamedTuple):
    tp: TopicPartition
    offset: int
    upto: int
    bytes_max: int


class CachedRead(NamedTuple):
    result: HistoryReadResult
    until_ms: int


class RemoteReads:
    def __init__(
        self,
        request: Request,
        open_file: Callable[[Path], File],
        clock: Callable[[], Now],
        object_name: Callable[[RemoteSegment], str],
    ) -> None:
        self._request, self._open, self._clock, self._object_name = request, open_file, clock, object_name
        self._cache: dict[ReadKey, CachedRead] = {}
        self._in_flight: set[ReadKey] = set()
        self._bootstrap_snapshots: dict[TopicPartition, tuple[int, bytes]] = {}
        """{partition: (local log start, snapshot there)}"""
        self._bootstrap_snapshots_requested: dict[TopicPartition, int] = {}
        self.bytes_read: dict[TopicPartition, int] = {}
        """Bytes of remote records that were sent to clients, by partition."""

    def segment_fields(self, segment: RemoteSegment) -> SegmentFields:
        """The fields of a segment in requests to the helper (`StoredSegment`)."""
        return [
            self._object_name(segment),
            segment.start_offset,
            segment.end_offset,
            segment.size_bytes,
            segment.max_timestamp,
            segment.aborted_count,
        ]

    def _read_names(self, segments: Sequence[RemoteSegment], upto: int) -> list[SegmentFields]:
        """The next segments, and further ones that have aborted transactions."""
        near, far = segments[: 1 + FOLLOWING_MAX], segments[1 + FOLLOWING_MAX :]
        return [self.segment_fields(s) for s in (*near, *(s for s in far if s.aborted_count))]

    # -- records -----------------------------------------------------------------------------------------------------------
    def read(
        self, replica: Replica, offset: int, upto: int, bytes_max: int, on_result: Callable[[], None]
    ) -> HistoryReadResult | None:
        view = replica.remote
        if view is None or not view.loaded:
            return UNAVAILABLE
        if offset < view.start_offset(replica.log.start_offset):
            return HistoryReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
        segments = view.chain.from_offset(offset)
        if not segments or not (replica.leads or self._are_valid(replica, segments)):
            return UNAVAILABLE
        key = ReadKey(replica.tp, offset, upto, bytes_max)
        cached = self._cache.get(key)
        if cached is not None and cached.until_ms > self._clock().mono_ms:
            return cached.result
        if key not in self._in_flight and len(self._in_flight) < IN_FLIGHT_MAX:
            self._in_flight.add(key)

            def on_helper_result(error: HelperError, value: object) -> None:
                self._in_flight.discard(key)
                result = UNAVAILABLE if error else self._result(replica, offset, cast("ReadResult", value))
                self._cache_result(key, result)
                on_result()

            fields = ReadFields(
                segments=self._read_names(segments, upto), offset=offset, upto=upto, bytes_max=bytes_max
            )
            self._request(HelperOperation.READ, fields, READ_TIMEOUT_MS, on_helper_result)
        return None

    @staticmethod
    def _are_valid(replica: Replica, segments: Sequence[RemoteSegment]) -> bool:
        """Return whether the log of a follower confirms the segments that a read may use. It may have been truncated since its view was made."""
        return all(in_lineage(s, replica.log.epochs.end_offset_for) for s in segments[: 1 + FOLLOWING_MAX])

    def _result(self, replica: Replica, offset: int, value: ReadResult) -> HistoryReadResult:
        try:
            regions = [FileRegion(self._open(Path(path)), at, length) for path, at, length in value["regions"]]
        except DiskFailed:
            return UNAVAILABLE  # evicted since then: the consumer repeats its fetch
        if not regions:
            return UNAVAILABLE
        size = sum(r.length for r in regions)
        self.bytes_read[replica.tp] = self.bytes_read.get(replica.tp, 0) + size
        aborted = tuple((producer_id, first) for producer_id, first in value["aborted"])
        return HistoryReadResult(ErrorCode.NONE, records=regions, aborted=aborted)

    def _cache_result(self, key: ReadKey, result: HistoryReadResult) -> None:
        lasts_ms = CACHED_ERROR_MS if result.error else CACHED_MS
        self._cache.pop(key, None)
        self._cache[key] = CachedRead(result, self._clock().mono_ms + lasts_ms)
        while len(self._cache) > CACHED_MAX:
            del self._cache[next(iter(self._cache))]

    def tick(self, now: Now) -> None:
        """Remove expired results."""
        for key in [k for k, c in self._cache.items() if c.until_ms <= now.mono_ms]:
            del self._cache[key]

    def forget(self, tp: TopicPartition) -> None:
        """Stop serving remote records of the partition: remove its cached results."""
        self._bootstrap_snapshots.pop(tp, None)
        self._bootstrap_snapshots_requested.pop(tp, None)
        self.bytes_read.pop(tp, None)

    # -- look-ups ----------------------------------------------------------------------------------------------------------
    def look_up(self, replica: Replica, operation: HistoryOperation, target: int, done: Done) -> None:
        view = replica.remote
        if view is None or not view.loaded:
            done(UNAVAILABLE)
            return
        local_start = replica.log.start_offset
        start, epochs = view.start_offset(local_start), view.chain.epochs(replica.log.epochs.entries)
        if operation is HistoryOperation.EPOCH:
            done(HistoryReadResult(ErrorCode.NONE, found=_end_of_epoch(epochs, target, replica.log.end_offset)))
        elif operation is HistoryOperation.TIME and target == EARLIEST:
            done(HistoryReadResult(ErrorCode.NONE, found=HistoryPosition(start, leader_epoch=_epoch_at(epochs, start))))
        elif operation is HistoryOperation.TIME:
            below = [s for s in view.chain.from_offset(start) if s.start_offset < local_start]
            newest = max((s.max_timestamp for s in below), default=-1)
            timestamp = newest if target == MAX_TIMESTAMP else target
            if not 0 <= timestamp <= newest:
                done(HistoryReadResult(ErrorCode.NONE))
                return
            fields = TimeFields(
                segments=[self.segment_fields(s) for s in below if s.max_timestamp >= timestamp],
                timestamp=timestamp,
                start=start,
                upto=local_start,
            )

            def on_helper_result(error: HelperError, value: object) -> None:
                found = None if error or value is None else HistoryPosition(*cast("list[int]", value))
                done(UNAVAILABLE if error else HistoryReadResult(ErrorCode.NONE, found=found))

            self._request(HelperOperation.TIME, fields, READ_TIMEOUT_MS, on_helper_result)
        else:
            done(UNAVAILABLE)

    # -- bootstrap of followers ----------------------------------------------------------------------------------------------
    def bootstrap_snapshot(self, replica: Replica) -> bytes | None:
        tp, view, start = replica.tp, replica.remote, replica.log.start_offset
        known = self._bootstrap_snapshots.get(tp)
        if known is not None and known[0] == start:
            return known[1]
        if view is None or not view.loaded or self._bootstrap_snapshots_requested.get(tp) == start:
            return None
        segments = [s for s in view.chain.segments if s.start_offset <= start <= s.end_offset]
        if not segments:
            return None
        epochs = [(e, at) for e, at in view.chain.epochs(replica.log.epochs.entries) if at <= start]
        self._bootstrap_snapshots_requested[tp] = start

        def on_helper_result(error: HelperError, value: object) -> None:
            if self._bootstrap_snapshots_requested.get(tp) == start:
                del self._bootstrap_snapshots_requested[tp]
                if not error:
                    producers, closing = cast("SnapshotResult", value)
                    snapshot = Snapshot(start, start, 0, True, epochs, producers, closing)
                    self._bootstrap_snapshots[tp] = (start, zlib.compress(snapshot.to_bytes(), 1))

        fields = SnapshotFields(segments=[self.segment_fields(s) for s in segments], offset=start)
        self._request(HelperOperation.SNAPSHOT, fields, READ_TIMEOUT_MS, on_helper_result)
        return None


def _epoch_at(epochs: Sequence[tuple[int, int]], offset: int) -> int:
    return max((epoch for epoch, start in epochs if start <= offset), default=-1)


def _end_of_epoch(epochs: Sequence[tuple[int, int]], epoch: int, log_end: int) -> HistoryPosition | None:
    """The largest epoch at or below `epoch` and its end offset, as in `EpochCache.end_offset_for`."""
    if not epochs or epoch < 0:
        return None
    if epoch < epochs[0][0]:
        return HistoryPosition(epochs[0][1], leader_epoch=epoch)
    known = [e for e in epochs if e[0] <= epoch]
    following = [at for e, at in epochs if e > epoch]
    return HistoryPosition(following[0] if following else log_end, leader_epoch=known[-1][0])
