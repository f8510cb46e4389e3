"""What the controller's core hears and says. Values only; the runner carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from brokerd.cluster.metadata import Record
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import (
    ForwardedRequest,
    IsrProposal,
    Registration,
    ResetProposal,
    SeedProposal,
    StartProposal,
)


# -- wanted, from the database -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic row whose generation the log has not applied yet. `deleted` is the only way a topic goes."""

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

    `observers`: the replicas stay, and these get a copy of the tail beside them. `cut_at`: what lies below, where the observers' copies begin,
    is deleted; with neither the partition is placed on `replicas`, and nobody observes any more. `hand_over_at`: as that, but who is new needs no
    record below this offset, where the observers' copies begin: the old replicas hold those.
    """

    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    read_generation: int
    move_id: str
    request_id: str | None = None
    observers: tuple[int, ...] = ()
    cut_at: int | None = None
    hand_over_at: int | None = None


@dataclass(frozen=True, slots=True)
class DesiredReset:
    """Replica recovery: this broker's copy is thrown away and fetched anew."""

    topic_id: UUID
    partition: int
    broker_id: int
    reset_id: str


@dataclass(frozen=True, slots=True)
class DesiredAccess:
    """An ACL, a credential or a quota whose generation the log has not applied yet. `value` None: deleted."""

    kind: str
    key: str
    generation: int
    value: Mapping[str, Any] | None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredRead:
    topics: tuple[DesiredTopic, ...] = ()
    assignments: tuple[DesiredAssignment, ...] = ()
    resets: tuple[DesiredReset, ...] = ()
    access: tuple[DesiredAccess, ...] = ()
    complete: bool = False
    """True when every row was read, not only the newer ones: the first of a term. Absence never deletes either way."""
    cluster_id: str = ""
    """Of a complete one: the cluster that these rows are of, "" for none yet."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Of a complete one: what the database remembers of features, and a log that begins anew may lack."""


# -- events --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Elected:
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class Deposed:
    reason: str


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """Who is registered right now: the whole set."""

    registrations: Mapping[int, Registration]


@dataclass(frozen=True, slots=True)
class IsrProposed:
    broker_id: int
    incarnation: int
    proposals: Sequence[IsrProposal]
    seeds: Sequence[SeedProposal] = ()
    starts: Sequence[StartProposal] = ()
    resets: Sequence[ResetProposal] = ()


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """What a broker (in this incarnation) holds and cannot serve, for a directory failed: the whole set."""

    broker_id: int
    incarnation: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Requested:
    request: ForwardedRequest


@dataclass(frozen=True, slots=True)
class DesiredFailed:
    """The database refused or could not be reached: the request is answered with `error` and nothing is half done. `names`: the wishes that
    this is about, all that wait where it is empty."""

    request_id: str
    error: int
    message: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Appended:
    """Entries were written and applied to the image."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Tick:
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
    | Appended
    | Tick
)


# -- effects ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AppendMetadata:
    """Write `records` to the log and delete the answered request nodes in the same step."""

    records: tuple[Record, ...]
    answered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteDesired:
    """Let the database thread make rows of this (validated) request; its answer comes as DesiredRead or DesiredFailed."""

    request: ForwardedRequest


@dataclass(frozen=True, slots=True)
class Report:
    """Something a person should see; `kind` is drift, refused, offline or unclean."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class StepDown:
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeMade:
    """A change that no row asked for, since it must not wait for a database: it leaves one when it stands in the log. `refused`: why nothing was changed."""

    who: str
    verb: str
    object_kind: str
    object_name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""
    refused: bool = False


Effect = AppendMetadata | WriteDesired | Report | ChangeMade | StepDown
