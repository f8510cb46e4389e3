"""Moves without old data: topics that qualify, the cost compared with a full copy, and the deletion of old records before retention.

Invariants: the deletion is DeleteRecords and is shown as such, with the loss of each group. It needs a reason, the typed name and a second person
(`overrides` alone calls `delete_old_records`), and it cannot be undone. Readers without a group cannot be known and are reported as unknown.
Does not contain the progress of such a move (`controlplane.domain.tail_move`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db import transaction
from django.db.models import F

from brokerd.cluster.configs import ALL_BROKERS
from controlplane.domain import planner as planning
from controlplane.domain import tail_move as core
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.move_states import MoveMode
from controlplane.domain.move_types import PartView
from controlplane.models import GroupPartition, Move, MovePartition, ObservedTopic, RemoteSize
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState, PartState
from controlplane.selectors.broker_configs import desired_configs
from controlplane.services.common import Rejected, audited, record
from controlplane.services.move_worker import apply_steps, get_move, views_of
from weir_common.phrases import Phrase, sentence

NOT_READ = "Group {group} has not read {records} records of {partition}: it has no committed offset."
NOT_READ_FROM = "Group {group} has not read {records} records of {partition}: its committed offset is {offset}."


class TailWait(StrEnum):
    RETENTION = "retention"
    REMOTE_COPIES = "remote copies"


@dataclass(frozen=True, slots=True)
class TailMovePreview:
    """A planned move in mode `tail`. `bytes_to_copy`: old data that it would copy between brokers (none, by design). `ends_in_s`: seconds until retention
    has deleted the last of the old data and, for topics with tiered storage, until the leaders have copied it to the remote store, which is an estimate;
    None: retention by size, which cannot be predicted, or unknown bytes. `problems`: why the move is not possible (sentences). `waits_for`: events that end
    the move, a subset of "retention" and "remote copies". `remote_bytes_to_copy`: bytes that the leaders still have to copy to the remote store; None =
    unknown, because a leader has not reported it."""

    bytes_to_copy: int
    ends_in_s: float | None
    problems: list[str]
    waits_for: list[TailWait]
    remote_bytes_to_copy: int | None

    @property
    def waits_for_retention(self) -> bool:
        return TailWait.RETENTION in self.waits_for

    @property
    def waits_for_remote_copies(self) -> bool:
        return TailWait.REMOTE_COPIES in self.waits_for


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """A group that has not read all records to be deleted. `records`: at least this many; `committed` None: no committed offset for this
    partition."""

    group_id: str
    topic: str
    partition: int
    committed: int | None
    records: int


@dataclass(frozen=True, slots=True)
class PartDeletion:
    """Records in [start, end) would be deleted. `retention_at`: when retention would have deleted the last of them, Unix seconds; None = unknown."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    retention_at: float | None


@dataclass(frozen=True, slots=True)
class DeletionPreview:
    """The records that a deletion would delete, and the groups that have not read them. Readers without a group are not recorded, so their number is unknown.
    `confirm` is the text to be typed."""

    parts: list[PartDeletion]
    groups: list[GroupLoss]
    records: int
    confirm: str
    problem: str | None

    def sentences(self) -> list[str]:
        """The number of records that would be deleted now, and those that each group would lose."""
        return [
            *(
                sentence(
                    "{partition}: {records} records, offsets {first} to {last}, are deleted for all consumers, as by DeleteRecords.",
                    partition=f"{p.topic}-{p.partition}",
                    records=f"{p.records:,}",
                    first=p.start,
                    last=p.end - 1,
                )
                for p in self.parts
            ),
            *(
                sentence(
                    NOT_READ if g.committed is None else NOT_READ_FROM,
                    group=g.group_id,
                    records=f"{g.records:,}",
                    partition=f"{g.topic}-{g.partition}",
                    offset=g.committed,
                )
                for g in self.groups
            ),
        ]


