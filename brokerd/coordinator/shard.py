"""Coordinator shards: the partitions of an internal topic that this broker leads, how far they are loaded, and whether they may be served.

Invariants: a key is served only from a shard whose partition this broker leads and which is loaded to the log end offset. All loaded records
are below the high watermark, and every eligible replica has caught up to the leader epoch. After a write with an unknown outcome the shard is
loaded again. Shared by the group coordinator and the transaction coordinator. Does not interpret records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from brokerd.cluster.model import Now
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, CorruptBatch, batches

log = logging.getLogger(__name__)

LOAD_BYTES_PER_TICK = 4 * 1024 * 1024
"""Maximum number of bytes of one partition that are replayed per tick, so that the load of a long log does not block the event loop."""
REJECTED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which the records are certainly not in the log."""
REPLICATION_UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
"""The records are in the leader's log, but they are not replicated, or another broker leads now."""

FOLLOWER_SILENCE_MS_MAX = 1_500
"""Without a ZooKeeper session a coordinator serves requests only while every follower in the ISR fetches at least this often. The value is three
times the followers' longest fetch wait. It is also the longest time that a deposed coordinator may answer at the same time as its successor."""


class CoordinatorLog(Protocol):
    """The partitions of an internal topic, as the broker provides them to a coordinator."""

    def partition_count(self) -> int | None: ...

    def leader_epoch(self, partition: int) -> int | None: ...

    def leadership_confirmed(self, partition: int) -> bool:
        """Return whether no other broker can be the leader of this partition now, so that the state in memory is the newest."""

    def all_followers_caught_up_to_epoch(self, partition: int) -> bool:
        """Return whether every eligible replica has caught up to the leader epoch. Until then a replica may contain records of an earlier epoch that this
        log does not contain."""

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        """`done` gets the error code. REPLICATION_UNKNOWN: the batch was written, but it is unknown whether it stays."""
        ...

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes | None:
        """The record batches from `offset` on. None: they are not in the page cache yet."""
        ...

    def start_offset(self, partition: int) -> int: ...

    def end_offset(self, partition: int) -> int: ...

    def high_watermark(self, partition: int) -> int: ...

    def epoch_start(self, partition: int) -> int: ...


@dataclass(slots=True)
class CoordinatorShard:
    """One partition that this broker leads. `loaded`: `next_offset` has reached the log end, and the high watermark the epoch's start offset."""

    epoch: int
    next_offset: int
    loaded: bool = False


L = TypeVar("L", bound=CoordinatorShard)


def partition_of(key: str, count: int) -> int:
    """The partition of a group id or a transactional id, as in Kafka: Java's String.hashCode without its sign bit, modulo the partition count."""
    h = 0
    data = key.encode("utf-16-be")
    for i in range(0, len(data), 2):
        h = (31 * h + int.from_bytes(data[i : i + 2], "big")) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % count


class ShardManager(Generic[L]):
    """`make(epoch, first offset)` returns an empty shard."""

    def __init__(
        self, topic: str, coordinator_log: CoordinatorLog, clock: Callable[[], Now], make: Callable[[int, int], L]
    ) -> None:
        self._topic, self._log, self._clock, self._make = topic, coordinator_log, clock, make
        self.shards: dict[int, L] = {}

    # -- implemented by the two coordinators -----------------------------------------------------------------------------
    def _replay(self, shard: L, data: bytes, at: int, header: BatchHeader) -> None:
        """Apply a record batch. Records below `shard.next_offset` were applied before."""
        raise NotImplementedError

    def _on_loaded(self, partition: int, shard: L, now: Now) -> None:
        """Called when the shard becomes available."""
        raise NotImplementedError

    def _on_unloaded(self, partition: int, shard: L) -> None:
        """Answer all waiting requests."""
        raise NotImplementedError

    # -- leadership ------------------------------------------------------------------------------------------------------
    def on_election(self, partition: int, epoch: int, now: Now) -> None:
        self.on_resignation(partition, now)
        self.shards[partition] = self._make(epoch, self._log.start_offset(partition))

    def on_resignation(self, partition: int, now: Now) -> None:
        shard = self.shards.pop(partition, None)
        if shard is not None:
            self._on_unloaded(partition, shard)

    def _load(self, partition: int, shard: L, now: Now) -> None:
        if self._log.leader_epoch(partition) != shard.epoch:
            return
        end = self._log.end_offset(partition)
        if shard.next_offset < end:
            data = self._log.read(partition, shard.next_offset, LOAD_BYTES_PER_TICK)
            if data is None:
                return
            try:
                for at, header in batches(data):
                    if header.next_offset > shard.next_offset:
                        self._replay(shard, data, at, header)
                        shard.next_offset = header.next_offset
            except CorruptBatch as e:
                log.error(
                    "coordinator load failed: corrupt batch: partition=%s-%d offset=%d error=%s",
                    self._topic,
                    partition,
                    shard.next_offset,
                    e,
                )
                return
            if not data:
                shard.next_offset = end
        # A record above the high watermark may be truncated by the next leader.
        replicated = max(shard.next_offset, self._log.epoch_start(partition))
        if (
            shard.next_offset >= end
            and self._log.high_watermark(partition) >= replicated
            and self._log.all_followers_caught_up_to_epoch(partition)
        ):
            shard.loaded = True
            self._on_loaded(partition, shard, now)

    def _reload(self, partition: int, shard: L, error: int) -> None:
        """Load the shard again after a write with an unknown outcome: only the log shows whether the records were written."""
        if self._log.leader_epoch(partition) == shard.epoch:
            log.warning(
                "write outcome unknown, loading coordinator partition again: partition=%s-%d error=%d",
                self._topic,
                partition,
                error,
            )
            self.on_election(partition, shard.epoch, self._clock())

    # -- finding -----------------------------------------------------------------------------------------------------------
    def find(self, key: str) -> tuple[int, L | None, int]:
        """(partition, shard, error). The error is NONE when this broker may serve `key`."""
        count = self._log.partition_count()
        if count is None:
            return -1, None, ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = partition_of(key, count)
        shard = self.shards.get(partition)
        if (
            shard is None
            or self._log.leader_epoch(partition) != shard.epoch
            or not self._log.leadership_confirmed(partition)
        ):
            return partition, None, ErrorCode.NOT_COORDINATOR
        return partition, shard, ErrorCode.NONE if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
