"""The assignors: each partition has one subscribed owner, assignments are balanced, and few partitions move."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import (
    ASSIGNORS,
    Assignment,
    MemberSubscription,
    range_assignor,
    uniform_assignor,
)

TOPICS = [UUID(int=i) for i in range(1, 5)]
groups = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from(TOPICS)), max_size=8)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))


def subscriptions(members: dict[str, set[UUID]]) -> dict[str, MemberSubscription]:
    return {m: MemberSubscription(frozenset(topics), (True, m)) for m, topics in members.items()}


def check(members: dict[str, MemberSubscription], there: dict[UUID, int], shares: dict[str, Assignment]) -> None:
    assert shares.keys() == members.keys()
    given_out = [tp for share in shares.values() for tp in share]
    wanted = {
        TopicPartition(t, i) for t, n in there.items() if any(t in w.topics for w in members.values()) for i in range(n)
    }
    assert len(given_out) == len(set(given_out)) and set(given_out) == wanted
    assert all(tp.topic_id in members[m].topics for m, share in shares.items() for tp in share)


@given(groups, counts)
def test_each_partition_has_one_of_its_subscribers(members: dict[str, set[UUID]], there: dict[UUID, int]) -> None:
    for assign in ASSIGNORS.values():
        check(subscriptions(members), there, assign(subscriptions(members), there, {}))


@given(groups, groups, counts, counts)
def test_the_uniform_assignor_is_balanced_and_sticky(
    before: dict[str, set[UUID]], after: dict[str, set[UUID]], there: dict[UUID, int], later: dict[UUID, int]
) -> None:
    current = uniform_assignor(subscriptions(before), there, {})
    members = subscriptions(after)
    shares = uniform_assignor(members, later, current)
    check(members, later, shares)
    for member, share in shares.items():
        for tp in share:
            assert all(
                len(shares[other]) >= len(share) - 1 for other, w in members.items() if tp.topic_id in w.topics
            ), f"{member} has two more than one who could take {tp}"
    assert uniform_assignor(members, later, shares) == shares, "asked again it would move something"


@given(st.integers(1, 8), st.integers(0, 40), st.integers(1, 8))
def test_a_joining_or_leaving_member_moves_only_its_share(size: int, partitions: int, leaver: int) -> None:
    there = {TOPICS[0]: partitions}
    members = {f"m{i}": {TOPICS[0]} for i in range(size)}
    shares = uniform_assignor(subscriptions(members), there, {})
    grown = uniform_assignor(subscriptions({**members, "new": {TOPICS[0]}}), there, shares)
    moved = sum(len(shares[m] - grown[m]) for m in members)
    assert moved == len(grown["new"])
    if size > 1:
        gone = f"m{leaver % size}"
        left = {m: t for m, t in members.items() if m != gone}
        shrunk = uniform_assignor(subscriptions(left), there, shares)
        assert all(shares[m] <= shrunk[m] for m in left), "those who stay give up nothing"


def test_the_range_assignor_co_partitions_topics_and_keeps_static_members() -> None:
    there = {TOPICS[0]: 4, TOPICS[1]: 4}
    everything = frozenset(TOPICS[:2])
    members = {"zz": MemberSubscription(everything, (False, "i1")), "aa": MemberSubscription(everything, (True, "aa"))}
    shares = range_assignor(members, there, {})
    assert shares["zz"] == {TopicPartition(t, i) for t in everything for i in (0, 1)}
    again = range_assignor({"aa": members["aa"], "00": MemberSubscription(everything, (False, "i1"))}, there, {})
    assert again["00"] == shares["zz"], "the same instance under another id has the same place"
    assert range_assignor({**members, "bb": MemberSubscription(frozenset(TOPICS[1:2]), (True, "bb"))}, there, {})[
        "bb"
    ] == {TopicPartition(TOPICS[1], 3)}
