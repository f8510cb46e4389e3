"""Automatic progress of moves: one poll of the worker makes one short step. Also provides the orders for the controller.

Invariants: `controlplane.domain.move` decides each step. Rows change by compare-and-set on the version of the move. The cost of a poll depends on the
partitions in flight, not on the size of the move. Does not contain the operations of operators (`moves`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from brokerd.cluster.configs import FOLLOWER_REPLICAS, throttled_replicas
from controlplane.domain import move_phrases as texts
from controlplane.domain import move_states, progress, tail_move
from controlplane.domain import move_types as types
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.move import next_steps
from controlplane.domain.move_states import Handover, MoveMode
from controlplane.models import Broker, Change, Move, MovePartition, MoveTransition, ObservedPartition
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, ORDER_STATES, WORKING_STATES, MoveState, PartState
from controlplane.models.phrase_field import note_columns
from controlplane.selectors.move_totals import kinds_of
from controlplane.services import throttles
from controlplane.services.common import Rejected, finish_changes, finish_rows, record
from controlplane.services.move_totals import store_totals
from weir_common.phrases import phrase_to_json, sentence, with_phrase

AHEAD = 4
"""Waiting partitions read per free slot: where the first ones wait for a broker, later ones may start."""
SAMPLE_SECONDS = 3.0
"""Seconds between samples of a move: sizes are not updated faster."""


def get_move(move_id: int) -> Move:
    """Raises Rejected if the move does not exist."""
    move = Move.objects.filter(pk=move_id).first()
    if move is None:
        raise Rejected(sentence("Move {move_id} does not exist.", move_id=move_id))
    return move


def working_moves() -> list[int]:
    """Ids of moves that the worker advances."""
    return list(Move.objects.filter(state__in=WORKING_STATES).order_by("id").values_list("id", flat=True))


def advance_move(move_id: int) -> str | None:
    """One poll and one short step. Returns the new state of the move, None when another worker was faster. Idempotent."""
    with transaction.atomic():
        move = Move.objects.filter(pk=move_id, state__in=WORKING_STATES).first()
        if move is None:
            return None
        now = time.time()
        steps = next_steps(view_of(move), now)
        measured = _measurements(move, steps, now)
        note = steps.note if steps.note is not None and steps.note != move.note else None
        if not steps.parts and steps.state is None and note is None and not measured:
            return move.state
        # The version of the move is the only lock: a worker that loses the compare-and-set changes nothing.
        changes: dict[str, object] = {"version": F("version") + 1, **measured}
        if steps.parts:
            changes["step"] = F("step") + 1
        if steps.state is not None:
            changes["state"] = steps.state
        if note is not None:
            changes |= note_columns(note)
        if steps.state in FINISHED_STATES:
            changes |= {
                "finished_at": timezone.now(),
                "needs_bytes_per_s": None,
                "waits_for": (),
                "bytes_per_s": None,
                "ends_in_s_min": None,
                "ends_in_s_max": None,
            }
        if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**changes):
            return None
        apply_steps(move, steps.parts)
        if steps.state in FINISHED_STATES:
            store_totals(move.pk)
        if move.throttled:
            throttles.refresh()
        if steps.state is not None:
            transition(move, steps.state, "worker", steps.note or "")
        if steps.state in FINISHED_STATES:
            outcome = Outcome.CONFIRMED if steps.state != MoveState.FAILED else Outcome.UNKNOWN
            if steps.state in (MoveState.CANCELLED, MoveState.ROLLED_BACK):
                # The note is about the cancel or the roll-back. The start of the move did what it says.
                starts = Change.objects.filter(object_id=f"move-{move.pk}", verb=AuditOperation.MOVE_START)
                finish_rows(starts.filter(outcome=Outcome.PENDING), outcome, "")
            finish_changes(f"move-{move.pk}", None, outcome, steps.note or "")
            record(
                "worker",
                AuditOperation(f"move.{steps.state}"),
                "move",
                str(move.pk),
                object_id=f"move-{move.pk}",
                outcome=outcome,
                detail=steps.note or "",
            )
        return steps.state or move.state


def ordered_parts() -> list[MovePartition]:
    """Orders for the controller: `desired_replicas`, bound to `read_generation`. The database thread of the controller reads them."""
    return list(
        MovePartition.objects.filter(
            Q(state__in=ORDER_STATES) & Q(active=True) & Q(move__state__in=WORKING_STATES)
        ).order_by("id")
    )


def order_rejected(move_id: int, topic: str, partition: int, reason: str) -> None:
    """Store the active controller's reason not to carry out this order, until the order is carried out. The controller retries automatically."""
    text = sentence(texts.CONTROLLER_REJECTED, reason=reason)
    values = {"note": text, "note_phrase": phrase_to_json(text), "cause": progress.StallCause.REJECTED}
    with transaction.atomic():
        parts = MovePartition.objects.filter(
            move_id=move_id, topic_name=topic, partition=partition, active=True, state__in=ORDER_STATES
        )
        if parts.exclude(note=text).update(**values, version=F("version") + 1):
            # A poll in progress has not read the rejection and must not overwrite it.
            Move.objects.filter(pk=move_id).update(version=F("version") + 1)


