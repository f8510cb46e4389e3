"""The assignor `simple`: every partition has a member, every member has a partition, and the assignments are even and stable."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.share_group.assignor import simple
from tests.unit.coordinator.topics import A, B, share

ALL = {A: frozenset(range(4)), B: frozenset(range(2))}


def test_fewer_members_than_partitions_do_not_share() -> None:
    found = simple({"x": frozenset({A}), "y": frozenset({A})}, ALL, {})
    assert sorted(map(len, found.values())) == [2, 2]
    assert found["x"] | found["y"] == share(A, 0, 1, 2, 3)


def test_more_members_than_partitions_share_evenly() -> None:
    found = simple({f"m{i:02}": frozenset({B}) for i in range(7)}, ALL, {})
    assert {len(x) for x in found.values()} == {1}
    assert sorted(Counter(tp for x in found.values() for tp in x).values()) == [3, 4]


def test_assignments_are_kept_when_a_member_joins() -> None:
    before = simple({"x": frozenset({A}), "y": frozenset({A})}, ALL, {})
    after = simple({"x": frozenset({A}), "y": frozenset({A}), "z": frozenset({A})}, ALL, before)
    assert after["x"] <= before["x"] and after["y"] <= before["y"]
    assert simple({"x": frozenset({A}), "y": frozenset({A})}, ALL, before) == before


def test_members_without_assignable_topics_get_nothing() -> None:
    assert simple({"x": frozenset({A}), "y": frozenset()}, {A: frozenset({0})}, {}) == {
        "x": share(A, 0),
        "y": frozenset(),
    }
    assert simple({"x": frozenset({A})}, {}, {}) == {"x": frozenset()}
    assert simple({}, ALL, {}) == {}


@pytest.mark.parametrize("seed", range(30))
def test_random_groups(seed: int) -> None:
    r = random.Random(seed)
    topics = {UUID(int=i): frozenset(range(r.randrange(1, 6))) for i in range(1, 4)}
    current: dict[str, Assignment] = {}
    for _ in range(20):
        members = {
            f"m{i}": frozenset(t for t in topics if r.random() < 0.7) for i in r.sample(range(12), r.randrange(12))
        }
        current = simple(members, topics, current)
        assert current.keys() == members.keys()
        for m, own in current.items():
            assert {tp.topic_id for tp in own} <= members[m]
            assert bool(own) == bool(members[m]), "a member with topics has a partition"
        for t, ps in topics.items():
            taken = {tp.partition for own in current.values() for tp in own if tp.topic_id == t}
            assert taken == (ps if any(t in x for x in members.values()) else set())
        assert all(isinstance(tp, TopicPartition) for own in current.values() for tp in own)
