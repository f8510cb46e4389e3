"""A leader under a replication throttle: copies wait, what is in sync and what consumers read does not."""

from __future__ import annotations

from typing import Any

from brokerd.cluster.metadata import BrokerConfigChanged, PartitionChanged, TopicConfigChanged
from brokerd.cluster.model import PartitionState, Seat
from tests.unit.apis.test_fetch_sessions import FOLLOWER, Client, M

LEADERS, RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
BATCH = 10_000


class Copied(Client):
    """Partition 0 is being copied to broker 2, partition 1 has it in sync; each holds ten batches."""

    def __init__(self, rate: int = 20_000) -> None:
        super().__init__(2, followed=True)
        copied = PartitionState((1, 2), (Seat(1, 11),), 1, 11, 1, 1, adding=(2,))
        self.applied(PartitionChanged(M, 0, copied))
        self.throttled("0:1", rate)
        self.passes(5_000)
        for i in (0, 1):
            self.append(i, 10, BATCH)

    def throttled(self, replicas: str, rate: int | None) -> None:
        generation = self.house.image.topics[M].generation + 1
        self.applied(TopicConfigChanged(M, generation, {LEADERS: replicas} if replicas else {}))
        self.applied(BrokerConfigChanged(1, generation, {} if rate is None else {RATE: str(rate)}))

    def copies(self, offset: int = 0, **more: Any) -> int:
        """Bytes that a copying follower gets at once."""
        self.session_id = self.epoch = 0
        return size(self.asks({0: offset}, follower=FOLLOWER, **more), 0)


def size(answer: Any, partition: int) -> int:
    parts = {p.partition_index: p for t in answer.responses for p in t.partitions}
    records = parts[partition].records if partition in parts else b""
    return sum(len(r) for r in records) if isinstance(records, list) else len(records or b"")


def test_a_copy_gets_its_rate_and_whole_batches() -> None:
    client = Copied()
    first = client.copies()
    assert BATCH <= first <= 2 * BATCH
    rest = client.copies(1)  # what is left of the burst lets one more batch go, and makes a debt
    assert rest > 0
    assert client.copies(2) == 0
    client.passes(500)
    client.passes(500)
    assert client.copies(2) > 0


def test_over_a_minute_the_rate_is_kept() -> None:
    client = Copied(rate=15_000)
    total = offset = 0
    for _ in range(120):
        got = client.copies(offset % 10)
        total += got
        offset += 1 if got else 0
        client.passes(500)
    assert 0.9 * 15_000 * 60 <= total <= 15_000 * 61 + 2 * BATCH


def test_a_replica_in_sync_and_a_consumer_are_never_held_back() -> None:
    client = Copied(rate=1_000)
    client.throttled("*", 1_000)
    while client.copies():
        pass
    client.session_id = client.epoch = 0
    assert size(client.asks({1: 0}, follower=FOLLOWER), 1) > 9 * BATCH
    client.session_id = client.epoch = 0
    assert size(client.asks({0: 0}), 0) > 9 * BATCH


def test_an_exhausted_copy_waits_instead_of_asking_in_circles() -> None:
    client = Copied(rate=1_000)
    while client.copies():
        pass
    client.session_id = client.epoch = 0
    answers = client.send({0: 5}, follower=FOLLOWER, wait_ms=500)
    assert answers == []
    client.passes(500)
    assert len(answers) == 1


def test_raised_or_taken_off_it_is_felt_at_once() -> None:
    client = Copied(rate=1_000)
    while client.copies():
        pass
    client.throttled("0:1", 10_000_000)
    client.passes(100)
    assert client.copies() > 9 * BATCH
    while client.copies():
        pass
    client.throttled("", None)
    assert client.copies() > 9 * BATCH