def transition(move: Move, to: str, actor: str, comment: str = "") -> None:
    """Write the row of a state transition, in the same transaction. `move` is the move before the transition."""
    MoveTransition.objects.create(
        move=move,
        state_from=move.state,
        state_to=to,
        actor=actor,
        comment=comment,
        comment_phrase=phrase_to_json(comment),
    )


# -- reads of a poll --------------------------------------------------------------------------------------------------------


def view_of(move: Move) -> types.MoveSnapshot:
    """The partitions in flight, and the waiting ones that might be next. The others are numbers only."""
    of_state = move.parts.order_by().values_list("state").annotate(n=Count("pk"))
    counts = Counter({PartState(state): n for state, n in of_state})
    flying = list(move.parts.filter(state__in=move_states.UNDER_WAY).order_by("id"))
    waiting = list(move.parts.filter(state=PartState.WAITING).order_by("id")[: AHEAD * move.parts_in_flight_max])
    rows = sorted([*flying, *waiting], key=lambda p: p.pk)
    counts.subtract(Counter(PartState(p.state) for p in rows))
    brokers = list(Broker.objects.all())
    ending = not waiting and all(
        p.state in (PartState.COPYING, PartState.VERIFYING, PartState.COMPARING) for p in flying
    )
    return types.MoveSnapshot(
        MoveState(move.state),
        tuple(views_of(rows, deadline=move.deadline_hours is not None)),
        move.parts_in_flight_max,
        frozenset(b.broker_id for b in brokers if b.alive),
        parts_per_broker_max=move.parts_per_broker_max,
        omitted=+counts,
        busy=_busy(move) if waiting else {},
        free={b.broker_id: b.free_bytes for b in brokers if b.free_bytes is not None},
        throttle=move.throttle_bytes_per_s,
        throttle_left=throttles.remaining_throttles(move) if move.throttled and ending else "",
        mode=MoveMode(move.mode),
        overdue=move.deadline is not None and timezone.now() >= move.deadline,
        early=move.handover == Handover.EARLY,
    )


def views_of(parts: Sequence[MovePartition], *, deadline: bool = False) -> list[types.PartView]:
    """These partitions with their observed state. `deadline`: their move has one."""
    seen = observed_parts(((p.topic_id, p.partition) for p in parts), deadline=deadline)
    return [
        types.PartView(
            id=p.pk,
            name=f"{p.topic_name}-{p.partition}",
            state=PartState(p.state),
            replicas_from=tuple(p.replicas_from),
            replicas_to=tuple(p.replicas_to),
            desired_replicas=tuple(p.desired_replicas),
            read_generation=p.read_generation,
            submitted_at=p.submitted_at.timestamp() if p.submitted_at else None,
            progress_at=p.progress_at.timestamp() if p.progress_at else None,
            bytes_done=p.bytes_done,
            observed=seen.get((p.topic_id, p.partition)),
            bytes_total=p.bytes_total,
            note=with_phrase(p.note, p.note_phrase),
            cause=p.cause,
            samples=tuple(p.samples),
            compared=p.compared if p.compared is not None and p.compared.equal is not None else None,
            tail_start=p.tail_start,
            delete_below=p.delete_below,
            hand_over_at=p.hand_over_at,
        )
        for p in parts
    ]


def observed_parts(
    keys: Iterable[tuple[object, int]], *, deadline: bool = False
) -> dict[tuple[object, int], types.ObservedPart]:
    requested = set(keys)
    rows = (
        ObservedPartition.objects.filter(topic_id__in={t for t, _ in requested}, index__in={i for _, i in requested})
        .select_related("topic", "remote_size")
        .prefetch_related("replica_rows")
    )
    return {
        (row.topic_id, row.index): _observed_part(row, deadline)
        for row in rows
        if (row.topic_id, row.index) in requested
    }


def _observed_part(row: ObservedPartition, deadline: bool) -> types.ObservedPart:
    copies = list(row.replica_rows.all())
    times: list[datetime] = [r.sampled_at for r in copies if r.sampled_at is not None]
    named = throttled_replicas(row.topic.configs.get(FOLLOWER_REPLICAS, ""))
    tiered = tail_move.is_tiered(row.topic.configs)
    return types.ObservedPart(
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
        log_start=_local_start(row) if tiered else row.start_offset,
        tiered=tiered,
        lags={r.broker_id: r.lag_records for r in copies if r.lag_records is not None},
        unfit=tail_move.tail_move_problem(
            row.topic.name, row.topic.configs, internal=row.topic.internal, deadline=deadline
        ),
    )


