"""Cluster documents: plan the difference from the current state, and apply exactly that plan.

Invariants: a plan applies only while the resources of its remaining steps have the values that it was made from. The result of a step is stored in
the transaction of the step, so that a repeated `apply` runs no step twice. After a failed step nothing is deleted.
Does not contain: the meaning of a document (`controlplane.domain.cluster_document`), the choice of steps (`controlplane.domain.document_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.configs import contradiction, transition_problem
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.cluster_document import DocumentResource, InvalidDocument, parse
from controlplane.domain.document_plan import (
    NOT_RUN,
    CurrentResources,
    DocumentDifference,
    DocumentStep,
    FieldChange,
    StepAction,
    StepOutcome,
    StepResult,
    changed_since,
    difference,
    digest_of,
    step_to_json,
)
from controlplane.domain.document_sections import ALL_BROKERS, DocumentFault, DocumentProblem
from controlplane.domain.document_values import (
    AclValues,
    BrokerConfigValues,
    QuotaValues,
    ResourceKind,
    RoleBindingValues,
    RouteValues,
    TopicValues,
    UserValues,
    to_json,
)
from controlplane.models import AccessEntry, Acl, DocumentPlan, ManagedResource, Topic
from controlplane.models.change import Outcome
from controlplane.selectors import cluster_documents as selectors
from controlplane.services import (
    acls,
    broker_configs,
    front_topics,
    quotas,
    role_bindings,
    routes,
    topic_checks,
    topics,
    users,
)
from controlplane.services.common import Rejected, needs_reason, record, recorded_rejections
from weir_common.phrases import joined, number_of, phrase_to_json, sentence

KEPT = timedelta(days=30)
"""Time for which plans are stored. The last applied plan of each owner stays, because its drift is shown. The audit log keeps all applied changes."""
DOCUMENTS_KEPT = 10
"""Plans of one owner, the newest, that keep their document of up to 2 MB. The last applied plan keeps it, too."""
CHANGES_NAMED_MAX = 10
"""Maximum number of changes in the message of a plan that is too old. The others are counted."""


def plan_document(
    document: object, *, prune: bool = False, take_over: bool = False, actor: str, comment: str = ""
) -> DocumentPlan:
    """Store the steps that this document requires. The cluster is not changed. Raises InvalidDocument with all faults."""
    found = compare_document(document, prune=prune, take_over=take_over)
    if found.rejections:
        raise InvalidDocument(found.rejections)
    with transaction.atomic():
        row = DocumentPlan.objects.create(
            owner=found.owner,
            prune=prune,
            take_over=take_over,
            document=document,
            digest=digest_of(found.steps),
            steps=[step_to_json(s) for s in found.steps],
            actor=actor,
            comment=comment,
            applied_at=None if found.steps else timezone.now(),
        )
        _forget_old(found.owner)
        _record(row, AuditOperation.DOCUMENT_PLAN, actor, comment)
    return row


def compare_document(
    document: object, *, prune: bool = False, take_over: bool = False, now: CurrentResources | None = None
) -> DocumentDifference:
    """The difference between this document and the current state, with the steps that the cluster rejects. `now`: the state, if it was read already. Stores
    nothing. Raises InvalidDocument for a document that is not well-formed."""
    state = selectors.present() if now is None else now
    return difference(parse(document), state, prune=prune, take_over=take_over, check=_problems)


def drift_of(plan_id: int) -> DocumentDifference:
    """The difference between the current state and the document of an applied plan: the changes of another `apply`. Raises Rejected."""
    row = _get(plan_id)
    if row.applied_at is None:
        raise Rejected(sentence("Document plan {id} is not applied. Only an applied document has drift.", id=row.pk))
    if row.document is None:
        raise Rejected(
            sentence(
                "The document of plan {id} is not stored any more. The newest {count} plans of an owner and its last applied one have their documents. Compare the file instead.",
                id=row.pk,
                count=DOCUMENTS_KEPT,
            )
        )
    try:
        return compare_document(row.document, prune=row.prune, take_over=row.take_over)
    except InvalidDocument as faults:
        raise Rejected(
            sentence(
                "The document of plan {id} is not valid for this version of Weir: {faults}", id=row.pk, faults=faults
            )
        ) from None


def plan_again(plan_id: int, *, actor: str) -> DocumentPlan:
    """Store a new plan of the document of an applied plan. Raises Rejected, and InvalidDocument with all faults."""
    drift_of(plan_id)
    row = _get(plan_id)
    return plan_document(row.document, prune=row.prune, take_over=row.take_over, actor=actor, comment=row.comment)


def _forget_old(owner: str) -> None:
    """Delete plans older than KEPT, and the documents of older plans of this owner."""
    applied = selectors.last_applied()
    DocumentPlan.objects.filter(created_at__lt=timezone.now() - KEPT).exclude(pk__in=applied).delete()
    mine = DocumentPlan.objects.filter(owner=owner)
    kept = [*mine.order_by("-id").values_list("pk", flat=True)[:DOCUMENTS_KEPT], *applied]
    mine.filter(document__isnull=False).exclude(pk__in=kept).update(document=None)


def _problems(resource: DocumentResource, now: CurrentResources) -> Iterator[DocumentProblem]:
    """The reasons why the step of a resource would fail. An ACL, a quota and a route have no more checks than `parse`, except loops of routes."""
    try:
        match resource.desired, now.values.get(resource.id):
            case TopicValues() as topic, TopicValues() | None as before:
                _check_topic(resource.key, topic, before, now)
            case BrokerConfigValues() as broker, BrokerConfigValues() as before_broker:
                if configs := _changed_configs(broker, before_broker):
                    broker_configs.preview_change(_broker_id(resource.key), configs)
            case RoleBindingValues() as binding, None:
                role_bindings.check_holder(binding.user, binding.group)
    except Rejected as rejection:
        path = f"{resource.path}.{rejection.field}" if rejection.field else resource.path
        yield DocumentProblem(path, DocumentFault.REJECTED, rejection.reason)


def _check_topic(name: str, desired: TopicValues, before: TopicValues | None, now: CurrentResources) -> None:
    """Raises Rejected."""
    given = _without_removed(desired.configs)
    if before is None and name not in now.protected:
        front_topics.check_creation(given)
        counts = desired.partitions or 1, desired.replication_factor or 1
        topic_checks.check_topic(name, partitions=counts[0], replication_factor=counts[1], configs=given)
    elif before is not None:
        front_topics.check_creation(given)
        present, after = _without_removed(before.configs), _without_removed({**before.configs, **desired.configs})
        if (problem := contradiction(after) or transition_problem(present, after)) is not None:
            raise Rejected(problem, "configs")


def _without_removed(configs: Mapping[str, str | None]) -> dict[str, str]:
    return {k: v for k, v in configs.items() if v is not None}


def _changed_configs(desired: BrokerConfigValues, before: BrokerConfigValues | None) -> dict[str, str | None]:
    present = before.configs if before is not None else {}
    return {k: v for k, v in desired.configs.items() if present.get(k) != v}


def _broker_id(key: str) -> int:
    return broker_configs.CLUSTER_WIDE if key == ALL_BROKERS else int(key)


def apply_plan(plan_id: int, digest: str, *, actor: str, comment: str, is_administrator: bool = False) -> DocumentPlan:
    """Run the steps of the plan that are not done. `digest` is that of the plan that was read. `is_administrator`: whether the actor may change role
    bindings. A step that fails does not prevent the others, except deletions; the results say which failed. Raises Rejected, with the difference, if a
    resource has changed since the plan was made."""
    row = _get(plan_id)
    with recorded_rejections(actor, AuditOperation.DOCUMENT_APPLY, "document", str(row.pk), comment=comment):
        needs_reason(comment)
        if digest != row.digest:
            raise Rejected(
                sentence(
                    "Document plan {plan_id} has digest {digest}; {given} was given. Read the plan again.",
                    plan_id=row.pk,
                    digest=row.digest,
                    given=digest or sentence("none"),
                ),
                "digest",
            )
        if row.applied_at is not None:
            return row
        if not is_administrator and any(s.kind is ResourceKind.ROLE_BINDING for s in selectors.steps_of(row)):
            raise Rejected(
                sentence(
                    "{needs_administrator} This plan has some. Nothing was changed.",
                    needs_administrator=role_bindings.NEEDS_ADMINISTRATOR,
                )
            )
        _check_unchanged(row)
    steps = selectors.steps_of(row)
    for number in range(len(steps)):
        _run_step(plan_id, number, actor, comment)
    with transaction.atomic():
        row = DocumentPlan.objects.select_for_update().get(pk=plan_id)
        results = [outcome.result for outcome in row.outcomes.values()]
        if results.count(StepResult.DONE) == len(steps):
            row.applied_at = timezone.now()
        row.applied_by = actor
        row.save(update_fields=["applied_at", "applied_by"])
        _record(row, AuditOperation.DOCUMENT_APPLY, actor, comment)
    return row


def _check_unchanged(row: DocumentPlan) -> None:
    outcomes = row.outcomes
    remaining = [
        step for i, step in enumerate(selectors.steps_of(row)) if outcomes.get(i, NOT_RUN).result is not StepResult.DONE
    ]
    now = selectors.present({(s.kind, s.key) for s in remaining})
    changed = [text for step in remaining if (text := _stale(row, step, now))]
    if changed:
        rest = len(changed) - CHANGES_NAMED_MAX
        more = sentence("; and {count} more", count=rest) if rest > 0 else ""
        raise Rejected(
            sentence(
                "{resources} changed since document plan {id} was made: {changed}{more}. Nothing was changed. Plan the document again.",
                resources=number_of(len(changed), "{count} resource", "{count} resources"),
                id=row.pk,
                changed=joined(changed[:CHANGES_NAMED_MAX], "; "),
                more=more,
            )
        )


def _stale(row: DocumentPlan, step: DocumentStep, now: CurrentResources) -> str:
    """Return the difference between the resource and the plan as text; "" if there is none."""
    found = (step.kind, step.key)
    owner = now.owners.get(found, row.owner)
    if owner != row.owner and not row.take_over:
        return sentence(
            "{kind} {resource} is managed by {owner} now", kind=step.kind, resource=step.key, owner=repr(owner)
        )
    changes = [
        sentence(
            "{resource} {field} was {before}, is {after}",
            resource=f"{step.kind} {step.key}",
            field=c.field,
            before=_display(c.before),
            after=_display(c.after),
        )
        for c in _fields(step, now)
    ]
    return joined(changes, ", ") if changes else ""


def _fields(step: DocumentStep, now: CurrentResources) -> list[FieldChange]:
    return changed_since(step, now.values.get((step.kind, step.key)))


def _display(value: object) -> str:
    return sentence("not set") if value is None else str(value)


def _run_step(plan_id: int, number: int, actor: str, comment: str) -> None:
    """Run one step, and store its result in the same transaction."""
    with transaction.atomic():
        row = DocumentPlan.objects.select_for_update().get(pk=plan_id)
        step, outcomes = selectors.steps_of(row)[number], row.outcomes
        if outcomes.get(number, NOT_RUN).result is StepResult.DONE:
            return
        failed = any(o.result is StepResult.FAILED for n, o in outcomes.items() if n < number)
        result, detail = (
            (StepResult.SKIPPED, sentence("An earlier step failed. Deletions run after all other steps succeeded."))
            if step.action is StepAction.DELETE and failed
            else _attempt(row, step, actor, comment)
        )
        row.results[str(number)] = StepOutcome(result, detail, phrase_to_json(detail)).to_json()
        row.save(update_fields=["results"])


def _attempt(row: DocumentPlan, step: DocumentStep, actor: str, comment: str) -> tuple[StepResult, str]:
    """The services write change rows of rejected operations. These rows stay, because a service rolls back only to its own savepoint."""
    if text := _stale(row, step, selectors.present({(step.kind, step.key)})):
        return StepResult.FAILED, sentence(
            "Changed since the plan was made: {text}. Plan the document again.", text=text
        )
    try:
        identity = _execute(step, actor, f"{comment} (document plan {row.pk})")
    except Rejected as rejection:
        return StepResult.FAILED, rejection.reason
    _manage(row, step, identity)
    return StepResult.DONE, ""


def _manage(row: DocumentPlan, step: DocumentStep, identity: str) -> None:
    if step.kind is ResourceKind.BROKER_CONFIG:
        return
    if step.action is StepAction.DELETE or not row.owner:
        ManagedResource.objects.filter(kind=step.kind, key=step.key).delete()
        return
    values = {"owner": row.owner, "identity": identity}
    ManagedResource.objects.update_or_create(kind=step.kind, key=step.key, defaults=values)


def _execute(step: DocumentStep, actor: str, comment: str) -> str:
    """Run the step. Returns the identity of the resource, or "" if its key identifies the resource. Raises Rejected."""
    match step.action, step.desired or step.before:
        case _, TopicValues() as topic:
            return str(_execute_topic(step, topic, actor, comment).pk)
        case StepAction.CREATE, AclValues() as acl:
            acls.create_acl(
                resource_type=acl.resource_type,
                pattern_type=acl.pattern_type,
                resource_name=acl.resource_name,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission=acl.permission,
                actor=actor,
                comment=comment,
            )
        case StepAction.DELETE, AclValues() as acl:
            acl_id = Acl.objects.filter(**to_json(acl)).values_list("pk", flat=True).first()
            acls.delete_acl(acl_id or 0, actor=actor, comment=comment)
        case StepAction.DELETE, QuotaValues():
            quota_id = AccessEntry.objects.filter(kind=step.kind, key=step.key).values_list("pk", flat=True).first()
            quotas.delete_quota(quota_id or 0, actor=actor, comment=comment)
        case ((StepAction.CREATE | StepAction.ALTER), QuotaValues() as quota):
            quotas.set_quota(quota.entity, quota.limits, actor=actor, comment=comment)
        case _, RouteValues() as route:
            return _execute_route(step, route, actor, comment)
        case StepAction.DELETE, UserValues():
            users.delete_user(step.key, actor=actor, comment=comment)
        case _, BrokerConfigValues() as broker:
            before = step.before if isinstance(step.before, BrokerConfigValues) else None
            changed = _changed_configs(broker, before)
            broker_configs.alter_configs(_broker_id(step.key), changed, actor=actor, comment=comment)
        case StepAction.CREATE, RoleBindingValues() as binding:
            role_bindings.create_binding(
                user=binding.user,
                group=binding.group,
                role=binding.role,
                resource_type=binding.resource_type,
                pattern_type=binding.pattern_type,
                resource_name=binding.resource_name,
                actor=actor,
                comment=comment,
            )
        case StepAction.DELETE, RoleBindingValues() as binding:
            role_bindings.delete_binding(selectors.binding_id(binding) or 0, actor=actor, comment=comment)
    return ""


def _execute_topic(step: DocumentStep, topic: TopicValues, actor: str, comment: str) -> Topic:
    configs = _without_removed(topic.configs)
    match step.action:
        case StepAction.CREATE:
            return topics.create_topic(
                step.key,
                partitions=topic.partitions or 1,
                replication_factor=topic.replication_factor,
                configs=configs,
                actor=actor,
                comment=comment,
            )
        case StepAction.ALTER:
            return topics.alter_topic(
                step.key,
                partitions=topic.partitions,
                set_configs=configs,
                delete_configs=[k for k, v in topic.configs.items() if v is None],
                actor=actor,
                comment=comment,
            )
        case StepAction.DELETE:
            return topics.delete_topic(step.key, actor=actor, comment=comment)
        case StepAction.MANAGE:
            return Topic.objects.get(name=step.key, deleted_at__isnull=True)


def _execute_route(step: DocumentStep, route: RouteValues, actor: str, comment: str) -> str:
    match step.action:
        case StepAction.CREATE:
            row = routes.create_route(step.key, to_json(route), actor=actor, comment=comment)
        case StepAction.ALTER:
            row = routes.change_route(step.key, to_json(route), actor=actor, comment=comment)
        case StepAction.DELETE:
            routes.delete_route(step.key, actor=actor, comment=comment)
            return ""
        case StepAction.MANAGE:
            row = AccessEntry.objects.get(kind=step.kind, key=step.key)
    return str((row.value or {}).get("route_id", ""))


def _get(plan_id: int) -> DocumentPlan:
    row = DocumentPlan.objects.filter(pk=plan_id).first()
    if row is None:
        raise Rejected(
            sentence(
                "Document plan {plan_id} does not exist; plans are deleted after {days} days.",
                plan_id=plan_id,
                days=KEPT.days,
            )
        )
    return row


def _record(row: DocumentPlan, verb: AuditOperation, actor: str, comment: str) -> None:
    results = [outcome.result for outcome in row.outcomes.values()]
    after = {
        "owner": row.owner,
        "digest": row.digest,
        "steps": len(row.steps),
        "prune": row.prune,
        "take_over": row.take_over,
        "done": results.count(StepResult.DONE),
        "failed": results.count(StepResult.FAILED),
    }
    record(
        actor,
        verb,
        "document",
        str(row.pk),
        comment=comment,
        after=after,
        object_id=f"document-{row.pk}",
        outcome=Outcome.CONFIRMED,
    )
