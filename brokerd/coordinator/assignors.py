"""Who is to have which partitions of a consumer group: Kafka's server-side assignors `uniform` and `range`. Pure.

Laws: every partition that somebody is subscribed to is given to exactly one subscriber; the same question has the same answer. `uniform`
moves as little as it can while nobody who could take a partition has two fewer than who has it; `range` keeps partitions of one number
together. Called by `consumer_group`. Must not come in: who owns what at the moment (that is `reconciliation`'s), racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from uuid import UUID

from brokerd.cluster.model import TopicPartition

Share = frozenset[TopicPartition]
NOTHING: Share = frozenset()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member is subscribed to, as far as it exists. `place` orders members: an instance id lasts longer than a member id."""

    topics: frozenset[UUID]
    place: tuple[bool, str]


Assignor = Callable[[Mapping[str, Wish], Mapping[UUID, int], Mapping[str, Share]], dict[str, Share]]
"""(members, partition counts of the topics, what they were to have so far) -> what they are to have."""


def range_assignor(
    members: Mapping[str, Wish], counts: Mapping[UUID, int], current: Mapping[str, Share]
) -> dict[str, Share]:
    """Each topic in runs, in the same order of members."""
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
    members: Mapping[str, Wish], counts: Mapping[UUID, int], current: Mapping[str, Share]
) -> dict[str, Share]:
    if not members:
        return {}
    wanted = {w.topics for w in members.values()}
    topics = sorted(frozenset[UUID]().union(*wanted) & counts.keys())
    everything = [TopicPartition(topic, i) for topic in topics for i in range(counts[topic])]
    kept: dict[str, list[TopicPartition]] = {}
    free = set(everything)
    in_order = sorted(members, key=lambda m: members[m].place)
    for member in in_order:
        mine = [tp for tp in current.get(member, NOTHING) if tp in free and tp.topic_id in members[member].topics]
        free.difference_update(mine)
        kept[member] = mine
    left = [tp for tp in everything if tp in free]
    shares = _alike(in_order, kept, left) if len(wanted) == 1 else _unlike(members, in_order, kept, left)
    return {m: frozenset(share) for m, share in shares.items()}


def _alike(
    in_order: list[str], kept: dict[str, list[TopicPartition]], left: list[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Everybody reads the same: shares differ by one at most, and who has most keeps the odd ones."""
    each, more = divmod(len(left) + sum(map(len, kept.values())), len(in_order))
    favoured = set(sorted(in_order, key=lambda m: -len(kept[m]))[:more])
    quota = {m: each + (m in favoured) for m in in_order}
    for member, mine in kept.items():
        if len(mine) > quota[member]:
            mine.sort()
            left += mine[quota[member] :]
            del mine[quota[member] :]
    left.sort(reverse=True)
    for member in in_order:
        while len(kept[member]) < quota[member]:
            kept[member].append(left.pop())
    return kept


def _unlike(
    members: Mapping[str, Wish],
    in_order: list[str],
    kept: dict[str, list[TopicPartition]],
    left: list[TopicPartition],
) -> dict[str, list[TopicPartition]]:
    """Each partition goes to the subscriber with the least; then those that have two more than another subscriber hand over."""
    takers: dict[UUID, list[str]] = {}
    for member in in_order:
        for topic in members[member].topics:
            takers.setdefault(topic, []).append(member)
    shares = {m: set(mine) for m, mine in kept.items()}
    # What few may have first: the others fill up around it.
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
