"""The assignor `simple` of share groups. Pure.

Invariants: each partition has at least one member if a member subscribes to its topic, and each member has at least one partition if its topics
have any. Partitions are shared only when there are more members than partitions. Assignments are kept where the balance permits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import Assignment


def simple(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """{member id: assignment}. `subscriptions`: {member id: topic ids}. `partitions`: the assignable partitions by topic id."""
    subscribed = {t for topics in subscriptions.values() for t in topics}
    targets = [TopicPartition(t, p) for t in sorted(subscribed & partitions.keys()) for p in sorted(partitions[t])]
    takers: dict[UUID, list[str]] = {
        t: sorted(m for m, topics in subscriptions.items() if t in topics) for t in {tp.topic_id for tp in targets}
    }
    members = sorted(m for m, topics in subscriptions.items() if any(t in takers for t in topics))
    given: dict[str, set[TopicPartition]] = {m: set() for m in subscriptions}
    if not members or not targets:
        return {m: frozenset() for m in subscriptions}
    of_partition_max = -(-len(members) // len(targets))
    of_member_max = -(-len(targets) // len(members))
    holders: dict[TopicPartition, int] = dict.fromkeys(targets, 0)

    def give(member: str, tp: TopicPartition) -> None:
        given[member].add(tp)
        holders[tp] += 1

    for member in members:
        for tp in sorted(current.get(member, ())):
            if (
                tp in holders
                and tp.topic_id in subscriptions[member]
                and holders[tp] < of_partition_max
                and len(given[member]) < of_member_max
            ):
                give(member, tp)
    for tp in targets:
        if not holders[tp]:
            give(min(takers[tp.topic_id], key=lambda m: len(given[m])), tp)
    for member in members:
        if not given[member]:
            give(member, min((tp for tp in targets if tp.topic_id in subscriptions[member]), key=holders.__getitem__))
    return {m: frozenset(own) for m, own in given.items()}