def tail_move_problems(plan: planning.ComputedPlan, *, deadline: bool = False) -> list[str]:
    """Return the reason why topics of this plan cannot move without their old data (in a move that has a `deadline`)."""
    names = {p.view.topic for p in plan.parts}
    topics = ObservedTopic.objects.filter(name__in=names).order_by("name")
    return [
        problem
        for t in topics
        if (problem := core.tail_move_problem(t.name, t.configs, internal=t.internal, deadline=deadline))
    ]


def preview_move(plan: planning.ComputedPlan) -> TailMovePreview:
    moving = [p.view for p in plan.parts if set(p.replicas_to) - set(p.view.replicas)]
    topics = list(ObservedTopic.objects.filter(name__in={v.topic for v in moving}))
    tiered = {t.id for t in topics if core.is_tiered(t.configs)}
    ends = [retention_s(t.configs) for t in topics if t.id not in tiered]
    waits = [TailWait.RETENTION] if ends else []
    uploads: dict[int, int] | None = {}
    if tiered:
        waits.append(TailWait.REMOTE_COPIES)
        uploads = _uploads([v for v in moving if v.topic_id in tiered])
        ends.append(None if uploads is None else core.uploads_end_in_s(uploads, _copy_quotas()))
    known = [e for e in ends if e is not None]
    return TailMovePreview(
        bytes_to_copy=0,
        ends_in_s=max(known, default=0.0) if len(known) == len(ends) else None,
        problems=tail_move_problems(plan),
        waits_for=waits,
        remote_bytes_to_copy=None if uploads is None else sum(uploads.values()),
    )


def _uploads(views: Sequence[planning.PlannerPartition]) -> dict[int, int] | None:
    """{leader: bytes without a copy in the remote store}; None: a leader has not reported them."""
    sizes = {
        (topic, index): size
        for topic, index, size in RemoteSize.objects.filter(
            partition__topic_id__in={v.topic_id for v in views}
        ).values_list("partition__topic_id", "partition__index", "local_only_bytes")
    }
    out: dict[int, int] = defaultdict(int)
    for v in views:
        size = sizes.get((v.topic_id, v.partition))
        if size is None or v.leader is None:
            return None
        out[v.leader] += size
    return dict(out)


COPY_QUOTA = "remote.log.manager.copy.max.bytes.per.second"


def _copy_quotas() -> dict[int, int]:
    """{broker: bytes per second}, of the brokers with a dynamic quota. The properties files of brokers are not known here."""
    configs = desired_configs()
    default = configs[ALL_BROKERS].get(COPY_QUOTA)
    found = {broker: own.get(COPY_QUOTA, default) for broker, own in configs.items()}
    return {broker: int(quota) for broker, quota in found.items() if quota is not None}


RETENTION_MS_DEFAULT = 7 * 24 * 3_600_000
"""Kafka's default, where neither the topic nor its brokers set it."""


def retention_s(configs: Mapping[str, str]) -> float | None:
    """Seconds that a record is kept at most; None where the log is bounded only by size, or not at all."""
    ms = int(configs.get("retention.ms", RETENTION_MS_DEFAULT))
    return None if ms < 0 else ms / 1000


def deletion_preview(move_id: int, below: Mapping[str, int] | None = None) -> DeletionPreview:
    """`below`: only these partitions, if their new replicas still start at that offset. Raises Rejected when the move does not exist."""
    move = get_move(move_id)
    rows = {p.pk: p for p in move.parts.filter(state=PartState.READY)}
    views = views_of(list(rows.values()))
    configs = {t.id: t.configs for t in ObservedTopic.objects.filter(id__in={r.topic_id for r in rows.values()})}
    parts, groups = [], []
    for view in core.deletable([v for v in views if below is None or _as_shown(v, below)]):
        seen, row = view.observed, rows[view.id]
        assert seen is not None and seen.tail_start is not None
        start, end = seen.log_start or 0, seen.tail_start
        kept = retention_s(configs.get(row.topic_id, {}))
        ends = row.tail_at.timestamp() + kept if row.tail_at is not None and kept is not None else None
        parts.append(PartDeletion(row.topic_name, row.partition, start, end, end - start, ends))
        groups += _losses(row, start, end)
    problem = _state_problem(move) or core.deletion_problem(views_of(list(move.parts.all()[:1000])))
    return DeletionPreview(parts, groups, sum(p.records for p in parts), confirm_of(move), problem)


