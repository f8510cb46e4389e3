"""Kafka's server-side assignors `uniform` and `range`. Pure and deterministic.

Invariants: each partition of a subscribed topic is assigned to exactly one subscriber. `uniform` moves as few partitions as possible; no member
has two partitions more than another subscriber of one of them. `range` assigns partitions with the same number to the same member.
Does not contain current assignments (`reconciliation`) and racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from uuid import UUID

from brokerd.cluster.model import TopicPartition

Assignment = frozenset[TopicPartition]
EMPTY_ASSIGNMENT: Assignment = frozenset()


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The existing topics that a member is subscribed to. The members are ordered by `place`: instance ids come first because they are stable."""

    topics: frozenset[UUID]
    place: tuple[bool, str]


Assignor = Callable[
    [Mapping[str, MemberSubscription], Mapping[UUID, int], Mapping[str, Assignment]], dict[str, Assignment]
]
"""(members, partition counts of the topics, previous target assignments) -> target assignments."""


def range_assignor(
    members: Mapping[str, MemberSubscription], counts: Mapping[UUID, int], current: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Assign each topic in contiguous ranges, in the same order of members."""
    given: dict[str, set[TopicPartition]] = {m: set() for m in members}
    in_order = sorted(members, key=lambda m: members[m].place)
    for topic, count in counts.items():
        takers = [m for m in in_order if topic in members[m].topics]
        if not takers:
            continue
        each, more = divmod(count, len(takers))
        start = 0
        for i, member in enumerate(takers):
            end = start + each + (i < more)
            given[member].update(map(TopicPartition, repeat(topic), range(start, end)))
            start = end
    return {m: frozenset(share) for m, share in given.items()}


def uniform_assignor(
    members: Mapping[str, MemberSubscription], counts: Mapping[UUID, int], current: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    if not members:
        return {}
    subscribed = {w.topics for w in members.values()}
    topics = sorted(frozenset[UUID]().union(*subscribed) & counts.keys())
    everything = [TopicPartition(topic, i) for topic in topics for i in range(counts[topic])]
    kept: dict[str, list[TopicPartition]] = {}
    free = set(everything)
    in_order = sorted(members, key=lambda m: members[m].place)
    for member in in_order:
        mine = [
            tp for tp in current.get(member, EMPTY_ASSIGNMENT) if tp in free and tp.topic_id in members[member].topics
        ]
        free.difference_update(mine)
        kept[member] = mine
    left = [tp for tp in everything if tp in free]
    shares = (
        _assign_same_subscriptions(in_order, kept, left)
        if len(subscribed) == 1
        else _assign_different_subscriptions(members, in_order, kept, left)
    )
    return {m: frozenset(share) for m, share in shares.items()}


def _assign_same_subscriptions(
    in_order: list[str], current: dict[str, list[TopicPartition]], left: list[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """All members have the same subscription: the sizes differ by at most one, and the members with the most partitions keep the remainder."""
    each, more = divmod(len(left) + sum(map(len, current.values())), len(in_order))
    favoured = set(sorted(in_order, key=lambda m: -len(current[m]))[:more])
    quota = {m: each + (m in favoured) for m in in_order}
    for member, mine in current.items():
        if len(mine) > quota[member]:
            mine.sort()
            left += mine[quota[member] :]
            del mine[quota[member] :]
    left.sort(reverse=True)
    for member in in_order:
        while len(current[member]) < quota[member]:
            current[member].append(left.pop())
    return current


def _assign_different_subscriptions(
    members: Mapping[str, MemberSubscription],
    in_order: list[str],
    current: dict[str, list[TopicPartition]],
    left: list[TopicPartition],
) -> dict[str, list[TopicPartition]]:
    """Assign each partition to the subscriber with the fewest partitions. Then move partitions while the sizes differ by two or more."""
    takers: dict[UUID, list[str]] = {}
    for member in in_order:
        for topic in members[member].topics:
            takers.setdefault(topic, []).append(member)
    shares = {m: set(mine) for m, mine in current.items()}
    # Assign partitions with few subscribers first; the other partitions can then balance the members.
    for tp in sorted(left, key=lambda tp: (len(takers[tp.topic_id]), tp)):
        shares[min(takers[tp.topic_id], key=lambda m: len(shares[m]))].add(tp)
    moved = True
    while moved:  # each move makes the sum of the squares smaller
        moved = False
        for member in sorted(in_order, key=lambda m: -len(shares[m])):
            for tp in sorted(shares[member]):
                least = min(takers[tp.topic_id], key=lambda m: len(shares[m]))
                if len(shares[least]) + 1 < len(shares[member]):
                    shares[member].remove(tp)
                    shares[least].add(tp)
                    moved = True
    return {m: list(share) for m, share in shares.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}
