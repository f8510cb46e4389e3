"""A seat that the metadata log has dead stays dead, whoever still holds its registration: only a new incarnation is a return."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from brokerd.cluster.model import NO_LEADER, PartitionState, TopicPartition
from controlplane.controller.events import BrokersSeen, Elected, ReplicasOffline
from tests.unit.controlplane.test_core_at_scale import House


def _the_partition(house: House) -> PartitionState:
    return house.image.topics[UUID(int=1)].partitions[0]


def test_a_registration_that_outlives_its_process_brings_nothing_back() -> None:
    """Seed 845: it says of the tail what was true at its start, and who had nothing to lose then has everything by now."""
    house = House(1, 3)
    house.registered = {b: replace(r, tail_intact=False) for b, r in house.registered.items()}
    first = _the_partition(house).leader
    others = [b for b in house.registered if b != first]
    for dead in others:  # found by probes: their sessions stand
        house.hear(BrokersSeen({b: r for b, r in house.registered.items() if b == first or b > dead}))
    before = _the_partition(house)
    assert before.isr_ids == (first,)
    house.hear(Elected(2))
    written = house.hear(BrokersSeen(dict(house.registered)))
    assert (written, _the_partition(house)) == (0, before)
    assert [b.broker_id for b in house.image.live_brokers()] == [first]

    back = house.registration(others[0], 999)
    house.hear(BrokersSeen({**house.registered, others[0]: back}))
    assert house.image.incarnation(others[0]) == 999


def _back_first(house: House, broker_id: int, *, whole: bool = True) -> PartitionState:
    registration = replace(house.registration(broker_id, 999), tail_intact=whole)
    house.hear(BrokersSeen({broker_id: registration}))
    return _the_partition(house)


def test_of_brokers_found_dead_in_one_look_any_may_come_back_to_lead() -> None:
    for first in (1, 2, 3):
        house = House(1, 3)
        house.hear(BrokersSeen({}))
        gone = _the_partition(house)
        assert (gone.leader, set(gone.isr_ids)) == (NO_LEADER, {1, 2, 3})
        back = _back_first(house, first)
        assert (back.leader, back.isr) == (first, ((first, 999),))


def test_between_two_deaths_that_stand_in_two_records_the_one_left_may_have_acknowledged_alone() -> None:
    house = House(1, 3)
    last = _the_partition(house).leader
    house.hear(BrokersSeen({last: house.registered[last]}))
    assert _the_partition(house).isr_ids == (last,)
    house.hear(BrokersSeen({}))
    other = next(b for b in (1, 2, 3) if b != last)
    assert _back_first(house, other).leader == NO_LEADER
    assert _the_partition(house).isr_ids == (last,)


def test_a_tail_lost_does_not_lead_while_peers_that_were_found_dead_with_it_are_away() -> None:
    """The machine that is back first after a power cut, read by a controller that saw none of them go."""
    house = House(1, 3)
    state = _back_first(house, 1, whole=False)
    assert (state.leader, set(state.isr_ids)) == (NO_LEADER, {2, 3})
    house.hear(BrokersSeen({b: house.registration(b, 999) for b in (1, 2)}))
    assert _the_partition(house).leader == 2


def test_a_directory_that_fails_in_the_look_of_a_death_counts_with_it() -> None:
    """One by one, the broker with the failed directory was the last of the ISR for a moment, and the whole copy of the dead one was forgotten."""
    house = House(1, 2)
    one, other = _the_partition(house).isr_ids
    tp = TopicPartition(UUID(int=1), 0)
    house.core.in_flight = True  # both become known while an entry is being written
    house.hear(ReplicasOffline(one, house.registered[one].incarnation, frozenset({tp})))
    del house.registered[other]
    house.hear(BrokersSeen(dict(house.registered)))
    house.core.in_flight = False
    house.hear(BrokersSeen(dict(house.registered)))
    state = _the_partition(house)
    assert (state.leader, state.isr_ids, state.last_isr) == (NO_LEADER, (other,), ())
    house.hear(BrokersSeen({**house.registered, other: house.registration(other, 999)}))
    assert _the_partition(house).leader == other
