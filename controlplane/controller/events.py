"""Events and effects of the controller's core: values only. The runner delivers events and executes effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from brokerd.cluster.access_values import AccessValue
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.requests import ForwardedRequest
from brokerd.cluster.znodes import (
    BootstrapProposal,
    IsrProposal,
    LogEndReport,
    Registration,
    ResetProposal,
    StartProposal,
)
from controlplane.domain.audit_operation import AuditOperation


# -- desired state, from the database ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic row whose generation the log has not applied yet. Only `deleted` deletes a topic."""

    topic_id: UUID
    name: str
    generation: int
    deleted: bool
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, tuple[int, ...]] | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredAssignment:
    """A step of a move: applied only while the partition's assignment generation is `read_generation`.

    `observers`: the replicas stay, and these brokers become observers, which copy the tail.
    `delete_below`: records below this offset, where the observers' logs start, are deleted.
    Without these two fields the partition is assigned to `replicas`, and it has no observers any more.
    `hand_over_at`: the partition is assigned to `replicas`. A new replica needs no record below this offset, where the observers' logs
    start. The old replicas keep the older records.
    """

    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    read_generation: int
    move_id: str
    request_id: str | None = None
    observers: tuple[int, ...] = ()
    delete_below: int | None = None
    hand_over_at: int | None = None


@dataclass(frozen=True, slots=True)
class DesiredReset:
    """Replica recovery: this broker deletes its replica and fetches it again."""

    topic_id: UUID
    partition: int
    broker_id: int
    reset_id: str


@dataclass(frozen=True, slots=True)
class DesiredAccess:
    """An ACL, a credential, a quota or a broker's config whose generation the log has not applied yet. `value` None: deleted."""

    kind: str
    key: str
    generation: int
    value: AccessValue | None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredRead:
    topics: tuple[DesiredTopic, ...] = ()
    assignments: tuple[DesiredAssignment, ...] = ()
    resets: tuple[DesiredReset, ...] = ()
    access: tuple[DesiredAccess, ...] = ()
    complete: bool = False
    """True for the first read of a term, which reads every row, not only the newer ones. Absence never deletes either way."""
    cluster_id: str = ""
    """Complete reads only: the cluster that these rows belong to, "" for none yet."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Complete reads only: finalised features by the database, which a newly created log may lack."""


# -- events --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Elected:
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class Deposed:
    reason: str


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """All current registrations, and the incarnations whose process has ended before its ZooKeeper session (`liveness`): broker id, broker epoch."""

    registrations: Mapping[int, Registration]
    dead: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class IsrProposed:
    broker_id: int
    broker_epoch: int
    proposals: Sequence[IsrProposal]
    bootstrap_offsets: Sequence[BootstrapProposal] = ()
    starts: Sequence[StartProposal] = ()
    resets: Sequence[ResetProposal] = ()
    log_ends: Sequence[LogEndReport] = ()


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """All replicas that a broker (in this incarnation) cannot serve because a log directory failed."""

    broker_id: int
    broker_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Requested:
    request: ForwardedRequest


@dataclass(frozen=True, slots=True)
class DesiredFailed:
    """The database rejected the request or is unavailable: the request is answered with `error`, and nothing is written partially.

    `names`: the items that failed; empty means all items that are still waiting.
    """

    request_id: str
    error: int
    message: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEntryAppended:
    """Entries were written and applied to the image."""

    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True)
class ControllerTick:
    pass


Event = (
    Elected
    | Deposed
    | BrokersSeen
    | IsrProposed
    | ReplicasOffline
    | Requested
    | DesiredRead
    | DesiredFailed
    | LogEntryAppended
    | ControllerTick
)


# -- effects ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AppendMetadata:
    """Write `records` to the log and delete the nodes of answered requests in the same transaction."""

    records: tuple[MetadataRecord, ...]
    completed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteDesired:
    """The database thread writes rows for this validated request. Its result is a DesiredRead or DesiredFailed event."""

    request: ForwardedRequest


class ReportKind(StrEnum):
    """The reason why an operator should see a report."""

    DRIFT = "drift"
    """The database and the metadata log disagree, and the controller acts on neither."""
    REJECTED = "refused"
    """The controller rejects a change that the database or a broker requests."""
    UNCLEAN = "unclean"
    """An unclean leader election may have lost acknowledged records."""
    LATE = "late"
    """A replica starts above its leader's log start and is fetched again."""


class SubjectKind(StrEnum):
    """Kind of the object of a report."""

    CLUSTER = "cluster"
    BROKER = "broker"
    ACCESS = "access"
    TOPIC = "topic"
    PARTITION = "partition"
    MOVE = "move"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of a report. `id` is the broker, the access entry, the move ("" for a client's reassignment without a row) or the reset."""

    kind: SubjectKind
    id: str = ""
    topic: str = ""
    partition: int | None = None

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return " ".join(word for word in (self.kind, self.id, place) if word)


@dataclass(frozen=True, slots=True)
class Report:
    """A message for the operator."""

    kind: ReportKind
    subject: Subject
    text: str


@dataclass(frozen=True, slots=True)
class StepDown:
    reason: str


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change without a row, because it must not wait for the database. Its audit row is written after it is in the log.

    `rejected`: nothing was changed; `detail` has the reason.
    """

    actor: str
    verb: AuditOperation
    object_kind: str
    object_name: str
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    detail: str = ""
    rejected: bool = False


Effect = AppendMetadata | WriteDesired | Report | LoggedChange | StepDown
