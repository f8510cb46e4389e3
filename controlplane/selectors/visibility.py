"""The one filter of all lists by role bindings: which rows the user of this request may see.

Invariants: the database does the filtering, so totals and pages agree. A model that is not in the table has no rows for a user who may not see
everything. Outside of a request (worker, cluster monitor, commands) everything is visible. Names are compared with their case, on each database.
Does not contain: who may see what (`controlplane.services.authorization`), which pages such a user may open (`console.access_rules`,
`controlplane.api.access_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from django.db.models import Case, CharField, Exists, F, Model, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Concat, Left
from django.db.models.lookups import In

from brokerd.cluster.quota_entities import entity_of
from controlplane.domain.access import AccessRecordKind, AclPattern
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.incident import BROKERS
from controlplane.domain.quota import entity_text
from controlplane.domain.roles import WILDCARD, RoleResource
from controlplane.domain.visibility import EVERYTHING, Visibility
from controlplane.models import (
    AccessEntry,
    Acl,
    Alert,
    ApiToken,
    Broker,
    Change,
    ConsumerGroup,
    GroupPartition,
    Move,
    MovePartition,
    MoveTransition,
    ObservedPartition,
    ObservedReplica,
    ObservedTopic,
    OffsetReset,
    ReplicaDamageReport,
    ReplicaRecovery,
    ReplicaTruncation,
    ShareGroupPartition,
    Topic,
)

M = TypeVar("M", bound=Model)
TOPIC, GROUP, USER = RoleResource.TOPIC, RoleResource.GROUP, RoleResource.USER
BROKER, QUOTA, ROUTE = RoleResource.BROKER, RoleResource.QUOTA, RoleResource.ROUTE
NOTHING = Q(pk__in=[])

GROUP_ALERTS = (
    AlertKind.GROUP_DATA_LOST,
    AlertKind.GROUP_RETENTION,
    AlertKind.GROUP_FALLING_BEHIND,
    AlertKind.GROUP_STOPPED,
    AlertKind.GROUP_STALLED,
    AlertKind.SHARE_GROUP_STOPPED,
)
MOVE_ALERTS = (AlertKind.MOVE_FAILED, AlertKind.MOVE_STUCK, AlertKind.MOVE_WILL_NOT_FINISH)
TOPIC_ALERTS = (
    AlertKind.UNCLEAN_ELECTION,
    AlertKind.HALF_UNDECIDED,
    AlertKind.HALF_EXPIRED,
    AlertKind.DELAYED_OVERDUE,
    AlertKind.DEAD_LETTERS_GROWING,
)
CLUSTER_ALERTS = (
    AlertKind.NO_CONTROLLER,
    AlertKind.ZOOKEEPER_AWAY,
    AlertKind.WORKER_SILENT,
    *BROKERS,
)
"""Kinds of alerts about brokers and the cluster itself, which contain no name of a topic or group. Alerts about partitions of several topics are not among
them."""

_current: ContextVar[Visibility] = ContextVar("visibility", default=EVERYTHING)


def current_visibility() -> Visibility:
    return _current.get()


def become(visibility: Visibility) -> None:
    """Replace the visibility for the rest of the current request, because the user is known only after the authentication of the REST API."""
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
    """Return whether the user sees only some resources."""
    return current_visibility().limited


def sees(resource: RoleResource, name: str) -> bool:
    return current_visibility().sees(resource, name)


def sees_all(resource: RoleResource) -> bool:
    return current_visibility().sees_all(resource)


def visible_names(resource: RoleResource, column: str) -> Q:
    """The rows whose `column` is the name of a visible resource."""
    seen = current_visibility()
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
    """Return the part of `rows` that the user may see."""
    if not limited():
        return rows
    condition = CONDITIONS.get(rows.model)
    return rows.filter(NOTHING if condition is None else condition())


def _moves() -> Q:
    """Moves with partitions, each of a visible topic."""
    parts = MovePartition.objects.filter(move=OuterRef("pk")).order_by()
    return Q(Exists(parts)) & ~Q(Exists(parts.exclude(visible_names(TOPIC, "topic_name"))))


def _alerts() -> Q:
    moves = Move.objects.filter(_moves()).order_by().annotate(subject=Cast("pk", CharField())).values("subject")
    return (
        Q(kind__in=CLUSTER_ALERTS)
        | (Q(kind__in=GROUP_ALERTS) & ~Q(subject="") & visible_names(GROUP, "subject"))
        | (Q(kind__in=TOPIC_ALERTS) & visible_names(TOPIC, "subject"))
        | (Q(kind__in=MOVE_ALERTS) & Q(subject__in=moves))
    )


def _changes() -> Q:
    return (Q(object_kind="topic") & visible_names(TOPIC, "object_name")) | (
        Q(object_kind="group") & visible_names(GROUP, "object_name")
    )


def _brokers() -> Q:
    seen = current_visibility()
    if seen.sees_all(BROKER):
        return Q()
    return Q(pk__in=[int(n) for n in seen.names(BROKER) if n.isascii() and n.isdigit()])


def _acls() -> Q:
    """Filter ACLs by the name that role bindings give them (`roles.acl_name`)."""
    if current_visibility().sees_all(RoleResource.ACL):
        return Q()
    suffix = Case(When(pattern_type=AclPattern.PREFIXED, then=Value(WILDCARD)), default=Value(""))
    name = Concat("resource_type", Value(":"), "resource_name", suffix, output_field=CharField())
    rows = Acl.objects.annotate(role_name=name).filter(visible_names(RoleResource.ACL, "role_name"))
    return Q(pk__in=rows.order_by().values("pk"))


def route_topics(definition: Mapping[str, Any]) -> set[str]:
    """The source and the targets of the stored definition of a route."""
    return {definition["source"], *(b["target"] for b in definition["bindings"])}


def _entries() -> Q:
    """Quotas by their entity. Routes by their name, and only if the source and all targets are visible. Their number is limited
    (`services.access`), so their names are compared here. Other entries have separate selectors."""
    kinds = (AccessRecordKind.QUOTA, AccessRecordKind.ROUTE)
    rows = AccessEntry.objects.filter(kind__in=kinds, value__isnull=False).values_list("pk", "kind", "key", "value")
    return Q(pk__in=[pk for pk, kind, key, value in rows.iterator() if _sees_entry(kind, key, value or {})])


def _sees_entry(kind: str, key: str, value: Mapping[str, object]) -> bool:
    if kind == AccessRecordKind.QUOTA:
        return sees(QUOTA, entity_text(entity_of(key)))
    return sees(ROUTE, key) and all(sees(TOPIC, t) for t in route_topics(value))


CONDITIONS: dict[type[Model], Callable[[], Q]] = {
    ObservedTopic: lambda: visible_names(TOPIC, "name"),
    Topic: lambda: visible_names(TOPIC, "name"),
    ObservedPartition: lambda: visible_names(TOPIC, "topic__name"),
    ObservedReplica: lambda: visible_names(TOPIC, "partition__topic__name"),
    MovePartition: lambda: visible_names(TOPIC, "topic_name"),
    ReplicaRecovery: lambda: visible_names(TOPIC, "topic_name"),
    ReplicaDamageReport: lambda: visible_names(TOPIC, "topic_name"),
    ReplicaTruncation: lambda: visible_names(TOPIC, "topic_name"),
    ConsumerGroup: lambda: visible_names(GROUP, "group_id"),
    GroupPartition: lambda: visible_names(GROUP, "group_id") & visible_names(TOPIC, "topic"),
    ShareGroupPartition: lambda: visible_names(GROUP, "group_id") & visible_names(TOPIC, "topic"),
    OffsetReset: lambda: visible_names(GROUP, "group_id"),
    Move: _moves,
    MoveTransition: lambda: Q(move__in=Move.objects.filter(_moves())),
    Alert: _alerts,
    Change: _changes,
    Broker: _brokers,
    Acl: _acls,
    AccessEntry: _entries,
    ApiToken: Q,  # the views read only the rows of the user
}
"""Condition of the visible rows of each model that a limited user may see."""
