"""Requests that brokers forward to the controller, and their results: one type for each kind, and their bytes.

Invariants: brokers and controllers of neighbouring versions exchange them. Stored names stay, unknown fields are ignored, a new field has a default.
`ForwardedRequest.decode` never raises: an unreadable request has a payload of its own type, which the controller answers with an error code.
The types of the results depend on the kind; they are stored in `RequestCompleted.result`. Does not contain: checks of a value's meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Self
from uuid import UUID

from brokerd.cluster import typed_json
from brokerd.cluster.access_values import AccessValue
from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.typed_json import MalformedJson
from brokerd.cluster.znodes import to_json


class RequestKind(StrEnum):
    """The stored kind of a request."""

    CREATE_TOPICS = "create_topics"
    DELETE_TOPICS = "delete_topics"
    CREATE_PARTITIONS = "create_partitions"
    ALTER_TOPIC_CONFIGS = "alter_topic_configs"
    ALTER_BROKER_CONFIGS = "alter_broker_configs"
    ALTER_ACCESS = "alter_access"
    ALTER_REASSIGNMENTS = "alter_reassignments"
    ELECT_LEADERS = "elect_leaders"
    UPDATE_FEATURES = "update_features"
    RAISE_METADATA_LEVEL = "raise_metadata_level"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"


# -- items: one result each ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class NewTopic:
    """`assignment`: {partition: replicas}, None if the controller places the replicas. A config of value None has its default."""

    name: str
    partitions: int
    replication_factor: int
    assignment: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """A topic to delete, by `name` or by `id`. With an `id` that the broker does not know, `name` is None."""

    name: str | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """`partitions`: the new total. `assignment`: the replicas of each new partition."""

    name: str
    partitions: int
    assignment: tuple[tuple[int, ...], ...] | None = None


class OpType(StrEnum):
    """Operation on one config (KIP-339). `UNKNOWN`: a code that the broker does not know."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    name: str
    op: OpType
    value: str | None = None


@dataclass(frozen=True, slots=True)
class TopicConfigOps:
    name: str
    configs: tuple[AlterConfigOp, ...]


@dataclass(frozen=True, slots=True)
class BrokerConfigOps:
    """`name`: a broker id, "" for all brokers."""

    name: str
    configs: tuple[AlterConfigOp, ...]


@dataclass(frozen=True, slots=True)
class AccessUpdate:
    """An ACL, a credential, a quota or a group's configs. `name` is its key. `value` None: delete."""

    name: str
    kind: AccessKind
    value: AccessValue | None


@dataclass(frozen=True, slots=True)
class NewReassignment:
    """`name`: "topic-partition". `replicas` None: cancel the reassignment in progress."""

    name: str
    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class PartitionsToElect:
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """`upgrade_type`: Kafka's code, see `features`."""

    name: str
    level: int
    upgrade_type: int


Item = (
    NewTopic
    | TopicToDelete
    | NewPartitions
    | TopicConfigOps
    | BrokerConfigOps
    | AccessUpdate
    | NewReassignment
    | PartitionsToElect
    | FeatureUpdate
)


# -- results -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ItemResult:
    """`error`: Kafka's error code, possibly one of a later version."""

    name: str | None = None
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectionResult(ItemResult):
    """`partitions`: (partition, Kafka's error code)."""

    partitions: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LevelResult:
    level: int


def results_to_json(results: Sequence[ItemResult]) -> dict[str, object]:
    """The value of `RequestCompleted.result` for a request with items."""
    return {"results": [typed_json.encode(r) for r in results]}


def results_from_json(result: Mapping[str, object], kind: type[ItemResult] = ItemResult) -> tuple[ItemResult, ...]:
    """The results of the items. Raises Malformed."""
    out: tuple[ItemResult, ...] = typed_json.decode(tuple[kind, ...], result.get("results", []), "results")  # type: ignore[valid-type]
    return out


