"""What a consumer group is told and what it answers: states, members, events, effects, Kafka's error codes. Words without behaviour.

Called by `group` (the machine), `groups` (its place), `records` and the door. Must not come in: rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

NONE, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 15, 16
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT = 22, 23, 25, 26
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 27, 79, 81, 82
UNKNOWN_SERVER_ERROR = -1


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """`join` holds the request that waits, or None, `sync` its token. `deadline_ms` is mono. `brought` is the epoch that it comes with from a group of
    the new protocol: as good as the generation until there is one of its own, -1 without."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    deadline_ms: int = 0
    brought: int = -1
    join: Join | None = None
    sync: Any = None

    def metadata(self, protocol: str) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset. `commit_wall_ms` is when, in Unix milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_wall_ms: int


TopicIndex = tuple[str, int]


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Join:
    """`drawn_id` is a fresh member id in case one is needed; `id_first` asks a newcomer to come again with it (v4+)."""

    token: Any
    member_id: str
    drawn_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    id_first: bool
    sees: Callable[[str], bool] | None = None
    """Whether the member may see a topic, where its group looks at topics; None: it may see all."""


@dataclass(frozen=True, slots=True)
class Sync:
    token: Any
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    token: Any
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Several members at once (v3+); each (member id, instance id)."""

    token: Any
    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Commit:
    token: Any
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicIndex, Offset]


@dataclass(frozen=True, slots=True)
class TransactionalCommit:
    """A commit within a producer's transaction: it counts once the transaction is committed."""

    token: Any
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicIndex, Offset]
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Persisted:
    """`log_offset` is where the first of its records stands in the log."""

    number: int
    log_offset: int = -1


@dataclass(frozen=True, slots=True)
class PersistFailed:
    """`error` is what the asker is told; the shell decides whether the group must be loaded anew."""

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
    """One error per member asked for, in order."""

    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """`but`: partitions whose offsets are answered otherwise."""

    error: int
    but: Mapping[TopicIndex, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """`answer`: Joined, Synced, Left, Answered, or Beaten (`consumer_events`): the kind that the event of `token` asks for."""

    token: Any
    answer: Any


@dataclass(frozen=True, slots=True)
class PersistOffsets:
    """Of a transaction where there is a `producer`: (id, epoch)."""

    number: int
    offsets: Mapping[TopicIndex, Offset]
    producer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PersistGroup:
    """Write the group as it stands, with these assignments."""

    number: int
    assignments: Mapping[str, bytes]


Event = Join | Sync | Heartbeat | Leave | Commit | TransactionalCommit | Persisted | PersistFailed | Tick
Effect = Reply | PersistOffsets | PersistGroup
