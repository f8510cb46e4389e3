"""Events, effects and record values of a share group (KIP-932). Types without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.reply_callback import ReplyCallback

JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH = 0, -1
"""Member epochs with a special meaning in a heartbeat."""


class ShareGroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


# -- records ---------------------------------------------------------------------------------------------------------------
class ShareRecordKey(IntEnum):
    """Kafka's key types of the records that a share group consists of. The name in a key is a member id or empty."""

    MEMBER = 10
    GROUP = 11
    TARGET_EPOCH = 12
    TARGET_ASSIGNMENT = 13
    CURRENT_ASSIGNMENT = 14
    STATE_PARTITIONS = 15


@dataclass(frozen=True, slots=True)
class ShareMemberMetadata:
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ShareMemberAssignment:
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = frozenset()


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The share partitions by the state of their initialization in the share coordinator. {topic id: (topic name, partitions)}."""

    initializing: Mapping[UUID, tuple[str, frozenset[int]]] = field(default_factory=dict)
    initialized: Mapping[UUID, tuple[str, frozenset[int]]] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShareGroupChange:
    """`value`: ShareMemberMetadata, (epoch, topics hash), int, Assignment, ShareMemberAssignment or StatePartitions; None is a tombstone."""

    fact: ShareRecordKey
    name: str
    value: Any


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat: the request to join, stay, change the subscription and leave. None: unchanged."""

    token: ReplyCallback
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class StateInitialized:
    """The share coordinator has answered an `InitializeState`. `partitions`: those that it has initialized."""

    partitions: Mapping[UUID, tuple[str, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class StateDeleted:
    """The share coordinator has deleted the state of these topics."""

    token: ReplyCallback
    topics: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class OffsetsAltered:
    """An administrator sets the start offsets of these partitions. The group epoch increases: it is the state epoch of the new state."""

    token: ReplyCallback
    partitions: Mapping[UUID, tuple[str, frozenset[int]]]


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ShareHeartbeatReply:
    """`assigned`: None if the assignment has not changed."""

    error: int
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assigned: Assignment | None = None


@dataclass(frozen=True, slots=True)
class PersistShareChanges:
    """Changes that are written together."""

    number: int
    changes: tuple[ShareGroupChange, ...]


@dataclass(frozen=True, slots=True)
class InitializeState:
    """Ask the share coordinator to initialize these share partitions with a state epoch. The response is a `StateInitialized`."""

    partitions: Mapping[UUID, tuple[str, frozenset[int]]]
    state_epoch: int
