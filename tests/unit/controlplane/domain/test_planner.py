from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.planner import ComputedPlan, PlannerBroker, PlannerPartition, plan
from controlplane.domain.scope import parse as parse_scope

TOPIC = UUID(int=1)


def brokers(
    count: int, domains: dict[int, str] | None = None, racks: dict[int, str] | None = None
) -> list[PlannerBroker]:
    return [PlannerBroker(i, True, (racks or {}).get(i), (domains or {}).get(i)) for i in range(1, count + 1)]


def parts(*replicas: tuple[int, ...], size: int | None = 10) -> list[PlannerPartition]:
    return [PlannerPartition(TOPIC, "t", i, r, r, r[0], 0, size, 1, False) for i, r in enumerate(replicas)]


def test_a_drain_replaces_every_replica_at_its_position() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 1}), parts((1, 2), (2, 1), (3, 4)), brokers(4))
    assert not p.problems
    assert len(p.parts) == 2
    assert all(1 not in x.replicas_to for x in p.parts)
    assert [x.replicas_to.index(2) for x in p.parts] == [1, 0]


def test_a_drain_without_capacity_is_rejected_with_a_remedy() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 1}), parts((1, 2, 3)), brokers(3))
    assert "add a broker or lower its replication factor" in p.problems[0]


def test_two_replicas_never_share_a_failure_domain() -> None:
    domains = {1: "a", 2: "b", 3: "a", 4: "c"}
    p = plan(parse_scope({"kind": "drain", "broker": 2}), parts((1, 2)), brokers(4, domains))
    assert p.parts[0].replicas_to == (1, 4)
    by_hand = {"kind": "partitions", "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}
    assert (
        "two replicas in one failure domain"
        in plan(parse_scope(by_hand), parts((1, 2)), brokers(4, domains)).problems[0]
    )


def test_a_new_rack_is_preferred() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 2}), parts((1, 2)), brokers(4, racks={1: "x", 3: "x", 4: "y"}))
    assert p.parts[0].replicas_to == (1, 4)


def test_a_filled_broker_gets_exactly_its_share() -> None:
    p = plan(parse_scope({"kind": "fill", "broker": 3}), parts(*[(1, 2)] * 6), brokers(3))
    assert len(p.parts) == 4
    assert all(3 in x.replicas_to for x in p.parts)


RACKS = {1: "x", 2: "x", 3: "y", 4: "y", 5: "z", 6: "z"}


def test_a_drained_rack_receives_no_replica() -> None:
    p = plan(
        parse_scope({"kind": "drain", "rack": "x"}), parts((1, 3), (4, 2), (1, 2), (3, 5)), brokers(6, racks=RACKS)
    )
    assert not p.problems
    moved = {x.view.partition: x.replicas_to for x in p.parts}
    assert moved.keys() == {0, 1, 2}, "what is not there stays"
    assert moved[0][1] == 3 and moved[1][0] == 4, "who stays keeps its place in the order"
    assert all({1, 2}.isdisjoint(replicas) and len(set(replicas)) == 2 for replicas in moved.values())
    assert all(len({RACKS[b] for b in replicas}) == 2 for replicas in moved.values()), "in two racks as before"


def test_a_drain_of_a_rack_without_capacity_elsewhere_is_rejected() -> None:
    p = plan(parse_scope({"kind": "drain", "rack": "x"}), parts((1, 2, 3)), brokers(4, racks=RACKS))
    assert "no other live broker" in p.problems[0] and not p.parts


def test_a_new_rack_is_filled_to_its_share_from_other_racks() -> None:
    p = plan(parse_scope({"kind": "fill", "rack": "z"}), parts(*[(1, 3), (2, 4)] * 6), brokers(6, racks=RACKS))
    assert not p.problems
    came = [b for x in p.parts for b in set(x.replicas_to) - set(x.view.replicas)]
    assert (came.count(5), came.count(6)) == (4, 4) and set(came) == {5, 6}
    assert all(len({5, 6} & set(x.replicas_to)) == 1 for x in p.parts), "no partition has both copies in the new rack"
    assert all(len(set(x.replicas_to)) == 2 for x in p.parts)


def test_a_filled_rack_gets_no_second_replica_of_a_partition() -> None:
    p = plan(parse_scope({"kind": "fill", "rack": "z"}), parts(*[(5, 1), (5, 2), (5, 3)] * 4), brokers(6, racks=RACKS))
    assert len(p.parts) == 4
    assert all(x.replicas_to == (6, x.view.replicas[1]) for x in p.parts)


@pytest.mark.parametrize("kind", ["drain", "fill"])
def test_an_unknown_rack_or_a_rack_together_with_a_broker_is_rejected(kind: str) -> None:
    racked = brokers(6, racks=RACKS)
    assert (
        "known racks: ['x', 'y', 'z']"
        in plan(parse_scope({"kind": kind, "rack": "q"}), parts((1, 2)), racked).problems[0]
    )
    assert (
        "no broker has a rack" in plan(parse_scope({"kind": kind, "rack": "q"}), parts((1, 2)), brokers(3)).problems[0]
    )
    for scope in ({"kind": kind}, {"kind": kind, "rack": "x", "broker": 1}):
        assert f"Give a broker or a rack to {kind}" in plan(parse_scope(scope), parts((1, 2)), racked).problems[0]


