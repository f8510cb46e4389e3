"""Partitions of an internal topic that are led here: which they are, how far they are loaded, whether they may be asked.

Laws: a key is served only from a partition that is led here, loaded to its end, replicated up to its epoch's start and followed by all who may
lead next; a lost or unknown write means that the partition is loaded anew. The shared half of `groups` and `transactions`. Must not come in: what the records say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from brokerd.cluster.model import Now
from brokerd.wire.records import BatchHeader, CorruptBatch, batches

log = logging.getLogger(__name__)

LOAD_BYTES_PER_TICK = 4 * 1024 * 1024
"""Bytes of one partition replayed per tick, so that loading a long log does not stop the loop."""
REFUSED_BEFORE_APPEND = frozenset({3, 6, 19, 10, 56})
"""Kafka's codes of writes that surely did not happen: unknown partition, not leader, too few replicas, too large, storage."""
NONE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16


SILENT_MS = 1_500
"""Cut off from ZooKeeper a coordinator answers while every follower in the ISR asks at least this often: three times their longest wait. So long one that was
deposed unheard may answer beside its successor, at most."""


class CoordinatorLog(Protocol):
    """Partitions of an internal topic, as the broker offers them."""

    def partition_count(self) -> int | None: ...

    def leader_epoch(self, partition: int) -> int | None: ...

    def sure(self, partition: int) -> bool:
        """Whether what it would answer can be trusted to be the newest."""

    def followed(self, partition: int) -> bool:
        """Whether nobody can lead next with the end of an earlier epoch, of which this log knows nothing."""

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None: ...

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes: ...

    def start_offset(self, partition: int) -> int: ...

    def end_offset(self, partition: int) -> int: ...

    def high_watermark(self, partition: int) -> int: ...

    def epoch_start(self, partition: int) -> int: ...


@dataclass(slots=True)
class Led:
    """One partition led here. `loaded` once `next_offset` has reached the end and HW the epoch's start."""

    epoch: int
    next_offset: int
    loaded: bool = False


L = TypeVar("L", bound=Led)


def partition_of(key: str, count: int) -> int:
    """Kafka's place of a group or a transactional id: Java's String.hashCode, made positive, modulo the partition count."""
    h = 0
    data = key.encode("utf-16-be")
    for i in range(0, len(data), 2):
        h = (31 * h + int.from_bytes(data[i : i + 2], "big")) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % count


class Leading(Generic[L]):
    """`make(epoch, first offset)` gives a partition with nothing in it yet."""

    def __init__(
        self, topic: str, coordinator_log: CoordinatorLog, clock: Callable[[], Now], make: Callable[[int, int], L]
    ) -> None:
        self._topic, self._log, self._clock, self._make = topic, coordinator_log, clock, make
        self.led: dict[int, L] = {}

    # -- for the two coordinators to say -------------------------------------------------------------------------------
    def _replay(self, led: L, data: bytes, at: int, header: BatchHeader) -> None:
        """A batch of the log; records below `led.next_offset` were seen before."""
        raise NotImplementedError

    def _loaded(self, partition: int, led: L, now: Now) -> None:
        """It may be served from now on."""
        raise NotImplementedError

    def _unloaded(self, partition: int, led: L) -> None:
        """Whoever waits is told."""
        raise NotImplementedError

    # -- leadership ------------------------------------------------------------------------------------------------------
    def became_leader(self, partition: int, epoch: int, now: Now) -> None:
        self.resigned(partition, now)
        self.led[partition] = self._make(epoch, self._log.start_offset(partition))

    def resigned(self, partition: int, now: Now) -> None:
        led = self.led.pop(partition, None)
        if led is not None:
            self._unloaded(partition, led)

    def _load(self, partition: int, led: L, now: Now) -> None:
        if self._log.leader_epoch(partition) != led.epoch:
            return
        end = self._log.end_offset(partition)
        if led.next_offset < end:
            data = self._log.read(partition, led.next_offset, LOAD_BYTES_PER_TICK)
            try:
                for at, header in batches(data):
                    if header.next_offset > led.next_offset:
                        self._replay(led, data, at, header)
                        led.next_offset = header.next_offset
            except CorruptBatch as e:
                log.error("%s-%d cannot be read at %d: %s", self._topic, partition, led.next_offset, e)
                return
            if not data:
                led.next_offset = end
        # All that was read is replicated: what only this log knows may be decided otherwise by a successor.
        replicated = max(led.next_offset, self._log.epoch_start(partition))
        if (
            led.next_offset >= end
            and self._log.high_watermark(partition) >= replicated
            and self._log.followed(partition)
        ):
            led.loaded = True
            self._loaded(partition, led, now)

    def _unknown(self, partition: int, led: L, error: int) -> None:
        """A write of unknown outcome: it may stand in the log or not, only the log can tell."""
        if self._log.leader_epoch(partition) == led.epoch:
            log.warning("a write to %s-%d is of unknown outcome (%d): loading anew", self._topic, partition, error)
            self.became_leader(partition, led.epoch, self._clock())

    # -- finding -----------------------------------------------------------------------------------------------------------
    def find(self, key: str) -> tuple[int, L | None, int]:
        """(partition, what is led, error): error 0 when `key` may be served here."""
        count = self._log.partition_count()
        if count is None:
            return -1, None, COORDINATOR_NOT_AVAILABLE
        partition = partition_of(key, count)
        led = self.led.get(partition)
        if led is None or self._log.leader_epoch(partition) != led.epoch or not self._log.sure(partition):
            return partition, None, NOT_COORDINATOR
        return partition, led, NONE if led.loaded else COORDINATOR_LOAD_IN_PROGRESS