def _as_shown(part: PartView, below: Mapping[str, int]) -> bool:
    return part.observed is not None and part.observed.tail_start == below.get(part.name)


def _losses(row: MovePartition, start: int, end: int) -> list[GroupLoss]:
    out = []
    for g in GroupPartition.objects.filter(topic=row.topic_name, index=row.partition).order_by("group_id"):
        read = start if g.committed is None else max(start, g.committed)
        if read < end:
            out.append(GroupLoss(g.group_id, row.topic_name, row.partition, g.committed, end - read))
    return out


def confirm_of(move: Move) -> str:
    """The confirmation text that the operator must type: the name of the topic, or the number of the move if it has several topics."""
    names = list(move.parts.order_by().values_list("topic_name", flat=True).distinct()[:2])
    return names[0] if len(names) == 1 else f"move {move.pk}"


@audited(AuditOperation.MOVE_DELETE_RECORDS, "{move_id}")
def delete_old_records(move_id: int, *, below: Mapping[str, int], actor: str, comment: str) -> int:
    """Delete all records below the start of the new replicas, immediately and for all readers. Applies to partitions that have caught up, wait for
    retention and are named in `below` (topic-partition: the approved start offset). The other partitions of the move continue unchanged. Returns the
    number of partitions. Raises Rejected."""
    with transaction.atomic():
        move = get_move(move_id)
        if (problem := _state_problem(move)) is not None:
            raise Rejected(problem)
        preview = deletion_preview(move_id, below)
        if preview.problem is not None:
            raise Rejected(preview.problem)
        if not preview.parts:
            raise Rejected("The start offset of the new replicas has changed since it was shown; reload and try again.")
        # The version of the move is the only lock, as for the steps of the worker.
        if not Move.objects.filter(pk=move.pk, version=move.version).update(version=F("version") + 1):
            raise Rejected(sentence("Move {id} was changed concurrently; reload and try again.", id=move.pk))
        ready = views_of(list(move.parts.filter(state=PartState.READY)))
        steps = core.deletion_steps([v for v in ready if _as_shown(v, below)])
        apply_steps(move, steps)
        record(
            actor,
            AuditOperation.MOVE_DELETE_RECORDS,
            "move",
            str(move.pk),
            comment=comment,
            object_id=f"move-{move.pk}",
            outcome=Outcome.PENDING,
            before={f"{p.topic}-{p.partition}": p.start for p in preview.parts},
            after=_summary(preview),
        )
        return len(steps)


def _summary(preview: DeletionPreview) -> dict[str, object]:
    lost: dict[str, int] = defaultdict(int)
    for g in preview.groups:
        lost[g.group_id] += g.records
    return {
        "deleted below": {f"{p.topic}-{p.partition}": p.end for p in preview.parts},
        "records": preview.records,
        "not read by groups": dict(sorted(lost.items())),
        "readers without a group": "unknown",
    }


def _state_problem(move: Move) -> str | None:
    if move.mode != MoveMode.TAIL:
        return sentence("Move {move_id} copies the old records; there are none to delete.", move_id=move.pk)
    if move.state not in (MoveState.RUNNING, MoveState.PAUSED):
        return sentence(
            "Move {move_id} is {state}; old records can be deleted only while it runs.",
            move_id=move.pk,
            state=Phrase(move.state.replace("_", " ")),
        )
    return None
