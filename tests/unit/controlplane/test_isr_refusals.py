"""A refused ISR proposal is dead for good: the partition epoch has moved, whoever acts as controller next."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, IsrRefused, PartitionChanged, Record, entry_hash
from brokerd.cluster.model import Now, PartitionState, Seat, TopicPartition
from brokerd.cluster.znodes import IsrProposal, Registration
from brokerd.partition import Partition
from brokerd.partition_events import Appended as Grown
from brokerd.partition_events import Changed, FollowerFetched, ProposeIsr, RaiseHighWatermark
from brokerd.partition_events import IsrRefused as Refused
from controlplane.controller.core import Core
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    DesiredRead,
    DesiredTopic,
    Effect,
    Elected,
    IsrProposed,
    Tick,
)

TOPIC = UUID(int=7)
TP = TopicPartition(TOPIC, 0)
NOW = Now(1_000, 2_000)


def registration(broker_id: int, incarnation: int) -> Registration:
    return Registration(broker_id, f"uuid-{broker_id}", "10.0.0.1", 9092, None, None, True, None, incarnation)


class Desk:
    """The acting controller's core over one image; what it appends is applied at once."""

    def __init__(self) -> None:
        self.image = Image()
        self.core = Core(self.image, "cluster")
        self.seen = {1: registration(1, 101), 2: registration(2, 102)}
        self.take_office(1)
        self.hear(DesiredRead((DesiredTopic(TOPIC, "t", 1, False, 1, 2, {"min.insync.replicas": "1"}, {0: (1, 2)}),)))
        del self.seen[2]
        self.hear(BrokersSeen(dict(self.seen)))
        assert self.state.isr == (Seat(1, 101),)

    def take_office(self, epoch: int) -> None:
        self.core = Core(self.image, "cluster")
        self.hear(Elected(epoch))
        self.hear(DesiredRead(complete=True))
        self.hear(BrokersSeen(dict(self.seen)))

    @property
    def state(self) -> PartitionState:
        state = self.image.partition(TP)
        assert state is not None
        return state

    def hear(self, event: object) -> list[Record]:
        told: list[Record] = []
        effects: list[Effect] = self.core.handle(event, NOW)  # type: ignore[arg-type]
        while effects:
            appended = [e for e in effects if isinstance(e, AppendMetadata)]
            effects = []
            for append in appended:
                entry = Entry(
                    self.image.seq + 1, self.core.controller_epoch, "token", self.image.chain_hash, append.records
                )
                self.image.apply_entry(entry, entry_hash(entry.encode()))
                told += append.records
                effects += self.core.handle(Appended(append.records), NOW)
        return told

    def proposal(self) -> IsrProposal:
        """Broker 1 wants broker 2 back, of an incarnation that the controller has not seen yet."""
        state = self.state
        return IsrProposal(TOPIC, 0, state.leader_epoch, state.partition_epoch, (Seat(1, 101), Seat(2, 103)))


def test_the_next_controller_does_not_accept_what_the_last_one_refused() -> None:
    desk = Desk()
    old = desk.proposal()
    assert any(isinstance(r, IsrRefused) for r in desk.hear(IsrProposed(1, 101, (old,))))
    desk.seen[2] = registration(2, 103)
    desk.take_office(2)
    # The leader has heard of the refusal and raised its watermark without broker 2; its znode is as it was.
    desk.hear(IsrProposed(1, 101, (old,)))
    assert desk.state.isr == (Seat(1, 101),)
    desk.hear(IsrProposed(1, 101, (desk.proposal(),)))
    assert desk.state.isr == (Seat(1, 101), Seat(2, 103))


def test_a_proposal_made_again_unseen_in_between_is_answered() -> None:
    desk = Desk()
    desk.hear(IsrProposed(1, 101, (desk.proposal(),)))
    assert not desk.hear(Tick())
    # Withdrawn and made anew while nobody looked: the controller never saw the node without it.
    desk.seen[2] = registration(2, 103)
    desk.hear(BrokersSeen(dict(desk.seen)))
    desk.hear(IsrProposed(1, 101, (desk.proposal(),)))
    assert desk.state.isr == (Seat(1, 101), Seat(2, 103))


def test_a_refusal_is_told_before_the_epoch_that_ends_the_proposal() -> None:
    desk = Desk()
    told = desk.hear(IsrProposed(1, 101, (desk.proposal(),)))
    kinds = [type(r) for r in told]
    assert kinds == [IsrRefused, PartitionChanged]
    refused, changed = told
    assert isinstance(refused, IsrRefused)
    assert isinstance(changed, PartitionChanged)
    assert changed.state.partition_epoch == refused.partition_epoch + 1
    assert changed.state.isr == (Seat(1, 101),)


def test_a_leader_counts_a_refused_newcomer_until_the_epoch_has_moved_and_then_waits_before_it_asks_again() -> None:
    alone = PartitionState((1, 2), (Seat(1, 101),), 1, 101, 0, 4)
    machine = Partition(1, TP, 30_000)
    machine.handle(Changed(alone, True, 1, 10, 0), NOW)
    assert machine.high_watermark == 10
    asked = machine.handle(FollowerFetched(Seat(2, 103), 10, 0), NOW)
    assert ProposeIsr in [type(e) for e in asked]
    assert machine.handle(Grown(12), NOW) == []
    assert machine.handle(Refused(0, 4), NOW) == []
    assert machine.high_watermark == 10, "a controller that has not seen the refusal may still accept the newcomer"
    moved = PartitionState((1, 2), (Seat(1, 101),), 1, 101, 0, 5)
    assert machine.handle(Changed(moved, True, 1, 12, 0), NOW) == [RaiseHighWatermark(12)]
    later = Now(NOW.mono_ms + machine.proposal_retry_ms, NOW.wall_ms)
    assert [type(e) for e in machine.handle(FollowerFetched(Seat(2, 103), 12, 0), later)] == [ProposeIsr]
