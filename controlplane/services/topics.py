"""Create, alter, delete and adopt topics. Invariant: rows are desired state. The controller applies them, and the change row says when.

The controller's database thread uses the same functions for requests of Kafka clients, with their `request_id`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TypedDict

from django.db import IntegrityError, transaction
from django.utils import timezone

from brokerd.cluster.configs import transition_problem
from brokerd.cluster.model import INTERNAL_TOPICS
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Broker, MovePartition, ObservedTopic, Topic
from controlplane.models.change import Outcome
from controlplane.services import front_topics, topic_checks
from controlplane.services.common import AlreadyExists, Rejected, audited, record
from weir_common.phrases import sentence


class RequestedTopic(TypedDict):
    """The `after` value of a change row for a requested topic. `assignment`: {partition: brokers}."""

    partitions: int
    replication_factor: int | None
    configs: dict[str, str]
    assignment: dict[str, list[int]] | None


def _requested_values(
    partitions: int,
    replication_factor: int | None,
    configs: Mapping[str, str] | None,
    assignment: Mapping[int, Sequence[int]] | None,
) -> RequestedTopic:
    return {
        "partitions": partitions,
        "replication_factor": replication_factor,
        "configs": dict(configs or {}),
        "assignment": {str(k): list(v) for k, v in assignment.items()} if assignment else None,
    }


@audited(
    AuditOperation.TOPIC_CREATE,
    "{name}",
    after=lambda a: _requested_values(a["partitions"], a["replication_factor"], a["configs"], a["assignment"]),
)
def create_topic(
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    assignment: Mapping[int, Sequence[int]] | None = None,
    actor: str,
    comment: str = "",
    request_id: str | None = None,
    topic_id: uuid.UUID | None = None,
    checked: bool = False,
) -> Topic:
    """Request a topic. `replication_factor` None = three, or the number of live brokers if smaller. Returns its row immediately. The topic is
    usable when `applied_generation` has reached `generation`. `checked`: the controller has checked the request against the log, which is
    fresher than the mirrored rows. Raises Rejected."""
    desired = _requested_values(partitions, replication_factor, configs, assignment)
    try:
        with transaction.atomic():
            front_topics.check_creation(desired["configs"])
            row = _create(name, desired, actor, comment, request_id, topic_id, checked)
            _follow(row, actor, checked=checked)
            return row
    except IntegrityError:
        # Two concurrent requests for the same name: the unique constraint decided.
        raise AlreadyExists(
            sentence("Topic {name} already exists; choose another name or alter the topic.", name=repr(name)), "name"
        ) from None


def _create(
    name: str,
    desired: RequestedTopic,
    actor: str,
    comment: str,
    request_id: str | None,
    topic_id: uuid.UUID | None,
    checked: bool,
) -> Topic:
    assignment = {int(k): v for k, v in desired["assignment"].items()} if desired["assignment"] else None
    if assignment is not None:
        desired["partitions"] = len(assignment)
        desired["replication_factor"] = len(next(iter(assignment.values()), [])) or 1
    factor = desired["replication_factor"]
    if factor is None:
        factor = desired["replication_factor"] = max(1, min(3, Broker.objects.filter(alive=True).count()))
    topic_checks.check_topic(
        name,
        partitions=desired["partitions"],
        replication_factor=factor,
        configs=desired["configs"],
        assignment=assignment,
        checked=checked,
    )
    row = Topic.objects.create(
        id=topic_id or uuid.uuid4(),
        name=name,
        partitions=desired["partitions"],
        replication_factor=factor,
        configs=desired["configs"],
        assignment=desired["assignment"],
        internal=name in INTERNAL_TOPICS,
        request_id=request_id,
    )
    record(
        actor,
        AuditOperation.TOPIC_CREATE,
        "topic",
        name,
        comment=comment,
        after=desired,
        object_id=str(row.id),
        generation=1,
    )
    return row


@audited(
    AuditOperation.TOPIC_ALTER,
    "{name}",
    after=lambda a: {
        "partitions": a["partitions"],
        "set": dict(a["set_configs"] or {}),
        "delete": list(a["delete_configs"]),
    },
)
def alter_topic(
    name: str,
    *,
    partitions: int | None = None,
    set_configs: Mapping[str, str] | None = None,
    delete_configs: Sequence[str] = (),
    assignment: Mapping[int, Sequence[int]] | None = None,
    actor: str,
    comment: str = "",
    if_generation: int | None = None,
    request_id: str | None = None,
) -> Topic:
    """Raise the number of partitions and/or change configs. Only the given values change. `if_generation`: Rejected if the row has another generation
    now. `assignment` places the new partitions; its keys are their indexes. Raises Rejected; without a change the row is returned unchanged."""
    with transaction.atomic():
        front_topics.check_alteration(get_topic(name), partitions, set_configs or {}, delete_configs)
        row = _alter(
            name,
            partitions,
            set_configs or {},
            delete_configs,
            actor=actor,
            comment=comment,
            assignment=assignment,
            if_generation=if_generation,
            request_id=request_id,
        )
        _follow(row, actor, checked=False)
        return row


def _follow(row: Topic, actor: str, *, checked: bool) -> None:
    """Create or alter the front topics of a topic, so that they follow the topic."""
    comment = f"follows topic {row.name}"
    for desired in front_topics.desired_front_topics(row):
        front = Topic.objects.filter(name=desired.name, deleted_at__isnull=True).first()
        if front is None:
            configs = {**desired.initial, **desired.configs}
            requested = _requested_values(desired.partitions, row.replication_factor, configs, None)
            front = _create(desired.name, requested, actor, comment, None, None, checked)
            _follow(front, actor, checked=checked)
            continue
        if front.configs.get(desired.marker) != row.name:
            raise Rejected(
                sentence(
                    "Topic {name} exists and is not a front topic of {name_2}; delete it, or do not set {enabled_by}.",
                    name=repr(desired.name),
                    name_2=repr(row.name),
                    enabled_by=front_topics.ENABLED_BY[desired.marker],
                ),
                "configs",
            )
        removed = [k for k in front_topics.FOLLOWED if k in front.configs and k not in desired.configs]
        differ = any(front.configs.get(k) != v for k, v in desired.configs.items())
        if removed or differ or front.partitions != desired.partitions:
            front = _alter(desired.name, desired.partitions, desired.configs, removed, actor=actor, comment=comment)
            _follow(front, actor, checked=checked)


def _alter(
    name: str,
    partitions: int | None,
    set_configs: Mapping[str, str],
    delete_configs: Sequence[str],
    *,
    actor: str,
    comment: str,
    assignment: Mapping[int, Sequence[int]] | None = None,
    if_generation: int | None = None,
    request_id: str | None = None,
) -> Topic:
    row = get_topic(name)
    if if_generation is not None and row.generation != if_generation:
        raise Rejected(
            sentence(
                "Topic {name} changed since you read it (generation {if_generation}, now {generation}); reload it.",
                name=repr(name),
                if_generation=if_generation,
                generation=row.generation,
            )
        )
    topic_checks.check_drift(row)
    before = {"partitions": row.partitions, "configs": row.configs}
    configs = _changed_configs(row, set_configs, delete_configs)
    count = row.partitions if partitions is None else partitions
    placed = row.assignment
    if count != row.partitions:
        _check_new_count(row, count)
        if assignment is not None:
            topic_checks.check_assignment(assignment, range(row.partitions, count))
            placed = {**(row.assignment or {}), **{str(k): list(v) for k, v in assignment.items()}}
    after = {"partitions": count, "configs": configs}
    if after == before:
        # Kafka clients such as MirrorMaker 2 send all configs of each topic every few minutes. Such requests would hide the changes in the audit log.
        if request_id is None:
            record(
                actor,
                AuditOperation.TOPIC_ALTER,
                "topic",
                name,
                comment=comment,
                before=before,
                after=after,
                object_id=str(row.id),
                generation=row.generation,
                outcome=Outcome.UNCHANGED,
                detail=sentence("No change: all values were already set."),
            )
        return row
    generation = row.generation + 1
    changed = Topic.objects.filter(id=row.id, generation=row.generation, deleted_at__isnull=True).update(
        partitions=count,
        configs=configs,
        assignment=placed,
        generation=generation,
        request_id=request_id,
        updated_at=timezone.now(),
    )
    if not changed:
        raise Rejected(sentence("Topic {name} was changed concurrently; reload and try again.", name=repr(name)))
    record(
        actor,
        AuditOperation.TOPIC_ALTER,
        "topic",
        name,
        comment=comment,
        before=before,
        after=after,
        object_id=str(row.id),
        generation=generation,
    )
    return Topic.objects.get(id=row.id)


def _changed_configs(row: Topic, set_configs: Mapping[str, str], delete_configs: Sequence[str]) -> dict[str, str]:
    """All configs of the topic after the change. Raises Rejected."""
    configs = {**row.configs, **{k: str(v) for k, v in set_configs.items()}}
    for key in delete_configs:
        configs.pop(key, None)
    topic_checks.check_configs({k: configs[k] for k in set_configs if k in configs})
    if set_configs or delete_configs:
        topic_checks.check_together(configs)
        if (rejected := transition_problem(row.configs, configs)) is not None:
            raise Rejected(rejected, "configs")
    return configs


def _check_new_count(row: Topic, count: int) -> None:
    """Check another number of partitions of a topic. Raises Rejected."""
    if row.name in INTERNAL_TOPICS or row.internal:
        raise Rejected(
            sentence(
                "The partition count of internal topic {name} is fixed: it assigns groups and transactions to partitions.",
                name=repr(row.name),
            ),
            "partitions",
        )
    if count < row.partitions:
        raise Rejected(
            sentence(
                "Topic {name} has {partitions} partitions and cannot be reduced to {count}: records would be lost. Create a new topic and copy the records instead.",
                name=repr(row.name),
                partitions=row.partitions,
                count=count,
            ),
            "partitions",
        )
    topic_checks.check_counts(count, row.replication_factor)


@audited(AuditOperation.TOPIC_DELETE, "{name}")
def delete_topic(
    name: str, *, actor: str, comment: str = "", confirm_name: str | None = None, request_id: str | None = None
) -> Topic:
    """Mark the row as deleted. Brokers delete the records as soon as they read the tombstone in the metadata log. Raises Rejected."""
    with transaction.atomic():
        if confirm_name is not None and confirm_name != name:
            raise Rejected(
                sentence(
                    "Type {name} to confirm; {confirm_name} does not match.",
                    name=repr(name),
                    confirm_name=repr(confirm_name),
                ),
                "confirm_name",
            )
        row = get_topic(name)
        if row.internal or name in INTERNAL_TOPICS:
            raise Rejected(
                sentence(
                    "{name} is internal: it stores groups or transactions, and its deletion would lose them.",
                    name=repr(name),
                ),
                "name",
            )
        topic_checks.check_drift(row)
        moving = MovePartition.objects.filter(topic_id=row.id, active=True).values_list("move_id", flat=True).first()
        if moving is not None:
            raise Rejected(
                sentence(
                    "Topic {name} is part of move {moving}; cancel the move, or wait until it ends.",
                    name=repr(name),
                    moving=moving,
                ),
                "name",
            )
        generation = row.generation + 1
        changed = Topic.objects.filter(id=row.id, generation=row.generation, deleted_at__isnull=True).update(
            deleted_at=timezone.now(), generation=generation, request_id=request_id, updated_at=timezone.now()
        )
        if not changed:
            raise Rejected(sentence("Topic {name} was changed concurrently; reload and try again.", name=repr(name)))
        before = {
            "partitions": row.partitions,
            "replication_factor": row.replication_factor,
            "configs": row.configs,
            "assignment": row.assignment,
        }
        for front in front_topics.fronts_of(row):
            delete_topic(front.name, actor=actor, comment=f"follows topic {name}")
        record(
            actor,
            AuditOperation.TOPIC_DELETE,
            "topic",
            name,
            comment=comment,
            before=before,
            object_id=str(row.id),
            generation=generation,
        )
        return Topic.objects.get(id=row.id)


def adopt_topic(topic_id: uuid.UUID, *, actor: str, comment: str = "") -> Topic:
    """Make the metadata log's state of a topic the desired state: for topics without a row, and for rows that lag behind the log (a
    restored database). Changes nothing in the cluster. Raises Rejected."""
    with transaction.atomic():
        observed = ObservedTopic.objects.filter(id=topic_id).first()
        if observed is None:
            raise Rejected(
                sentence("The cluster has no topic with id {topic_id}; there is nothing to adopt.", topic_id=topic_id),
                "topic_id",
            )
        row = Topic.objects.filter(id=topic_id).first()
        if row is not None and row.generation >= observed.generation and row.deleted_at is None:
            raise Rejected(
                sentence(
                    "Topic {name} is already in the database in generation {generation}; there is nothing to adopt.",
                    name=repr(observed.name),
                    generation=row.generation,
                )
            )
        values: dict[str, object] = {
            "name": observed.name,
            "partitions": observed.partition_count,
            "replication_factor": observed.replication_factor,
            "configs": observed.configs,
            "assignment": None,
            "internal": observed.internal,
            "generation": observed.generation,
            "applied_generation": observed.generation,
            "deleted_at": None,
            "note": "",
        }
        before = None
        if row is not None:
            before = {"generation": row.generation, "partitions": row.partitions, "configs": row.configs}
        try:
            with transaction.atomic():
                adopted, _ = Topic.objects.update_or_create(id=topic_id, defaults=values)
        except IntegrityError:
            raise Rejected(
                sentence(
                    "The database has another topic named {name}, which was never created in the cluster; delete that row first.",
                    name=repr(observed.name),
                ),
                "name",
            ) from None
        record(
            actor,
            AuditOperation.TOPIC_ADOPT,
            "topic",
            observed.name,
            comment=comment,
            before=before,
            after={k: v for k, v in values.items() if k != "deleted_at"},
            object_id=str(topic_id),
            generation=observed.generation,
            outcome=Outcome.CONFIRMED,
        )
        return adopted


def get_topic(name: str) -> Topic:
    """The row of this name that is not deleted. Raises Rejected with the reason when there is none."""
    row = Topic.objects.filter(name=name, deleted_at__isnull=True).first()
    if row is not None:
        return row
    if ObservedTopic.objects.filter(name=name).exists():
        raise Rejected(
            sentence(
                "Topic {name} exists in the cluster but not in the database (drift); adopt it first.", name=repr(name)
            ),
            "name",
        )
    raise Rejected(sentence("Topic {name} does not exist.", name=repr(name)), "name")
