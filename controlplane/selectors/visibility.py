"""The one filter of all lists by role bindings: which rows the user of this request may see.

Invariants: the database does the filtering, so totals and pages agree. A model that is not in the table has no rows for a user who may not see
everything. Outside of a request (worker, cluster monitor, commands) everything is visible. Names are compared with their case, on each database.
Does not contain: who may see what (`controlplane.services.authorization`), which pages such a user may open (`console.access_rules`,
`controlplane.api.access_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from django.db.models import CharField, Exists, F, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Left
from django.db.models.lookups import In

from controlplane.domain.alert_types import AlertKind
from controlplane.domain.roles import RoleResource
from controlplane.domain.visibility import EVERYTHING, Visibility
from controlplane.models import (
    Alert,
    ApiToken,
    Change,
    ConsumerGroup,
    GroupPartition,
    Move,
    MovePartition,
    MoveTransition,
    ObservedTopic,
    OffsetReset,
    Partition,
    Replica,
    ReplicaDamageReport,
    ReplicaRecovery,
    Topic,
)

M = TypeVar("M", bound=Model)
TOPIC, GROUP, USER = RoleResource.TOPIC, RoleResource.GROUP, RoleResource.USER
NOTHING = Q(pk__in=[])

GROUP_ALERTS = (
    AlertKind.GROUP_DATA_LOST,
    AlertKind.GROUP_RETENTION,
    AlertKind.GROUP_FALLING_BEHIND,
    AlertKind.GROUP_STOPPED,
    AlertKind.GROUP_STALLED,
)
MOVE_ALERTS = (AlertKind.MOVE_FAILED, AlertKind.MOVE_STUCK, AlertKind.MOVE_WILL_NOT_FINISH)
TOPIC_ALERTS = (
    AlertKind.HALF_UNDECIDED,
    AlertKind.HALF_EXPIRED,
    AlertKind.DELAYED_OVERDUE,
    AlertKind.DEAD_LETTERS_GROWING,
)
CLUSTER_ALERTS = (
    AlertKind.NO_CONTROLLER,
    AlertKind.ZOOKEEPER_AWAY,
    AlertKind.BROKER_DOWN,
    AlertKind.BROKER_SILENT,
    AlertKind.DISK_FAILED,
    AlertKind.DISK_LOW,
    AlertKind.DISK_FILLING,
    AlertKind.DISK_SLOW,
)
"""About brokers and the cluster itself: they name no topic and no group. Alerts about partitions of several topics are not among them."""

_current: ContextVar[Visibility] = ContextVar("visibility", default=EVERYTHING)


def current() -> Visibility:
    return _current.get()


def become(visibility: Visibility) -> None:
    """Replace what the rest of the present request may see: its user is known only after the authentication of the REST API."""
    _current.set(visibility)


@contextmanager
def seen_by(visibility: Visibility) -> Iterator[None]:
    """Selectors return only what is visible, until the end of the block."""
    token = _current.set(visibility)
    try:
        yield
    finally:
        _current.reset(token)


def limited() -> bool:
    """Whether the user sees only some resources."""
    return current().limited


def sees(resource: RoleResource, name: str) -> bool:
    return current().sees(resource, name)


def named(resource: RoleResource, column: str) -> Q:
    """The rows whose `column` is the name of a visible resource."""
    seen = current()
    if seen.sees_all(resource):
        return Q()
    found = Q(**{f"{column}__in": sorted(seen.names(resource))})
    by_length: dict[int, list[str]] = {}
    for prefix in sorted(seen.prefixes(resource)):
        by_length.setdefault(len(prefix), []).append(prefix)
    for length, prefixes in by_length.items():
        # Not `startswith`: SQLite compares it without the case of letters.
        found |= Q(In(Left(F(column), length), prefixes))
    return found


def visible(rows: QuerySet[M]) -> QuerySet[M]:
    """Those of `rows` that the user may see."""
    if not limited():
        return rows
    condition = CONDITIONS.get(rows.model)
    return rows.filter(NOTHING if condition is None else condition())


def _moves() -> Q:
    """Moves with partitions, each of a visible topic."""
    parts = MovePartition.objects.filter(move=OuterRef("pk")).order_by()
    return Q(Exists(parts)) & ~Q(Exists(parts.exclude(named(TOPIC, "topic_name"))))


def _alerts() -> Q:
    moves = Move.objects.filter(_moves()).order_by().annotate(subject=Cast("pk", CharField())).values("subject")
    return (
        Q(kind__in=CLUSTER_ALERTS)
        | (Q(kind__in=GROUP_ALERTS) & ~Q(subject="") & named(GROUP, "subject"))
        | (Q(kind__in=TOPIC_ALERTS) & named(TOPIC, "subject"))
        | (Q(kind__in=MOVE_ALERTS) & Q(subject__in=moves))
    )


def _changes() -> Q:
    return (Q(object_kind="topic") & named(TOPIC, "object_name")) | (
        Q(object_kind="group") & named(GROUP, "object_name")
    )


CONDITIONS: dict[type[Model], Callable[[], Q]] = {
    ObservedTopic: lambda: named(TOPIC, "name"),
    Topic: lambda: named(TOPIC, "name"),
    Partition: lambda: named(TOPIC, "topic__name"),
    Replica: lambda: named(TOPIC, "partition__topic__name"),
    MovePartition: lambda: named(TOPIC, "topic_name"),
    ReplicaRecovery: lambda: named(TOPIC, "topic_name"),
    ReplicaDamageReport: lambda: named(TOPIC, "topic_name"),
    ConsumerGroup: lambda: named(GROUP, "group_id"),
    GroupPartition: lambda: named(GROUP, "group_id") & named(TOPIC, "topic"),
    OffsetReset: lambda: named(GROUP, "group_id"),
    Move: _moves,
    MoveTransition: lambda: Q(move__in=Move.objects.filter(_moves())),
    Alert: _alerts,
    Change: _changes,
    ApiToken: Q,  # the views read those of the user only
}
"""Condition of the visible rows of each model that a limited user may see."""
