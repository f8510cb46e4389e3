"""Replicas of one topic whose move frees space on a nearly full broker, with the brokers that can take them.

Invariants: no broker is proposed that is down, cordoned, in the failure domain of another replica, or without room for the bytes. A replica changes to a rack that has
no other replica, or to that of the full broker. Does not contain: the checks of the move, which its review makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brokerd.cluster.cordons import is_cordoned
from controlplane.models import Broker, ObservedPartition, ObservedReplica

REPLICAS_MAX = 8
"""Maximum number of replicas of one proposal. A review of more is not read at night."""
FREE_AFTER = 0.2
"""Part of the disk that shall be free afterwards: above the thresholds of the alert, so that it ends."""
USED_OF_FREE = 0.8
"""Part of a target's free bytes that the replicas may use. A plan warns above it."""
EXAMINED_MAX = 100
"""Largest replicas of the topic on the broker that are examined."""


@dataclass(slots=True)
class _Target:
    broker: Broker
    received_bytes: int = 0

    @property
    def room(self) -> float:
        """Return the bytes that the broker can still receive. Unknown free space counts as free: the plan of the move checks it again."""
        free = self.broker.free_bytes
        return float("inf") if free is None else free * USED_OF_FREE - self.received_bytes


def relief(broker_id: str, topic: str) -> list[str]:
    """Placements "partition=replicas" that free space, the largest replicas first; empty if no broker can take one."""
    brokers = {b.pk: b for b in Broker.objects.all()}
    full = brokers.get(int(broker_id))
    if full is None:
        return []
    targets = [_Target(b) for b in brokers.values() if b.pk != full.pk and b.alive and not is_cordoned(b.configs)]
    missing = (full.total_bytes or 0) * FREE_AFTER - (full.free_bytes or 0)
    found: list[str] = []
    for part, size in _largest(full.pk, topic):
        others = [brokers[b] for b in part.replicas if b != full.pk and b in brokers]
        fit = [t for t in targets if _fits(t, size, part.replicas, others, full)]
        if fit:
            best = max(fit, key=lambda t: (t.room, -t.broker.pk))
            best.received_bytes += size
            replicas = (str(best.broker.pk if b == full.pk else b) for b in part.replicas)
            found.append(f"{part.index}={','.join(replicas)}")
            missing -= size
        if len(found) == REPLICAS_MAX or (found and missing <= 0):
            break
    return found


def _largest(broker_id: int, topic: str) -> Iterator[tuple[ObservedPartition, int]]:
    """Partitions that can move, with the bytes of their replica on the broker."""
    replicas = ObservedReplica.objects.filter(broker_id=broker_id, topic_name=topic, size_bytes__gt=0)
    largest = replicas.order_by("-size_bytes", "index").values_list("index", "size_bytes")[:EXAMINED_MAX]
    sizes = {index: size or 0 for index, size in largest}
    rows = ObservedPartition.objects.filter(topic__name=topic, index__in=sizes, leader__isnull=False)
    parts = {p.index: p for p in rows if broker_id in p.replicas and not p.adding and not p.removing}
    return ((parts[index], size) for index, size in sizes.items() if index in parts)


def _fits(target: _Target, size: int, replicas: list[int], others: list[Broker], full: Broker) -> bool:
    b = target.broker
    if b.pk in replicas or size > target.room:
        return False
    if b.failure_domain is not None and any(o.failure_domain == b.failure_domain for o in others):
        return False
    return b.rack is None or b.rack == full.rack or all(o.rack != b.rack for o in others)