def _local_start(row: ObservedPartition) -> int | None:
    """The log start offset of the row is that over both tiers."""
    remote = getattr(row, "remote_size", None)
    return None if remote is None else remote.local_start_offset


def live_broker_ids() -> frozenset[int]:
    return frozenset(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))


def _busy(move: Move) -> Mapping[int, int]:
    """Copies in flight per broker, of the other moves: the limit of a broker applies to all moves together."""
    others = MovePartition.objects.filter(active=True, state__in=move_states.COPYING, move__state__in=WORKING_STATES)
    return Counter(b for v in views_of(list(others.exclude(move=move))) for b in v.burdens)


# -- writes of a poll -------------------------------------------------------------------------------------------------------


def apply_steps(move: Move, steps: Sequence[types.PartStep]) -> None:
    now = timezone.now()
    for step in steps:
        values: dict[str, object] = {"state": step.state, "version": F("version") + 1}
        if step.desired_replicas is not None:
            values["desired_replicas"] = list(step.desired_replicas)
        for name in (
            "read_generation",
            "bytes_total",
            "bytes_done",
            "active",
            "note",
            "cause",
            "tail_start",
            "delete_below",
            "hand_over_at",
        ):
            if (value := getattr(step, name)) is not None:
                values[name] = value
        if step.note is not None:
            values["note_phrase"] = phrase_to_json(step.note)
        if step.samples is not None:
            values["samples"] = step.samples
            values["bytes_per_s"] = progress.speed(step.samples, now.timestamp())
        if step.progressed:
            values["progress_at"] = now
        if step.tail_start is not None:
            values["tail_at"] = now
        if step.submits:
            values |= {"submitted_at": now, "progress_at": None}
        if step.active:
            values["finished_at"] = None  # a finished partition returns to its old brokers
        if step.state in move_states.ENDED:
            values |= {"finished_at": now, "samples": (), "bytes_per_s": None}
        MovePartition.objects.filter(pk=step.part_id, move=move).update(**values)


def _busiest(move: Move) -> int:
    """Bytes still to be received by the broker with the most of them; 0 without a throttle, which is the divisor."""
    if move.throttle_bytes_per_s is None:
        return 0
    comes: Counter[int] = Counter()
    for k in kinds_of(move.pk):
        if k.state not in move_states.ENDED:
            old = k.replicas_from if k.desired_replicas != k.replicas_from else k.replicas_to
            new = [b for b in k.desired_replicas if b not in old]
            for b in new:
                comes[b] += max(0, (k.bytes_total or 0) - (k.bytes_done or 0)) // len(new)
    return max(comes.values(), default=0)


def _measurements(move: Move, steps: types.Steps, now: float) -> dict[str, object]:
    """The move's own sample, speed, estimated end and required resources; empty without new measurements."""
    measured: dict[str, object] = {}
    if steps.needs != move.needs_bytes_per_s:
        measured["needs_bytes_per_s"] = steps.needs
    if steps.waits_for != move.waits_for:
        measured["waits_for"] = steps.waits_for
    samples = move.samples
    if samples and now - samples[-1].at < SAMPLE_SECONDS:
        return measured
    step_by_part = {s.part_id: s for s in steps.parts}
    of_large = Q(bytes_total__gte=progress.PART_BYTES_MIN)
    sums = move.parts.exclude(state__in=(PartState.SKIPPED, PartState.REJECTED)).aggregate(
        total=Sum("bytes_total"),
        done=Sum("bytes_done"),
        unknown=Count("pk", filter=Q(bytes_total__isnull=True)),
        large=Sum("bytes_done", filter=of_large),
        larges=Count("pk", filter=of_large),
    )
    if sums["unknown"] or sums["total"] is None:
        return measured
    total, done, large = int(sums["total"]), int(sums["done"] or 0), int(sums["large"] or 0)
    for row in move.parts.filter(pk__in=step_by_part):
        step = step_by_part[row.pk]
        total += (step.bytes_total or 0) - (row.bytes_total or 0) if step.bytes_total is not None else 0
        copied = (step.bytes_done or 0) - (row.bytes_done or 0) if step.bytes_done is not None else 0
        done += copied
        large += copied if (row.bytes_total or 0) >= progress.PART_BYTES_MIN else 0
    sample = progress.Sample(now, max(0, total - done), done, large if sums["larges"] else None)
    samples = progress.add_sample(samples, sample)
    end = None
    open_parts = move.parts.exclude(state__in=move_states.ENDED)
    blocked = open_parts.exclude(cause="").exists()  # its end depends on its operator
    if steps.needs is None and not blocked:
        end = progress.ends_in(
            samples, now, throttle=move.throttle_bytes_per_s, busiest=_busiest(move), parts_left=open_parts.count()
        )
    return measured | {
        "samples": samples,
        "bytes_per_s": progress.speed(samples, now),
        "ends_in_s_min": end[0] if end else None,
        "ends_in_s_max": end[1] if end else None,
    }
