"""Events, effects and record values of a streams group (KIP-1071). Types without behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from brokerd.coordinator.reply_callback import ReplyCallback
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment
from brokerd.coordinator.streams_group.tasks import Tasks
from brokerd.coordinator.streams_group.topology import InternalTopic, Topology

JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH = 0, -1
"""Member epochs with a special meaning in a heartbeat."""
NOT_VALIDATED = -1
"""The validated topology epoch of a group whose topics are missing or wrong."""


class StreamsGroupState(Enum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of the topology are missing or have wrong numbers of partitions."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StatusCode(IntEnum):
    """Kafka's numbers of the statuses in a heartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class HeartbeatStatus(NamedTuple):
    code: StatusCode
    detail: str


# -- records ---------------------------------------------------------------------------------------------------------------
class StreamsRecordKey(IntEnum):
    """Kafka's key types of the records that a streams group consists of. The name in a key is a member id or empty."""

    GROUP = 17
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET_ASSIGNMENT = 21
    CURRENT_ASSIGNMENT = 22
    TOPOLOGY = 23


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadata:
    """`topics_hash`: hash of the metadata of the required topics. `validated_epoch`: the epoch of the topology whose topics are complete.
    `configs`: the settings of the last assignment."""

    epoch: int
    topics_hash: int = 0
    validated_epoch: int = NOT_VALIDATED
    configs: tuple[tuple[str, str], ...] = ()


class UserEndpoint(NamedTuple):
    """The address for interactive queries that an instance of the application listens on."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMemberMetadata:
    """`process_id`: the instance of the application; it may have several members. `rebalance_ms`: the time to revoke tasks."""

    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    topology_epoch: int
    process_id: str
    endpoint: UserEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


StreamsRecordValue = StreamsGroupMetadata | StreamsMemberMetadata | int | Tasks | StreamsMemberAssignment | Topology


@dataclass(frozen=True, slots=True)
class StreamsGroupChange:
    """The value of a record. None is a tombstone."""

    fact: StreamsRecordKey
    name: str
    value: StreamsRecordValue | None


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat: the only request to join, stay, revoke tasks and leave. None and -1: unchanged. `owned`: the member's tasks."""

    token: ReplyCallback
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    rebalance_ms: int = -1
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown: bool = False
    endpoint_epoch: int = -1


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """The partitions that the tasks of the member with this endpoint read: {topic: partitions}."""

    endpoint: UserEndpoint
    active: dict[str, list[int]]
    standby: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatReply:
    """`assigned`: None if the assignment has not changed. `endpoints`: None if the member knows them. `missing_topics`: internal topics that the
    caller creates."""

    error: int
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assigned: Tasks | None = None
    statuses: tuple[HeartbeatStatus, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    missing_topics: tuple[InternalTopic, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class PersistStreamsChanges:
    """Changes that are written together."""

    number: int
    changes: tuple[StreamsGroupChange, ...]
