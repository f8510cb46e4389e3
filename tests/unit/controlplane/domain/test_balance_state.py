"""The state of a rebalance computation: loads and bounds after changes, and the hard rules."""

from __future__ import annotations

from uuid import UUID

from controlplane.domain.balance_state import BalanceState, racks_in_common
from controlplane.domain.balance_types import Goal, Obstacle
from controlplane.domain.planner_types import PlannerBroker, PlannerPartition


def state(*brokers: PlannerBroker, replicas: tuple[tuple[int, ...], ...] = ((1, 2), (1, 2))) -> BalanceState:
    views = [
        PlannerPartition(UUID(int=1), "t", i, r, r[:1], r[0], 0, 100, 1, False, 5.0) for i, r in enumerate(replicas)
    ]
    known = {b.broker_id: b for b in brokers}
    out = BalanceState(views, known, tuple(known), 0.1, [list(r) for r in replicas])
    out.count()
    return out


def test_changes_keep_placement_and_loads_equal() -> None:
    s = state(*(PlannerBroker(i, True, None, None) for i in (1, 2, 3)))
    s.replace(0, 1, 3)
    s.lead(1, 2)
    assert s.placed == [[3, 2], [2, 1]] and s.received_bytes[3] == 100
    recounted = state(*s.brokers.values(), replicas=((3, 2), (2, 1)))
    assert s.load == recounted.load
    assert {b: spots for b, spots in s.spots.items() if spots} == {1: {1}, 2: {0, 1}, 3: {0}}


def test_the_distance_from_the_bounds_is_zero_within_them() -> None:
    s = state(PlannerBroker(1, True, None, None), PlannerBroker(2, True, None, None))
    assert [round(s.outside(Goal.DISK, load)) for load in (0, 180, 200, 220, 250)] == [180, 0, 0, 0, 30]


def test_hard_rules_have_names() -> None:
    s = state(
        PlannerBroker(1, True, "x", "a"),
        PlannerBroker(2, True, "y", "b"),
        PlannerBroker(3, True, None, "b"),
        PlannerBroker(4, True, "y", None),
        PlannerBroker(5, True, None, None, 100),
        PlannerBroker(6, True, "x", None),
    )
    rejected = [s.rejection(0, 1, new) for new in (3, 4, 5, 6)]
    assert rejected == [Obstacle.FAILURE_DOMAIN, Obstacle.RACK, Obstacle.DISK_SPACE, None]
    assert s.may_replace(0, 1, 6) and not s.may_replace(0, 1, 2), "a broker has one replica of a partition"


def test_only_an_in_sync_or_a_new_replica_may_lead() -> None:
    s = state(PlannerBroker(1, True, None, None), PlannerBroker(2, True, None, None))
    assert (s.may_lead(0, 1), s.may_lead(0, 2), s.may_lead(0, 3)) == (True, False, True)


def test_racks_in_common_are_counted_without_unknown_racks() -> None:
    assert [racks_in_common(r) for r in ((), ("x", "y"), ("x", "x", None, None), ("x", "x", "x"))] == [0, 0, 1, 2]
