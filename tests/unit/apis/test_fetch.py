"""A leader under a replication throttle: replicas that are catching up wait, in-sync replicas and consumers do not."""

from __future__ import annotations

from typing import Any

from brokerd.cluster.metadata import BrokerConfigChanged, PartitionChanged, TopicConfigChanged
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from tests.unit.apis.test_fetch_sessions import FOLLOWER, Client, M

LEADERS, RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
BATCH = 10_000


class PartitionInCopy(Client):
    """Partition 0 is being copied to broker 2; for partition 1 broker 2 is in sync. Each partition contains ten batches."""

    def __init__(self, rate: int = 20_000) -> None:
        super().__init__(2, followed=True)
        copied = PartitionState((1, 2), (ReplicaIncarnation(1, 11),), 1, 11, 1, 1, adding=(2,))
        self.apply_records(PartitionChanged(M, 0, copied))
        self.set_leader_throttle("0:1", rate)
        self.advance(5_000)
        for i in (0, 1):
            self.append(i, 10, BATCH)

    def set_leader_throttle(self, replicas: str, rate: int | None) -> None:
        generation = self.harness.image.topics[M].generation + 1
        self.apply_records(TopicConfigChanged(M, generation, {LEADERS: replicas} if replicas else {}))
        self.apply_records(BrokerConfigChanged(1, generation, {} if rate is None else {RATE: str(rate)}))

    def copies(self, offset: int = 0, **more: Any) -> int:
        """Bytes that a follower receives per response while it is catching up."""
        self.session_id = self.epoch = 0
        return size(self.fetch({0: offset}, follower=FOLLOWER, **more), 0)


def size(response: Any, partition: int) -> int:
    parts = {p.partition_index: p for t in response.responses for p in t.partitions}
    records = parts[partition].records if partition in parts else b""
    return sum(len(r) for r in records) if isinstance(records, list) else len(records or b"")


def test_a_throttled_replica_gets_whole_batches_at_its_rate() -> None:
    client = PartitionInCopy()
    first = client.copies()
    assert BATCH <= first <= 2 * BATCH
    rest = client.copies(1)  # the rest of the burst permits one more batch and leaves a debt
    assert rest > 0
    assert client.copies(2) == 0
    client.advance(500)
    client.advance(500)
    assert client.copies(2) > 0


def test_the_throttle_rate_is_exact_over_a_minute() -> None:
    client = PartitionInCopy(rate=15_000)
    total = offset = 0
    for _ in range(120):
        got = client.copies(offset % 10)
        total += got
        offset += 1 if got else 0
        client.advance(500)
    assert 0.9 * 15_000 * 60 <= total <= 15_000 * 61 + 2 * BATCH


def test_in_sync_replicas_and_consumers_are_never_throttled() -> None:
    client = PartitionInCopy(rate=1_000)
    client.set_leader_throttle("*", 1_000)
    while client.copies():
        pass
    client.session_id = client.epoch = 0
    assert size(client.fetch({1: 0}, follower=FOLLOWER), 1) > 9 * BATCH
    client.session_id = client.epoch = 0
    assert size(client.fetch({0: 0}), 0) > 9 * BATCH


def test_a_replica_with_an_exhausted_quota_waits_in_purgatory() -> None:
    client = PartitionInCopy(rate=1_000)
    while client.copies():
        pass
    client.session_id = client.epoch = 0
    responses = client.send({0: 5}, follower=FOLLOWER, wait_ms=500)
    assert responses == []
    client.advance(500)
    assert len(responses) == 1


def test_a_raised_or_removed_throttle_applies_immediately() -> None:
    client = PartitionInCopy(rate=1_000)
    while client.copies():
        pass
    client.set_leader_throttle("0:1", 10_000_000)
    client.advance(100)
    assert client.copies() > 9 * BATCH
    while client.copies():
        pass
    client.set_leader_throttle("", None)
    assert client.copies() > 9 * BATCH
