"""Events and effects of a partition's state machine (`partition`).

Values only. Each value belongs to the epoch in it, or else to the current epoch of the state machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.cluster.model import PartitionState, ReplicaIncarnation


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PartitionStateChanged:
    """The metadata log has a new state of the partition. `leads`: whether leader and leader_broker_epoch are those of this broker. `min_insync` is the
    topic's min.insync.replicas as configured. `leader_alive`: whether a follower has a leader to fetch from. `log_end` is this replica's log end offset,
    and `acknowledgeable_end` the end of the part that counts (see Appended). `retention_deletes`: whether retention may raise the log start offset later.
    """

    state: PartitionState
    leads: bool
    min_insync: int
    log_end: int
    log_start: int
    leader_alive: bool = True
    acknowledgeable_end: int | None = None
    retention_deletes: bool = True


@dataclass(frozen=True, slots=True)
class LeaderAppended:
    """The log has grown, or more of it was flushed. Up to `acknowledgeable_end` the leader's own replica counts for the high watermark; None means the whole
    log. For a topic with flush settings it is the flushed end."""

    log_end: int
    acknowledgeable_end: int | None = None


@dataclass(slots=True)
class SessionLiveness:
    """The time (mono) of the last fetch of a follower's fetch session. Partitions of the session that it does not name are unchanged."""

    ms: int = 0


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """Follower `replica` fetches from `fetch_offset`, so it has all records below. The shell has checked that its incarnation is current. `session_liveness`
    is the fetch session that repeats this fetch, until the session contains the partition again, forgets the partition (`FetchSessionDropped`) or ends.
    """

    replica: ReplicaIncarnation
    fetch_offset: int
    log_start: int
    session_liveness: SessionLiveness | None = None
    remote_start: int = -1
    """The first offset, local or remote, that consumers can read from the follower. -1 if it serves local records only."""


@dataclass(frozen=True, slots=True)
class FetchSessionDropped:
    """Later fetches of the session `session_liveness` do not cover this partition. Sent before the next fetch of the session is applied. The follower may
    fetch the partition in another session already."""

    replica: ReplicaIncarnation
    session_liveness: SessionLiveness | None


@dataclass(frozen=True, slots=True)
class IsrProposalRejected:
    """The controller rejected the ISR proposal. The next proposal is delayed. The current proposal ends when the partition epoch changes."""

    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class LogStartRaised:
    log_start: int


@dataclass(frozen=True, slots=True)
class PartitionTick:
    pass


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RaiseHighWatermark:
    offset: int


@dataclass(frozen=True, slots=True)
class RaiseLowWatermark:
    """The lowest log start offset of the ISR has increased. Operations that wait for the deletion of records can be evaluated."""


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Propose this ISR to the controller. Bound to the epochs from which it was computed."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[ReplicaIncarnation, ...]


@dataclass(frozen=True, slots=True)
class FailWaiters:
    """Delayed operations of the old epoch must fail."""


@dataclass(frozen=True, slots=True)
class Follow:
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StopFollowing:
    pass


@dataclass(frozen=True, slots=True)
class Lead:
    """Leadership starts at `epoch_start`, the log end offset at that moment."""

    leader_epoch: int
    epoch_start: int


Event = (
    PartitionStateChanged
    | LeaderAppended
    | FollowerFetched
    | FetchSessionDropped
    | IsrProposalRejected
    | LogStartRaised
    | PartitionTick
)
Effect = RaiseHighWatermark | RaiseLowWatermark | ProposeIsr | FailWaiters | Follow | StopFollowing | Lead