# -- payloads ----------------------------------------------------------------------------------------------------------------
ITEMS = {"stored": "topics"}
"""The stored name of `items`. It dates from the time when all requests were about topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """`principal`: on whose behalf, for example `User:alice`; "" from a broker of an early version."""

    KIND: ClassVar[RequestKind]
    principal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsPayload(Payload):
    """A request with one result per item. A broker may split the items into several requests."""

    RESULT: ClassVar[type[ItemResult]] = ItemResult
    items: tuple[Item, ...] = field(metadata=ITEMS)
    validate_only: bool = False

    def only(self, places: Iterable[int]) -> Self:
        """The same request, reduced to the items at these indexes."""
        return replace(self, items=tuple(self.items[i] for i in places))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics(ItemsPayload):
    """`auto`: a Metadata request named a missing topic (auto.create.topics.enable). No broker reads the result. The request id is the topic name."""

    KIND: ClassVar[RequestKind] = RequestKind.CREATE_TOPICS
    items: tuple[NewTopic, ...] = field(metadata=ITEMS)
    auto: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.DELETE_TOPICS
    items: tuple[TopicToDelete, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.CREATE_PARTITIONS
    items: tuple[NewPartitions, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfigs(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.ALTER_TOPIC_CONFIGS
    items: tuple[TopicConfigOps, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterBrokerConfigs(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.ALTER_BROKER_CONFIGS
    items: tuple[BrokerConfigOps, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAccess(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.ALTER_ACCESS
    items: tuple[AccessUpdate, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReassignments(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.ALTER_REASSIGNMENTS
    items: tuple[NewReassignment, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders(ItemsPayload):
    KIND: ClassVar[RequestKind] = RequestKind.ELECT_LEADERS
    RESULT: ClassVar[type[ItemResult]] = ElectionResult
    items: tuple[PartitionsToElect, ...] = field(metadata=ITEMS)
    unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures(ItemsPayload):
    """Finalise feature levels. Either all features are finalised or none."""

    KIND: ClassVar[RequestKind] = RequestKind.UPDATE_FEATURES
    items: tuple[FeatureUpdate, ...] = field(metadata=ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseMetadataLevel(Payload):
    """`level` None: the highest that the active controller supports."""

    KIND: ClassVar[RequestKind] = RequestKind.RAISE_METADATA_LEVEL
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdown(Payload):
    """The forwarding broker is about to stop. The controller moves its leaderships to other brokers."""

    KIND: ClassVar[RequestKind] = RequestKind.CONTROLLED_SHUTDOWN


TopicsPayload = CreateTopics | DeleteTopics | CreatePartitions | AlterTopicConfigs
RowsPayload = TopicsPayload | AlterBrokerConfigs | AlterAccess | AlterReassignments
"""The requests that write rows of the database."""
AnyPayload = RowsPayload | ElectLeaders | UpdateFeatures | RaiseMetadataLevel | ControlledShutdown

PAYLOADS: dict[RequestKind, type[AnyPayload]] = {
    p.KIND: p
    for p in (
        CreateTopics,
        DeleteTopics,
        CreatePartitions,
        AlterTopicConfigs,
        AlterBrokerConfigs,
        AlterAccess,
        AlterReassignments,
        ElectLeaders,
        UpdateFeatures,
        RaiseMetadataLevel,
        ControlledShutdown,
    )
}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The payload of a request that this version cannot read, because the request is damaged or from a later version. The client receives
    `reason`."""

    kind: str
    reason: str


# -- the znode -----------------------------------------------------------------------------------------------------------------
UNKNOWN_BROKER = -1


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A client's request that a broker forwards to the controller: the content of `/requests/<request_id>`. `broker_id` is negative if no
    broker sent it."""

    request_id: str
    broker_id: int
    broker_epoch: int
    payload: AnyPayload | Unreadable

    @property
    def kind(self) -> str:
        return self.payload.kind if isinstance(self.payload, Unreadable) else self.payload.KIND.value

    def encode(self) -> bytes:
        return to_json(
            {
                "broker_id": self.broker_id,
                "incarnation": self.broker_epoch,
                "kind": self.kind,
                "payload": typed_json.encode(self.payload),
            }
        )

    @staticmethod
    def decode(request_id: str, data: bytes) -> ForwardedRequest:
        broker_id = broker_epoch = UNKNOWN_BROKER
        kind = ""
        try:
            envelope = typed_json.decode(_Envelope, typed_json.parse(data))
            broker_id, broker_epoch, kind = envelope.broker_id, envelope.broker_epoch, envelope.kind
            return ForwardedRequest(request_id, broker_id, broker_epoch, _payload(kind, envelope.payload))
        except MalformedJson as e:
            return ForwardedRequest(request_id, broker_id, broker_epoch, Unreadable(kind, str(e)))


@dataclass(frozen=True, slots=True)
class _Envelope:
    broker_id: int
    broker_epoch: int = field(metadata={"stored": "incarnation"})
    kind: str
    payload: Mapping[str, object]


def _payload(kind: str, data: Mapping[str, object]) -> AnyPayload | Unreadable:
    if kind not in set(RequestKind):
        return Unreadable(kind, f"unknown request {kind[:50]!r}")
    payload: AnyPayload = typed_json.decode(PAYLOADS[RequestKind(kind)], data)
    return payload
