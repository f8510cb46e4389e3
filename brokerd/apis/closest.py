"""Which replica a consumer had best read from: the closest one (KIP-392).

Laws: nobody is sent to a replica that is not in the accepted ISR, is not alive in the life that is in it, or does not hold what is asked for;
a follower answers consumers only while it is in the ISR, and only those who say where they are (who does not, and asks a follower, has old
metadata). Called by `fetch`. Must not come in: reading.
"""

from __future__ import annotations

from brokerd.cluster.image import Image
from brokerd.partition import Role
from brokerd.replica import Replica


def closest(replica: Replica, rack: str, offset: int, image: Image) -> int | None:
    """The broker that a consumer in `rack` is to read `offset` from; None: this one, which leads."""
    core = replica.core
    own = image.brokers.get(core.broker_id)
    if core.state is None or (own is not None and own.rack == rack):
        return None
    best: tuple[int, int] | None = None
    for seat in core.state.isr:
        broker, known = image.brokers.get(seat.broker_id), core.followers.get(seat.broker_id)
        if broker is None or not broker.alive or broker.incarnation != seat.incarnation or broker.rack != rack:
            continue
        if known is None or known.incarnation != seat.incarnation or not known.log_start <= offset <= known.log_end:
            continue
        candidate = (known.log_end, -seat.broker_id)
        best = candidate if best is None else max(best, candidate)
    return -best[1] if best is not None else None


def serves(replica: Replica, from_follower: bool) -> bool:
    """Whether it answers fetches: `from_follower`, of a consumer that may have been sent here."""
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
