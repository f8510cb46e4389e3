"""Reads of old records from history replicas: the requests that a leader sends to them, and a cache of their results.

Invariants:
  - A request covers offsets below the leader's own log only, so no batch is read from two places.
  - A history replica serves only records that were committed before the hand-over, so its result is valid under any leader.
  - When no history replica answers, the client gets a retriable error, never OFFSET_OUT_OF_RANGE.
Requests in flight and cached results are limited in bytes. A broker that does not respond is the last choice for a limited time.
The leader proposes a higher log start offset of the history to the controller.
Does not contain: sockets, the wire format (`apis/history_read_messages`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, Protocol

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import StartProposal
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.replication.replica import Replica
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion

log = logging.getLogger(__name__)

READ_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes of one result. A single batch may be larger."""
IN_FLIGHT_BYTES_MAX = 32 * 1024 * 1024
"""Maximum number of bytes that are requested and not yet received. Above the limit no request is sent, and the caller retries."""
CACHE_BYTES_MAX = 32 * 1024 * 1024
CACHED_MS = 5_000
"""Time for which a result is cached for the client that waits for it."""
CACHED_ERROR_MS = 250
"""Time for which a failed result is cached, so that the request is not repeated immediately."""
DEPRIORITIZED_MS = 5_000
"""Time for which a broker that did not respond is tried last."""


class HistoryOperation(IntEnum):
    """The operations of a history read. The values are stored in messages between brokers and never change."""

    READ = 0
    """Records from an offset on."""
    TIME = 1
    """The first offset for a timestamp, or for one of Kafka's special negative timestamps."""
    EPOCH = 2
    """The end offset of a leader epoch."""
    RETAINED = 3
    """The first offset that retention keeps, for a number of bytes in the leader's own log."""


class HistoryPosition(NamedTuple):
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HistoryReadRequest:
    """`target` is an offset, a timestamp, a leader epoch or a size in bytes, as `operation` requires. `log_start_floor`: the log start offset in the
    metadata log, which the history replica may not have read yet. `end_offset`, `last_epoch` and `bytes_max` are used by READ only."""

    tp: TopicPartition
    handover_offset: int
    log_start_floor: int
    operation: HistoryOperation
    target: int
    end_offset: int = -1
    last_epoch: int = -1
    bytes_max: int = 0


@dataclass(frozen=True, slots=True)
class HistoryReadResult:
    """The response of a history replica. `error`: NONE, OFFSET_OUT_OF_RANGE (its log starts at `log_start`), or a retriable error. `found`:
    the position for TIME, the end offset and the epoch for EPOCH, the first offset to keep for RETAINED. None: no such record."""

    error: ErrorCode
    log_start: int = -1
    records: bytes | list[FileRegion] = b""
    diverging: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    found: HistoryPosition | None = None

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return len(self.records) if isinstance(self.records, bytes) else sum(r.length for r in self.records)


UNAVAILABLE = HistoryReadResult(ErrorCode.OFFSET_NOT_AVAILABLE)
Done = Callable[[HistoryReadResult], None]


class SendHistoryRead(Protocol):
    def __call__(
        self, broker_id: int, request: HistoryReadRequest, done: Callable[[HistoryReadResult | None], None]
    ) -> None:
        """`done` is called later, exactly once. None: no response."""


class RemoteSource(Protocol):
    """Reads of records in the remote store, for the leader of a partition with tiered storage. As the methods of `HistoryReads`."""

    def look_up(self, replica: Replica, operation: HistoryOperation, target: int, done: Done) -> None: ...

    def read(
        self, replica: Replica, offset: int, upto: int, bytes_max: int, on_result: Callable[[], None]
    ) -> HistoryReadResult | None: ...

    def bootstrap_snapshot(self, replica: Replica) -> bytes | None:
        """The bootstrap snapshot at the local log start, as `observer_bootstrap.bootstrap_snapshot_at` returns it. None: not available yet."""


