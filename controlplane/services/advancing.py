"""Moves going on by themselves: one look of the worker, one short step; and what the controller is to do now.

Laws: what a step does is decided in `controlplane.moves`; rows change by compare-and-set on the move's version; a look costs what is under
way, not what the whole move holds. Called by the worker's tasks and the controller's database thread. Must not come in: the operator's verbs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from brokerd.cluster.configs import FOLLOWER_REPLICAS, throttled_replicas
from controlplane import moves as core
from controlplane import pace, tails
from controlplane.models import Broker, Change, Move, MovePartition, MoveTransition, Partition
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, ORDER_STATES, WORKING_STATES
from controlplane.services import throttles
from controlplane.services.common import record
from controlplane.services.sums import keep

AHEAD = 4
"""Waiting parts looked at per place at a time: where the first of the line wait for a broker, others may go."""
SAMPLE_SECONDS = 3.0
"""Seconds between a move's own samples: sizes come no faster."""


def working_moves() -> list[int]:
    """Ids of moves that want a look."""
    return list(Move.objects.filter(state__in=WORKING_STATES).order_by("id").values_list("id", flat=True))


def advance_move(move_id: int) -> str | None:
    """One look, one short step. Returns the move's state afterwards, None when another worker was faster. Idempotent."""
    with transaction.atomic():
        move = Move.objects.filter(pk=move_id, state__in=WORKING_STATES).first()
        if move is None:
            return None
        now = time.time()
        steps = core.next_steps(view_of(move), now)
        measured = _measured(move, steps, now)
        note = steps.note if steps.note is not None and steps.note != move.note else None
        if not steps.parts and steps.state is None and note is None and not measured:
            return move.state
        # The move's version is the one lock: whoever loses it changes nothing at all.
        changes: dict[str, Any] = {"version": F("version") + 1, **measured}
        if steps.parts:
            changes["step"] = F("step") + 1
        if steps.state is not None:
            changes["state"] = steps.state
        if note is not None:
            changes["note"] = note
        if steps.state in FINISHED_STATES:
            changes |= {
                "finished_at": timezone.now(),
                "needs_bytes_per_s": None,
                "waits_for": "",
                "bytes_per_s": None,
                "ends_in_s_min": None,
                "ends_in_s_max": None,
            }
        if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**changes):
            return None
        apply_steps(move, steps.parts)
        if steps.state in FINISHED_STATES:
            keep(move.pk)
        if move.throttled:
            throttles.refresh()
        if steps.state is not None:
            transition(move, steps.state, "worker", steps.note or "")
        if steps.state in FINISHED_STATES:
            outcome = Outcome.CONFIRMED if steps.state != "failed" else Outcome.UNKNOWN
            Change.objects.filter(object_id=f"move-{move.pk}", outcome=Outcome.PENDING).update(
                outcome=outcome, detail=steps.note or "", finished_at=timezone.now()
            )
            record("worker", f"move.{steps.state}", "move", str(move.pk), object_id=f"move-{move.pk}",
                   outcome=outcome, detail=steps.note or "")  # fmt: skip
        return steps.state or move.state


def ordered_parts() -> list[MovePartition]:
    """What the controller should do now: `wanted`, bound to `read_generation`. Read by its database thread."""
    return list(
        MovePartition.objects.filter(
            Q(state__in=ORDER_STATES) & Q(active=True) & Q(move__state__in=WORKING_STATES)
        ).order_by("id")
    )


def order_refused(move_id: int, topic: str, partition: int, why: str) -> None:
    """The acting controller does not carry this order out, and says why: that stands in the part's row until it does. It tries again by itself."""
    text = f"The controller refuses the order: {why}."
    with transaction.atomic():
        parts = MovePartition.objects.filter(
            move_id=move_id, topic_name=topic, partition=partition, active=True, state__in=ORDER_STATES
        )
        if parts.exclude(note=text).update(note=text, cause=pace.REFUSED, version=F("version") + 1):
            # A look that is under way knows nothing of it, and must not write over it.
            Move.objects.filter(pk=move_id).update(version=F("version") + 1)


