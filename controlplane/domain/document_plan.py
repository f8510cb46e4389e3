"""The difference between a cluster document and the current state, as steps in a safe order. Pure.

Invariants: a resource that the document does not name is never changed, except that `prune` deletes those that its owner manages. No step reduces
partitions or changes replicas: such a document is rejected. Creations come before deletions; a deny ACL is created before the allow ACLs and deleted
after them. Does not contain: execution (`controlplane/services/cluster_documents.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controlplane.domain.access import AclPermission
from controlplane.domain.cluster_document import (
    ClusterDocument,
    DocumentFault,
    DocumentProblem,
    DocumentResource,
    InvalidDocument,
    ResourceId,
    ResourceKind,
)

STEPS_MAX = 1_000
"""Maximum number of changes of one plan. They run in one request, each in its own transaction."""


class StepAction(StrEnum):
    CREATE = "create"
    ALTER = "alter"
    MANAGE = "manage"
    """The resource already has the values of the document. Only its owner is recorded."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """`before` and `after`: null = not set."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """`before` are the values from which the plan was made, null for a creation. The step runs only if these are still the current values. `desired` are the
    values of the document, null for a deletion."""

    kind: ResourceKind
    key: str
    action: StepAction
    before: dict[str, Any] | None
    desired: dict[str, Any] | None
    changes: list[FieldChange]


@dataclass(frozen=True, slots=True)
class Present:
    """The current state of the resources that a document can name. `owners`: who manages which resource. `protected`: topics that follow another topic,
    with its name."""

    values: Mapping[ResourceId, dict[str, Any]]
    owners: Mapping[ResourceId, str]
    protected: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DocumentDifference:
    """`steps`: in their order. `rejections`: what prevents a plan. A resource with a rejection has no step."""

    owner: str
    steps: list[DocumentStep]
    rejections: list[DocumentProblem]


ResourceCheck = Callable[[DocumentResource, Present], Iterable[DocumentProblem]]
"""Adds further rejections of one resource, for example rejections of the services that would run its step."""


def steps_of(
    document: ClusterDocument, present: Present, *, prune: bool = False, take_over: bool = False
) -> list[DocumentStep]:
    """The steps in their order. `take_over`: also resources that another owner manages. Raises InvalidDocument with all rejections."""
    found = difference(document, present, prune=prune, take_over=take_over)
    if found.rejections:
        raise InvalidDocument(found.rejections)
    return found.steps


def difference(
    document: ClusterDocument,
    present: Present,
    *,
    prune: bool = False,
    take_over: bool = False,
    check: ResourceCheck = lambda resource, present: (),
) -> DocumentDifference:
    """The steps that the document requires, and the rejections of the cluster."""
    problems: list[DocumentProblem] = []
    steps: list[DocumentStep] = []
    for resource in document.resources:
        rejected = [*_rejections(document, resource, present, take_over), *check(resource, present)]
        problems += dict.fromkeys(rejected)
        steps += [] if rejected else _step(document, resource, present, take_over)
    if prune and not document.owner:
        problems.append(DocumentProblem("owner", DocumentFault.REQUIRED, "Without an owner no resource can be pruned."))
    elif prune:
        named = {r.id for r in document.resources}
        steps += [_deletion(i, present) for i in _resources_to_delete(document.owner, named, present)]
    if len(steps) > STEPS_MAX:
        detail = f"The document changes {len(steps)} resources; at most {STEPS_MAX} at a time. Divide it."
        problems.append(DocumentProblem("", DocumentFault.INVALID, detail))
    return DocumentDifference(document.owner, sorted(steps, key=_order), problems)


def digest_of(steps: Iterable[DocumentStep]) -> str:
    """SHA-256 over the steps and the values that they were made from."""
    content = [[s.kind, s.key, s.action, s.before, s.desired] for s in steps]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def changed_since(step: DocumentStep, now: Mapping[str, object] | None) -> list[FieldChange]:
    """The difference between the values now and those from which the step was made."""
    return _differences(step.before, now) if step.before != now else []


def _resources_to_delete(owner: str, named: set[ResourceId], present: Present) -> Iterator[ResourceId]:
    for found, managed_by in present.owners.items():
        if managed_by == owner and found not in named and found in present.values:
            yield found


def _deletion(resource_id: ResourceId, present: Present) -> DocumentStep:
    before = present.values[resource_id]
    return DocumentStep(*resource_id, StepAction.DELETE, before, None, _differences(before, None))


def _step(
    document: ClusterDocument, resource: DocumentResource, present: Present, take_over: bool
) -> list[DocumentStep]:
    before, desired = present.values.get(resource.id), dict(resource.desired)
    changes = _changes(resource, before)
    if before is None:
        empty = resource.kind is ResourceKind.QUOTA and not changes  # the document only removes limits
        return [] if empty else [DocumentStep(*resource.id, StepAction.CREATE, None, desired, changes)]
    if changes:
        return [DocumentStep(*resource.id, StepAction.ALTER, before, desired, changes)]
    owned = resource.kind is not ResourceKind.BROKER_CONFIG
    if owned and present.owners.get(resource.id, "") != document.owner and (document.owner or take_over):
        return [DocumentStep(*resource.id, StepAction.MANAGE, before, desired, [])]
    return []


def _changes(resource: DocumentResource, before: Mapping[str, Any] | None) -> list[FieldChange]:
    """The fields that the document names and that differ."""
    had, desired, found = before or {}, resource.desired, list[FieldChange]()
    match resource.kind:
        case ResourceKind.TOPIC:
            counts = ("partitions", "replication_factor")
            found = [FieldChange(f, had.get(f), desired[f]) for f in counts if desired[f] not in (None, had.get(f))]
            found += _field_changes("configs", had.get("configs") or {}, desired["configs"])
        case ResourceKind.QUOTA:
            found = _field_changes("limits", had.get("limits") or {}, desired["limits"])
        case ResourceKind.BROKER_CONFIG:
            found = _field_changes("configs", had.get("configs") or {}, desired["configs"])
        case ResourceKind.USER:
            present = had.get("mechanisms")
            found = [FieldChange(f, present, v) for f, v in desired.items() if v not in (None, present)]
        case ResourceKind.ACL | ResourceKind.ROLE_BINDING:
            found = [] if before is not None else [FieldChange(f, None, v) for f, v in desired.items()]
        case ResourceKind.ROUTE:
            had = {"principal": "", **had} if before is not None else had  # not stored if it is empty
            found = [FieldChange(f, had.get(f), v) for f, v in desired.items() if before is None or had.get(f) != v]
    return found


def _field_changes(field: str, had: Mapping[str, object], desired: Mapping[str, object]) -> list[FieldChange]:
    return [FieldChange(f"{field}.{k}", had.get(k), v) for k, v in desired.items() if had.get(k) != v]


def _differences(before: Mapping[str, object] | None, after: Mapping[str, object] | None) -> list[FieldChange]:
    """Return the fields that differ. Objects are compared field by field, one level deep."""
    old, new = _flat(before or {}), _flat(after or {})
    return [
        FieldChange(f, old.get(f), new.get(f))
        for f in [*old, *(f for f in new if f not in old)]
        if old.get(f) != new.get(f)
    ]


def _flat(value: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for field, inner in value.items():
        flat |= {f"{field}.{k}": v for k, v in inner.items()} if isinstance(inner, Mapping) else {field: inner}
    return flat


def _rejections(
    document: ClusterDocument, resource: DocumentResource, present: Present, take_over: bool
) -> Iterator[DocumentProblem]:
    def rejected(field: str, detail: str) -> DocumentProblem:
        return DocumentProblem(f"{resource.path}.{field}", DocumentFault.REJECTED, detail)

    owner = present.owners.get(resource.id)
    claims = document.owner or _changes(resource, present.values.get(resource.id))
    if owner is not None and owner != document.owner and claims and not take_over:
        yield DocumentProblem(
            resource.path,
            DocumentFault.REJECTED,
            f"This {resource.kind} is managed by the document of {owner!r}. Change that document, or take the {resource.kind} over.",
        )
    before, desired = present.values.get(resource.id), resource.desired
    if resource.kind is ResourceKind.TOPIC:
        if (followed := present.protected.get(resource.key)) is not None:
            yield rejected("name", f"{resource.key} follows topic {followed}; configure {followed} instead.")
        elif before is not None:
            yield from _topic_rejections(resource, before, desired, rejected)
    elif resource.kind is ResourceKind.USER:
        yield from _user_rejections(resource, before, desired, rejected)
    elif resource.kind is ResourceKind.BROKER_CONFIG and before is None:
        yield rejected("broker", f"Broker {resource.key} does not exist.")
    elif resource.kind is ResourceKind.ROUTE and before is not None:
        for field in ("source", "start"):
            if desired[field] != before.get(field):
                yield rejected(field, f"It is {before.get(field)!r} and never changes; create a route of another name.")


def _user_rejections(
    resource: DocumentResource, before: Mapping[str, Any] | None, desired: Mapping[str, Any], rejected: Any
) -> Iterator[DocumentProblem]:
    """A document contains no password, so it can neither create a user nor add a mechanism."""
    mechanisms = desired["mechanisms"]
    if before is None:
        yield rejected(
            "name",
            f"There is no SCRAM user {resource.key!r}, and a document cannot create one, because it has no password. "
            f"Create the user first: weir users create --name {resource.key}",
        )
    elif mechanisms not in (None, before["mechanisms"]):
        yield rejected(
            "mechanisms",
            f"The user has {', '.join(before['mechanisms'])}. A document cannot change mechanisms, because each one needs the password. "
            "Delete the user and create it again with these mechanisms.",
        )


def _topic_rejections(
    resource: DocumentResource, before: Mapping[str, Any], desired: Mapping[str, Any], rejected: Any
) -> Iterator[DocumentProblem]:
    count, replicas = desired["partitions"], desired["replication_factor"]
    if count is not None and count < before["partitions"]:
        yield rejected(
            "partitions",
            f"The topic has {before['partitions']} partitions and cannot be reduced to {count}: records would be lost. "
            "Create a new topic and copy the records instead.",
        )
    if replicas is not None and replicas != before["replication_factor"]:
        scope = json.dumps({"kind": "replication_factor", "topic": resource.key, "replication_factor": replicas})
        yield rejected(
            "replication_factor",
            f"The topic has {before['replication_factor']} replicas per partition. Another number is a move, which copies data. "
            f"Run: weir moves create --scope '{scope}' --comment REASON",
        )


def _order(step: DocumentStep) -> tuple[int, int, int, str]:
    kind = list(ResourceKind).index(step.kind)
    deny = step.kind is ResourceKind.ACL and (step.before or step.desired or {}).get("permission") == AclPermission.DENY
    if step.action is StepAction.DELETE:
        return 1, -kind, int(deny), step.key
    return 0, kind, int(not deny), step.key
