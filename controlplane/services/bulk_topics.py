"""One change of many topics: its preview for each topic, and its execution topic by topic.

Invariants: the preview names every topic that will be changed, with its generation. The execution changes no other topic, and none that has changed
since. Each topic has its own transaction and change row: a rejection of one topic does not stop the other topics, and its reason is in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from brokerd.cluster.configs import contradiction, transition_problem
from brokerd.cluster.model import INTERNAL_TOPICS
from controlplane.models import MovePartition, ObservedTopic, Topic
from controlplane.services.common import Rejected, needs_reason
from controlplane.services.topic_problems import config_problems
from controlplane.services.topics import alter_topic, delete_topic
from weir_common.phrases import sentence

TOPICS_MAX = 1_000
"""Maximum number of topics of one bulk operation. It runs in one request, at some milliseconds per topic: more would exceed the time-outs of proxies."""


CHANGED_SINCE = "The topic changed since the preview."


class BulkOperation(StrEnum):
    CONFIGS = "configs"
    DELETE = "delete"


class BulkOutcome(StrEnum):
    REQUESTED = "requested"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkChange:
    """The change to each topic. `set_configs` and `delete_configs` are for CONFIGS only."""

    operation: BulkOperation
    set_configs: Mapping[str, str] = field(default_factory=dict)
    delete_configs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BulkRow:
    """One topic of a preview. `changes`: (config, value now, new value), None = no override. `problem`: why it will be rejected; "" = it will not."""

    name: str
    generation: int
    partitions: int
    records: int | None
    changes: list[tuple[str, str | None, str | None]]
    problem: str


@dataclass(frozen=True, slots=True)
class BulkResult:
    name: str
    outcome: BulkOutcome
    detail: str


def problems_of(change: BulkChange) -> list[str]:
    """Every reason why the change itself is invalid, for any topic."""
    if change.operation is BulkOperation.DELETE:
        return []
    found = list(config_problems(change.set_configs).values())
    if not change.set_configs and not change.delete_configs:
        found.append("The change has no config. Enter at least one.")
    return found + [
        sentence("{name} is both set and removed.", name=name)
        for name in change.delete_configs
        if name in change.set_configs
    ]


def preview(names: Sequence[str], change: BulkChange) -> list[BulkRow]:
    """The effect of the change on each topic, in the order of `names`. Names without a topic are omitted. Raises Rejected for too many."""
    if len(names) > TOPICS_MAX:
        raise Rejected(
            sentence(
                "{count} topics are more than {max}, the limit of a bulk operation. Narrow the filter, or select topics.",
                count=f"{len(names):,}",
                max=f"{TOPICS_MAX:,}",
            )
        )
    rows = {t.name: t for t in Topic.objects.filter(name__in=names, deleted_at__isnull=True)}
    ids = [t.id for t in rows.values()]
    seen = {t.id: t for t in ObservedTopic.objects.filter(id__in=ids)}
    moving = dict(MovePartition.objects.filter(topic_id__in=ids, active=True).values_list("topic_id", "move_id"))
    found = []
    for name in names:
        row = rows.get(name)
        if row is None:
            continue
        observed = seen.get(row.id)
        drifted = observed is not None and observed.generation > row.generation
        found.append(
            BulkRow(
                name,
                row.generation,
                row.partitions,
                observed.records if observed is not None else None,
                _changes(row, change),
                _problem(row, change, moving.get(row.id), drifted=drifted),
            )
        )
    return found


def _changes(row: Topic, change: BulkChange) -> list[tuple[str, str | None, str | None]]:
    desired: dict[str, str | None] = {**change.set_configs, **dict.fromkeys(change.delete_configs)}
    return [(key, row.configs.get(key), new) for key, new in desired.items() if row.configs.get(key) != new]


def _problem(row: Topic, change: BulkChange, move: int | None, *, drifted: bool) -> str:
    if drifted:
        return "The cluster has a newer state (drift). Accept the cluster state first."
    if change.operation is BulkOperation.DELETE:
        if row.internal or row.name in INTERNAL_TOPICS:
            return "An internal topic cannot be deleted."
        if move is None:
            return ""
        return sentence("Part of move {move_id}. Cancel the move, or wait until it ends.", move_id=move)
    configs = {**row.configs, **change.set_configs}
    for key in change.delete_configs:
        configs.pop(key, None)
    return contradiction(configs) or transition_problem(row.configs, configs) or ""


def execute(generations: Mapping[str, int], change: BulkChange, *, actor: str, comment: str) -> list[BulkResult]:
    """Change each topic whose generation is still the given one. Raises Rejected if the whole operation is invalid."""
    needs_reason(comment)
    if len(generations) > TOPICS_MAX:
        raise Rejected(
            sentence(
                "{count} topics are more than {max}, the limit of a bulk operation.",
                count=f"{len(generations):,}",
                max=f"{TOPICS_MAX:,}",
            )
        )
    if problems := problems_of(change):
        raise Rejected(problems[0], "configs")
    return [_change_one(name, generation, change, actor, comment) for name, generation in generations.items()]


def _change_one(name: str, generation: int, change: BulkChange, actor: str, comment: str) -> BulkResult:
    now = Topic.objects.filter(name=name, deleted_at__isnull=True).values_list("generation", flat=True).first()
    operate: Callable[[], Topic]
    if change.operation is BulkOperation.DELETE:
        if now is not None and now != generation:
            return BulkResult(name, BulkOutcome.REJECTED, CHANGED_SINCE)

        def operate() -> Topic:
            return delete_topic(name, actor=actor, comment=comment)
    else:

        def operate() -> Topic:
            return alter_topic(
                name,
                set_configs=change.set_configs,
                delete_configs=change.delete_configs,
                actor=actor,
                comment=comment,
                if_generation=generation,
            )

    try:
        row = operate()
    except Rejected as error:
        return BulkResult(name, BulkOutcome.REJECTED, error.reason)
    changed = row.generation != generation
    return BulkResult(name, BulkOutcome.REQUESTED if changed else BulkOutcome.UNCHANGED, "")
