"""A rejected ISR proposal stays rejected under every later controller, because the partition epoch has advanced."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, IsrRejected, MetadataRecord, PartitionChanged, entry_hash
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import IsrProposal, Registration
from brokerd.replication.partition import Partition
from brokerd.replication.partition_events import FollowerFetched, PartitionStateChanged, ProposeIsr, RaiseHighWatermark
from brokerd.replication.partition_events import IsrProposalRejected as Rejected
from brokerd.replication.partition_events import LeaderAppended as Grown
from controlplane.controller.core import Core
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    ControllerTick,
    DesiredRead,
    DesiredTopic,
    Effect,
    Elected,
    IsrProposed,
    LogEntryAppended,
)

TOPIC = UUID(int=7)
TP = TopicPartition(TOPIC, 0)
NOW = Now(1_000, 2_000)


def registration(broker_id: int, broker_epoch: int) -> Registration:
    return Registration(broker_id, f"uuid-{broker_id}", "10.0.0.1", 9092, None, None, True, None, broker_epoch)


class CoreHarness:
    """The active controller's core over one image; its records are applied at once."""

    def __init__(self) -> None:
        self.image = Image()
        self.core = Core(self.image, "cluster")
        self.seen = {1: registration(1, 101), 2: registration(2, 102)}
        self.become_active(1)
        self.deliver(
            DesiredRead((DesiredTopic(TOPIC, "t", 1, False, 1, 2, {"min.insync.replicas": "1"}, {0: (1, 2)}),))
        )
        del self.seen[2]
        self.deliver(BrokersSeen(dict(self.seen)))
        assert self.state.isr == (ReplicaIncarnation(1, 101),)

    def become_active(self, epoch: int) -> None:
        self.core = Core(self.image, "cluster")
        self.deliver(Elected(epoch))
        self.deliver(DesiredRead(complete=True))
        self.deliver(BrokersSeen(dict(self.seen)))

    @property
    def state(self) -> PartitionState:
        state = self.image.partition(TP)
        assert state is not None
        return state

    def deliver(self, event: object) -> list[MetadataRecord]:
        reported: list[MetadataRecord] = []
        effects: list[Effect] = self.core.handle(event, NOW)  # type: ignore[arg-type]
        while effects:
            appended = [e for e in effects if isinstance(e, AppendMetadata)]
            effects = []
            for append in appended:
                entry = Entry(
                    self.image.seq + 1, self.core.controller_epoch, "token", self.image.chain_hash, append.records
                )
                self.image.apply_entry(entry, entry_hash(entry.encode()))
                reported += append.records
                effects += self.core.handle(LogEntryAppended(append.records), NOW)
        return reported

    def proposal(self) -> IsrProposal:
        """Broker 1 proposes broker 2 for the ISR, with an incarnation that the controller has not seen yet."""
        state = self.state
        return IsrProposal(
            TOPIC,
            0,
            state.leader_epoch,
            state.partition_epoch,
            (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 103)),
        )


def test_the_next_controller_does_not_accept_a_rejected_isr_proposal() -> None:
    core_harness = CoreHarness()
    old = core_harness.proposal()
    assert any(isinstance(r, IsrRejected) for r in core_harness.deliver(IsrProposed(1, 101, (old,))))
    core_harness.seen[2] = registration(2, 103)
    core_harness.become_active(2)
    # The leader has seen the rejection and raised its high watermark without broker 2. Its znode is unchanged.
    core_harness.deliver(IsrProposed(1, 101, (old,)))
    assert core_harness.state.isr == (ReplicaIncarnation(1, 101),)
    core_harness.deliver(IsrProposed(1, 101, (core_harness.proposal(),)))
    assert core_harness.state.isr == (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 103))


def test_a_repeated_isr_proposal_is_answered() -> None:
    core_harness = CoreHarness()
    core_harness.deliver(IsrProposed(1, 101, (core_harness.proposal(),)))
    assert not core_harness.deliver(ControllerTick())
    # Withdrawn and proposed again between two reads: the controller never saw the node without it.
    core_harness.seen[2] = registration(2, 103)
    core_harness.deliver(BrokersSeen(dict(core_harness.seen)))
    core_harness.deliver(IsrProposed(1, 101, (core_harness.proposal(),)))
    assert core_harness.state.isr == (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 103))


def test_a_leader_gets_the_rejection_before_the_next_partition_epoch() -> None:
    core_harness = CoreHarness()
    reported = core_harness.deliver(IsrProposed(1, 101, (core_harness.proposal(),)))
    kinds = [type(r) for r in reported]
    assert kinds == [IsrRejected, PartitionChanged]
    rejected, changed = reported
    assert isinstance(rejected, IsrRejected)
    assert isinstance(changed, PartitionChanged)
    assert changed.state.partition_epoch == rejected.partition_epoch + 1
    assert changed.state.isr == (ReplicaIncarnation(1, 101),)


def test_a_leader_counts_a_rejected_member_until_the_next_partition_epoch_and_proposes_it_later() -> None:
    alone = PartitionState((1, 2), (ReplicaIncarnation(1, 101),), 1, 101, 0, 4)
    machine = Partition(1, TP, 30_000)
    machine.handle(PartitionStateChanged(alone, True, 1, 10, 0), NOW)
    assert machine.high_watermark == 10
    asked = machine.handle(FollowerFetched(ReplicaIncarnation(2, 103), 10, 0), NOW)
    assert ProposeIsr in [type(e) for e in asked]
    assert machine.handle(Grown(12), NOW) == []
    assert machine.handle(Rejected(0, 4), NOW) == []
    assert machine.high_watermark == 10, "a controller that has not seen the rejection may still accept the new member"
    moved = PartitionState((1, 2), (ReplicaIncarnation(1, 101),), 1, 101, 0, 5)
    assert machine.handle(PartitionStateChanged(moved, True, 1, 12, 0), NOW) == [RaiseHighWatermark(12)]
    later = Now(NOW.mono_ms + machine.proposal_retry_ms, NOW.wall_ms)
    assert [type(e) for e in machine.handle(FollowerFetched(ReplicaIncarnation(2, 103), 12, 0), later)] == [ProposeIsr]
