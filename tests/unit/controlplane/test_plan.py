from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.plan import BrokerView, PartitionView, plan

TOPIC = UUID(int=1)


def brokers(count: int, domains: dict[int, str] | None = None, racks: dict[int, str] | None = None) -> list[BrokerView]:
    return [BrokerView(i, True, (racks or {}).get(i), (domains or {}).get(i)) for i in range(1, count + 1)]


def parts(*replicas: tuple[int, ...], size: int | None = 10) -> list[PartitionView]:
    return [PartitionView(TOPIC, "t", i, r, r, r[0], 0, size, 1, False) for i, r in enumerate(replicas)]


def test_draining_takes_every_replica_off_and_keeps_its_place_in_the_order() -> None:
    p = plan({"kind": "drain", "broker": 1}, parts((1, 2), (2, 1), (3, 4)), brokers(4))
    assert not p.problems
    assert len(p.parts) == 2
    assert all(1 not in x.replicas_to for x in p.parts)
    assert [x.replicas_to.index(2) for x in p.parts] == [1, 0]


def test_draining_without_room_is_refused_with_what_would_help() -> None:
    p = plan({"kind": "drain", "broker": 1}, parts((1, 2, 3)), brokers(3))
    assert "add a broker or lower its replication factor" in p.problems[0]