def transition(move: Move, to: str, who: str, why: str = "") -> None:
    """The row of a change of state, in the transaction of that change. `move` is as it was before."""
    MoveTransition.objects.create(move=move, state_from=move.state, state_to=to, who=who, why=why)


# -- what a look sees ---------------------------------------------------------------------------------------------------------


def view_of(move: Move) -> core.MoveView:
    """What is under way, and as many of those that wait as might be next; the rest as numbers."""
    counts = Counter(dict(move.parts.order_by().values_list("state").annotate(n=Count("pk"))))
    flying = list(move.parts.filter(state__in=core.UNDER_WAY).order_by("id"))
    waiting = list(move.parts.filter(state="waiting").order_by("id")[: AHEAD * move.parts_in_flight_max])
    rows = sorted([*flying, *waiting], key=lambda p: p.pk)
    counts.subtract(Counter(p.state for p in rows))
    brokers = list(Broker.objects.all())
    ending = not waiting and all(p.state in ("copying", "verifying") for p in flying)
    return core.MoveView(
        move.state,
        tuple(views_of(rows, deadline=move.deadline_hours is not None)),
        move.parts_in_flight_max,
        frozenset(b.broker_id for b in brokers if b.alive),
        parts_per_broker_max=move.parts_per_broker_max,
        rest=+counts,
        busy=_busy(move) if waiting else {},
        free={b.broker_id: b.free_bytes for b in brokers if b.free_bytes is not None},
        throttle=move.throttle_bytes_per_s,
        throttle_left=throttles.left(move) if move.throttled and ending else "",
        mode=move.mode,
        overdue=move.deadline is not None and timezone.now() >= move.deadline,
        early=move.handover == "early",
    )


def views_of(parts: Sequence[MovePartition], *, deadline: bool = False) -> list[core.PartView]:
    """These parts with what was observed of each. `deadline`: their move has one."""
    seen = observed_parts(((p.topic_id, p.partition) for p in parts), deadline=deadline)
    return [
        core.PartView(
            id=p.pk,
            name=f"{p.topic_name}-{p.partition}",
            state=p.state,
            replicas_from=tuple(p.replicas_from),
            replicas_to=tuple(p.replicas_to),
            wanted=tuple(p.wanted),
            read_generation=p.read_generation,
            ordered_at=p.ordered_at.timestamp() if p.ordered_at else None,
            progress_at=p.progress_at.timestamp() if p.progress_at else None,
            bytes_done=p.bytes_done,
            observed=seen.get((p.topic_id, p.partition)),
            bytes_total=p.bytes_total,
            note=p.note,
            cause=p.cause,
            samples=pace.from_json(p.samples),
            compared=(p.compared["equal"], p.compared["text"])
            if p.compared and p.compared["equal"] is not None
            else None,
            tail_start=p.tail_start,
            cut_at=p.cut_at,
            hand_over_at=p.hand_over_at,
        )
        for p in parts
    ]


def observed_parts(
    keys: Iterable[tuple[Any, int]], *, deadline: bool = False
) -> dict[tuple[Any, int], core.ObservedPart]:
    wanted = set(keys)
    rows = (
        Partition.objects.filter(topic_id__in={t for t, _ in wanted}, index__in={i for _, i in wanted})
        .select_related("topic")
        .prefetch_related("replica_rows")
    )
    return {(row.topic_id, row.index): _observed(row, deadline) for row in rows if (row.topic_id, row.index) in wanted}


