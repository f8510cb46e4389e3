"""The names of the resources that a request is about: from its path, its fields, its query, or the rows that it names. Rules of access use them.

Invariant: a name is read from where the view reads it. A request whose fields cannot be understood has no names, so it needs the role for the whole cluster.
Does not contain: the decision (`authorization`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from brokerd.cluster.quota_entities import entity_of
from controlplane.domain import scope as scopes
from controlplane.domain.access import AccessRecordKind, AclPattern
from controlplane.domain.quota import entity_text
from controlplane.domain.roles import ALL_BROKERS, WILDCARD, acl_name
from controlplane.domain.scope import PartitionsScope, ReplicationFactorScope, ScopeError, TopicScope
from controlplane.models import (
    AccessEntry,
    Acl,
    MovePartition,
    OffsetReset,
    Plan,
    PlanChunk,
    RestartStep,
)


@dataclass(frozen=True, slots=True)
class RequestNames:
    """The names in a request: the parameters of its path, the fields of its body or form, and its query. A rule reads a name from where the view reads it,
    never from another place that the sender also controls."""

    path: Mapping[str, object]
    fields: Mapping[str, object]
    query: Mapping[str, str]


Names = Callable[[RequestNames], Collection[str]]


def path_name(parameter: str) -> Names:
    """The resource that the path names."""
    return lambda request: [str(request.path[parameter])] if parameter in request.path else []


def _path_key(request: RequestNames, parameter: str) -> int:
    """The key of a row in the path. The URL has a number there."""
    return int(str(request.path[parameter]))


def field_name(field: str) -> Names:
    """The resource that a field of the body names."""

    def names(request: RequestNames) -> list[str]:
        value = request.fields.get(field)
        return [value] if isinstance(value, str) and value else []

    return names


def query_name(parameter: str) -> Names:
    """The resource that the query names."""
    return lambda request: [request.query[parameter]] if request.query.get(parameter) else []


def no_names(request: RequestNames) -> list[str]:
    """No names: the request is for a list, or the view checks the resources itself."""
    return []


def group_of_reset(request: RequestNames) -> list[str]:
    """The group of the offset reset in the path."""
    return list(OffsetReset.objects.filter(pk=_path_key(request, "reset_id")).values_list("group_id", flat=True))


def brokers_of_field(field: str) -> Names:
    """The brokers of a list in the body. No list is all brokers."""

    def names(request: RequestNames) -> list[str]:
        value = request.fields.get(field)
        return [str(b) for b in value] if isinstance(value, list) and value else [ALL_BROKERS]

    return names


def broker_or_all(request: RequestNames) -> list[str]:
    """The broker of the path. A cluster-wide config concerns all brokers."""
    return [ALL_BROKERS] if request.fields.get("cluster_wide") else [str(request.path["broker_id"])]


def brokers_of_restart(request: RequestNames) -> list[str]:
    """The brokers of the rolling restart in the path."""
    steps = RestartStep.objects.filter(restart_id=_path_key(request, "restart_id"))
    return [str(b) for b in steps.values_list("broker_id", flat=True)]


def source_of_route(request: RequestNames) -> list[str]:
    """The topic that a new route reads, for any type of its name in the body."""
    return [str(request.fields["source"]).strip()] if "source" in request.fields else []


def user_of_route(request: RequestNames) -> list[str]:
    """The user of the principal that the request gives to a route. All users if it removes the principal: the brokers then route without any ACL."""
    if "principal" not in request.fields:
        return []
    rows = AccessEntry.objects.filter(kind=AccessRecordKind.ROUTE, key=request.path.get("name", ""))
    present = next(((row.value or {}).get("principal", "") for row in rows), "")
    desired = str(request.fields["principal"] or "").strip()
    if desired == present:
        return []
    return [desired.partition(":")[2] or desired] if desired else [WILDCARD]


def targets_of_route(request: RequestNames) -> list[str]:
    """The topics to which the bindings in the body write. A form has them as JSON."""
    bindings = request.fields.get("bindings")
    if isinstance(bindings, str):
        try:
            bindings = json.loads(bindings)
        except ValueError:
            return []
    rows = bindings if isinstance(bindings, list) else []
    return [str(b["target"]).strip() for b in rows if isinstance(b, dict) and b.get("target")]


def entity_of_field(request: RequestNames) -> list[str]:
    """The entity of a quota in the body."""
    entity = request.fields.get("entity")
    if not isinstance(entity, dict) or not all(v is None or isinstance(v, str) for v in entity.values()):
        return []
    return [entity_text(entity)] if entity else []


def entity_of_quota(request: RequestNames) -> list[str]:
    """The entity of the quota in the path."""
    rows = AccessEntry.objects.filter(pk=_path_key(request, "quota_id"), kind=AccessRecordKind.QUOTA)
    return [entity_text(entity_of(key)) for key in rows.values_list("key", flat=True)]


def acl_of_fields(request: RequestNames) -> list[str]:
    """The resource of the ACL in the body."""
    kind, name = request.fields.get("resource_type"), request.fields.get("resource_name")
    if not (isinstance(kind, str) and isinstance(name, str) and kind and name):
        return []
    return [acl_name(kind, name, str(request.fields.get("pattern_type") or AclPattern.LITERAL))]


def acl_of_path(request: RequestNames) -> list[str]:
    """The resource of the ACL in the path."""
    rows = Acl.objects.filter(pk=_path_key(request, "acl_id"))
    return [acl_name(*found) for found in rows.values_list("resource_type", "resource_name", "pattern_type")]


def name_of_plan(request: RequestNames) -> list[str]:
    """The name of the saved plan in the path. Only a role for all plans permits one without a name."""
    return list(Plan.objects.filter(pk=_path_key(request, "plan_id")).values_list("name", flat=True))


def topics_of_plan(request: RequestNames) -> list[str]:
    """The topics of the saved plan in the path."""
    chunks = PlanChunk.objects.filter(plan_id=_path_key(request, "plan_id")).values_list("parts", flat=True)
    return sorted({part[1] for parts in chunks.iterator() for part in parts})


def topics_of_moved_plan(request: RequestNames) -> list[str]:
    """Topics of the saved plan in the path, for the page that creates a move from the plan. Other operations on a plan move no replicas."""
    return topics_of_plan(request) if request.path.get("verb") == "move" else []


def topics_of_move(request: RequestNames) -> list[str]:
    """The topics of the move in the path."""
    rows = MovePartition.objects.filter(move_id=_path_key(request, "move_id"))
    return list(rows.order_by().values_list("topic_name", flat=True).distinct())


def topics_of_scope(request: RequestNames) -> list[str]:
    """The topics of the scope in the body. A scope of brokers needs the role for the whole cluster, and so does a request to override a safety
    rejection."""
    if request.fields.get("override"):
        return []
    try:
        return topics_in(scopes.parse(request.fields.get("scope")))
    except ScopeError:
        return []


def topics_in(scope: scopes.Scope) -> list[str]:
    """The topics that a scope names; none for a scope of brokers."""
    match scope:
        case PartitionsScope():
            return sorted({p.topic for p in scope.partitions})
        case TopicScope() | ReplicationFactorScope():
            return [scope.topic]
        case _:
            return []
