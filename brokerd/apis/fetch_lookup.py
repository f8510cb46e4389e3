"""Look-up of the replica that answers each partition of a Fetch request, and of the kind of sender (follower or consumer). Does not contain: the response of
the replica (`fetch_conditions`), sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from brokerd.apis.fetch_conditions import epoch_error
from brokerd.apis.fetch_sessions import Key, PartitionRequest
from brokerd.cluster.model import ReplicaIncarnation, TopicState
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest

FIRST_WITH_RACK = 11
"""First version whose clients know preferred read replicas."""
FIRST_BY_ID = 13
"""First version that names topics by id."""
FIRST_WITH_REPLICA_STATE = 15
"""First version in which a follower sends its broker epoch (KIP-903)."""
Topics = Sequence[FetchRequest.FetchTopic]


def follower_of(body: FetchRequest, version: int) -> ReplicaIncarnation | None:
    """The follower that sent the request. None: a consumer."""
    if version >= FIRST_WITH_REPLICA_STATE:
        state = body.replica_state
        if state is not None and state.replica_id >= 0:
            return ReplicaIncarnation(state.replica_id, state.replica_epoch)
    elif body.replica_id >= 0:
        # A follower without a broker epoch cannot prove that it is the same incarnation as the ISR member.
        return ReplicaIncarnation(body.replica_id, -1)
    return None


def look_up(
    replica_manager: ReplicaManager, topics: Topics, body: FetchRequest, version: int
) -> dict[Key, PartitionRequest]:
    """The partitions of `topics` with their replicas. If a request contains a partition twice, the last one counts."""
    found: dict[Key, PartitionRequest] = {}
    for topic in topics:
        for requested in topic.partitions:
            key = (topic.topic_id.int if version >= FIRST_BY_ID else topic.topic, requested.partition)
            found[key] = looked_up(replica_manager, topic.topic, topic.topic_id, requested, body, version)
    return found


def looked_up(
    replica_manager: ReplicaManager,
    name: str,
    topic_id: UUID,
    requested: FetchRequest.FetchPartition,
    body: FetchRequest,
    version: int,
) -> PartitionRequest:
    """One partition with its replica on this broker, or with the error that the response contains."""
    image = replica_manager.image
    state: TopicState | None
    if version >= FIRST_BY_ID:
        state, missing = image.topics.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        state, missing = image.topic_named(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if state is None or not state.ready:
        return PartitionRequest(name, topic_id, requested, None, missing)
    if requested.partition not in state.partitions:
        return PartitionRequest(state.name, state.topic_id, requested, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replica = replica_manager.find(state, requested.partition)
    may_follow = version >= FIRST_WITH_RACK and bool(body.rack_id) and follower_of(body, version) is None
    error = epoch_error(replica, requested.current_leader_epoch, from_follower=may_follow)
    if error or replica is None:
        return PartitionRequest(state.name, state.topic_id, requested, None, error)
    return PartitionRequest(
        state.name, state.topic_id, requested, replica, error, replica.core.leader_epoch, may_follow=may_follow
    )
