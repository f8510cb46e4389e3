"""The high watermark with majority acknowledgements."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.replication.follower import UNKNOWN_OFFSET, Follower
from brokerd.replication.quorum import committed_end

MEMBERS = tuple(ReplicaIncarnation(i, 10 + i) for i in range(1, 7))
STATE = PartitionState((1, 2, 3), MEMBERS[:3], 1, 11, voters=(1, 2, 3))


def followers(**ends: int) -> dict[int, Follower]:
    return {int(name[1:]): Follower(10 + int(name[1:]), log_end=end) for name, end in ends.items()}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, UNKNOWN_OFFSET),
        ({"b2": 40}, 40),
        ({"b2": 40, "b3": 90}, 90),
        ({"b2": 120, "b3": 110}, 110),
        ({"b3": 5}, 5),
    ],
)
def test_a_majority_decides(known: dict[str, int], expected: int) -> None:
    assert committed_end(STATE, 1, 100, followers(**known), STATE.isr) == expected


def test_replicas_that_are_added_must_have_the_record_too() -> None:
    moving = PartitionState((4, 1, 2, 3), (*MEMBERS[:3], MEMBERS[3]), 1, 11, voters=(1, 2, 3), adding=(4,))
    known = followers(b2=90, b3=10)
    assert committed_end(moving, 1, 100, known, moving.isr) == UNKNOWN_OFFSET
    assert committed_end(moving, 1, 100, known | followers(b4=60), moving.isr) == 60
    assert committed_end(moving, 1, 100, known | {4: Follower(99, log_end=60)}, moving.isr) == UNKNOWN_OFFSET
    assert committed_end(moving, 1, 100, known, moving.isr[:3]) == 90, "not in the ISR yet"


def test_a_leader_that_is_added_does_not_count_as_a_voter() -> None:
    moving = PartitionState((4, 1, 2, 3), MEMBERS[:4], 4, 14, voters=(1, 2, 3), adding=(4,))
    assert committed_end(moving, 4, 100, followers(b1=30), moving.isr) == UNKNOWN_OFFSET
    assert committed_end(moving, 4, 100, followers(b1=30, b2=20), moving.isr) == 20
