"""A leader says whose copy starts too late for the ISR: it is thrown away where nothing is lost by that, else nothing happens (decision 037)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.metadata import PartitionChanged, Record, ReplicaReset
from brokerd.cluster.model import PartitionState, Seat
from brokerd.cluster.znodes import ResetProposal
from controlplane.controller.events import BrokersSeen, IsrProposed
from controlplane.services.recovery import NAMED_BY_CONTENT
from tests.unit.controlplane.test_isr_refusals import TOPIC, TP, Desk, registration


class Late(Desk):
    """Broker 2 is back beside the leader, 1, and in no ISR."""

    def __init__(self, **more: object) -> None:
        super().__init__()
        self.seen[2] = registration(2, 103)
        self.hear(BrokersSeen(dict(self.seen)))
        self.image.topics[TOPIC].partitions[0] = replace(self.state, **more)  # type: ignore[arg-type]
        assert self.state.isr == (Seat(1, 101),)

    def asked(self, seat: Seat = Seat(2, 103), *, by: tuple[int, int] = (1, 101), epoch: int = 0) -> list[Record]:
        return self.hear(IsrProposed(*by, (), resets=(ResetProposal(TOPIC, 0, self.state.leader_epoch + epoch, seat),)))


def test_it_is_thrown_away_once_and_a_new_leader_epoch_begins() -> None:
    desk = Late(elr=(2,))
    before = desk.state
    changed, reset = desk.asked()
    assert isinstance(changed, PartitionChanged) and isinstance(reset, ReplicaReset)
    assert (reset.topic_id, reset.partition, reset.broker_id) == (TOPIC, 0, 2)
    assert UUID(reset.reset_id).version == NAMED_BY_CONTENT, "by this the record of changes knows that nobody asked"
    assert (desk.state.leader, desk.state.leader_epoch) == (1, before.leader_epoch + 1)
    assert (desk.state.isr, desk.state.elr) == ((Seat(1, 101),), ()), "it proves nothing any more"
    again = desk.asked(epoch=-1)
    assert again == [], "the wish of before, which nobody has taken back yet"


@pytest.mark.parametrize(
    ("seat", "by", "epoch"),
    [
        (Seat(2, 102), (1, 101), 0),
        (Seat(3, 103), (1, 101), 0),
        (Seat(1, 101), (1, 101), 0),
        (Seat(2, 103), (2, 103), 0),
        (Seat(2, 103), (1, 101), -1),
    ],
    ids=["another life", "no replica", "in the ISR", "by who does not lead", "of another epoch"],
)
def test_nothing_happens(seat: Seat, by: tuple[int, int], epoch: int) -> None:
    desk = Late()
    assert desk.asked(seat, by=by, epoch=epoch) == []
    assert desk.state.isr == (Seat(1, 101),)


@pytest.mark.parametrize(("others", "goes"), [((1, 2), True), ((2,), False)], ids=["two holders", "the only one"])
def test_a_holder_of_an_archive_begins_anew_where_another_one_is_there_to_be_read(
    others: tuple[int, ...], goes: bool
) -> None:
    desk = Late(archive_start=50, archive_epoch=1, holders=others)
    assert any(isinstance(r, ReplicaReset) for r in desk.asked()) == goes


def test_the_state_that_it_leaves_is_one_that_the_log_takes() -> None:
    desk = Late()
    desk.asked()
    again = type(desk.image).from_records(desk.image.records(), 1, "h", 1)
    state = again.partition(TP)
    assert isinstance(state, PartitionState) and state == desk.state
