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
from typing import Any, NamedTuple, TypedDict

from controlplane.domain.access import AclPermission
from controlplane.domain.cluster_document import ClusterDocument, DocumentResource
from controlplane.domain.document_sections import DocumentFault, DocumentProblem
from controlplane.domain.document_values import (
    AclValues,
    BrokerConfigValues,
    DocumentValues,
    QuotaValues,
    ResourceId,
    ResourceKind,
    RoleBindingValues,
    RouteValues,
    TopicValues,
    UserValues,
    from_json,
    to_json,
)
from weir_common.json_values import JsonObject

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
    """`before` and `after`: JSON values, null = not set."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """`before` are the values from which the plan was made, null for a creation. The step runs only if these are still the current values. `desired` are the
    values of the document, null for a deletion."""

    kind: ResourceKind
    key: str
    action: StepAction
    before: DocumentValues | None
    desired: DocumentValues | None
    changes: list[FieldChange]


class StoredChange(TypedDict):
    field: str
    before: object
    after: object


class StoredStep(TypedDict):
    """A step in the row of a plan."""

    kind: str
    key: str
    action: str
    before: dict[str, object] | None
    desired: dict[str, object] | None
    changes: list[StoredChange]


class StepResult(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """A deletion that did not run because an earlier step failed."""


StoredOutcome = list[Any]
"""[result, detail, phrase of the detail]; a result of an earlier version has no phrase."""


class StepOutcome(NamedTuple):
    """The last attempt of a step. `phrase`: of the detail."""

    result: StepResult
    detail: str = ""
    phrase: JsonObject | None = None

    def to_json(self) -> StoredOutcome:
        return [self.result.value, self.detail, self.phrase]


NOT_RUN = StepOutcome(StepResult.PENDING)


@dataclass(frozen=True, slots=True)
class CurrentResources:
    """The current state of the resources that a document can name. `owners`: who manages which resource. `protected`: topics that follow another topic,
    with its name."""

    values: Mapping[ResourceId, DocumentValues]
    owners: Mapping[ResourceId, str]
    protected: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DocumentDifference:
    """`steps`: in their order. `rejections`: what prevents a plan. A resource with a rejection has no step."""

    owner: str
    steps: list[DocumentStep]
    rejections: list[DocumentProblem]


Rejection = Callable[[str, str], DocumentProblem]
"""The rejection of (field, detail) of one resource."""
ResourceCheck = Callable[[DocumentResource, CurrentResources], Iterable[DocumentProblem]]
"""Adds further rejections of one resource, for example rejections of the services that would run its step."""


def difference(
    document: ClusterDocument,
    present: CurrentResources,
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
    content = [[s.kind, s.key, s.action, _json_of(s.before), _json_of(s.desired)] for s in steps]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _json_of(values: DocumentValues | None) -> dict[str, object] | None:
    return None if values is None else to_json(values)


def step_to_json(step: DocumentStep) -> StoredStep:
    """The step as the row of a plan contains it."""
    return {
        "kind": step.kind.value,
        "key": step.key,
        "action": step.action.value,
        "before": _json_of(step.before),
        "desired": _json_of(step.desired),
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in step.changes],
    }


def step_from_json(data: StoredStep) -> DocumentStep:
    """The step of a row. Raises MalformedJson."""
    kind = ResourceKind(data["kind"])
    before, desired = data["before"], data["desired"]
    return DocumentStep(
        kind,
        data["key"],
        StepAction(data["action"]),
        None if before is None else from_json(kind, before),
        None if desired is None else from_json(kind, desired),
        [FieldChange(c["field"], c["before"], c["after"]) for c in data["changes"]],
    )


def outcomes_from_json(data: Mapping[str, StoredOutcome]) -> dict[int, StepOutcome]:
    """The outcomes in the row of a plan, by the number of the step. Raises ValueError for an unknown result."""
    return {int(number): StepOutcome(StepResult(result), *rest) for number, (result, *rest) in data.items()}


def changed_since(step: DocumentStep, now: DocumentValues | None) -> list[FieldChange]:
    """The difference between the values now and those from which the step was made."""
    return _differences(step.before, now) if step.before != now else []


def _resources_to_delete(owner: str, named: set[ResourceId], present: CurrentResources) -> Iterator[ResourceId]:
    for found, managed_by in present.owners.items():
        if managed_by == owner and found not in named and found in present.values:
            yield found


def _deletion(resource_id: ResourceId, present: CurrentResources) -> DocumentStep:
    before = present.values[resource_id]
    return DocumentStep(*resource_id, StepAction.DELETE, before, None, _differences(before, None))


def _step(
    document: ClusterDocument, resource: DocumentResource, present: CurrentResources, take_over: bool
) -> list[DocumentStep]:
    before, desired = present.values.get(resource.id), resource.desired
    changes = _changes(desired, before)
    if before is None:
        empty = resource.kind is ResourceKind.QUOTA and not changes  # the document only removes limits
        return [] if empty else [DocumentStep(*resource.id, StepAction.CREATE, None, desired, changes)]
    if changes:
        return [DocumentStep(*resource.id, StepAction.ALTER, before, desired, changes)]
    owned = resource.kind is not ResourceKind.BROKER_CONFIG
    if owned and present.owners.get(resource.id, "") != document.owner and (document.owner or take_over):
        return [DocumentStep(*resource.id, StepAction.MANAGE, before, desired, [])]
    return []


def _changes(desired: DocumentValues, before: DocumentValues | None) -> list[FieldChange]:
    """The fields that the document names and that differ."""
    match desired, before:
        case TopicValues(), TopicValues() | None:
            had = before or TopicValues(None, None, {})
            counts = (
                ("partitions", had.partitions, desired.partitions),
                ("replication_factor", had.replication_factor, desired.replication_factor),
            )
            found = [FieldChange(f, old, new) for f, old, new in counts if new not in (None, old)]
            return found + _field_changes("configs", had.configs, desired.configs)
        case QuotaValues(), QuotaValues() | None:
            return _field_changes("limits", before.limits if before is not None else {}, desired.limits)
        case BrokerConfigValues(), BrokerConfigValues() | None:
            return _field_changes("configs", before.configs if before is not None else {}, desired.configs)
        case UserValues(), UserValues() | None:
            mechanisms = before.mechanisms if before is not None else None
            if desired.mechanisms in (None, mechanisms):
                return []
            return [FieldChange("mechanisms", _list_of(mechanisms), _list_of(desired.mechanisms))]
        case ((AclValues() | RoleBindingValues()), _):
            return [] if before is not None else [FieldChange(f, None, v) for f, v in to_json(desired).items()]
        case RouteValues(), RouteValues() | None:
            old = {"principal": "", **to_json(before)} if before is not None else {}  # not stored if it is empty
            new = to_json(desired)
            return [FieldChange(f, old.get(f), v) for f, v in new.items() if before is None or old.get(f) != v]
    raise TypeError(f"{type(desired).__name__} and {type(before).__name__} are values of different kinds")


def _list_of(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _field_changes(field: str, had: Mapping[str, object], desired: Mapping[str, object]) -> list[FieldChange]:
    return [FieldChange(f"{field}.{k}", had.get(k), v) for k, v in desired.items() if had.get(k) != v]


def _differences(before: DocumentValues | None, after: DocumentValues | None) -> list[FieldChange]:
    """Return the fields that differ. Objects are compared field by field, one level deep."""
    old, new = _flat(_json_of(before) or {}), _flat(_json_of(after) or {})
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
    document: ClusterDocument, resource: DocumentResource, present: CurrentResources, take_over: bool
) -> Iterator[DocumentProblem]:
    def rejected(field: str, detail: str) -> DocumentProblem:
        return DocumentProblem(f"{resource.path}.{field}", DocumentFault.REJECTED, detail)

    owner = present.owners.get(resource.id)
    claims = document.owner or _changes(resource.desired, present.values.get(resource.id))
    if owner is not None and owner != document.owner and claims and not take_over:
        yield DocumentProblem(
            resource.path,
            DocumentFault.REJECTED,
            f"This {resource.kind} is managed by the document of {owner!r}. Change that document, or take the {resource.kind} over.",
        )
    match resource.desired, present.values.get(resource.id):
        case TopicValues(), _ if (followed := present.protected.get(resource.key)) is not None:
            yield rejected("name", f"{resource.key} follows topic {followed}; configure {followed} instead.")
        case TopicValues() as topic, TopicValues() as had:
            yield from _topic_rejections(resource, had, topic, rejected)
        case UserValues() as user, UserValues() | None as had:
            yield from _user_rejections(resource, had, user, rejected)
        case BrokerConfigValues(), None:
            yield rejected("broker", f"Broker {resource.key} does not exist.")
        case RouteValues() as route, RouteValues() as had:
            for field, old, new in (("source", had.source, route.source), ("start", had.start, route.start)):
                if old != new:
                    yield rejected(field, f"It is {old!r} and never changes; create a route of another name.")


def _user_rejections(
    resource: DocumentResource, before: UserValues | None, desired: UserValues, rejected: Rejection
) -> Iterator[DocumentProblem]:
    """A document contains no password, so it can neither create a user nor add a mechanism."""
    if before is None:
        yield rejected(
            "name",
            f"There is no SCRAM user {resource.key!r}, and a document cannot create one, because it has no password. "
            f"Create the user first: weir users create --name {resource.key}",
        )
    elif desired.mechanisms not in (None, before.mechanisms):
        yield rejected(
            "mechanisms",
            f"The user has {', '.join(before.mechanisms or ())}. A document cannot change mechanisms, because each one needs the password. "
            "Delete the user and create it again with these mechanisms.",
        )


def _topic_rejections(
    resource: DocumentResource, before: TopicValues, desired: TopicValues, rejected: Rejection
) -> Iterator[DocumentProblem]:
    count, replicas = desired.partitions, desired.replication_factor
    if count is not None and before.partitions is not None and count < before.partitions:
        yield rejected(
            "partitions",
            f"The topic has {before.partitions} partitions and cannot be reduced to {count}: records would be lost. "
            "Create a new topic and copy the records instead.",
        )
    if replicas is not None and replicas != before.replication_factor:
        scope = json.dumps({"kind": "replication_factor", "topic": resource.key, "replication_factor": replicas})
        yield rejected(
            "replication_factor",
            f"The topic has {before.replication_factor} replicas per partition. Another number is a move, which copies data. "
            f"Run: weir moves create --scope '{scope}' --comment REASON",
        )


def _order(step: DocumentStep) -> tuple[int, int, int, str]:
    kind = list(ResourceKind).index(step.kind)
    values = step.before or step.desired
    deny = isinstance(values, AclValues) and values.permission == AclPermission.DENY
    if step.action is StepAction.DELETE:
        return 1, -kind, int(deny), step.key
    return 0, kind, int(not deny), step.key
