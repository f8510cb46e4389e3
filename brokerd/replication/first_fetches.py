"""Followers that have not fetched a partition since this broker became its leader. Their fetches of other partitions wait for a short time only.

A follower has one fetch in flight per connection. A fetch names the partitions that the follower knew when it sent the fetch. If that fetch waited for
replica.fetch.wait.max.ms (500 ms), the first acknowledgements with acks=all of a new topic, or after an election, would wait as long.
Does not contain: the positions of followers (`partition`), the waiting itself (`purgatory`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from brokerd.cluster.model import TopicPartition
from brokerd.replication.follower import UNKNOWN_OFFSET
from brokerd.replication.purgatory import Purgatory
from brokerd.replication.replica import Replica

WAIT_MS_MAX: Final = 10
"""Longest wait of a follower's fetch while its first fetch of another partition is expected. The follower may read the metadata log some ms later than this
broker, and then it fetches once more without the partition."""
EXPECTED_MS: Final = 1_000
"""Time for which a first fetch is expected. A follower that has failed, or that cannot open the replica, does not send it."""


@dataclass(slots=True)
class ExpectedFetches:
    """Partitions that one follower has not fetched yet, until a monotonic time in ms."""

    until_ms: int
    partitions: set[TopicPartition] = field(default_factory=set)


class FirstFetches:
    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._expected: dict[int, ExpectedFetches] = {}
        """{broker id of the follower: partitions}. Nearly always empty."""

    def on_partition_changed(self, replica: Replica, now_ms: int) -> None:
        """Expect the first fetches of followers whose position is unknown."""
        state = replica.core.state
        if state is None or not replica.leads:
            return
        for broker_id in state.hosts:
            follower = replica.core.followers.get(broker_id)
            if broker_id != replica.core.broker_id and (follower is None or follower.log_end == UNKNOWN_OFFSET):
                self._expect(broker_id, replica.tp, now_ms)

    def on_forgotten(self, broker_id: int, replica: Replica, now_ms: int) -> None:
        """A fetch session of the follower does not contain the partition any longer. If the follower has caught up, it will fetch the partition through its other
        connection (decision 103). A follower that is throttled leaves the session too."""
        follower = replica.core.followers.get(broker_id)
        if replica.leads and follower is not None and follower.log_end >= replica.core.high_watermark:
            self._expect(broker_id, replica.tp, now_ms)

    def _expect(self, broker_id: int, tp: TopicPartition, now_ms: int) -> None:
        """The waiting fetches of the follower end now."""
        expected = self._expected.get(broker_id)
        if expected is None or expected.until_ms <= now_ms:
            expected = self._expected[broker_id] = ExpectedFetches(now_ms)
        expected.until_ms = now_ms + EXPECTED_MS
        expected.partitions.add(tp)
        self._purgatory.check(self.key(broker_id))

    def on_fetched(self, broker_id: int, tp: TopicPartition) -> None:
        """The follower has named the partition in a fetch."""
        expected = self._expected.get(broker_id)
        if expected is not None:
            expected.partitions.discard(tp)
            if not expected.partitions:
                del self._expected[broker_id]

    def expects(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the follower will fetch further partitions soon."""
        if not self._expected:
            return False
        expected = self._expected.get(broker_id)
        if expected is not None and expected.until_ms <= now_ms:
            del self._expected[broker_id]
            return False
        return expected is not None

    @staticmethod
    def key(broker_id: int) -> Hashable:
        """The purgatory key of the follower's waiting fetches."""
        return FirstFetches, broker_id
