"""What the controller makes of the orders of a move without old data, and of what leaders say about where such copies begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster import election
from brokerd.cluster.levels import LEVEL_MAX, SPOKEN
from brokerd.cluster.metadata import MetadataError, PartitionChanged, record_from_json, record_to_json
from brokerd.cluster.model import PartitionState, Seat
from brokerd.cluster.znodes import (
    Proposals,
    ResetProposal,
    SeedProposal,
    StartProposal,
    decode_proposals,
    encode_proposals,
)
from controlplane.controller import wanted as wanted_module
from controlplane.controller.events import BrokersSeen, DesiredAssignment, DesiredRead, IsrProposed, Report
from tests.unit.controlplane.test_isr_refusals import NOW, TOPIC, TP, Desk, registration

NOBODY = -1


class House(Desk):
    """Topic t-0 on brokers 1 and 2, led by 1; 3 and 4 are alive beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen |= {i: replace(registration(i, 100 + i), metadata_levels=SPOKEN) for i in (1, 2, 3, 4)}
        self.image.metadata_version = LEVEL_MAX
        self.hear(BrokersSeen(dict(self.seen)))

    def order(self, replicas: tuple[int, ...] = (1, 2), generation: int | None = None, **more: object) -> list[str]:
        """What is refused."""
        read = self.state.assignment_generation if generation is None else generation
        wanted = DesiredAssignment(TOPIC, 0, replicas, read, "m", **more)  # type: ignore[arg-type]
        effects = self.core.handle(DesiredRead(assignments=(wanted,)), NOW)
        refused = [e.text for e in effects if isinstance(e, Report) and e.kind == "refused"]
        self.core.in_flight = False
        self.hear(DesiredRead(assignments=(wanted,)))
        return refused

    def says(self, offset: int, epoch: int | None = None) -> None:
        e = self.state.leader_epoch if epoch is None else epoch
        self.hear(IsrProposed(1, 101, (), (SeedProposal(TOPIC, 0, e, offset),)))


def observed() -> House:
    house = House()
    assert house.order(observers=(3, 4)) == []
    assert (house.state.replicas, house.state.observers, house.state.tail_start) == ((1, 2), (3, 4), NOBODY)
    return house


def test_observers_stand_beside_the_replicas_and_their_leader_says_where_they_begin() -> None:
    house = observed()
    assert not house.state.reassigning
    house.says(500, epoch=house.state.leader_epoch - 1)
    assert house.state.tail_start == NOBODY, "a word of another epoch"
    house.says(500)
    assert house.state.tail_start == 500
    house.says(700)
    assert house.state.tail_start == 700, "begun anew"


def test_an_order_is_carried_out_once_and_only_in_the_generation_that_was_read() -> None:
    house = observed()
    generation = house.state.assignment_generation
    assert house.order(observers=(3, 4), generation=generation - 1) == [], "carried out before"
    assert house.state.assignment_generation == generation
    (why,) = house.order(observers=(4,), generation=generation - 1)
    assert "placed anew" in why and house.state.observers == (3, 4)


@pytest.mark.parametrize(
    ("observers", "why"), [((2,), "replicas already"), ((9,), "not alive")], ids=["a replica", "nobody"]
)
def test_who_cannot_observe_is_refused(observers: tuple[int, ...], why: str) -> None:
    (text,) = House().order(observers=observers)
    assert why in text


def test_a_cut_is_bound_to_where_the_copies_begin() -> None:
    house = observed()
    house.says(500)
    (why,) = house.order(cut_at=400)
    assert "begin at 500" in why and house.state.log_start_floor == NOBODY
    assert house.order(cut_at=500) == []
    assert house.state.log_start_floor == 500 and house.state.observers == (3, 4)


def test_who_observed_is_added_like_anybody_and_the_floor_stays() -> None:
    house = observed()
    house.says(500)
    house.order(cut_at=500)
    before = house.state
    assert house.order((3, 4)) == []
    epoch = before.leader_epoch
    state = house.state
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.leader_epoch) == (1, epoch + 1), "what they had fetched until then counts for nothing"
    assert (state.observers, state.tail_start, state.log_start_floor) == ((), NOBODY, 500)


def test_back_to_what_it_was_leaves_nobody_who_observes() -> None:
    house = observed()
    house.says(500)
    house.order(cut_at=500)
    before, epoch = house.state.assignment_generation, house.state.leader_epoch
    assert house.order((1, 2)) == []
    state = house.state
    assert state.leader_epoch == epoch + 1, "nor does it when one of them is added later"
    assert (state.replicas, state.observers, state.tail_start) == ((1, 2), (), NOBODY)
    assert state.log_start_floor == 500, "what was deleted stays deleted, whoever leads next"
    assert state.assignment_generation == before + 1, "no earlier order can take effect any more"


def test_an_unclean_election_takes_back_what_was_said_of_offsets() -> None:
    house = observed()
    house.says(500)
    house.order(cut_at=500)
    state = replace(house.state, isr=(), elr=(), last_isr=(1,), leader=NOBODY, leader_incarnation=NOBODY)
    after = election.elected(state, lambda b: 102 if b == 2 else None, min_insync=1, unclean=True)
    assert after is not None and after.leader == 2
    assert (after.observers, after.tail_start, after.log_start_floor) == ((3, 4), NOBODY, NOBODY)


def test_nobody_elects_an_observer() -> None:
    house = observed()
    state = replace(house.state, leader=NOBODY, leader_incarnation=NOBODY)
    for unclean in (False, True):
        assert (
            election.elected(state, lambda b: 100 + b if b in (3, 4) else None, min_insync=1, unclean=unclean) is None
        )


def test_a_log_of_an_older_level_takes_no_observers() -> None:
    house = House()
    house.image.metadata_version = wanted_module.TAIL_LEVEL - 1
    house.seen = {i: replace(r, metadata_levels=(1, wanted_module.TAIL_LEVEL - 1)) for i, r in house.seen.items()}
    (why,) = house.order(observers=(3,))
    assert "upgrade_metadata" in why and house.state.observers == ()


def test_what_an_older_program_wrote_and_reads_is_as_it_was() -> None:
    state = PartitionState((1, 2), (Seat(1, 11),), 1, 11)
    plain = record_to_json(PartitionChanged(TOPIC, 0, state))
    assert plain["version"] == 1 and "observers" not in plain["state"]
    tail = record_to_json(PartitionChanged(TOPIC, 0, replace(state, observers=(3,), tail_start=7)))
    assert tail["version"] == 2
    for said in (plain, tail):
        again = record_from_json(said)
        assert isinstance(again, PartitionChanged) and record_to_json(again) == said
    with pytest.raises(MetadataError):
        record_from_json({**tail, "version": 4})


def test_seeds_go_with_the_proposals_and_are_absent_where_there_are_none() -> None:
    seed = SeedProposal(TOPIC, 0, 4, 900)
    start = StartProposal(TOPIC, 1, 4, 700)
    wanted = Proposals((), (seed,), (start,), (ResetProposal(TOPIC, 0, 4, Seat(2, 102)),))
    assert decode_proposals(encode_proposals(11, wanted)) == (11, wanted)
    assert b"s" not in encode_proposals(11, Proposals()).replace(b"proposals", b"")


def test_the_image_that_a_snapshot_rebuilds_has_them_too() -> None:
    house = observed()
    house.says(500)
    again = type(house.image).from_records(house.image.records(), 1, "h", 1)
    assert again.partition(TP) == house.state
