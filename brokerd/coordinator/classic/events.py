"""Types of classic consumer groups: states, members, events, effects. Does not contain behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from brokerd.coordinator.reply_callback import ReplyCallback


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """`join` is the waiting JoinGroup, `sync` the token of the waiting SyncGroup, `deadline_ms` the end of the session (mono). `consumer_epoch` is the member
    epoch before a conversion from the consumer protocol, which is accepted as the generation until the next generation, or -1."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    deadline_ms: int = 0
    consumer_epoch: int = -1
    join: Join | None = None
    sync: ReplyCallback | None = None

    def metadata(self, protocol: str) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset. `commit_wall_ms` is the time of the commit in Unix milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_wall_ms: int


TopicIndex = tuple[str, int]


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Join:
    """`new_member_id` is a new member id, used if one is needed. `require_known_member_id`: a new member must join again with it (v4+)."""

    token: ReplyCallback
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    require_known_member_id: bool
    may_describe: Callable[[str], bool] | None = None
    """Returns whether the member may describe a topic. Used by groups of the consumer protocol. None means that it may describe all topics."""


@dataclass(frozen=True, slots=True)
class Sync:
    token: ReplyCallback
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    token: ReplyCallback
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Members to remove (several since version 3), each as (member id, instance id)."""

    token: ReplyCallback
    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Commit:
    token: ReplyCallback
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicIndex, Offset]


@dataclass(frozen=True, slots=True)
class TransactionalCommit:
    """A commit in a producer's transaction. It takes effect when the transaction is committed."""

    token: ReplyCallback
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicIndex, Offset]
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Persisted:
    """`log_offset`: the offset of the first of the records."""

    number: int
    log_offset: int = -1


@dataclass(frozen=True, slots=True)
class PersistFailed:
    """`error` is the code for the client. The coordinator decides whether the partition must be loaded again."""

    number: int
    error: int


@dataclass(frozen=True, slots=True)
class Tick:
    pass


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Joined:
    error: int
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    error: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Left:
    """One error per member of the request, in the same order."""

    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """`partition_errors`: partitions whose error differs from `error`."""

    error: int
    partition_errors: Mapping[TopicIndex, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """`response`: Joined, Synced, Left, Completed, ConsumerHeartbeatReply or ShareHeartbeatReply, as the event of `token` requires."""

    token: ReplyCallback
    response: object


@dataclass(frozen=True, slots=True)
class PersistOffsets:
    """`producer`: (id, epoch) of a transactional commit, otherwise None."""

    number: int
    offsets: Mapping[TopicIndex, Offset]
    producer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PersistGroup:
    """Write the group's current state with these assignments."""

    number: int
    assignments: Mapping[str, bytes]


Event = Join | Sync | Heartbeat | Leave | Commit | TransactionalCommit | Persisted | PersistFailed | Tick
Effect = Reply | PersistOffsets | PersistGroup