def _observed(row: Partition, deadline: bool) -> core.ObservedPart:
    copies = list(row.replica_rows.all())
    times: list[datetime] = [r.sampled_at for r in copies if r.sampled_at is not None]
    named = throttled_replicas(row.topic.configs.get(FOLLOWER_REPLICAS, ""))
    return core.ObservedPart(
        replicas=tuple(row.replicas),
        isr=tuple(row.isr),
        adding=tuple(row.adding),
        removing=tuple(row.removing),
        leader=row.leader,
        generation=row.assignment_generation,
        sizes={r.broker_id: r.size_bytes for r in copies if r.size_bytes is not None},
        sampled_at=max(times).timestamp() if times else None,
        throttled=named is None or any((row.index, b) in named for b in row.adding),
        observers=tuple(row.observers),
        tail_start=row.tail_start,
        log_start_floor=row.log_start_floor,
        archive_start=row.archive_start,
        log_start=row.start_offset,
        lags={r.broker_id: r.lag_records for r in copies if r.lag_records is not None},
        unfit=tails.unfit(row.topic.name, row.topic.configs, internal=row.topic.internal, deadline=deadline),
    )


def alive() -> frozenset[int]:
    return frozenset(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))


def _busy(move: Move) -> Mapping[int, int]:
    """Copies under way per broker, of the other moves: a broker is spared, whoever burdens it."""
    others = MovePartition.objects.filter(active=True, state__in=core.COPYING, move__state__in=WORKING_STATES)
    return Counter(b for v in views_of(list(others.exclude(move=move))) for b in v.burdens)


# -- what a look leaves ---------------------------------------------------------------------------------------------------------


def apply_steps(move: Move, steps: Sequence[core.PartStep]) -> None:
    now = timezone.now()
    for step in steps:
        values: dict[str, Any] = {"state": step.state, "version": F("version") + 1}
        if step.wanted is not None:
            values["wanted"] = list(step.wanted)
        for name in (
            "read_generation", "bytes_total", "bytes_done", "active", "note", "cause", "tail_start", "cut_at", "hand_over_at",
        ):  # fmt: skip
            if (value := getattr(step, name)) is not None:
                values[name] = value
        if step.samples is not None:
            values["samples"] = pace.to_json(step.samples)
            values["bytes_per_s"] = pace.speed(step.samples, now.timestamp())
        if step.progressed:
            values["progress_at"] = now
        if step.tail_start is not None:
            values["tail_at"] = now
        if step.ordered:
            values |= {"ordered_at": now, "progress_at": None}
        if step.state in core.ENDED:
            values |= {"finished_at": now, "samples": [], "bytes_per_s": None}
        MovePartition.objects.filter(pk=step.part_id, move=move).update(**values)


def _measured(move: Move, steps: core.Steps, now: float) -> dict[str, Any]:
    """The move's own sample, speed and end, and what it would need; empty when nothing new is known."""
    out: dict[str, Any] = {}
    if steps.needs != move.needs_bytes_per_s:
        out["needs_bytes_per_s"] = steps.needs
    if steps.waits_for != move.waits_for:
        out["waits_for"] = steps.waits_for
    samples = pace.from_json(move.samples)
    if samples and now - samples[-1].at < SAMPLE_SECONDS:
        return out
    later = {s.part_id: s for s in steps.parts}
    known = move.parts.exclude(state__in=("untouched", "stuck")).aggregate(
        total=Sum("bytes_total"), done=Sum("bytes_done"), unknown=Count("pk", filter=Q(bytes_total__isnull=True))
    )
    if known["unknown"] or known["total"] is None:
        return out
    total, done = int(known["total"]), int(known["done"] or 0)
    for row in move.parts.filter(pk__in=later):
        step = later[row.pk]
        total += (step.bytes_total or 0) - (row.bytes_total or 0) if step.bytes_total is not None else 0
        done += (step.bytes_done or 0) - (row.bytes_done or 0) if step.bytes_done is not None else 0
    samples = pace.added(samples, pace.Sample(now, max(0, total - done), done))
    end = pace.ends_in(samples, now) if steps.needs is None else None
    return out | {
        "samples": pace.to_json(samples),
        "bytes_per_s": pace.speed(samples, now),
        "ends_in_s_min": end[0] if end else None,
        "ends_in_s_max": end[1] if end else None,
    }
