"""A seat that the metadata log has dead stays dead, whoever still holds its registration: only a new incarnation is a return."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from brokerd.cluster.model import PartitionState
from controlplane.controller.events import BrokersSeen, Elected
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
