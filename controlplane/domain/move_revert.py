"""Cancel and roll back of a move: when they are safe, and the changes of its parts. Pure.

Invariant: a part is reverted only if an old replica is alive and in sync, because the revert removes the others from the ISR.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain import move_phrases as texts
from controlplane.domain.move_states import IN_FLIGHT, UNDER_WAY, PartState
from controlplane.domain.move_types import PartStep, PartView
from weir_common.phrases import sentence


def cancel_problem(parts: Sequence[PartView], alive: frozenset[int]) -> str | None:
    """Return the reason why cancelling is not safe, or None: every part in flight needs an old replica that is alive and in sync. Without one, the revert
    would leave the partition without a leader (Kafka's own cancel does: KAFKA-14424)."""
    for part in parts:
        if part.state == PartState.TRUNCATING:
            return sentence(texts.DELETION_RUNS, name=part.name, offset=part.delete_below)
        if part.state not in IN_FLIGHT:
            continue  # The new replicas of a tail are deleted; the old replicas are unchanged.
        if part.observed is None:
            continue
        if not any(b in alive and b in part.observed.isr for b in part.replicas_from):
            return sentence(texts.NO_OLD_REPLICA, name=part.name, replicas=", ".join(map(str, part.replicas_from)))
    return None


def cancel_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Waiting parts keep their placement. Parts in flight are reverted, also those with a withdrawn order: a controller may have read it.
    Parts that are done keep the new placement."""
    steps = []
    for part in parts:
        if part.state == PartState.WAITING and part.submitted_at is None:
            steps.append(PartStep(part.id, PartState.SKIPPED, desired_replicas=part.replicas_from, active=False))
        elif part.state in UNDER_WAY or part.state == PartState.WAITING:
            steps.append(_revert(part, PartState.SUBMITTED))
    return steps


def roll_back_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Every changed part returns to its recorded placement, in flight or done, a few at a time."""
    steps = []
    for part in parts:
        if part.state in (PartState.SKIPPED, PartState.REVERTED):
            continue
        if part.state == PartState.WAITING and not part.going_back and part.submitted_at is None:
            steps.append(PartStep(part.id, PartState.SKIPPED, desired_replicas=part.replicas_from, active=False))
        elif (
            part.observed is not None
            and part.observed.replicas == part.replicas_from
            and part.state == PartState.REJECTED
        ):
            steps.append(
                PartStep(part.id, PartState.REVERTED, desired_replicas=part.replicas_from, active=False, note="")
            )
        else:
            withdrawn = part.state == PartState.WAITING and not part.going_back
            steps.append(
                _revert(part, PartState.SUBMITTED if withdrawn or part.state in UNDER_WAY else PartState.WAITING)
            )
    return steps


def _revert(part: PartView, state: PartState) -> PartStep:
    seen = part.observed
    return PartStep(
        part.id,
        state,
        desired_replicas=part.replicas_from,
        read_generation=seen.generation if seen is not None else part.read_generation,
        submits=state == PartState.SUBMITTED,
        active=True,
        note="",
        cause="",
        samples=(),
        bytes_done=0,
        bytes_total=0 if _old_replicas_in_sync(part) else None,
    )


def _old_replicas_in_sync(part: PartView) -> bool:
    """Return whether the old replicas still have all data, so that the revert copies nothing."""
    return part.observed is not None and set(part.replicas_from) <= set(part.observed.isr)
