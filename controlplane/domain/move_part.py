"""The next state of one part of a move that is in progress: pure. Part of the state machine in `move`.

Invariants: a part is rejected as soon as its placement is neither the ordered placement nor one that an earlier order of the move can have caused. Old
replicas are removed only after a comparison of all replicas in the ISR. Does not contain: limits of concurrent parts, the state of the move.
"""

from __future__ import annotations

from controlplane.domain import move_phrases as texts
from controlplane.domain import progress, tail_move
from controlplane.domain.move_states import TAIL, UNDER_WAY, PartState
from controlplane.domain.move_types import (
    GONE,
    HELD_BACK_BYTES_PER_S,
    NO_PROGRESS_SECONDS,
    NO_SPACE_BYTES,
    OBSERVATION_SECONDS,
    MoveSnapshot,
    ObservedPart,
    PartStep,
    PartView,
    difference,
    no_leader,
    step_for_unapplied_order,
    with_old_replicas,
)
from controlplane.domain.text import size_text
from weir_common.phrases import sentence


def advance(part: PartView, move: MoveSnapshot, forecast: str, now: float) -> PartStep | None:
    """The change of a part in progress; None = nothing to change. `forecast`: why its copy will not finish, "" = it will."""
    if part.state not in UNDER_WAY:
        return None
    observed = part.observed
    if observed is None:
        return PartStep(part.id, PartState.REJECTED, active=False, note=GONE)
    if observed.generation < part.read_generation and now - (part.submitted_at or 0.0) < OBSERVATION_SECONDS:
        return (
            None  # the observation is older than the order: a client's request is bound to the controller's newer state
        )
    if part.state in TAIL:
        return tail_move.advance(part, observed, move, now)
    if part.state == PartState.SUBMITTED:
        return _advance_submitted(part, observed, move.alive, now)
    if observed.target != part.desired_replicas:
        if part.going_back and observed.target in part.forward:
            # The controller had read the forward order before it was withdrawn: bind the revert to the current generation.
            return PartStep(part.id, PartState.SUBMITTED, read_generation=observed.generation, submits=True)
        return PartStep(part.id, PartState.REJECTED, active=False, note=difference(part, observed))
    total, copied = _bytes(part, observed)
    if _is_comparable(part, observed):
        return _compare(part, observed, total)
    samples = _samples_with(part, observed, total, copied)
    if observed.reassigning:
        progressed = copied is not None and copied != part.bytes_done
        cause, note = _stall(part, observed, move, progressed, now)
        if forecast and cause in ("", progress.StallCause.THROTTLE):
            cause, note = progress.StallCause.WILL_NOT_FINISH, forecast
        step = PartStep(
            part.id,
            PartState.COPYING,
            bytes_total=total,
            bytes_done=copied,
            progressed=progressed,
            note=note,
            cause=cause,
            samples=samples,
        )
        return step if _is_change(part, step) else None
    if (
        observed.replicas == part.desired_replicas
        and set(observed.isr) == set(part.desired_replicas)
        and observed.leader is not None
    ):
        final = PartState.REVERTED if part.going_back else PartState.DONE
        return PartStep(part.id, final, bytes_total=total, bytes_done=total, active=False, note="", cause="")
    missing = sorted(set(part.desired_replicas) - set(observed.isr))
    brokers = ", ".join(map(str, missing))
    note = sentence(texts.WAITS_FOR_BROKERS, brokers=brokers) if missing else sentence(texts.WAITS_FOR_LEADER)
    step = PartStep(part.id, PartState.VERIFYING, bytes_total=total, bytes_done=copied, note=note, cause="")
    return step if _is_change(part, step) else None


def _is_comparable(part: PartView, observed: ObservedPart) -> bool:
    """Return whether the new replicas are in the ISR together with the old ones, so that they can be compared. The comparison does not wait for offline old
    replicas, because the leader has every acknowledged record."""
    if part.going_back or part.desired_replicas == part.replicas_to or observed.leader is None:
        return False
    missing = set(part.desired_replicas) - set(observed.isr)
    return not missing & set(part.replicas_to) and bool(missing or not observed.reassigning)


def was_compared(part: PartView, observed: ObservedPart) -> bool:
    """Return whether the part was compared and still has the placement of that time. An old replica that joined the ISR after the comparison has incremented
    the generation."""
    if part.compared is None or part.going_back:
        return False
    return observed.target == with_old_replicas(part.replicas_from, part.replicas_to)


def _compare(part: PartView, observed: ObservedPart, total: int | None) -> PartStep | None:
    """The old replicas are removed only after all replicas in the ISR were compared and are equal."""
    if part.compared is None:
        note = part.note if part.state == PartState.COMPARING else sentence(texts.COMPARING)
        step = PartStep(part.id, PartState.COMPARING, bytes_total=total, bytes_done=total, note=note, cause="")
        return step if _is_change(part, step) else None
    if not part.compared.equal:
        note = sentence(texts.REPLICAS_DIFFER, comparison=part.compared.text)
        return PartStep(part.id, PartState.REJECTED, note=note)
    return PartStep(
        part.id,
        PartState.SUBMITTED,
        desired_replicas=part.replicas_to,
        read_generation=observed.generation,
        submits=True,
        note="",
        cause="",
    )


