"""Replica placement. Pure and deterministic: the same brokers and topic give the same placement.

Replicas of one partition are in different failure domains if enough domains are alive. Racks are spread. The least loaded brokers are
preferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from brokerd.cluster.model import BrokerState


class PlacementError(ValueError):
    """No placement is possible. The message gives the reason."""


def place(
    topic_id: UUID,
    first_partition: int,
    count: int,
    replication_factor: int,
    brokers: Sequence[BrokerState],
    load: Mapping[int, int],
) -> list[tuple[int, ...]]:
    """Replicas of `count` new partitions, the first is the preferred leader. `load` is the number of replicas per broker. Raises PlacementError."""
    domains = {b.failure_domain or f"broker-{b.broker_id}" for b in brokers}
    if replication_factor > len(brokers):
        raise PlacementError(
            f"replication factor {replication_factor} is larger than the number of available brokers, {len(brokers)}"
        )
    spread = replication_factor <= len(domains)
    carried = {b.broker_id: load.get(b.broker_id, 0) for b in brokers}
    leads = {b.broker_id: 0 for b in brokers}
    start = topic_id.int % max(1, len(brokers))
    ordered = sorted(brokers, key=lambda b: b.broker_id)
    ordered = ordered[start:] + ordered[:start]
    out: list[tuple[int, ...]] = []
    for i in range(count):
        turn = (first_partition + i) % len(ordered)
        candidates = ordered[turn:] + ordered[:turn]
        chosen: list[BrokerState] = []
        while len(chosen) < replication_factor:
            used_domains = {c.failure_domain or f"broker-{c.broker_id}" for c in chosen}
            used_racks = {c.rack for c in chosen if c.rack is not None}
            free = [
                b
                for b in candidates
                if b not in chosen and not (spread and (b.failure_domain or f"broker-{b.broker_id}") in used_domains)
            ]
            if not free:
                raise PlacementError("no broker is available in another failure domain")
            weight = leads if not chosen else carried
            best = min(
                range(len(free)),
                key=lambda k: (free[k].rack in used_racks, weight[free[k].broker_id], carried[free[k].broker_id], k),
            )
            chosen.append(free[best])
            carried[free[best].broker_id] += 1
        leads[chosen[0].broker_id] += 1
        out.append(tuple(b.broker_id for b in chosen))
    return out