def test_two_replicas_never_share_a_failure_domain() -> None:
    domains = {1: "a", 2: "b", 3: "a", 4: "c"}
    p = plan({"kind": "drain", "broker": 2}, parts((1, 2)), brokers(4, domains))
    assert p.parts[0].replicas_to == (1, 4)
    by_hand = {"kind": "partitions", "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}
    assert "two replicas in one failure domain" in plan(by_hand, parts((1, 2)), brokers(4, domains)).problems[0]


def test_a_new_rack_is_preferred() -> None:
    p = plan({"kind": "drain", "broker": 2}, parts((1, 2)), brokers(4, racks={1: "x", 3: "x", 4: "y"}))
    assert p.parts[0].replicas_to == (1, 4)


def test_filling_gives_a_new_broker_its_share_and_no_more() -> None:
    p = plan({"kind": "fill", "broker": 3}, parts(*[(1, 2)] * 6), brokers(3))
    assert len(p.parts) == 4
    assert all(3 in x.replicas_to for x in p.parts)


RACKS = {1: "x", 2: "x", 3: "y", 4: "y", 5: "z", 6: "z"}


def test_a_rack_is_drained_as_a_whole_and_nothing_goes_to_its_other_brokers() -> None:
    p = plan({"kind": "drain", "rack": "x"}, parts((1, 3), (4, 2), (1, 2), (3, 5)), brokers(6, racks=RACKS))
    assert not p.problems
    moved = {x.view.partition: x.replicas_to for x in p.parts}
    assert moved.keys() == {0, 1, 2}, "what is not there stays"
    assert moved[0][1] == 3 and moved[1][0] == 4, "who stays keeps its place in the order"
    assert all({1, 2}.isdisjoint(replicas) and len(set(replicas)) == 2 for replicas in moved.values())
    assert all(len({RACKS[b] for b in replicas}) == 2 for replicas in moved.values()), "in two racks as before"


def test_a_rack_that_the_others_cannot_hold_is_refused_whole() -> None:
    p = plan({"kind": "drain", "rack": "x"}, parts((1, 2, 3)), brokers(4, racks=RACKS))
    assert "no other living broker" in p.problems[0] and not p.parts


def test_a_new_rack_is_filled_to_its_share_from_the_others_alone() -> None:
    p = plan({"kind": "fill", "rack": "z"}, parts(*[(1, 3), (2, 4)] * 6), brokers(6, racks=RACKS))
    assert not p.problems
    came = [b for x in p.parts for b in set(x.replicas_to) - set(x.view.replicas)]
    assert (came.count(5), came.count(6)) == (4, 4) and set(came) == {5, 6}
    assert all(len({5, 6} & set(x.replicas_to)) == 1 for x in p.parts), "no partition has both copies in the new rack"
    assert all(len(set(x.replicas_to)) == 2 for x in p.parts)


def test_a_rack_that_has_a_copy_of_everything_shares_it_and_gets_no_second_one() -> None:
    p = plan({"kind": "fill", "rack": "z"}, parts(*[(5, 1), (5, 2), (5, 3)] * 4), brokers(6, racks=RACKS))
    assert len(p.parts) == 4
    assert all(x.replicas_to == (6, x.view.replicas[1]) for x in p.parts)


@pytest.mark.parametrize("kind", ["drain", "fill"])
def test_a_rack_that_is_not_there_or_named_beside_a_broker_is_refused(kind: str) -> None:
    racked = brokers(6, racks=RACKS)
    assert "known are ['x', 'y', 'z']" in plan({"kind": kind, "rack": "q"}, parts((1, 2)), racked).problems[0]
    assert "no broker names one" in plan({"kind": kind, "rack": "q"}, parts((1, 2)), brokers(3)).problems[0]
    for scope in ({"kind": kind}, {"kind": kind, "rack": "x", "broker": 1}):
        assert f"Name a broker or a rack to {kind}" in plan(scope, parts((1, 2)), racked).problems[0]


def test_a_higher_replication_factor_keeps_who_is_there() -> None:
    p = plan({"kind": "replication_factor", "topic": "t", "replication_factor": 3}, parts((1, 2)), brokers(4))
    assert p.parts[0].replicas_to[:2] == (1, 2)
    assert p.bytes_to_copy == 10


def test_a_lower_replication_factor_keeps_the_leader() -> None:
    view = PartitionView(TOPIC, "t", 0, (1, 2, 3), (2, 3), 2, 0, 10, 1, False)
    p = plan({"kind": "replication_factor", "topic": "t", "replication_factor": 2}, [view], brokers(3))
    assert p.parts[0].replicas_to == (2, 3)


def test_an_unknown_size_makes_the_total_unknown_not_zero() -> None:
    p = plan({"kind": "drain", "broker": 1}, parts((1, 2), size=None), brokers(3))
    assert p.bytes_to_copy is None


def test_a_plan_that_changes_nothing_says_so() -> None:
    p = plan({"kind": "drain", "broker": 3}, parts((1, 2)), brokers(3))
    assert "Nothing would move" in p.problems[0]


@settings(max_examples=50, deadline=None)
@given(
    count=st.integers(4, 8),
    placed=st.lists(st.permutations(range(1, 5)).map(lambda p: tuple(p[:3])), min_size=1, max_size=30),
    leaver=st.integers(1, 4),
)
def test_a_drain_never_loses_or_doubles_a_replica(count: int, placed: list[tuple[int, ...]], leaver: int) -> None:
    p = plan({"kind": "drain", "broker": leaver}, parts(*placed), brokers(count))
    moved = {x.view.partition: x.replicas_to for x in p.parts}
    for i, before in enumerate(placed):
        now = moved.get(i, before)
        if leaver in before and not p.problems:
            assert leaver not in now
        assert len(now) == len(before) == len(set(now))
        assert len(set(before) - set(now)) <= 1


def test_what_would_be_below_min_insync_is_a_refusal_two_may_lift_and_what_is_below_is_a_warning() -> None:
    whole = replace(parts((1, 2))[0], min_insync=2)
    p = plan(
        {"kind": "partitions", "partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}, [whole], brokers(3)
    )
    assert p.problems == p.overridable and "fewer than its min.insync.replicas 2" in p.problems[0]
    assert p.warnings == (), "both of its replicas are in sync now"
    limping = replace(whole, isr=(1,))
    p = plan({"kind": "drain", "broker": 2}, [limping], brokers(3))
    assert (p.problems, p.overridable) == ((), ()), "to move it is how it is mended"
    assert "has 1 replica in sync now" in p.warnings[0]
