"""Moves without old data, as an operator orders them: which topics may, what it costs beside a copy, and the cut that does not wait for retention.

Laws: a cut is DeleteRecords and is shown as such, with what each group would lose; it wants a reason, the name typed and a second person
(`overrides` alone calls `cut_move`), and there is no way back from it; who reads without a group cannot be known, and is said to be unknown.
Called by `services.moves`, `overrides`, the API and the console. Must not come in: how such a move goes on (`controlplane.tails`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

from controlplane import plan as planning
from controlplane import tails as core
from controlplane.models import GroupPartition, Move, MovePartition, ObservedTopic
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState
from controlplane.moveparts import PartView
from controlplane.services.advancing import apply_steps, views_of
from controlplane.services.common import Refused, record, record_refusal


@dataclass(frozen=True, slots=True)
class Outlook:
    """A planned move in mode `tail`: bytes of old data it would copy (none, that is its point), seconds until the last of the old data has gone
    by retention (None: by size, which nobody can foretell), why it cannot be (sentences)."""

    bytes_to_copy: int
    ends_in_s: float | None
    problems: list[str]


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """A group that has not read everything that would be deleted. `records`: at least so many; `committed` None: it has committed nothing here."""

    group_id: str
    topic: str
    partition: int
    committed: int | None
    records: int


@dataclass(frozen=True, slots=True)
class PartCut:
    """Records in [start, end) would be deleted. `retention_at`: when retention would have deleted the last of them, Unix seconds; None = not known."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    retention_at: float | None


@dataclass(frozen=True, slots=True)
class CutPreview:
    """What a cut would delete, and who has not read it. Readers without a group leave no trace here: whether there are any is unknown. `confirm`
    is what has to be typed."""

    parts: list[PartCut]
    groups: list[GroupLoss]
    records: int
    confirm: str
    problem: str | None

    def sentences(self) -> list[str]:
        """How much it is and who lacks what, as it stands now."""
        return [
            *(
                f"{p.topic}-{p.partition}: {p.records:,} records, offsets {p.start} to {p.end - 1}, are deleted for everybody, as by DeleteRecords."
                for p in self.parts
            ),
            *(
                f"Group {g.group_id} has not read {g.records:,} of them in {g.topic}-{g.partition}"
                + (": it has committed nothing there." if g.committed is None else f": it has committed {g.committed}.")
                for g in self.groups
            ),
        ]


def unfit(plan: planning.Plan, *, deadline: bool = False) -> list[str]:
    """Why topics of this plan cannot move without their old data (in a move that has a `deadline`)."""
    names = {p.view.topic for p in plan.parts}
    topics = ObservedTopic.objects.filter(name__in=names).order_by("name")
    return [why for t in topics if (why := core.unfit(t.name, t.configs, internal=t.internal, deadline=deadline))]


def outlook(plan: planning.Plan) -> Outlook:
    names = {p.view.topic for p in plan.parts if set(p.replicas_to) - set(p.view.replicas)}
    ends = [retention_s(t.configs) for t in ObservedTopic.objects.filter(name__in=names)]
    known = [e for e in ends if e is not None]
    return Outlook(0, max(known, default=0.0) if len(known) == len(ends) else None, unfit(plan))


RETENTION_MS_DEFAULT = 7 * 24 * 3_600_000
"""Kafka's, where a topic and its brokers say nothing."""


def retention_s(configs: Mapping[str, str]) -> float | None:
    """Seconds that a record is kept at most, None where only its size, or nothing, bounds a log."""
    ms = int(configs.get("retention.ms", RETENTION_MS_DEFAULT))
    return None if ms < 0 else ms / 1000


def cut_preview(move_id: int, below: Mapping[str, int] | None = None) -> CutPreview:
    """`below`: of these parts alone, where they still begin there. Raises Refused when there is no such move."""
    move = _get(move_id)
    rows = {p.pk: p for p in move.parts.filter(state="ready")}
    views = views_of(list(rows.values()))
    configs = {t.id: t.configs for t in ObservedTopic.objects.filter(id__in={r.topic_id for r in rows.values()})}
    parts, groups = [], []
    for view in core.cuttable([v for v in views if below is None or _as_shown(v, below)]):
        seen, row = view.observed, rows[view.id]
        assert seen is not None and seen.tail_start is not None
        start, end = seen.log_start or 0, seen.tail_start
        kept = retention_s(configs.get(row.topic_id, {}))
        ends = row.tail_at.timestamp() + kept if row.tail_at is not None and kept is not None else None
        parts.append(PartCut(row.topic_name, row.partition, start, end, end - start, ends))
        groups += _losses(row, start, end)
    problem = _state_problem(move) or core.cut_problem(views_of(list(move.parts.all()[:1000])))
    return CutPreview(parts, groups, sum(p.records for p in parts), confirm_of(move), problem)


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
    """What is to be typed: the topic's name, or the move's number where there are several."""
    names = list(move.parts.order_by().values_list("topic_name", flat=True).distinct()[:2])
    return names[0] if len(names) == 1 else f"move {move.pk}"


def cut_move(move_id: int, *, below: Mapping[str, int], who: str, why: str) -> int:
    """Everything below where the new copies begin is deleted, now, for everybody: of partitions that are in step, wait for retention and are named
    in `below` (topic-partition: the offset where they begin, as it was approved); the others of the move go on as they were. Returns how many.
    Raises Refused."""
    try:
        with transaction.atomic():
            move = _get(move_id)
            if (problem := _state_problem(move)) is not None:
                raise Refused(problem)
            preview = cut_preview(move_id, below)
            if preview.problem is not None:
                raise Refused(preview.problem)
            if not preview.parts:
                raise Refused("Where the new copies begin has changed since it was shown; look at it again.")
            # The move's version is the one lock, as for the worker's steps.
            if not Move.objects.filter(pk=move.pk, version=move.version).update(version=F("version") + 1):
                raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
            ready = views_of(list(move.parts.filter(state="ready")))
            steps = core.cut_steps([v for v in ready if _as_shown(v, below)])
            apply_steps(move, steps)
            record(
                who, "move.cut", "move", str(move.pk), why=why, object_id=f"move-{move.pk}", outcome=Outcome.PENDING,
                before={f"{p.topic}-{p.partition}": p.start for p in preview.parts},
                after=_told(preview),
            )  # fmt: skip
            return len(steps)
    except Refused as refused:
        record_refusal(who, "move.cut", "move", str(move_id), refused, why=why)
        raise


def _told(preview: CutPreview) -> dict[str, object]:
    lost: dict[str, int] = defaultdict(int)
    for g in preview.groups:
        lost[g.group_id] += g.records
    return {
        "deleted below": {f"{p.topic}-{p.partition}": p.end for p in preview.parts}, "records": preview.records,
        "not read by groups": dict(sorted(lost.items())), "readers without a group": "unknown",
    }  # fmt: skip


def _state_problem(move: Move) -> str | None:
    if move.mode != "tail":
        return f"Move {move.pk} copies its old data; there is nothing to cut."
    if move.state not in (MoveState.RUNNING, MoveState.PAUSED):
        return f"Move {move.pk} is {move.state}; only one that runs can be cut."
    return None


def _get(move_id: int) -> Move:
    move = Move.objects.filter(pk=move_id).first()
    if move is None:
        raise Refused(f"There is no move {move_id}.")
    return move
