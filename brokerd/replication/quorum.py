"""The high watermark of a partition with majority acknowledgements (decision 102). Pure. Does not contain: elections (`brokerd.cluster.majority`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from brokerd.cluster import majority
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.replication.follower import UNKNOWN_OFFSET, Follower


def committed_end(
    state: PartitionState,
    broker_id: int,
    own_end: int,
    followers: Mapping[int, Follower],
    maximal_isr: Collection[ReplicaIncarnation],
) -> int:
    """The offset below which a majority of the voters has each record, as far as the leader `broker_id` knows. `own_end`: the end of the leader's log
    that counts.

    Members of the ISR that are no voters are being added. All of them must have the record too: they become voters without another check.
    """
    ends = sorted(
        (
            own_end if b == broker_id else followers[b].log_end if b in followers else UNKNOWN_OFFSET
            for b in state.voters
        ),
        reverse=True,
    )
    committed = ends[majority.quorum(state.voters) - 1]
    for member in maximal_isr:
        if member.broker_id in state.voters or member.broker_id == broker_id:
            continue
        follower = followers.get(member.broker_id)
        if follower is None or follower.broker_epoch != member.broker_epoch:
            return UNKNOWN_OFFSET
        committed = min(committed, follower.log_end)
    return committed
