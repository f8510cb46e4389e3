"""Selection of the closest replica for a consumer (KIP-392).

Invariants: a consumer is redirected only to a replica that is in the accepted ISR and alive with the same broker epoch. The replica must contain the offset, or
must have reported that it reads the offset from the remote store. A follower serves consumers only while it is in the ISR, and only consumers that send a rack.
A consumer without a rack that fetches from a follower has outdated metadata. Does not contain: reading.
"""

from __future__ import annotations

from brokerd.cluster.image import Image
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica


def select_replica(replica: Replica, rack: str, offset: int, image: Image) -> int | None:
    """The broker from which a consumer in `rack` should read `offset`. None if it should read from this broker, the leader."""
    core = replica.core
    own = image.brokers.get(core.broker_id)
    if core.state is None or (own is not None and own.rack == rack):
        return None
    best: tuple[int, int] | None = None
    for isr_member in core.state.isr:
        broker, known = image.brokers.get(isr_member.broker_id), core.followers.get(isr_member.broker_id)
        if broker is None or not broker.alive or broker.broker_epoch != isr_member.broker_epoch or broker.rack != rack:
            continue
        if (
            known is None
            or known.broker_epoch != isr_member.broker_epoch
            or not known.served_start <= offset <= known.log_end
        ):
            continue
        candidate = (known.log_end, -isr_member.broker_id)
        best = candidate if best is None else max(best, candidate)
    return -best[1] if best is not None else None


def can_serve_fetch(replica: Replica, from_follower: bool) -> bool:
    """Return whether this replica serves fetches. `from_follower`: whether the consumer sends a rack, so that the leader may have redirected it to this
    replica."""
    if replica.leads:
        return True
    core = replica.core
    return (
        from_follower
        and replica.offline_reason is None
        and core.role is Role.FOLLOWER
        and core.state is not None
        and core.broker_id in core.state.isr_ids
    )