class NoRemoteSource:
    """Remote reads of a broker without tiered storage: every read of remote records fails with a retriable error."""

    def look_up(self, replica: Replica, operation: HistoryOperation, target: int, done: Done) -> None:
        done(UNAVAILABLE)

    def read(
        self, replica: Replica, offset: int, upto: int, bytes_max: int, on_result: Callable[[], None]
    ) -> HistoryReadResult | None:
        return UNAVAILABLE

    def bootstrap_snapshot(self, replica: Replica) -> bytes | None:
        return None


class CachedResult(NamedTuple):
    result: HistoryReadResult
    until_ms: int


@dataclass
class HistoryReads:
    send: SendHistoryRead
    clock: Callable[[], Now]
    alive: Callable[[int], bool]
    outbox: Outbox
    remote: RemoteSource | None = None
    """Reads from the remote store. None if this broker has no tiered storage."""
    _cache: dict[HistoryReadRequest, CachedResult] = field(default_factory=dict)
    """Cached results, oldest first."""
    _cached_bytes: int = 0
    _in_flight: dict[HistoryReadRequest, None] = field(default_factory=dict)
    _deprioritized: dict[int, int] = field(default_factory=dict)
    _proposed_starts: dict[TopicPartition, tuple[Replica, int, int]] = field(default_factory=dict)
    """(replica, leader epoch, proposed log start offset)"""

    @property
    def _remote_reads(self) -> RemoteSource:
        return self.remote or NoRemoteSource()

    # -- requests ----------------------------------------------------------------------------------------------------------
    def look_up(self, replica: Replica, operation: HistoryOperation, target: int, done: Done) -> None:
        """`done` is called later, exactly once."""
        if replica.reads_remote:
            self._remote_reads.look_up(replica, operation, target, done)
            return
        self._send_to_replicas(replica, self._request(replica, operation, target), done)

    def read(
        self, replica: Replica, offset: int, upto: int, last_epoch: int, bytes_max: int, on_result: Callable[[], None]
    ) -> HistoryReadResult | None:
        """The cached records from `offset` on, below `upto`. If there is no cached result, a request is sent, the result is None, and `on_result` is
        called later."""
        bytes_max = min(bytes_max, READ_BYTES_MAX)
        if replica.reads_remote:
            return self._remote_reads.read(replica, offset, upto, bytes_max, on_result)
        state = replica.core.state
        assert state is not None
        if offset < state.log_start_floor:
            return HistoryReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
        request = replace(
            self._request(replica, HistoryOperation.READ, offset),
            end_offset=upto,
            last_epoch=last_epoch,
            bytes_max=bytes_max,
        )
        cached = self._cache.get(request)
        if cached is not None and cached.until_ms > self.clock().mono_ms:
            return cached.result
        if request not in self._in_flight and self._in_flight_bytes + bytes_max <= IN_FLIGHT_BYTES_MAX:
            self._in_flight[request] = None

            def on_response(result: HistoryReadResult) -> None:
                del self._in_flight[request]
                self._cache_result(request, result)
                on_result()

            self._send_to_replicas(replica, request, on_response)
        return None

    @property
    def _in_flight_bytes(self) -> int:
        return sum(q.bytes_max for q in self._in_flight)

    def _request(self, replica: Replica, operation: HistoryOperation, target: int) -> HistoryReadRequest:
        state = replica.core.state
        assert state is not None
        return HistoryReadRequest(replica.tp, state.handover_offset, max(0, state.log_start_floor), operation, target)

    def _send_to_replicas(self, replica: Replica, request: HistoryReadRequest, done: Done) -> None:
        state = replica.core.state
        history_replicas = self._in_turn(state.history_replicas if state is not None else ())

        def try_next() -> None:
            broker_id = next(history_replicas, None)
            if broker_id is None:
                done(UNAVAILABLE)
                return

            def on_response(result: HistoryReadResult | None) -> None:
                if result is None:
                    self._deprioritized[broker_id] = self.clock().mono_ms + DEPRIORITIZED_MS
                if result is None or result.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                    try_next()
                    return
                self._deprioritized.pop(broker_id, None)
                replica.history_start_offset = max(replica.history_start_offset, result.log_start)
                done(result)

            self.send(broker_id, request, on_response)

        try_next()

    def _in_turn(self, history_replicas: tuple[int, ...]) -> Iterator[int]:
        now_ms = self.clock().mono_ms
        return iter(
            sorted((b for b in history_replicas if self.alive(b)), key=lambda b: self._deprioritized.get(b, 0) > now_ms)
        )

    # -- cached results ----------------------------------------------------------------------------------------------------
    def _cache_result(self, request: HistoryReadRequest, result: HistoryReadResult) -> None:
        lasts_ms = CACHED_MS if result.error == ErrorCode.NONE else CACHED_ERROR_MS
        if request in self._cache:
            self._drop(request)
        self._cache[request] = CachedResult(result, self.clock().mono_ms + lasts_ms)
        self._cached_bytes += result.size
        while self._cached_bytes > CACHE_BYTES_MAX and len(self._cache) > 1:
            self._drop(next(iter(self._cache)))

    def tick(self, now: Now) -> None:
        """Remove expired results, oldest first."""
        while self._cache:
            request, cached = next(iter(self._cache.items()))
            if cached.until_ms > now.mono_ms:
                return
            self._drop(request)

    def _drop(self, request: HistoryReadRequest) -> None:
        self._cached_bytes -= self._cache.pop(request).result.size

    # -- retention ---------------------------------------------------------------------------------------------------------
    def retain(self, replica: Replica) -> None:
        """Apply retention to the records on the history replicas. The leader decides; a history replica only reports ages and sizes."""
        state = replica.core.state
        if state is None or state.handover_offset < 0 or not replica.leads:
            return
        if not replica.local_log_start_offset:
            self.propose_log_start(replica, replica.log.start_offset)
            return

        def on_result(result: HistoryReadResult) -> None:
            if result.error == ErrorCode.NONE and result.found is not None and replica.local_log_start_offset:
                self.propose_log_start(replica, result.found.offset)

        self.look_up(replica, HistoryOperation.RETAINED, replica.log.size_bytes, on_result)

    def propose_log_start(self, replica: Replica, offset: int) -> None:
        """Propose `offset` as the log start offset to the controller."""
        if _is_valid_log_start(replica, replica.core.leader_epoch, offset):
            before = self._proposed_starts.get(replica.tp)
            if before is None or before[:2] != (replica, replica.core.leader_epoch) or before[2] < offset:
                self._proposed_starts[replica.tp] = (replica, replica.core.leader_epoch, offset)
                self.outbox.mark_changed(OutboxEntry.HISTORY_STARTS)

    def proposals(self) -> list[StartProposal]:
        """Proposals for the controller, without the proposals that were accepted or have become invalid."""
        self._proposed_starts = {tp: w for tp, w in self._proposed_starts.items() if _is_valid_log_start(*w)}
        return [
            StartProposal(tp.topic_id, tp.partition, epoch, offset)
            for tp, (_, epoch, offset) in self._proposed_starts.items()
        ]

    def partition_changed(self, replica: Replica) -> None:
        """The metadata log has changed this partition."""
        proposed = self._proposed_starts.get(replica.tp)
        if proposed is not None and not _is_valid_log_start(*proposed):
            del self._proposed_starts[replica.tp]
            self.outbox.mark_changed(OutboxEntry.HISTORY_STARTS)


def _is_valid_log_start(replica: Replica, leader_epoch: int, offset: int) -> bool:
    state = replica.core.state
    return (
        state is not None
        and state.handover_offset >= 0
        and replica.leads
        and replica.is_contiguous
        and state.leader_epoch == leader_epoch
        and offset > state.log_start_floor
        and offset > 0
    )