def _advance_submitted(part: PartView, observed: ObservedPart, alive: frozenset[int], now: float) -> PartStep | None:
    # A revert increments the generation even if nothing has moved yet, so that no earlier order can be applied after it.
    taken = observed.target == part.desired_replicas and not observed.observers
    if taken and (not part.going_back or observed.generation > part.read_generation):
        return PartStep(part.id, PartState.COPYING, read_generation=observed.generation, note="", cause="")
    if observed.generation == part.read_generation:
        if _start_changed(part, observed):
            return PartStep(part.id, PartState.CATCHING_UP, note=sentence(texts.START_CHANGED), cause="")
        return step_for_unapplied_order(part, observed, alive, now)
    if was_compared(part, observed):
        return PartStep(part.id, PartState.SUBMITTED, read_generation=observed.generation, submits=True)
    overtaken = observed.target in part.forward or (part.tail_copies and observed.observers == part.tail_copies)
    if part.going_back and overtaken:
        # The earlier order was carried out: bind the revert to the current generation.
        return PartStep(part.id, PartState.SUBMITTED, read_generation=observed.generation, submits=True)
    return PartStep(part.id, PartState.REJECTED, active=False, note=difference(part, observed))


def _start_changed(part: PartView, observed: ObservedPart) -> bool:
    """Return whether the start offset of the new replicas differs from the ordered hand-over offset: the controller rejects such an order."""
    handing = part.hand_over_at is not None and not part.going_back and observed.observers == part.tail_copies
    return handing and bool(observed.observers) and observed.tail_start != part.hand_over_at


def _bytes(part: PartView, observed: ObservedPart) -> tuple[int | None, int | None]:
    """Bytes to copy and bytes copied, over the new replicas of this direction. None = unknown."""
    new = part.copies_to
    if not new:
        return 0, 0
    if part.hand_over_at is not None and not part.going_back:
        return part.bytes_total, part.bytes_done  # records below the hand-over offset are not copied
    if part.going_back and part.bytes_total == 0 and set(new) <= set(observed.isr):
        return 0, 0  # the old replicas were in sync when the revert was ordered, and have stayed in sync
    whole = observed.sizes.get(observed.leader) if observed.leader is not None else None
    if whole is None:
        return part.bytes_total, part.bytes_done
    return whole * len(new), sum(min(whole, observed.sizes.get(b, 0)) for b in new)


def _samples_with(
    part: PartView, observed: ObservedPart, total: int | None, done: int | None
) -> tuple[progress.Sample, ...] | None:
    """The samples of the part with the newest report; None without a new report."""
    if observed.sampled_at is None or total is None or done is None:
        return None
    if part.samples and observed.sampled_at <= part.samples[-1].at:
        return None
    kept = progress.recent(part.samples, observed.sampled_at)
    return progress.add_sample(kept, progress.Sample(observed.sampled_at, total - done, done))


def _stall(part: PartView, observed: ObservedPart, move: MoveSnapshot, progressed: bool, now: float) -> tuple[str, str]:
    """Return the reason why a copy does not progress: one of `progress.StallCause`, and what helps. Empty while it progresses or the cause is not known yet."""
    if observed.leader is None:
        return progress.StallCause.SOURCE_DOWN, no_leader(observed)
    if down := [b for b in observed.adding if b not in move.alive]:
        return progress.StallCause.TARGET_DOWN, sentence(texts.TARGET_DOWN, broker=down[0])
    since = part.submitted_at if part.progress_at is None else part.progress_at
    if progressed or since is None or now - since < NO_PROGRESS_SECONDS:
        return "", ""
    leader_bytes = observed.sizes.get(observed.leader, 0)
    for broker_id in observed.adding:
        missing_bytes = max(0, leader_bytes - observed.sizes.get(broker_id, 0))
        if (
            missing_bytes
            and (free := move.free.get(broker_id)) is not None
            and free < max(missing_bytes, NO_SPACE_BYTES)
        ):
            return progress.StallCause.NO_SPACE, sentence(
                texts.NO_SPACE, broker=broker_id, free=size_text(free), missing=size_text(missing_bytes)
            )
    if blind := [b for b in observed.adding if b not in observed.sizes]:
        return progress.StallCause.FETCH_ERROR, sentence(texts.NO_SIZE, broker=blind[0])
    lacking = [b for b in observed.adding if observed.sizes[b] < leader_bytes]
    if not lacking:
        return progress.StallCause.CONTROLLER, sentence(texts.NOT_COMPLETED)
    if (move.throttle is None and observed.throttled) or (
        move.throttle or HELD_BACK_BYTES_PER_S
    ) < HELD_BACK_BYTES_PER_S:
        return progress.StallCause.THROTTLE, sentence(texts.THROTTLED)
    minutes = int((now - since) // 60)
    return progress.StallCause.FETCH_ERROR, sentence(
        texts.NOTHING_COPIED, broker=lacking[0], leader=observed.leader, minutes=minutes
    )


def _is_change(part: PartView, step: PartStep) -> bool:
    return (
        step.state != part.state
        or step.progressed
        or step.samples is not None
        or (step.note is not None and step.note != part.note)
        or (step.bytes_total is not None and step.bytes_total != part.bytes_total)
    )
