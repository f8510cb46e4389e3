"""Replication throttles (KIP-73) and pauses: limits of replication traffic for which no acknowledgement waits.

Invariants: rates are in the dynamic broker configs and replicas in the topic configs, both from the metadata log. A replica in the ISR, or
proposed for it, is never throttled. Without a rate nothing is throttled. Pure, clocks are parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from brokerd.cluster.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONG_MAX,
    throttled_replicas,
)
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerConfigChanged, MetadataRecord, TopicConfigChanged, TopicCreated, TopicDeleted
from brokerd.cluster.model import TopicPartition, TopicState
from brokerd.net.thread_times import ThreadTimes
from brokerd.replication.catch_up_pacing import CatchUpPacing

BURST_MS = 1_000
"""Length of the burst after an idle time. A fetch waits 0.5 s at most, and this wait must not reduce the rate."""
CATCH_UP_PERCENT = "weir.catch.up.min.percent"
LEAST_BYTES = 4_096
"""The minimum size of a throttled fetch. A whole batch is sent in any case."""

Replicas = frozenset[tuple[int, int]] | None
"""(partition, broker) pairs; None: all."""


class Bucket:
    """A token bucket in bytes. A batch is never split, so the bucket may become negative. No bytes are available until it is positive again. `rate`
    is in bytes per second."""

    __slots__ = ("_at_ms", "_tokens", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        self.rate, self._tokens, self._at_ms = rate, 0.0, now_ms

    def _fill(self, now_ms: int) -> None:
        most = self.rate * BURST_MS / 1_000
        self._tokens = min(most, self._tokens + self.rate * max(0, now_ms - self._at_ms) / 1_000)
        self._at_ms = max(self._at_ms, now_ms)

    def available(self, now_ms: int) -> int:
        """Bytes that may be read now; 0: none."""
        self._fill(now_ms)
        return max(0, int(self._tokens))

    def spend(self, count: int, now_ms: int) -> None:
        self._fill(now_ms)
        self._tokens -= count

    def ready_ms(self, now_ms: int) -> int:
        """The monotonic time (ms) at which bytes are available again."""
        self._fill(now_ms)
        missing = 1 - self._tokens
        return now_ms if missing <= 0 else now_ms + int(missing * 1_000 / self.rate) + 1

    def set_rate(self, rate: int, now_ms: int) -> None:
        """Change the rate. A negative balance from the old rate is dropped."""
        self._fill(now_ms)
        self.rate, self._tokens = rate, max(0.0, min(self._tokens, rate * BURST_MS / 1_000))


class Throttles:
    """`rate` returns the current broker setting of a name."""

    def __init__(
        self,
        broker_id: int,
        rate: Callable[[str], int],
        thread_times: Callable[[], ThreadTimes | None] = lambda: None,
    ) -> None:
        self.leader_pacing = CatchUpPacing(thread_times, partial(rate, CATCH_UP_PERCENT))
        """For responses of this broker to replicas that catch up."""
        self.follower_pacing = CatchUpPacing(thread_times, partial(rate, CATCH_UP_PERCENT))
        """For fetches of this broker's replicas that catch up."""
        self._broker_id, self._rate = broker_id, rate
        self._leading: Bucket | None = None
        self._following: Bucket | None = None
        self._sources: dict[UUID, Replicas] = {}
        self._targets: dict[UUID, Replicas] = {}

    @property
    def active(self) -> bool:
        return (self._leading is not None and bool(self._sources)) or (
            self._following is not None and bool(self._targets)
        )

    @property
    def paused_ms(self) -> int:
        """Sum of the pauses of this broker's replicas that catch up."""
        return self.follower_pacing.paused_ms

    # -- changes of the metadata log -------------------------------------------------------------------------------------------
    def load(self, image: Image, now_ms: int) -> None:
        self._sources.clear()
        self._targets.clear()
        for topic in image.topics.values():
            self._rate_of(topic)
        self._rates(now_ms)

    def apply(self, image: Image, records: Sequence[MetadataRecord], now_ms: int) -> bool:
        """Apply records of the metadata log. Returns whether a throttle may have changed, so that throttled replicas must be evaluated again."""
        changed = False
        for record in records:
            match record:
                case TopicCreated() | TopicConfigChanged():
                    changed |= record.topic_id in self._targets or FOLLOWER_REPLICAS in record.configs
                    self._rate_of(image.topics.get(record.topic_id))
                case TopicDeleted():
                    self._sources.pop(record.topic_id, None)
                    self._targets.pop(record.topic_id, None)
                case BrokerConfigChanged():
                    changed = True
                    self._rates(now_ms)
                case _:
                    pass
        return changed

    def _rate_of(self, topic: TopicState | None) -> None:
        if topic is None:
            return
        for name, kept in ((LEADER_REPLICAS, self._sources), (FOLLOWER_REPLICAS, self._targets)):
            kept.pop(topic.topic_id, None)
            if named := topic.configs.get(name):
                replicas = throttled_replicas(named)
                if replicas is None or (mine := frozenset(r for r in replicas if r[1] == self._broker_id)):
                    kept[topic.topic_id] = None if replicas is None else mine

    def _rates(self, now_ms: int) -> None:
        self._leading = _bucket(self._leading, self._rate(LEADER_RATE), now_ms)
        self._following = _bucket(self._following, self._rate(FOLLOWER_RATE), now_ms)

    # -- lookup ----------------------------------------------------------------------------------------------------------------
    def leader_bucket(self, tp: TopicPartition) -> Bucket | None:
        """The bucket for this broker's responses to a follower of `tp` that is not in the ISR. None if not throttled."""
        return self._leading if self._leading is not None and self._names(self._sources, tp) else None

    def follower_bucket(self, tp: TopicPartition) -> Bucket | None:
        """The bucket for this broker's fetches of `tp` while this broker is not in the ISR. None if not throttled."""
        return self._following if self._following is not None and self._names(self._targets, tp) else None

    def _names(self, throttled: dict[UUID, Replicas], tp: TopicPartition) -> bool:
        if tp.topic_id not in throttled:
            return False
        replicas = throttled[tp.topic_id]
        return replicas is None or (tp.partition, self._broker_id) in replicas


def _bucket(bucket: Bucket | None, rate: int, now_ms: int) -> Bucket | None:
    if rate >= LONG_MAX:
        return None
    if bucket is None:
        return Bucket(rate, now_ms)
    if bucket.rate != rate:
        bucket.set_rate(rate, now_ms)
    return bucket
