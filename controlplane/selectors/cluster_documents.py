"""The current state in the form of a cluster document, and plans of documents with the result of each step.

Invariants: a topic that follows another topic, and an internal topic, is in no document. Secrets are in no document. Does not contain: decisions
(`controlplane.domain.document_plan`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Unpack

from django.db.models import Max, QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.configs import ALL_BROKERS, DELAY_TOPIC, HALF_SOURCE, HALF_TOPIC, RETRY_SOURCE
from brokerd.cluster.model import INTERNAL_TOPICS
from brokerd.cluster.quota_entities import entity_of
from controlplane.domain.access import AccessRecordKind, acl_key
from controlplane.domain.broker_config import OTHER_ACTIONS
from controlplane.domain.cluster_document import SECTIONS, VERSION
from controlplane.domain.document_plan import (
    NOT_RUN,
    CurrentResources,
    DocumentDifference,
    DocumentStep,
    FieldChange,
    StepAction,
    StepOutcome,
    StepResult,
    digest_of,
    step_from_json,
)
from controlplane.domain.document_sections import ALL_BROKERS as DOCUMENT_ALL
from controlplane.domain.document_sections import binding_key
from controlplane.domain.document_values import (
    BrokerConfigValues,
    DocumentValues,
    QuotaValues,
    ResourceId,
    ResourceKind,
    RoleBindingValues,
    TopicValues,
    UserValues,
    from_json,
    to_json,
)
from controlplane.domain.errors import Rejected
from controlplane.models import AccessEntry, DocumentPlan, ManagedResource, RoleBinding, Topic
from controlplane.selectors.broker_configs import desired_configs
from controlplane.selectors.common import TimeFilter
from controlplane.selectors.paging import Page, PageOptions, PageStart, paginate
from controlplane.selectors.role_bindings import binding_shape
from weir_common.phrases import sentence, with_phrase

MARKERS = (DELAY_TOPIC, HALF_TOPIC, HALF_SOURCE, RETRY_SOURCE)
"""Configs that name the topic which a topic follows."""
OWNERS_MAX = 50
"""Maximum number of owners of documents that a page shows."""
EXPORT_MAX = 20_000
"""Maximum number of resources of one export; the response is one document."""


@dataclass(frozen=True, slots=True)
class DocumentStepRow:
    """`kind`: topic, acl, quota or route. `action`: create, alter, manage (only its owner is recorded) or delete. `result`: pending, done, failed or
    skipped; `detail`: the reason of a failure."""

    kind: str
    key: str
    name: str
    action: str
    changes: list[FieldChange]
    result: str
    detail: str

    @property
    def deletes_records(self) -> bool:
        return self.kind == ResourceKind.TOPIC and self.action == StepAction.DELETE

    @property
    def is_creation(self) -> bool:
        return self.action == StepAction.CREATE

    @property
    def is_deletion(self) -> bool:
        return self.action == StepAction.DELETE


@dataclass(frozen=True, slots=True)
class DocumentPlanRow:
    """`digest`: SHA-256 over the steps and the values that they were made from; `apply` requires it. `creates`, `alters`, `deletes`: numbers of steps.
    `failed`: steps whose last attempt failed. `applied_at`: when the last step succeeded."""

    id: int
    owner: str
    prune: bool
    take_over: bool
    digest: str
    actor: str
    comment: str
    created_at: datetime
    applied_by: str
    applied_at: datetime | None
    creates: int
    alters: int
    deletes: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class DocumentPlanDetail(DocumentPlanRow):
    """A document plan with its steps, in the order in which they are applied."""

    steps: list[DocumentStepRow]


@dataclass(frozen=True, slots=True)
class DocumentRefusal:
    """A reason that prevents a plan. `path`: where the document has it, for example `topics.3.partitions`."""

    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class DocumentDifferenceRow:
    """The changes that a document would make now. `digest`: that of a plan with the same steps. `refusals`: empty if a plan is possible."""

    owner: str
    digest: str
    creates: int
    alters: int
    deletes: int
    steps: list[DocumentStepRow]
    refusals: list[DocumentRefusal]


COLUMNS = {"id": "id", "owner": "owner", "actor": "actor", "created_at": "created_at", "applied_at": "applied_at"}


class DocumentPlanFilter(TimeFilter):
    query = filters.CharFilter(field_name="owner", lookup_expr="icontains", help_text="Part of an owner.")


def plan_list(*, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50) -> Page[DocumentPlanRow]:
    rows = DocumentPlanFilter.rows(DocumentPlan.objects.all(), query=query)
    return plan_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def plan_page(rows: QuerySet[DocumentPlan], **options: Unpack[PageOptions]) -> Page[DocumentPlanRow]:
    return paginate(
        rows.defer("document"),
        lambda found: [_plan_row(p) for p in found],
        columns=COLUMNS,
        tie="-id",
        **options,
    )


def plan_detail(plan_id: int) -> DocumentPlanDetail | None:
    row = DocumentPlan.objects.filter(pk=plan_id).defer("document").first()
    if row is None:
        return None
    outcomes = row.outcomes
    steps = [_step_row(step, outcomes.get(i, NOT_RUN)) for i, step in enumerate(steps_of(row))]
    return DocumentPlanDetail(**asdict(_plan_row(row)), steps=steps)


def last_applied() -> list[int]:
    """The last applied plan of each owner."""
    last = (
        DocumentPlan.objects.filter(applied_at__isnull=False).values("owner").annotate(last=Max("id")).order_by("owner")
    )
    return list(last.values_list("last", flat=True))


def last_applied_rows() -> list[DocumentPlanRow]:
    """The last applied plan of each owner, at most OWNERS_MAX, in the order of the owners."""
    rows = DocumentPlan.objects.filter(pk__in=last_applied()[:OWNERS_MAX]).defer("document").order_by("owner")
    return [_plan_row(p) for p in rows]


def difference_row(difference: DocumentDifference) -> DocumentDifferenceRow:
    return DocumentDifferenceRow(
        difference.owner,
        digest_of(difference.steps),
        **_numbers(s.action for s in difference.steps),
        steps=[_step_row(s) for s in difference.steps],
        refusals=[DocumentRefusal(p.path, p.detail) for p in difference.rejections],
    )


def _step_row(step: DocumentStep, outcome: StepOutcome = NOT_RUN) -> DocumentStepRow:
    return DocumentStepRow(
        step.kind.value,
        step.key,
        _name(step.kind, step.key),
        step.action.value,
        step.changes,
        outcome.result.value,
        with_phrase(outcome.detail, outcome.phrase or {}),
    )


def _numbers(actions: Iterable[str]) -> dict[str, int]:
    found = Counter(actions)
    return {
        "creates": found[StepAction.CREATE],
        "alters": found[StepAction.ALTER],
        "deletes": found[StepAction.DELETE],
    }


def _name(kind: str, key: str) -> str:
    """A key as text for a reader."""
    if kind == ResourceKind.ROLE_BINDING:
        return " ".join(part for part in json.loads(key) if part)
    if kind == ResourceKind.QUOTA:
        return ", ".join(f"{t} {'<default>' if n is None else n}" for t, n in entity_of(key).items())
    return key.replace("|", " ") if kind == ResourceKind.ACL else key


def steps_of(row: DocumentPlan) -> list[DocumentStep]:
    """The stored steps."""
    return [step_from_json(s) for s in row.steps]


def _plan_row(row: DocumentPlan) -> DocumentPlanRow:
    results = [outcome.result for outcome in row.outcomes.values()]
    return DocumentPlanRow(
        id=row.pk,
        owner=row.owner,
        prune=row.prune,
        take_over=row.take_over,
        digest=row.digest,
        actor=row.actor,
        comment=row.comment,
        created_at=row.created_at,
        applied_by=row.applied_by,
        applied_at=row.applied_at,
        **_numbers(s["action"] for s in row.steps),
        done=results.count(StepResult.DONE),
        failed=results.count(StepResult.FAILED),
    )


def present(resources: Collection[ResourceId] | None = None) -> CurrentResources:
    """The current state of all resources, or only of these."""
    values: dict[ResourceId, DocumentValues] = {}
    kinds = set(ResourceKind) if resources is None else {kind for kind, _ in resources}
    identities: dict[ResourceId, str] = {}
    protected: dict[str, str] = {}
    topics = Topic.objects.filter(deleted_at__isnull=True, internal=False).exclude(name__in=INTERNAL_TOPICS)
    entries = AccessEntry.objects.filter(kind__in=("acl", "quota", "route"), value__isnull=False)
    owned = ManagedResource.objects.all()
    if resources is not None:
        keys = [key for _, key in resources]
        topics, entries, owned = topics.filter(name__in=keys), entries.filter(key__in=keys), owned.filter(key__in=keys)
    for topic in topics.order_by("name").only("id", "name", "partitions", "replication_factor", "configs"):
        followed = next((topic.configs[m] for m in MARKERS if topic.configs.get(m)), None)
        if followed is not None:
            protected[topic.name] = followed
            continue
        resource = (ResourceKind.TOPIC, topic.name)
        identities[resource] = str(topic.pk)
        values[resource] = TopicValues(topic.partitions, topic.replication_factor, topic.configs)
    for kind, key, stored in entries.order_by("kind", "key").values_list("kind", "key", "value"):
        value = stored or {}
        resource = (ResourceKind(kind), acl_key(value) if kind == ResourceKind.ACL else key)
        values[resource] = _values_of(resource, value)
        identities[resource] = str(value.get("route_id", "")) if kind == ResourceKind.ROUTE else ""
    if ResourceKind.USER in kinds:
        values |= _users()
    if ResourceKind.BROKER_CONFIG in kinds:
        values |= _broker_configs()
    if ResourceKind.ROLE_BINDING in kinds:
        values |= _role_bindings()
    identities |= {resource: "" for resource in values if resource not in identities}
    owners = {
        (ResourceKind(m.kind), m.key): m.owner
        for m in owned
        if identities.get((ResourceKind(m.kind), m.key)) == m.identity
    }
    return CurrentResources(values, owners, protected)


def _users() -> dict[ResourceId, DocumentValues]:
    """SCRAM users with their mechanisms. Their keys are secret and are not read."""
    mechanisms: dict[str, list[str]] = {}
    rows = AccessEntry.objects.filter(kind=AccessRecordKind.SCRAM, value__isnull=False).order_by("key")
    for key in rows.values_list("key", flat=True):
        mechanism, _, name = key.partition(":")
        mechanisms.setdefault(name, []).append(mechanism)
    return {(ResourceKind.USER, name): UserValues(tuple(mechanisms[name])) for name in sorted(mechanisms)}


def _broker_configs() -> dict[ResourceId, DocumentValues]:
    """Dynamic settings of each broker and of all brokers, without those that have an action of their own."""
    return {
        (ResourceKind.BROKER_CONFIG, DOCUMENT_ALL if broker_id == ALL_BROKERS else str(broker_id)): BrokerConfigValues(
            {n: v for n, v in configs.items() if n not in OTHER_ACTIONS}
        )
        for broker_id, configs in desired_configs().items()
    }


def _role_bindings() -> dict[ResourceId, DocumentValues]:
    rows = RoleBinding.objects.select_related("user", "group").order_by("id")
    bindings = [
        RoleBindingValues(r.user, r.group, r.role, r.resource_type, r.pattern_type, r.resource_name)
        for r in map(binding_shape, rows)
    ]
    return {(ResourceKind.ROLE_BINDING, binding_key(b)): b for b in bindings}


def binding_id(binding: RoleBindingValues) -> int | None:
    """The role binding with these values of a document."""
    holder = {"user__username": binding.user} if binding.user else {"group__name": binding.group}
    rows = RoleBinding.objects.filter(
        **holder,
        role=binding.role,
        resource_type=binding.resource_type,
        pattern_type=binding.pattern_type,
        resource_name=binding.resource_name,
    )
    return rows.values_list("pk", flat=True).first()


def _values_of(resource: ResourceId, stored: dict[str, float | None]) -> DocumentValues:
    """The value of an access entry with the fields of a document."""
    kind, key = resource
    if kind is ResourceKind.QUOTA:
        return QuotaValues(entity_of(key), stored)
    return from_json(kind, stored, f"{kind} {key}")


def _export(kind: ResourceKind, key: str, values: DocumentValues) -> dict[str, object]:
    """The resource as a document has it."""
    value = to_json(values)
    match kind:
        case ResourceKind.TOPIC | ResourceKind.ROUTE | ResourceKind.USER:
            return {"name": key, **value}
        case ResourceKind.BROKER_CONFIG:
            return {"broker": key if key == DOCUMENT_ALL else int(key), **value}
        case ResourceKind.ROLE_BINDING:
            return {f: v for f, v in value.items() if v}
    return value


def export(*, prefix: str = "", owner: str = "") -> dict[str, object]:
    """The current state as a document. `prefix`: only topics, and routes, whose names begin with it. `owner`: only the resources that it manages.
    Raises Rejected for more than EXPORT_MAX resources."""
    now = present()
    sections: dict[str, list[dict[str, object]]] = {section: [] for section in SECTIONS}
    total = 0
    for (kind, key), value in now.values.items():
        if owner and now.owners.get((kind, key)) != owner:
            continue
        if isinstance(value, BrokerConfigValues) and not value.configs:
            continue
        named = kind in (ResourceKind.TOPIC, ResourceKind.ROUTE)
        if prefix and not (named and key.startswith(prefix)):
            continue
        total += 1
        sections[f"{kind}s"].append(_export(kind, key, value))
    if total > EXPORT_MAX:
        raise Rejected(
            sentence(
                "The export would have {total} resources; at most {max}. Give a prefix.", total=total, max=EXPORT_MAX
            ),
            "prefix",
        )
    return {"version": VERSION, **({"owner": owner} if owner else {}), **sections}
