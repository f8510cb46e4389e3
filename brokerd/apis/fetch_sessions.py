"""Fetch sessions (KIP-227): the partitions that each client fetches and their last sent state. Requests and responses contain only changes.

Invariants: a session covers every partition in it. A partition that a response does not name is unchanged. Only partitions that have changed
are evaluated (`Purgatory.watch`), so the cost of a fetch depends on the number of changed partitions, not of all partitions. The session epoch counts fetches,
so a lost or repeated fetch is detected. Does not contain: reading, waiting, the wire format except for the request's structs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from brokerd.cluster.model import ReplicaIncarnation
from brokerd.replication.partition_events import SessionLiveness
from brokerd.replication.purgatory import Purgatory
from brokerd.replication.replica import Replica
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest

Key = tuple[Hashable, int]
"""Topic id as int (Fetch 13 and later) or topic name, and partition. A UUID as a key would call its Python method `__hash__` about 20 times per fetch."""

NO_SESSION = 0
FULL_EPOCH, LAST_EPOCH = 0, -1
"""Session epochs of full fetches: FULL_EPOCH starts a new session, LAST_EPOCH requests no session. Both end the session whose id is in the request."""
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000
"""Time after which an unused session is the first to be evicted, as in Kafka. A session that was used more recently is not evicted for a larger session."""


class CachedPartitionState(NamedTuple):
    """The state of a partition as last sent to the client."""

    high_watermark: int
    last_stable: int
    log_start: int


@dataclass(slots=True)
class PartitionRequest:
    """One partition of a fetch with its replica. `epoch`: the leader epoch when the partition was looked up. `may_follow`: a follower replica
    may serve the fetch (KIP-392)."""

    topic_name: str
    topic_id: UUID
    requested: FetchRequest.FetchPartition
    replica: Replica | None
    error: ErrorCode
    epoch: int = -1
    cached: CachedPartitionState | None = None
    may_follow: bool = False


class FetchSession:
    """`dirty_partitions` are the partitions that may have something to send. The partition that was not served for the longest time is first."""

    def __init__(
        self,
        session_id: int,
        follower: ReplicaIncarnation | None,
        by_id: bool,
        purgatory: Purgatory,
        now_ms: int,
        session_liveness: SessionLiveness | None,
    ) -> None:
        self.session_id, self.follower, self.by_id, self._purgatory = session_id, follower, by_id, purgatory
        self.epoch = 1
        """The epoch of the next fetch."""
        self.made_ms = self.used_ms = now_ms
        self.session_liveness = session_liveness
        self.partition_requests: dict[Key, PartitionRequest] = {}
        self.dirty_partitions: dict[Key, None] = {}
        self.closed = False

    def put(self, key: Key, partition_request: PartitionRequest) -> None:
        """Add or change a partition that a request names."""
        old = self.partition_requests.get(key)
        if old is not None and self.follower is None and old.replica is partition_request.replica:
            # A follower gets the complete state of a partition that it names: it may have dropped the last response.
            partition_request.cached = old.cached
        if old is None or old.replica is not partition_request.replica:
            self._unwatch(old)
            self._watch(key, partition_request)
        self.partition_requests[key] = partition_request
        self.dirty_partitions[key] = None

    def drop(self, key: Key) -> PartitionRequest | None:
        partition_request = self.partition_requests.pop(key, None)
        self.dirty_partitions.pop(key, None)
        self._unwatch(partition_request)
        return partition_request

    def end(self) -> None:
        self.closed = True
        for partition_request in self.partition_requests.values():
            self._unwatch(partition_request)

    def record_response(self, key: Key, *, served: bool, more: bool) -> None:
        """Record that a response was built. A partition stays dirty if its log has `more` records. A partition with records in the response
        (`served`) moves to the end of the order."""
        if served or not more:
            self.dirty_partitions.pop(key, None)
        if more and key in self.partition_requests:
            self.dirty_partitions[key] = None

    def _watch(self, key: Key, partition_request: PartitionRequest) -> None:
        if partition_request.replica is not None and not self.closed:
            if self.follower is not None:
                self._purgatory.watch(
                    partition_request.replica.end_key(), self, partial(self._on_partition_changed, key)
                )
                self._purgatory.watch(partition_request.replica.hw_key(), self, partial(self._mark_dirty, key))
            else:
                self._purgatory.watch(
                    partition_request.replica.hw_key(), self, partial(self._on_partition_changed, key)
                )

    def _unwatch(self, partition_request: PartitionRequest | None) -> None:
        if partition_request is not None and partition_request.replica is not None:
            self._purgatory.unwatch(partition_request.replica.end_key(), self)
            self._purgatory.unwatch(partition_request.replica.hw_key(), self)

    def _mark_dirty(self, key: Key) -> None:
        """Mark the partition as dirty, without completing the delayed fetch. As in Kafka, a new high watermark alone does not complete a
        follower's fetch."""
        if key in self.partition_requests:
            self.dirty_partitions[key] = None

    def _on_partition_changed(self, key: Key) -> None:
        self._mark_dirty(key)
        self._purgatory.check(self)


class Sessions:
    """All fetch sessions of a broker. Above `slots` a session replaces another by Kafka's rules, or the client continues with full fetches."""

    def __init__(self, purgatory: Purgatory, draw: Callable[[], int], *, slots: int) -> None:
        self._purgatory, self._draw, self._slots = purgatory, draw, slots
        self._by_id: dict[int, FetchSession] = {}
        """Ordered by the time of the last use; the least recently used session is first."""
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def find(
        self, session_id: int, epoch: int, follower: ReplicaIncarnation | None, by_id: bool
    ) -> FetchSession | ErrorCode:
        """The session of an incremental fetch, or an error."""
        session = self._by_id.get(session_id)
        if session is None or session.follower != follower:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def advance_epoch(self, session: FetchSession, now_ms: int) -> None:
        """Record that a fetch of the session is answered: increase the session epoch and set the time of the last use."""
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)

    def begin(
        self,
        partition_requests: dict[Key, PartitionRequest],
        follower: ReplicaIncarnation | None,
        by_id: bool,
        now_ms: int,
        session_liveness: SessionLiveness | None,
    ) -> FetchSession | None:
        if not partition_requests or not self._make_room(follower is not None, len(partition_requests), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = self._draw() % EPOCH_MAX + 1
        session = self._by_id[session_id] = FetchSession(
            session_id, follower, by_id, self._purgatory, now_ms, session_liveness
        )
        for key, partition_request in partition_requests.items():
            session.put(key, partition_request)
        return session

    def end(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.end()

    def end_all(self) -> None:
        for session_id in list(self._by_id):
            self.end(session_id)

    def _make_room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Kafka's eviction: first a session unused for two minutes. Otherwise, among those created two minutes ago or earlier, the smallest one
        that weighs less than the new session; followers weigh more than consumers. A follower may replace any consumer."""
        if len(self._by_id) < self._slots:
            return True
        if not self._by_id:
            return False
        oldest = next(iter(self._by_id.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            victim = oldest
        else:
            candidates = [
                s
                for s in self._by_id.values()
                if now_ms - s.made_ms > EVICTION_MS or (privileged and s.follower is None)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_weight)
            if (privileged, size, NO_SESSION) < _weight(victim):
                return False
        self.end(victim.session_id)
        self.evicted += 1
        return True


def _weight(session: FetchSession) -> tuple[bool, int, int]:
    return session.follower is not None, len(session.partition_requests), session.session_id
