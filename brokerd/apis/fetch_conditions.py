"""Classification of one partition for one fetch: which kind of result the response will contain. Nothing is read from the log.

Pure. Delayed fetches and responses use the same classification, so a delayed fetch completes exactly when its response would contain something new.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.replica_selector import can_serve_fetch, select_replica
from brokerd.cluster.image import Image
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.replication.replica import Replica
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest


class FetchCondition(Enum):
    ERROR = auto()
    """The response has an error code."""
    BOOTSTRAP = auto()
    """A new replica requests the bootstrap snapshot for the start of its log."""
    HISTORY = auto()
    """The offset is below the local log of this replica: another replica or the remote store has the records."""
    DIVERGING = auto()
    """The fetcher's last epoch ends at another offset here (KIP-595)."""
    PREFERRED_REPLICA = auto()
    """The consumer reads from a closer replica (KIP-392)."""
    AT_END = auto()
    """The fetcher has all records that it may read."""
    READABLE = auto()
    """There are records at the offset."""


class Classified(NamedTuple):
    """`error` belongs to ERROR; `diverging` (epoch, end offset) to DIVERGING; `preferred`, a broker id, to PREFERRED_REPLICA."""

    condition: FetchCondition
    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    preferred: int = -1


BOOTSTRAP, HISTORY = Classified(FetchCondition.BOOTSTRAP), Classified(FetchCondition.HISTORY)
AT_END, READABLE = Classified(FetchCondition.AT_END), Classified(FetchCondition.READABLE)
OUT_OF_RANGE = Classified(FetchCondition.ERROR, ErrorCode.OFFSET_OUT_OF_RANGE)
MOVED_TO_TIER = Classified(FetchCondition.ERROR, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
"""Only for a follower, which must bootstrap its log at the local log start offset of the response."""
TIER_NOT_LOADED = Classified(FetchCondition.ERROR, ErrorCode.OFFSET_NOT_AVAILABLE)
"""Only for a follower: this leader does not know yet whether the records at the offset are in the remote store or deleted."""
UNKNOWN_FOLLOWER = Classified(FetchCondition.ERROR, ErrorCode.UNKNOWN_LEADER_EPOCH)


def classify(
    partition_request: PartitionRequest,
    replica: Replica,
    limit: int,
    follower: ReplicaIncarnation | None,
    *,
    rack: str | None,
    image: Image,
    knows_divergence: bool = True,
) -> Classified:
    """The condition of `partition_request` on `replica`. `limit` is the first offset that this fetcher may not read. `rack` is the rack of a consumer that may
    be redirected to a closer replica, otherwise None. `knows_divergence`: whether responses of the request's version have DivergingEpoch."""
    requested = partition_request.requested
    if error := epoch_error(replica, requested.current_leader_epoch, from_follower=partition_request.may_follow):
        return Classified(FetchCondition.ERROR, error)
    if is_unknown_follower(replica, follower):
        return UNKNOWN_FOLLOWER
    if requested.awaits_bootstrap:
        return BOOTSTRAP
    offset, log = requested.fetch_offset, replica.log
    near = rack if partition_request.may_follow and follower is None and replica.leads else None
    if offset < replica.local_log_start_offset:
        if near is not None and replica.reads_remote and offset >= replica.start_offset:
            closer = select_replica(replica, near, offset, image)
            if closer is not None:
                return Classified(FetchCondition.PREFERRED_REPLICA, preferred=closer)
        if follower is None or replica.remote is None:
            return HISTORY
        return MOVED_TO_TIER if replica.remote.loaded else TIER_NOT_LOADED
    if knows_divergence and (parted := find_divergence(replica, requested)) is not None:
        return Classified(FetchCondition.DIVERGING, diverging=parted)
    if offset < log.start_offset or offset > log.end_offset:
        return OUT_OF_RANGE
    if near is not None:
        closer = select_replica(replica, near, offset, image)
        if closer is not None:
            return Classified(FetchCondition.PREFERRED_REPLICA, preferred=closer)
    return READABLE if offset < limit else AT_END


def find_divergence(replica: Replica, requested: FetchRequest.FetchPartition) -> tuple[int, int] | None:
    """(epoch, end offset) when the fetcher's last epoch ends in this log at another offset than its fetch offset."""
    last = requested.last_fetched_epoch
    if last < 0 or (last == replica.log.last_epoch and requested.fetch_offset <= replica.log.end_offset):
        return None
    epoch, end = replica.log.epochs.end_offset_for(last)
    if epoch == last and requested.fetch_offset <= end:
        return None
    if epoch < 0:
        if requested.fetch_offset <= replica.log.start_offset:
            return None  # older than all stored epochs: OFFSET_OUT_OF_RANGE or a read from the start, not a divergence
        # This leader lost its log, so no stored epoch is that old. An epoch of -1 would mean "no divergence" in the response.
        return 0, replica.log.start_offset
    return epoch, end


def epoch_error(replica: Replica | None, epoch: int, *, from_follower: bool = False) -> ErrorCode:
    """The error for a request with leader epoch `epoch` (-1: the request has none). With `from_follower`, a follower may answer too."""
    if replica is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.offline_reason is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if epoch >= 0:
        if epoch < replica.core.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > replica.core.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if can_serve_fetch(replica, from_follower) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def is_unknown_follower(replica: Replica, follower: ReplicaIncarnation | None) -> bool:
    """Return whether this follower is not, or no longer, a replica in the leader's metadata. The follower must retry, because its fetch offset would not be
    stored, and a fetch session does not repeat the offset. Kafka responds with the same error code."""
    state = replica.core.state
    return follower is not None and state is not None and follower.broker_id not in state.hosts
