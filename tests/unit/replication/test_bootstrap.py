"""Start offsets of observers' copies, on a leader and on an observer: the proposed offset, the state after a restart, the discarded copies."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.znodes import BootstrapProposal
from brokerd.replication.outbox import OutboxEntry
from brokerd.replication.partition_events import FollowerFetched
from brokerd.replication.purgatory import Purgatory
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage import observer_bootstrap, recovery
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, A, B, Harness
from tests.unit.storage.test_log import append, open_log

LEADS = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11, observers=(2,))


class Leader(Harness):
    """Leads t-0 with a follower whose replication commits records. Broker 3 observes."""

    def __init__(self) -> None:
        super().__init__(SimDisk())
        self.epoch = 0
        self.apply_state(
            replace(LEADS, replicas=(1, 2), isr=(ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12)), observers=(3,))
        )

    def apply_state(self, state: PartitionState) -> None:
        """Apply a partition state of the metadata log."""
        self.epoch += 1
        record = PartitionChanged(TP.topic_id, 0, replace(state, partition_epoch=self.epoch))
        self.image.apply(record)
        self.replica_manager.apply(self.image, [record], self.now)

    @property
    def state(self) -> PartitionState:
        state = self.image.partition(TP)
        assert state is not None
        return state

    def request_snapshot(self) -> bytes | None:
        return self.replica_manager.bootstrap.snapshot_for_observer(self.replica, self.now)

    def replicate_to_log_end(self) -> None:
        self.replica_manager.run(
            self.replica, FollowerFetched(ReplicaIncarnation(2, 12), self.replica.log.end_offset, 0), self.now
        )


def test_a_log_start_is_proposed_when_committed_and_used_when_the_metadata_log_has_it() -> None:
    harness = Leader()
    harness.append(5)
    assert harness.request_snapshot() is None and harness.replica_manager.bootstrap.proposals() == [], (
        "not replicated yet"
    )
    harness.append(2)
    harness.replicate_to_log_end()
    assert harness.request_snapshot() is None
    assert OutboxEntry.BOOTSTRAP_OFFSETS in harness.outbox.changed
    assert harness.replica_manager.bootstrap.proposals() == [
        BootstrapProposal(TP.topic_id, 0, harness.state.leader_epoch, 5)
    ]
    harness.apply_state(replace(harness.state, tail_start=5))
    assert harness.replica_manager.bootstrap.proposals() == [], "it was taken"
    snapshot = harness.request_snapshot()
    assert snapshot is not None
    observer = open_log()
    assert observer_bootstrap.begin(observer, snapshot, harness.now) == 5
    harness.append(50)
    harness.replica.log.roll(harness.now)
    assert harness.request_snapshot() == snapshot, "who comes later begins there, too"


def test_a_log_start_proposal_of_an_earlier_leader_epoch_is_ignored() -> None:
    harness = Leader()
    harness.append(5)
    harness.replicate_to_log_end()
    assert harness.request_snapshot() is None and len(harness.replica_manager.bootstrap.proposals()) == 1
    harness.apply_state(replace(harness.state, leader_epoch=harness.state.leader_epoch + 1))
    assert harness.replica_manager.bootstrap.proposals() == []
    assert harness.request_snapshot() is None
    harness.replicate_to_log_end()
    assert harness.request_snapshot() is None
    (again,) = harness.replica_manager.bootstrap.proposals()
    assert again.leader_epoch == harness.state.leader_epoch


def test_a_leader_without_the_state_at_the_log_start_proposes_another() -> None:
    harness = Leader()
    harness.append(5)
    harness.replicate_to_log_end()
    harness.apply_state(
        replace(harness.state, tail_start=3)
    )  # proposed by another leader, which had rolled a segment there
    assert harness.request_snapshot() is None
    assert [s.offset for s in harness.replica_manager.bootstrap.proposals()] == [5]


def test_the_log_start_floor_deletes_only_committed_records() -> None:
    harness = Leader()
    harness.append(9)
    harness.apply_state(replace(harness.state, log_start_floor=7))
    assert harness.replica.log.start_offset == 0, "nothing is committed yet"
    harness.replicate_to_log_end()
    assert harness.replica.core.high_watermark == 9 and harness.replica.log.start_offset == 7


def test_a_tail_without_an_assignment_is_renamed_at_the_next_start() -> None:
    theirs = open_log()
    for _ in range(4):
        append(theirs)
    offset = observer_bootstrap.roll_for_bootstrap(theirs, Leader().now)
    assert offset == 4
    snapshot = observer_bootstrap.bootstrap_snapshot_at(theirs, offset)
    assert snapshot is not None
    harness = Harness(SimDisk())
    observer_bootstrap.begin(harness.replica.log, snapshot, harness.now)
    folder = harness.replica.log.folder
    assert harness.disk.exists(folder / recovery.TAIL_START)
    elsewhere = replace(
        LEADS, replicas=(5,), isr=(ReplicaIncarnation(5, 55),), leader=5, leader_broker_epoch=55, observers=()
    )
    kept = Harness(harness.disk.killed())
    assert kept.replica.log.start_offset == 4, "as a replica it is opened"
    found = start_broker(harness.disk.killed(), elsewhere)
    assert [f.name for f in found.folders() if f.name.endswith("-stray")] == [f"{folder.name}-stray"]


def start_broker(disk: SimDisk, state: PartitionState) -> Harness:
    """A broker whose metadata log contains `state` at its start."""
    harness = Harness(SimDisk())
    harness.image.apply(PartitionChanged(TP.topic_id, 0, replace(state, partition_epoch=9)))
    harness.disk = disk
    harness.replica_manager = ReplicaManager(
        1,
        LogDirs((A, B), disk),
        disk,
        Purgatory(),
        harness.outbox,
        harness,
        harness.hooks,
        lag_ms_max=10_000,
        topic_config=lambda t: open_log().config,
    )
    harness.replica_manager.on_registered(11, harness.now)
    harness.replica_manager.load(harness.image, harness.now)
    return harness
