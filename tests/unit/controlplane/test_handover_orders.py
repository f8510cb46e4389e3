"""What the controller makes of an early hand-over: who holds the old records, who leads when, where the partition begins, when all of that ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster import election
from brokerd.cluster.levels import ARCHIVE_LEVEL
from brokerd.cluster.metadata import PartitionChanged, record_from_json, record_to_json
from brokerd.cluster.model import Seat
from brokerd.cluster.znodes import IsrProposal, StartProposal
from controlplane.controller.events import BrokersSeen, IsrProposed
from tests.unit.controlplane.test_isr_refusals import TOPIC, TP
from tests.unit.controlplane.test_tail_orders import NOBODY, House, observed

S = 500


def in_sync(house: House, *brokers: int) -> None:
    """The leader asks for this ISR, and gets it."""
    state = house.state
    isr = tuple(Seat(b, house.seen[b].incarnation) for b in brokers)
    proposal = IsrProposal(TOPIC, 0, state.leader_epoch, state.partition_epoch, isr)
    house.hear(IsrProposed(state.leader, state.leader_incarnation, (proposal,)))


def ready(*, both: bool = True) -> House:
    house = observed()
    if both:
        house.seen[2] = replace(house.seen[2], incarnation=202)  # (it had died)
        house.hear(BrokersSeen(dict(house.seen)))
        in_sync(house, 1, 2)
        assert house.state.isr_ids == (1, 2)
    house.says(S)
    return house


def handed_over() -> House:
    house = ready()
    assert house.order((3, 4), hand_over_at=S) == []
    in_sync(house, 1, 2, 3, 4)
    return house


def begins(house: House, offset: int, epoch: int | None = None) -> None:
    state = house.state
    start = StartProposal(TOPIC, 0, state.leader_epoch if epoch is None else epoch, offset)
    house.hear(IsrProposed(state.leader, state.leader_incarnation, (), (), (start,)))


def test_nobody_new_leads_before_all_of_them_are_in_sync() -> None:
    house = ready()
    assert house.order((3, 4), hand_over_at=S) == []
    state = house.state
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.leader_epoch, state.archive_epoch) == (1, state.archive_epoch, state.leader_epoch)
    assert (state.archive_start, state.holders, state.observers) == (S, (1, 2), ())
    in_sync(house, 1, 2, 3)
    assert house.state.leader == 1
    in_sync(house, 1, 2, 3, 4)
    state = house.state
    assert (state.replicas, state.isr_ids, state.leader) == ((3, 4), (3, 4), 3)
    assert (state.archive_start, state.holders, state.hosts) == (S, (1, 2), (3, 4, 1, 2))


def test_who_was_not_in_sync_when_it_was_ordered_holds_nothing() -> None:
    house = ready(both=False)
    house.order((3, 4), hand_over_at=S)
    in_sync(house, 1, 3, 4)
    assert (house.state.holders, house.state.hosts) == ((1,), (3, 4, 1))


def test_an_order_for_another_beginning_is_refused_and_nothing_changes() -> None:
    house = ready()
    before = house.state
    (why,) = house.order((3, 4), hand_over_at=S - 1)
    assert "begin at 500" in why and house.state == before


def test_where_nobody_is_new_there_is_nothing_to_hand_over() -> None:
    house = ready()
    (why,) = house.order((2, 1), hand_over_at=S)
    assert "nobody is new" in why and house.state.archive_start == NOBODY


def test_all_copies_side_by_side_are_compared_before_the_old_ones_only_hold() -> None:
    house = ready()
    assert house.order((3, 4, 1, 2), hand_over_at=S) == []
    in_sync(house, 1, 2, 3, 4)
    state = house.state
    assert (state.replicas, state.reassigning, state.holders, state.archive_start) == ((3, 4, 1, 2), False, (1, 2), S)
    assert house.order((3, 4)) == []
    state = house.state
    assert (state.replicas, state.leader, state.holders, state.hosts) == ((3, 4), 3, (1, 2), (3, 4, 1, 2))


def test_after_a_cut_it_is_an_ordinary_move() -> None:
    house = ready()
    house.order(cut_at=S)
    assert house.order((3, 4), hand_over_at=S) == []
    assert (house.state.archive_start, house.state.adding) == (NOBODY, (3, 4))


def test_a_log_of_an_older_level_takes_no_archive() -> None:
    house = ready()
    house.image.metadata_version = ARCHIVE_LEVEL - 1
    (why,) = house.order((3, 4), hand_over_at=S)
    assert "upgrade_metadata" in why and house.state.archive_start == NOBODY


def test_while_it_is_under_way_one_that_holds_all_leads_if_one_is_there() -> None:
    house = ready()
    house.order((3, 4), hand_over_at=S)
    in_sync(house, 1, 2, 3)
    house.seen = {i: r for i, r in house.seen.items() if i != 1}
    house.hear(BrokersSeen(dict(house.seen)))
    assert house.state.leader == 2
    house.seen = {i: r for i, r in house.seen.items() if i != 2}
    house.hear(BrokersSeen(dict(house.seen)))
    assert house.state.leader == 3, "it asks for the rest"
    assert house.state.holders == (1, 2), "who is away holds it on its disk"


def test_called_off_in_the_middle_the_old_replicas_need_no_archive() -> None:
    house = ready()
    house.order((3, 4), hand_over_at=S)
    in_sync(house, 1, 2, 3)
    assert house.order((1, 2)) == []
    state = house.state
    assert (state.replicas, state.archive_start, state.holders, state.leader) == ((1, 2), NOBODY, (), 1)


def test_back_again_the_archive_ends_with_the_last_copy_that_needs_it() -> None:
    house = handed_over()
    assert house.order((1, 4)) == []
    in_sync(house, 3, 4, 1)
    assert (house.state.replicas, house.state.holders, house.state.archive_start) == ((1, 4), (1, 2), S), (
        "4 has no more"
    )
    house.order((1, 2))
    in_sync(house, *house.state.isr_ids, 2)
    state = house.state
    assert (state.replicas, state.holders, state.archive_start, state.hosts) == ((1, 2), (), NOBODY, (1, 2))


def test_the_leader_raises_the_beginning_and_ends_the_archive() -> None:
    house = handed_over()
    begins(house, 200, epoch=house.state.leader_epoch - 1)
    assert house.state.log_start_floor == NOBODY, "a word of another epoch"
    begins(house, 200)
    assert (house.state.log_start_floor, house.state.archive_start) == (200, S)
    begins(house, 100)
    assert house.state.log_start_floor == 200, "never back"
    epoch = house.state.leader_epoch
    begins(house, S)
    state = house.state
    assert (state.log_start_floor, state.archive_start, state.holders, state.hosts) == (S, NOBODY, (), (3, 4))
    assert state.leader_epoch == epoch, "nobody has to begin anew"
    begins(house, 900)
    assert house.state.log_start_floor == S, "without an archive it is the leader's own affair"


def test_no_second_tail_is_begun_while_old_records_lie_apart() -> None:
    house = handed_over()
    (why,) = house.order((3, 4), observers=(2,))
    assert "still read from brokers [1, 2]" in why


def test_who_leads_without_proof_is_not_what_the_archive_rests_on() -> None:
    house = handed_over()
    house.order((1, 4))
    state = replace(house.state, isr=(), elr=(), last_isr=(1,), leader=NOBODY, leader_incarnation=NOBODY)
    after = election.elected(state, lambda b: 101 if b == 1 else None, min_insync=1)
    assert after is not None and (after.leader, after.holders, after.archive_start) == (1, (2,), S)


def test_the_record_is_written_at_its_own_version_and_read_back_and_rebuilt() -> None:
    house = handed_over()
    said = record_to_json(PartitionChanged(TOPIC, 0, house.state))
    assert said["version"] == 3
    again = record_from_json(said)
    assert isinstance(again, PartitionChanged) and again.state == house.state
    rebuilt = type(house.image).from_records(house.image.records(), 1, "h", 1)
    rebuilt.validate()
    assert rebuilt.partition(TP) == house.state


@pytest.mark.parametrize(
    "broken",
    [
        {"holders": ()}, {"archive_start": -1}, {"holders": (1, 1)}, {"log_start_floor": S + 1}, {"observers": (1,)},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_not_applied(broken: dict[str, object]) -> None:
    house = handed_over()
    house.image.topics[TOPIC].partitions[0] = replace(house.state, **broken)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        house.image.validate()
