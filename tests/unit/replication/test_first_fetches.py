"""A follower's fetch ends early, or waits briefly, while the leader expects the follower's first fetch of a partition."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.replication import partition_events as core
from brokerd.replication.first_fetches import EXPECTED_MS, FirstFetches
from brokerd.replication.purgatory import DelayedOperation
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness

FOLLOWER, OBSERVER = 2, 3
LED = PartitionState((1, FOLLOWER), (ReplicaIncarnation(1, 11), ReplicaIncarnation(FOLLOWER, 12)), 1, 11, 1, 1)


class Leader(Harness):
    """Leads t-0 with one follower in a new leader epoch."""

    def __init__(self) -> None:
        super().__init__(SimDisk())
        self.epoch = 10
        self.change(LED)

    def change(self, state: PartitionState) -> None:
        self.epoch += 1
        record = PartitionChanged(TP.topic_id, 0, replace(state, leader_epoch=self.epoch, partition_epoch=self.epoch))
        self.image.apply(record)
        self.replica_manager.apply(self.image, [record], self.now)

    @property
    def first_fetches(self) -> FirstFetches:
        return self.replica_manager.first_fetches

    def expects(self, broker_id: int, after_ms: int = 0) -> bool:
        return self.first_fetches.expects(broker_id, self.now.mono_ms + after_ms)


def test_a_new_leader_expects_the_first_fetch_of_each_follower() -> None:
    leader = Leader()
    assert leader.expects(FOLLOWER) and not leader.expects(1) and not leader.expects(OBSERVER)
    leader.first_fetches.on_fetched(FOLLOWER, TP)
    assert not leader.expects(FOLLOWER)


def test_an_added_replica_is_expected_too() -> None:
    leader = Leader()
    leader.replica_manager.run(leader.replica, core.FollowerFetched(ReplicaIncarnation(FOLLOWER, 12), 0, 0), leader.now)
    leader.first_fetches.on_fetched(FOLLOWER, TP)
    state = leader.image.partition(TP)
    assert state is not None
    record = PartitionChanged(TP.topic_id, 0, replace(state, observers=(OBSERVER,), partition_epoch=leader.epoch + 1))
    leader.image.apply(record)
    leader.replica_manager.apply(leader.image, [record], leader.now)
    assert leader.expects(OBSERVER)
    assert not leader.expects(FOLLOWER), "its position in this leader epoch is known"


def test_a_follower_that_has_caught_up_fetches_through_its_other_connection() -> None:
    leader = Leader()
    leader.append(5)
    leader.first_fetches.on_fetched(FOLLOWER, TP)
    for log_end, expected in ((0, False), (5, True)):
        fetch = core.FollowerFetched(ReplicaIncarnation(FOLLOWER, 12), log_end, 0)
        leader.replica_manager.run(leader.replica, fetch, leader.now)
        leader.replica.core.high_watermark = 5
        leader.first_fetches.on_forgotten(FOLLOWER, leader.replica, leader.now.mono_ms)
        assert leader.expects(FOLLOWER) is expected


def test_a_follower_that_never_fetches_is_expected_for_a_second() -> None:
    leader = Leader()
    assert leader.expects(FOLLOWER, EXPECTED_MS - 1)
    assert not leader.expects(FOLLOWER, EXPECTED_MS)


def test_the_waiting_fetch_of_a_follower_ends_at_an_election() -> None:
    leader = Leader()
    leader.first_fetches.on_fetched(FOLLOWER, TP)
    completed: list[bool] = []
    waiter = DelayedOperation(
        (FirstFetches.key(FOLLOWER),), lambda: leader.expects(FOLLOWER), completed.append, client=False
    )
    leader.replica_manager.purgatory.add(waiter, leader.now.mono_ms + 500)
    assert not completed
    leader.change(LED)
    assert completed == [False]
