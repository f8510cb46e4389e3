"""An incarnation that is dead in the metadata log stays dead, even while its registration still exists. The broker returns only with a new
incarnation."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from brokerd.cluster.model import NO_LEADER, PartitionState, TopicPartition
from controlplane.controller.events import BrokersSeen, Elected, ReplicasOffline
from tests.unit.controlplane.controller.test_core import Harness


def _the_partition(harness: Harness) -> PartitionState:
    return harness.image.topics[UUID(int=1)].partitions[0]


def test_the_registration_of_a_dead_process_does_not_restore_its_isr_membership() -> None:
    """Seed 845: the registration describes the tail at the broker's start. A broker that had nothing to lose then has all records by now."""
    harness = Harness(1, 3)
    harness.registered = {b: replace(r, tail_intact=False) for b, r in harness.registered.items()}
    first = _the_partition(harness).leader
    others = [b for b in harness.registered if b != first]
    for dead in others:  # detected by probes: their sessions still exist
        harness.deliver(BrokersSeen({b: r for b, r in harness.registered.items() if b == first or b > dead}))
    before = _the_partition(harness)
    assert before.isr_ids == (first,)
    harness.deliver(Elected(2))
    written = harness.deliver(BrokersSeen(dict(harness.registered)))
    assert (written, _the_partition(harness)) == (0, before)
    assert [b.broker_id for b in harness.image.live_brokers()] == [first]

    back = harness.registration(others[0], 999)
    harness.deliver(BrokersSeen({**harness.registered, others[0]: back}))
    assert harness.image.broker_epoch(others[0]) == 999


def test_a_dead_incarnation_that_is_not_in_the_log_is_recorded_as_dead() -> None:
    """Seed 51 of share-changes: a live broker, whose port refused connections before its registration was recorded, stayed without a record for the
    whole term. It did not read that it counts as dead, so it did not register again."""
    harness = Harness(1, 3)
    harness.deliver(BrokersSeen({b: r for b, r in harness.registered.items() if b != 3}))
    back = harness.registration(3, 999)
    harness.deliver(BrokersSeen({**harness.registered, 3: back}, frozenset({(3, 999)})))
    recorded = harness.image.brokers[3]
    assert (recorded.broker_epoch, recorded.alive) == (999, False)
    assert 3 not in _the_partition(harness).isr_ids
    harness.deliver(BrokersSeen({**harness.registered, 3: harness.registration(3, 1000)}, frozenset({(3, 999)})))
    assert harness.image.broker_epoch(3) == 1000


def test_a_dead_incarnation_that_the_log_records_as_alive_leaves_the_isr() -> None:
    harness = Harness(1, 3)
    epoch = harness.registered[3].broker_epoch
    harness.deliver(BrokersSeen(dict(harness.registered), frozenset({(3, epoch)})))
    assert harness.image.broker_epoch(3) is None
    assert 3 not in _the_partition(harness).isr_ids


def _back_first(harness: Harness, broker_id: int, *, whole: bool = True) -> PartitionState:
    registration = replace(harness.registration(broker_id, 999), tail_intact=whole)
    harness.deliver(BrokersSeen({broker_id: registration}))
    return _the_partition(harness)


def test_any_of_the_brokers_removed_in_one_pass_may_be_elected_again() -> None:
    for first in (1, 2, 3):
        harness = Harness(1, 3)
        harness.deliver(BrokersSeen({}))
        gone = _the_partition(harness)
        assert (gone.leader, set(gone.isr_ids)) == (NO_LEADER, {1, 2, 3})
        back = _back_first(harness, first)
        assert (back.leader, back.isr) == (first, ((first, 999),))


def test_after_two_separate_removals_only_the_last_isr_member_is_electable() -> None:
    harness = Harness(1, 3)
    last = _the_partition(harness).leader
    harness.deliver(BrokersSeen({last: harness.registered[last]}))
    assert _the_partition(harness).isr_ids == (last,)
    harness.deliver(BrokersSeen({}))
    other = next(b for b in (1, 2, 3) if b != last)
    assert _back_first(harness, other).leader == NO_LEADER
    assert _the_partition(harness).isr_ids == (last,)


def test_a_replica_with_a_lost_tail_is_not_elected_while_brokers_removed_in_its_pass_are_offline() -> None:
    """The first machine to return after a power failure, registered with a controller that saw none of the brokers fail."""
    harness = Harness(1, 3)
    state = _back_first(harness, 1, whole=False)
    assert (state.leader, set(state.isr_ids)) == (NO_LEADER, {2, 3})
    harness.deliver(BrokersSeen({b: harness.registration(b, 999) for b in (1, 2)}))
    assert _the_partition(harness).leader == 2


def test_a_directory_failure_in_the_pass_of_a_broker_failure_is_handled_together() -> None:
    """When failures were processed one by one, the broker with the failed directory was the last of the ISR for a
    moment, and the complete replica of the dead broker was dropped."""
    harness = Harness(1, 2)
    one, other = _the_partition(harness).isr_ids
    tp = TopicPartition(UUID(int=1), 0)
    harness.core.in_flight = True  # both are reported while an entry is being written
    harness.deliver(ReplicasOffline(one, harness.registered[one].broker_epoch, frozenset({tp})))
    del harness.registered[other]
    harness.deliver(BrokersSeen(dict(harness.registered)))
    harness.core.in_flight = False
    harness.deliver(BrokersSeen(dict(harness.registered)))
    state = _the_partition(harness)
    assert (state.leader, state.isr_ids, state.last_isr) == (NO_LEADER, (other,), ())
    harness.deliver(BrokersSeen({**harness.registered, other: harness.registration(other, 999)}))
    assert _the_partition(harness).leader == other