def test_a_higher_replication_factor_keeps_the_replicas() -> None:
    p = plan(
        parse_scope({"kind": "replication_factor", "topic": "t", "replication_factor": 3}), parts((1, 2)), brokers(4)
    )
    assert p.parts[0].replicas_to[:2] == (1, 2)
    assert p.bytes_to_copy == 10


def leaders_of(found: ComputedPlan) -> dict[int, int]:
    return dict(Counter(x.replicas_to[0] for x in found.parts))


def test_a_higher_replication_factor_spreads_the_preferred_leaders() -> None:
    """Six partitions with one replica each, on broker 2. With three replicas each, every broker leads one or two; broker 2 does not lead all six."""
    scope = {"kind": "replication_factor", "topic": "t", "replication_factor": 3}
    three = plan(parse_scope(scope), parts(*[(2,)] * 6), brokers(3))
    assert leaders_of(three) == {1: 2, 2: 2, 3: 2}
    assert all(sorted(x.replicas_to) == [1, 2, 3] for x in three.parts)
    assert three.bytes_to_copy == 6 * 2 * 10, "another order copies nothing"
    four = leaders_of(plan(parse_scope(scope), parts(*[(2,)] * 6), brokers(4)))
    assert set(four) == {1, 2, 3, 4} and max(four.values()) <= 2


def test_balanced_leaders_stay() -> None:
    scope = {"kind": "replication_factor", "topic": "t", "replication_factor": 3}
    found = plan(parse_scope(scope), parts((1, 2), (2, 3), (3, 1)), brokers(4))
    assert [x.replicas_to[0] for x in found.parts] == [1, 2, 3]


def test_leaders_of_a_large_topic_are_planned_quickly() -> None:
    scope = {"kind": "replication_factor", "topic": "t", "replication_factor": 3}
    found = leaders_of(plan(parse_scope(scope), parts(*[(2,)] * 5000), brokers(4)))
    assert max(found.values()) - min(found.values()) <= 1


def test_partitions_with_the_same_problem_are_one_message() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 3}), parts(*[(1, 2, 3)] * 106), brokers(3))
    assert len(p.problems) == 1
    assert p.problems[0].startswith("t-0, t-1, t-2, t-3, t-4 and 101 more have 3 replicas")


def test_a_lower_replication_factor_keeps_the_leader() -> None:
    view = PlannerPartition(TOPIC, "t", 0, (1, 2, 3), (2, 3), 2, 0, 10, 1, False)
    p = plan(parse_scope({"kind": "replication_factor", "topic": "t", "replication_factor": 2}), [view], brokers(3))
    assert p.parts[0].replicas_to == (2, 3)


def test_an_unknown_size_makes_the_total_unknown_not_zero() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 1}), parts((1, 2), size=None), brokers(3))
    assert p.bytes_to_copy is None


def test_a_plan_without_a_change_has_a_message() -> None:
    p = plan(parse_scope({"kind": "drain", "broker": 3}), parts((1, 2)), brokers(3))
    assert "Nothing to move" in p.problems[0]


@settings(max_examples=50, deadline=None)
@given(
    count=st.integers(4, 8),
    placed=st.lists(st.permutations(range(1, 5)).map(lambda p: tuple(p[:3])), min_size=1, max_size=30),
    leaver=st.integers(1, 4),
)
def test_a_drain_never_loses_or_doubles_a_replica(count: int, placed: list[tuple[int, ...]], leaver: int) -> None:
    p = plan(parse_scope({"kind": "drain", "broker": leaver}), parts(*placed), brokers(count))
    moved = {x.view.partition: x.replicas_to for x in p.parts}
    for i, before in enumerate(placed):
        now = moved.get(i, before)
        if leaver in before and not p.problems:
            assert leaver not in now
        assert len(now) == len(before) == len(set(now))
        assert len(set(before) - set(now)) <= 1


def test_a_plan_below_min_insync_is_overridable_and_an_existing_violation_is_a_warning() -> None:
    whole = replace(parts((1, 2))[0], min_insync=2)
    p = plan(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}),
        [whole],
        brokers(3),
    )
    assert p.problems == p.overridable and "fewer than its min.insync.replicas 2" in p.problems[0]
    single = replace(parts((1,))[0], min_insync=2)
    p = plan(parse_scope({"kind": "drain", "broker": 1}), [single], brokers(3))
    assert (p.problems, p.warnings) == ((), ()), "one replica of one is all that its minimum can ask for"
    p = plan(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}),
        [whole],
        brokers(3),
    )
    assert p.warnings == (), "both of its replicas are in sync now"
    limping = replace(whole, isr=(1,))
    p = plan(parse_scope({"kind": "drain", "broker": 2}), [limping], brokers(3))
    assert (p.problems, p.overridable) == ((), ()), "a move fixes it"
    assert "has 1 replica in sync" in p.warnings[0]
