"""The replicas of a broker report to its components through their hooks."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.storage.disk import DiskFailed
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness


def change_state(harness: Harness, state: PartitionState) -> None:
    record = PartitionChanged(TP.topic_id, 0, replace(state, partition_epoch=harness.partition_epoch + 1))
    harness.image.apply(record)
    harness.replica_manager.apply(harness.image, [record], harness.now)


class SingleLeader(Harness):
    """Leads t-0 alone."""

    @property
    def partition_epoch(self) -> int:
        state = self.image.partition(TP)
        assert state is not None
        return state.partition_epoch


LEADER = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
FOLLOWER = replace(
    LEADER, replicas=(1, 2), isr=(ReplicaIncarnation(2, 22),), leader=2, leader_broker_epoch=22, leader_epoch=1
)


def test_coordinators_and_fetchers_learn_of_a_changed_leader() -> None:
    harness = SingleLeader(SimDisk())
    assert harness.hooks.leadership == [("t", 0, 0)] and not harness.hooks.followed
    change_state(harness, FOLLOWER)
    assert harness.hooks.leadership[1:] == [("t", 0, None)]
    assert harness.hooks.followed == {TP: (2, 1)}
    change_state(harness, replace(FOLLOWER, replicas=(2,)))
    assert not harness.hooks.followed and TP not in harness.replica_manager.hosted


def test_a_failed_replica_is_not_fetched_and_its_error_is_reported() -> None:
    harness = SingleLeader(SimDisk())
    change_state(harness, FOLLOWER)
    harness.replica_manager.fail(harness.replica, DiskFailed("Input/output error"))
    assert not harness.hooks.followed and harness.hooks.io_errors == 1
    assert harness.replica_manager.offline() == {TP}


def test_a_failed_log_directory_takes_its_replicas_offline() -> None:
    harness = SingleLeader(SimDisk())
    dirs = harness.replica_manager.log_dirs
    dirs.fail(dirs.directory_of(harness.replica.log.folder), "Input/output error")
    assert (harness.hooks.io_errors, harness.hooks.failed_directories) == (1, 1)
    assert harness.replica_manager.offline() == {TP}


def test_produce_is_suspended_until_the_metadata_log_is_read() -> None:
    harness = SingleLeader(SimDisk())
    harness.replica_manager.set_produce_suspended(suspended=True)
    assert harness.replica_manager.produce_suspended
    harness.replica_manager.set_produce_suspended(suspended=False)
    assert not harness.replica_manager.produce_suspended
