"""Routes: create, change, delete. The rows are access entries, which the controller writes to the metadata log (`access`).

Invariants: the enabled routes and the front topics have no loop. The source topic and the start of a route never change. A route that is created
again after its deletion has another id, so that brokers do not continue at the position of the deleted one. Does not contain: the routing itself
(`brokerd/delivery`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from brokerd.cluster.configs import HALF_TOPIC
from brokerd.cluster.routes import COMMENT_LENGTH_MAX, InvalidRoute, Route, route_of
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.route_graph import find_loop
from controlplane.models import AccessEntry, Topic
from controlplane.services import access
from controlplane.services.common import AlreadyExists, Rejected, audited
from weir_common.phrases import sentence

ROUTES_MAX = 500
"""Maximum number of routes of a cluster. Each runs on every partition of its source topic."""
CHANGEABLE = ("bindings", "enabled", "owner", "description", "principal")


@audited(AuditOperation.ROUTE_CREATE, "{name}", after=lambda given: dict(given["definition"]))
def create_route(name: str, definition: Mapping[str, object], *, actor: str, comment: str = "") -> AccessEntry:
    """`definition`: source, start, enabled, owner, description, principal, bindings. Raises Rejected."""
    access.require_imported()
    topic = _source(str(definition.get("source", "")))
    value = _drop_empty_principal({**definition, "route_id": uuid.uuid4().hex, "partitions_at_start": topic.partitions})
    try:
        with transaction.atomic():
            row = _row(name)
            if row is not None and row.value is not None:
                raise AlreadyExists(sentence("There is a route {name} already.", name=repr(name)), "name")
            if _rows().count() >= ROUTES_MAX:
                raise Rejected(
                    sentence("There are {max} routes, the maximum of a cluster; delete one first.", max=ROUTES_MAX),
                    "name",
                )
            _check(name, value)
            return access.put(
                AccessRecordKind.ROUTE, name, value, actor=actor, comment=comment, verb=AuditOperation.ROUTE_CREATE
            )
    except IntegrityError:
        raise AlreadyExists("The route was created by another operator at the same time.", "name") from None


@audited(AuditOperation.ROUTE_CHANGE, "{name}", after=lambda given: dict(given["changes"]))
def change_route(
    name: str, changes: Mapping[str, object], *, actor: str, comment: str = "", if_generation: int | None = None
) -> AccessEntry:
    """Replace these of CHANGEABLE. Records that brokers have matched keep their targets. Raises Rejected."""
    access.require_imported()
    with transaction.atomic():
        row = _find_entry(name)
        if if_generation is not None and row.generation != if_generation:
            raise Rejected(
                sentence(
                    "Route {name} was changed: it has generation {generation}, not {if_generation}.",
                    name=repr(name),
                    generation=row.generation,
                    if_generation=if_generation,
                )
            )
        value = _drop_empty_principal({**(row.value or {}), **{k: v for k, v in changes.items() if k in CHANGEABLE}})
        if value == row.value:
            raise Rejected("The route has this definition already.", "bindings")
        _check(name, value)
        return access.put(
            AccessRecordKind.ROUTE, name, value, actor=actor, comment=comment, verb=AuditOperation.ROUTE_CHANGE
        )


@audited(AuditOperation.ROUTE_DELETE, "{name}")
def delete_route(name: str, *, actor: str, comment: str = "") -> None:
    """Delete the route: brokers stop routing. Records in the targets stay. Raises Rejected."""
    with transaction.atomic():
        _find_entry(name)
        access.put(AccessRecordKind.ROUTE, name, None, actor=actor, comment=comment, verb=AuditOperation.ROUTE_DELETE)


def _drop_empty_principal(value: dict[str, object]) -> dict[str, object]:
    """Without an empty principal: a principal needs a higher level of the metadata log."""
    return {k: v for k, v in value.items() if k != "principal" or v}


def _check(name: str, value: Mapping[str, object]) -> None:
    for field in ("owner", "description"):
        if len(str(value.get(field, ""))) > COMMENT_LENGTH_MAX:
            raise Rejected(sentence("At most {max} characters.", max=COMMENT_LENGTH_MAX), field)
    try:
        route = route_of(name, 0, value)
    except InvalidRoute as e:
        raise Rejected(sentence("Invalid route: {detail}.", detail=e), e.field) from None
    half = sorted(_half_fronts() & set(route.targets))
    if half:
        raise Rejected(
            sentence("{half} has half messages, which only producers write; route to its topic.", half=repr(half[0])),
            "bindings",
        )
    if not route.enabled:
        return
    edges: dict[str, set[str]] = {}
    for other in enabled_routes():
        if other.name != name:
            edges.setdefault(other.source, set()).update(other.targets)
    loop = find_loop(edges, route.source, route.targets)
    if loop is not None:
        raise Rejected(
            sentence(
                "A record could return to topic {source}: {loop}. Remove a binding, or disable a route of the loop.",
                source=repr(route.source),
                loop=" → ".join(loop),
            ),
            "bindings",
        )


def enabled_routes() -> list[Route]:
    found = []
    for row in _rows():
        try:
            route = route_of(row.key, row.generation, row.value or {})
        except InvalidRoute:
            continue  # a later version wrote this route; brokers of this version do not run it either
        if route.enabled:
            found.append(route)
    return found


def _half_fronts() -> set[str]:
    topics = Topic.objects.filter(deleted_at__isnull=True, name__endswith=".half")
    return {t.name for t in topics.only("name", "configs") if t.configs.get(HALF_TOPIC)}


def _source(name: str) -> Topic:
    topic = Topic.objects.filter(name=name, deleted_at__isnull=True).first()
    if topic is None:
        raise Rejected(sentence("There is no topic {name}; create the source topic first.", name=repr(name)), "source")
    if any(config.startswith("weir.") and config.endswith(".topic") for config in topic.configs):
        raise Rejected(sentence("{name} is a front topic; route its topic instead.", name=repr(name)), "source")
    return topic


def _rows() -> QuerySet[AccessEntry]:
    return AccessEntry.objects.filter(kind=AccessRecordKind.ROUTE, value__isnull=False)


def _row(name: str) -> AccessEntry | None:
    return AccessEntry.objects.select_for_update().filter(kind=AccessRecordKind.ROUTE, key=name).first()


def _find_entry(name: str) -> AccessEntry:
    row = _row(name)
    if row is None or row.value is None:
        raise Rejected(sentence("There is no route {name}; it may have been deleted already.", name=repr(name)))
    return row
