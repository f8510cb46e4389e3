"""Members that wait because the limit of records in flight is reached: complete brokers serve them as soon as records end, long before their wait ends.

Records end by acceptance, as dead letters, and by deletion. Also: the scene fails when one of the rules is removed. Does not check waits under faults.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.share_partitions import Shared, SharePartitions
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC
from brokerd.sharing.delivery import AcknowledgeType
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.simulation.checkers import History, Violation
from tests.simulation.clients import Client, Producer
from tests.simulation.cluster import Cluster
from tests.simulation.run import leader_replica
from tests.simulation.shares import DEAD_TOPIC, GROUP, SETTINGS, TOPIC, WITH_LETTERS, configure, dead_letters, records
from tests.simulation.world import MS, S, World

LOCKS_MAX = 100
"""The minimum of the setting."""
WAIT_MS, LATE_S = 2_500, 1
"""Wait of a fetch, below the time-out of a simulated client; time after which a response comes from the end of the wait."""
QUIET_MS = 500
JOINED_S_MAX, PAUSE_MS = 60, 50
"""Limit of the time until the first member has all records that may be in flight; pause between its fetches."""
LONG_LOCKS = {
    **SETTINGS,
    "group.share.partition.max.record.locks": str(LOCKS_MAX),
    "group.share.record.lock.duration.ms": "60000",
}


class Member(Client):
    """Sends only what the scene says, to the leader, or to `broker` if this is set. `held`: offsets that it has acquired."""

    def __init__(self, cluster: Cluster, name: str, topic_id: UUID) -> None:
        super().__init__(cluster, name)
        self.topic_id, self.epoch, self.waits = topic_id, 0, False
        self.held: list[int] = []
        self.errors: list[int] = []
        self.joined = False
        self.broker: int | None = None

    def join(self) -> None:
        """Join the share group once, without heartbeats. The group initializes the state of its share partitions then."""

        def on_response(response: Any) -> None:
            assert response is not None and not response.error_code, f"{self.name}: {response}"
            self.joined = True

        body = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.name, member_epoch=0, subscribed_topic_names=[TOPIC]
        )
        coordinator = leader_replica(self.cluster, GROUP_OFFSETS_TOPIC, 0).core.leader
        self.enter(lambda: self.send_request(coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, 1, body, on_response))

    def fetch(self) -> None:
        self.waits = True
        parts = [ShareFetchRequest.FetchPartition(partition_index=0)] if self.epoch == 0 else []
        body = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[ShareFetchRequest.FetchTopic(topic_id=self.topic_id, partitions=parts)] if parts else [],
        )
        self._send(ApiKey.SHARE_FETCH, body, self._on_fetched)

    def acknowledge(self, count: int, kind: AcknowledgeType) -> None:
        """End the first `count` records that it holds."""
        q = ShareAcknowledgeRequest
        first, last = self.held[0], self.held[count - 1]
        self.held = self.held[count:]
        batch = q.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[int(kind)])
        part = q.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        body = q(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=[q.AcknowledgeTopic(topic_id=self.topic_id, partitions=[part])],
        )
        self._send(ApiKey.SHARE_ACKNOWLEDGE, body, self._on_acknowledged)

    def _send(self, key: ApiKey, body: Any, done: Any) -> None:
        def on_response(response: Any) -> None:
            assert response is not None and not response.error_code, f"{self.name}: {response}"
            self.epoch += 1
            done(response)

        topic = self.cluster.image.topic_named(TOPIC)
        assert topic is not None
        broker = topic.partitions[0].leader if self.broker is None else self.broker
        self.enter(lambda: self.send_request(broker, key, 2, body, on_response))

    def _on_fetched(self, response: Any) -> None:
        self.waits = False
        for part in (p for t in response.responses for p in t.partitions):
            self.errors.append(part.error_code)
            for a in part.acquired_records:
                self.held += range(a.first_offset, a.last_offset + 1)

    def _on_acknowledged(self, response: Any) -> None:
        self.errors += [p.error_code for t in response.responses for p in t.partitions]


def delete_below(cluster: Cluster, offset: int) -> None:
    """Delete records of partition 0 as retention does."""
    replica = leader_replica(cluster, TOPIC, 0)
    cluster.brokers[replica.core.leader].enter(lambda: replica.log.raise_start(offset))


def filled_cluster() -> tuple[Cluster, UUID]:
    """A cluster whose topic has more than two times the limit of records, and a share group with dead letters."""
    world, history = World(1), History()
    cluster = Cluster(world, settings=LONG_LOCKS)
    cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact")
    cluster.want_topic(SHARE_STATE_TOPIC, 2, 3, min_insync_replicas="2", retention_ms="-1")
    cluster.want_topic(DEAD_TOPIC, 1, 3, min_insync_replicas="2", errors_deadletterqueue_group_enable="true")
    topic_id = cluster.want_topic(TOPIC, 2, 3, min_insync_replicas="2")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    configure(cluster, WITH_LETTERS)
    producer = Producer(cluster, history, "p0", TOPIC, 0, pause_ms=5)
    cluster.run_until(lambda: leader_replica(cluster, TOPIC, 0).core.high_watermark > 2 * LOCKS_MAX + 50, 30, "records")
    producer.stopped = True
    cluster.run_until(lambda: producer.idle, 20, "the last response to the producer")
    return cluster, topic_id


def serve_members_that_wait() -> None:
    """Raises Violation if a waiting member is not served."""
    cluster, topic_id = filled_cluster()
    world = cluster.world
    first, second, third, fourth = (Member(cluster, name, topic_id) for name in ("first", "second", "third", "fourth"))

    def on_response(member: Member) -> None:
        member.fetch()
        cluster.run_until(lambda: not member.waits, 2 * WAIT_MS / 1_000, f"the response to {member.name}")

    def fetch_and_check_wait(member: Member) -> None:
        member.fetch()
        world.run(world.now_us + QUIET_MS * MS)
        assert member.waits, f"{member.name} does not wait, although the limit is reached: {member.held}"

    first.join()
    cluster.run_until(lambda: first.joined, 20, "the membership")
    deadline_us = world.now_us + JOINED_S_MAX * S
    while len(first.held) < LOCKS_MAX:
        assert world.now_us < deadline_us, f"acquired: {first.held}, errors: {first.errors}"
        on_response(first)
        world.run(world.now_us + PAUSE_MS * MS)
    first.errors.clear()  # until the state of the share partition was initialized
    assert first.held == [*range(LOCKS_MAX)]
    fetch_and_check_wait(second)
    first.acknowledge(30, AcknowledgeType.ACCEPT)
    cluster.run_until(lambda: bool(second.held), LATE_S, "a member that waits for accepted records")
    assert second.held == [*range(LOCKS_MAX, LOCKS_MAX + 30)]
    fetch_and_check_wait(third)
    first.acknowledge(20, AcknowledgeType.REJECT)
    cluster.run_until(lambda: bool(third.held), LATE_S, "a member that waits for dead letters")
    assert third.held == [*range(LOCKS_MAX + 30, LOCKS_MAX + 50)]
    world.run(world.now_us + S)
    assert dead_letters(cluster).every.total() == 20
    fetch_and_check_wait(fourth)
    delete_below(cluster, LOCKS_MAX - 20)
    cluster.run_until(lambda: bool(fourth.held), LATE_S, "a member that waits for deleted records")
    assert fourth.held == [*range(LOCKS_MAX + 50, LOCKS_MAX + 80)]
    first.acknowledge(50, AcknowledgeType.REJECT)  # 30 of them are deleted, and have no dead letter
    world.run(world.now_us + 2 * S)
    assert len(records(cluster, DEAD_TOPIC, 0)) == 20 + 20
    assert set(first.errors + second.errors + third.errors + fourth.errors) == {ErrorCode.NONE}


def test_members_that_wait_for_the_limit_are_served_when_records_end() -> None:
    serve_members_that_wait()


def no_wake_up_after_the_end_of_records(patch: pytest.MonkeyPatch) -> None:
    def only_released(self: SharePartitions, shared: Shared) -> None:
        self.flush(shared)
        if shared.core is not None and shared.core.available:
            self._replica_manager.purgatory.check(shared.key)

    patch.setattr(SharePartitions, "_records_ended", only_released)


def no_wake_up_after_a_dead_letter(patch: pytest.MonkeyPatch) -> None:
    def only_flush(self: SharePartitions, shared: Shared) -> None:
        if shared.core is not None and shared.core.archiving:
            self._dead_letters.advance(shared, self._is_current, self.flush)

    patch.setattr(SharePartitions, "_advance_dead_letters", only_flush)


def held_records_stay_in_flight_after_a_deletion(patch: pytest.MonkeyPatch) -> None:
    raise_start = SharePartition.raise_start

    def only_available(self: SharePartition, log_start: int) -> bool:
        return bool(self.available) and raise_start(self, log_start)

    patch.setattr(SharePartition, "raise_start", only_available)


@pytest.mark.parametrize(
    ("mutation", "member"),
    [
        (no_wake_up_after_the_end_of_records, "waits for accepted records"),
        (no_wake_up_after_a_dead_letter, "waits for dead letters"),
        (held_records_stay_in_flight_after_a_deletion, "waits for deleted records"),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation, match=member):
        serve_members_that_wait()
