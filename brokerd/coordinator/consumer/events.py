"""Events, effects and record values of a group of the consumer protocol (KIP-848). Types without behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Protocol
from uuid import UUID

from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.reply_callback import ReplyCallback

JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH = 0, -1, -2
"""Member epochs with a special meaning in a heartbeat. The last one is also stored: the static member left and is expected to return."""


class GroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


# -- records ---------------------------------------------------------------------------------------------------------------
class GroupRecordKey(IntEnum):
    """Kafka's key types of the records that a group consists of. The name in a key is a member id, a regular expression or empty."""

    GROUP = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET_ASSIGNMENT = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


@dataclass(frozen=True, slots=True)
class ConsumerGroupChange:
    """`value`: GroupMetadata, MemberMetadata, int, Assignment, MemberAssignment or ResolvedRegularExpression; None is a tombstone."""

    fact: GroupRecordKey
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """`topics_hash`: hash of the subscribed topics' metadata when the group epoch was increased."""

    epoch: int
    topics_hash: int = 0


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Additional metadata of a member that uses the classic protocol: its session timeout and its protocols."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """Identity and subscription of a member. `rebalance_ms`: the time to revoke partitions. `classic`: set if it uses the classic protocol."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]
    pattern: str | None
    rebalance_ms: int
    assignor: str | None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """The topics that a regular expression matched, with the metadata version and the time (Unix ms) of the match."""

    topics: frozenset[str]
    version: int
    wall_ms: int


# -- topics ------------------------------------------------------------------------------------------------------------------
class Topics(Protocol):
    """The topics of the cluster. `version` increases when a topic is created, deleted or gets partitions."""

    @property
    def version(self) -> int: ...

    def topic_named(self, name: str) -> tuple[UUID, int] | None:
        """(topic id, partition count), or None if the topic does not exist."""

    def names(self) -> Iterable[str]: ...


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat: the only request to join, stay, change the subscription, revoke partitions and leave. None and -1: unchanged."""

    token: ReplyCallback
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    may_describe: Callable[[str], bool] | None = None
    """True if the member is authorized to describe a topic that its regular expression matches. None: all topics."""
    classic: ClassicMemberMetadata | None = None
    """Set if the request is a JoinGroup, which is handled like a heartbeat with all fields."""


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatReply:
    """`assigned`: None if the assignment has not changed."""

    error: int
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assigned: Assignment | None = None


@dataclass(frozen=True, slots=True)
class PersistChanges:
    """Changes that are written together. `after_classic`: a tombstone of the classic group's record is written with them."""

    number: int
    changes: tuple[ConsumerGroupChange, ...]
    after_classic: bool = False
