"""Create, alter, delete and adopt topics. Law: rows are wishes; the controller makes them so and the change row says when it did.

Called by the API, the console and the controller's database thread (for Kafka clients, with their `request_id`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokerd.cluster.configs import contradiction, topic_config_problem
from brokerd.cluster.cordons import cordoned
from brokerd.cluster.model import INTERNAL_TOPICS, topic_name_problem, topic_names_collide
from controlplane.models import Broker, MovePartition, ObservedTopic, Topic
from controlplane.models.change import Outcome
from controlplane.services.common import Refused, finish_changes, record, record_refusal

PARTITIONS_MAX = 10_000
"""Partitions of one topic. One broker opens a folder and two files each; beyond this a slip of the finger costs the cluster."""


def create_topic(
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    assignment: Mapping[int, Sequence[int]] | None = None,
    who: str,
    why: str = "",
    request_id: str | None = None,
    topic_id: uuid.UUID | None = None,
    checked: bool = False,
) -> Topic:
    """Ask for a topic. `replication_factor` None = three, or as many as there are living brokers. Returns its row at once; it is
    usable when `applied_generation` has reached `generation`. `checked`: the controller has checked it against the log, which is fresher
    than the mirror here. Raises Refused."""
    wanted = {
        "partitions": partitions,
        "replication_factor": replication_factor,
        "configs": dict(configs or {}),
        "assignment": {str(k): list(v) for k, v in assignment.items()} if assignment else None,
    }
    try:
        with transaction.atomic():
            row = _create(name, wanted, who, why, request_id, topic_id, checked)
    except IntegrityError:
        # Two asked for the same name at once: the constraint decided.
        refused = Refused(f"Topic {name!r} exists already; choose another name or alter it.", "name")
        record_refusal(who, "topic.create", "topic", name[:249], refused, why=why, after=wanted)
        raise refused from None
    except Refused as refused:
        record_refusal(who, "topic.create", "topic", name[:249], refused, why=why, after=wanted)
        raise
    return row


def check_topic(
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    assignment: Mapping[int, Sequence[int]] | None = None,
    checked: bool = False,
) -> None:
    """Everything `create_topic` would refuse, without writing. Raises Refused."""
    if (problem := topic_name_problem(name)) is not None:
        raise Refused(problem, "name")
    if Topic.objects.filter(name=name, deleted_at__isnull=True).exists():
        raise Refused(f"Topic {name!r} exists already; choose another name or alter it.", "name")
    if not checked and (seen := ObservedTopic.objects.filter(name=name).first()) is not None:
        if Topic.objects.filter(id=seen.id, deleted_at__isnull=False).exists():
            raise Refused(f"Topic {name!r} is just being deleted; try again in a few seconds.", "name")
        raise Refused(
            f"Topic {name!r} lives in the cluster though this database does not know it (drift); adopt it instead.",
            "name",
        )
    if "." in name or "_" in name:
        pattern = "^" + "".join("[._]" if c in "._" else c for c in name) + "$"
        for other in Topic.objects.filter(deleted_at__isnull=True, name__regex=pattern).values_list("name", flat=True):
            if topic_names_collide(name, other):
                raise Refused(
                    f"Topic {name!r} differs from {other!r} only in '.' and '_', and Kafka's metric names would be the same; "
                    "choose another name.",
                    "name",
                )
    _check_counts(partitions, replication_factor, against_brokers=not checked)
    _check_configs(configs)
    _check_together({k: str(v) for k, v in configs.items()})
    if assignment is not None:
        _check_assignment(assignment, range(partitions), against_brokers=not checked)


def _create(
    name: str,
    wanted: dict[str, Any],
    who: str,
    why: str,
    request_id: str | None,
    topic_id: uuid.UUID | None,
    checked: bool,
) -> Topic:
    assignment = {int(k): v for k, v in wanted["assignment"].items()} if wanted["assignment"] else None
    if assignment is not None:
        wanted["partitions"] = len(assignment)
        wanted["replication_factor"] = len(next(iter(assignment.values()), [])) or 1
    if wanted["replication_factor"] is None:
        wanted["replication_factor"] = max(1, min(3, Broker.objects.filter(alive=True).count()))
    check_topic(
        name,
        partitions=wanted["partitions"],
        replication_factor=wanted["replication_factor"],
        configs=wanted["configs"],
        assignment=assignment,
        checked=checked,
    )
    row = Topic.objects.create(
        id=topic_id or uuid.uuid4(),
        name=name,
        partitions=wanted["partitions"],
        replication_factor=wanted["replication_factor"],
        configs=wanted["configs"],
        assignment=wanted["assignment"],
        internal=name in INTERNAL_TOPICS,
        request_id=request_id,
    )
    record(who, "topic.create", "topic", name, why=why, after=wanted, object_id=str(row.id), generation=1)
    return row


def alter_topic(
    name: str,
    *,
    partitions: int | None = None,
    set_configs: Mapping[str, str] | None = None,
    delete_configs: Sequence[str] = (),
    assignment: Mapping[int, Sequence[int]] | None = None,
    who: str,
    why: str = "",
    if_generation: int | None = None,
    request_id: str | None = None,
) -> Topic:
    """Raise the number of partitions and/or change configs. Only what is named changes. `if_generation` binds the act to what was
    read. `assignment` places the new partitions (keys from the old count on). Raises Refused; nothing to change = unchanged."""
    asked = {"partitions": partitions, "set": dict(set_configs or {}), "delete": list(delete_configs)}
    try:
        with transaction.atomic():
            return _alter(
                name, partitions, set_configs or {}, delete_configs, assignment, who, why, if_generation, request_id
            )
    except Refused as refused:
        record_refusal(who, "topic.alter", "topic", name[:249], refused, why=why, after=asked)
        raise


def _alter(
    name: str,
    partitions: int | None,
    set_configs: Mapping[str, str],
    delete_configs: Sequence[str],
    assignment: Mapping[int, Sequence[int]] | None,
    who: str,
    why: str,
    if_generation: int | None,
    request_id: str | None,
) -> Topic:
    row = get_topic(name)
    if if_generation is not None and row.generation != if_generation:
        raise Refused(
            f"Topic {name!r} changed since you read it (generation {if_generation}, now {row.generation}); look at it again."
        )
    _check_drift(row)
    before = {"partitions": row.partitions, "configs": row.configs}
    configs = {**row.configs, **{k: str(v) for k, v in set_configs.items()}}
    for key in delete_configs:
        configs.pop(key, None)
    _check_configs({k: configs[k] for k in set_configs if k in configs})
    if set_configs or delete_configs:
        _check_together(configs)
    count = row.partitions if partitions is None else partitions
    placed = row.assignment
    if count != row.partitions:
        if row.name in INTERNAL_TOPICS or row.internal:
            raise Refused(
                f"{name!r} keeps its number of partitions: groups and transactions are found by it.", "partitions"
            )
        if count < row.partitions:
            raise Refused(
                f"Topic {name!r} has {row.partitions} partitions and cannot shrink to {count}: records would be lost. "
                "Create a new topic and copy instead.",
                "partitions",
            )
        _check_counts(count, row.replication_factor)
        if assignment is not None:
            _check_assignment(assignment, range(row.partitions, count))
            placed = {**(row.assignment or {}), **{str(k): list(v) for k, v in assignment.items()}}
    after = {"partitions": count, "configs": configs}
    if after == before:
        record(
            who, "topic.alter", "topic", name,
            why=why, before=before, after=after, object_id=str(row.id), generation=row.generation,
            outcome=Outcome.UNCHANGED, detail="It was so already.",
        )  # fmt: skip
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
        raise Refused(f"Topic {name!r} was changed by somebody else in this moment; look at it again.")
    record(
        who, "topic.alter", "topic", name,
        why=why, before=before, after=after, object_id=str(row.id), generation=generation,
    )  # fmt: skip
    return Topic.objects.get(id=row.id)


def delete_topic(
    name: str, *, who: str, why: str = "", confirm_name: str | None = None, request_id: str | None = None
) -> Topic:
    """Set the tombstone. Its records are gone once the brokers read it in the log. Raises Refused."""
    try:
        with transaction.atomic():
            if confirm_name is not None and confirm_name != name:
                raise Refused(f"Type {name!r} to confirm; {confirm_name!r} is something else.", "confirm_name")
            row = get_topic(name)
            if row.internal or name in INTERNAL_TOPICS:
                raise Refused(
                    f"{name!r} is internal: groups and transactions live in it, and deleting it would lose them.",
                    "name",
                )
            _check_drift(row)
            moving = (
                MovePartition.objects.filter(topic_id=row.id, active=True).values_list("move_id", flat=True).first()
            )
            if moving is not None:
                raise Refused(f"Topic {name!r} is part of move {moving}; cancel the move or wait for its end.", "name")
            generation = row.generation + 1
            changed = Topic.objects.filter(id=row.id, generation=row.generation, deleted_at__isnull=True).update(
                deleted_at=timezone.now(), generation=generation, request_id=request_id, updated_at=timezone.now()
            )
            if not changed:
                raise Refused(f"Topic {name!r} was changed by somebody else in this moment; look at it again.")
            before = {
                "partitions": row.partitions, "replication_factor": row.replication_factor, "configs": row.configs,
                "assignment": row.assignment,
            }  # fmt: skip
            record(
                who, "topic.delete", "topic", name,
                why=why, before=before, object_id=str(row.id), generation=generation,
            )  # fmt: skip
            return Topic.objects.get(id=row.id)
    except Refused as refused:
        record_refusal(who, "topic.delete", "topic", name[:249], refused, why=why)
        raise


def adopt_topic(topic_id: uuid.UUID, *, who: str, why: str = "") -> Topic:
    """Make the metadata log's state of a topic the wanted one: for topics without a row, and for rows that lag behind the log (a
    restored database). Touches nothing in the cluster. Raises Refused."""
    with transaction.atomic():
        seen = ObservedTopic.objects.filter(id=topic_id).first()
        if seen is None:
            raise Refused(f"The cluster has no topic with id {topic_id}; nothing can be adopted.", "topic_id")
        row = Topic.objects.filter(id=topic_id).first()
        if row is not None and row.generation >= seen.generation and row.deleted_at is None:
            raise Refused(f"Topic {seen.name!r} is known in generation {row.generation}; there is nothing to adopt.")
        values: dict[str, Any] = {
            "name": seen.name,
            "partitions": seen.partition_count,
            "replication_factor": seen.replication_factor,
            "configs": seen.configs,
            "assignment": None,
            "internal": seen.internal,
            "generation": seen.generation,
            "applied_generation": seen.generation,
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
            raise Refused(
                f"This database wants another topic named {seen.name!r}; delete that wish first (it was never applied).",
                "name",
            ) from None
        record(
            who, "topic.adopt", "topic", seen.name,
            why=why, before=before, after={k: v for k, v in values.items() if k != "deleted_at"}, object_id=str(topic_id),
            generation=seen.generation, outcome=Outcome.CONFIRMED,
        )  # fmt: skip
        return adopted


def get_topic(name: str) -> Topic:
    """The living row of this name. Raises Refused with the reason when there is none."""
    row = Topic.objects.filter(name=name, deleted_at__isnull=True).first()
    if row is not None:
        return row
    if ObservedTopic.objects.filter(name=name).exists():
        raise Refused(f"Topic {name!r} lives in the cluster but not in this database (drift); adopt it first.", "name")
    raise Refused(f"There is no topic {name!r}.", "name")


# -- the controller's side: what was applied, written back by its database thread ----------------------------------------


def mark_applied(applied: Mapping[uuid.UUID, int], controller_epoch: int) -> int:
    """Note that the metadata log holds these generations. Rows that a newer controller wrote stay as they are. Idempotent."""
    changed = 0
    for topic_id, generation in applied.items():
        count = Topic.objects.filter(
            id=topic_id,
            controller_epoch__lte=controller_epoch,
            applied_generation__lt=generation,
            generation__gte=generation,
        ).update(applied_generation=generation, controller_epoch=controller_epoch)
        if count:
            changed += count
            Topic.objects.filter(id=topic_id, note_generation__lte=generation).exclude(note="").update(note="")
            finish_changes(str(topic_id), generation, Outcome.CONFIRMED)
    return changed


def mark_refused(topic_id: uuid.UUID, generation: int, reason: str, controller_epoch: int) -> bool:
    """Note why the controller cannot apply this generation yet. It tries again; the note goes when it succeeds."""
    return bool(
        Topic.objects.filter(id=topic_id, controller_epoch__lte=controller_epoch, generation=generation)
        .exclude(note=reason, note_generation=generation)
        .update(note=reason, note_generation=generation, controller_epoch=controller_epoch)
    )


def waiting_topics() -> list[Topic]:
    """Rows that the controller has not applied yet, oldest wish first."""
    return list(Topic.objects.filter(applied_generation__lt=F("generation")).order_by("updated_at"))


# -- checks --------------------------------------------------------------------------------------------------------------


def _check_counts(partitions: int, replication_factor: int, *, against_brokers: bool = True) -> None:
    if partitions < 1:
        raise Refused(f"{partitions} partitions are too few; a topic has at least one.", "partitions")
    if partitions > PARTITIONS_MAX:
        raise Refused(f"{partitions} partitions are too many; at most {PARTITIONS_MAX} are allowed.", "partitions")
    if replication_factor < 1:
        raise Refused(
            f"Replication factor {replication_factor} is too small; at least 1 is needed.", "replication_factor"
        )
    known = Broker.objects.count() if against_brokers else 0
    # No broker seen yet means the observer has not looked: the controller will judge.
    if known and replication_factor > known:
        raise Refused(
            f"Replication factor {replication_factor} is larger than the number of brokers ({known}); lower it or add brokers.",
            "replication_factor",
        )
    aside = sorted(b.broker_id for b in Broker.objects.all() if cordoned(b.configs)) if against_brokers else []
    if aside and replication_factor > known - len(aside):
        raise Refused(
            f"Replication factor {replication_factor} is larger than the number of brokers that may be given replicas "
            f"({known - len(aside)}): {', '.join(map(str, aside))} {'is' if len(aside) == 1 else 'are'} cordoned; uncordon one or lower it.",
            "replication_factor",
        )


def _check_drift(row: Topic) -> None:
    seen = ObservedTopic.objects.filter(id=row.id).only("generation").first()
    if seen is not None and seen.generation > row.generation:
        raise Refused(
            f"The database knows {row.name!r} in generation {row.generation}, the cluster has {seen.generation} (drift, as after a "
            "restore); adopt the cluster's state first.",
            "name",
        )


def _check_together(configs: Mapping[str, str]) -> None:
    if (problem := contradiction(configs)) is not None:
        raise Refused(problem, "configs")


def _check_configs(configs: Mapping[str, str]) -> None:
    for name, value in configs.items():
        if (problem := topic_config_problem(name, str(value))) is not None:
            raise Refused(problem, f"configs.{name}")


def _check_assignment(
    assignment: Mapping[int, Sequence[int]], expected: range, *, against_brokers: bool = True
) -> None:
    if sorted(assignment) != list(expected):
        raise Refused(
            f"The assignment names partitions {sorted(assignment)}; it must name {expected.start} to {expected.stop - 1}, each once.",
            "assignment",
        )
    known = set(Broker.objects.values_list("broker_id", flat=True)) if against_brokers else set()
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) > 1:
        raise Refused("All partitions of an assignment need the same number of replicas.", "assignment")
    for partition, replicas in assignment.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise Refused(f"Partition {partition} has no replica or one twice: {list(replicas)}.", "assignment")
        if known and (strange := [b for b in replicas if b not in known]):
            raise Refused(
                f"Partition {partition} names broker {strange[0]}, which has never registered; known are {sorted(known)}.",
                "assignment",
            )
