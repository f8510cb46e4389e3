"""State machine of a part in mode `tail`, until its new replicas may join the ISR: pure (docs/safety.md section 8).

Invariants: every order carries the assignment generation that was read, and a deletion the start offset of the new replicas. Old records are
deleted only by retention or by an operator's deletion. A part joins as soon as the leader's log starts where the new replicas start; unknown
values are waited for. The leader of a topic with tiered storage copies the old records to the remote store, and then its local log starts there
(decision 083): nothing is deleted, and no hand-over is ordered. Does not contain: the database, clocks (now is passed in), brokers.

    waiting -> bootstrapping -> catching_up <-> ready -> submitted -> (as in `move`: the new replicas join, the old ones are removed)
                                                 |  ^
                                                 v  |
                                              truncating        only by an operator's request

`bootstrapping` orders observers. They are `catching_up` until they have all records; `ready` waits for retention to pass their start offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from brokerd.cluster.majority_config import has_majority_acks
from controlplane.domain import move_phrases, page_phrases
from controlplane.domain import progress as pace
from controlplane.domain.move_states import MoveState, PartState
from controlplane.domain.move_types import (
    MoveSnapshot,
    ObservedPart,
    PartStep,
    PartView,
    difference,
    no_leader,
    step_for_unapplied_order,
    with_old_replicas,
)
from weir_common.phrases import counted, sentence

IN_STEP_RECORDS = 5_000
"""A new replica that reports at most this many missing records is in step, because under load every replica misses some. The join itself
requires and checks more."""


def is_tiered(configs: Mapping[str, str]) -> bool:
    """Return whether the topic has tiered storage."""
    return configs.get("remote.storage.enable", "false").lower() == "true"


UPLOAD_WAIT_S = 30.0
"""Default of remote.log.manager.task.interval.ms: a leader may begin its next copy so much later."""
UPLOAD_BYTES_PER_S = 20_000_000
"""Assumed speed of the copies of one leader to the remote store, for an estimate before the first one. Only a quota can be known."""


def uploads_end_in_s(bytes_by_leader: Mapping[int, int], quotas: Mapping[int, int]) -> float:
    """Seconds until the leaders have copied this number of bytes to the remote store, each with its own speed. `quotas`: bytes per second, of leaders that have
    one."""
    seconds = (
        b / min(UPLOAD_BYTES_PER_S, quotas.get(leader, UPLOAD_BYTES_PER_S)) for leader, b in bytes_by_leader.items()
    )
    return UPLOAD_WAIT_S + max(seconds, default=0.0)


def tail_move_problem(topic: str, configs: Mapping[str, str], *, internal: bool, deadline: bool = False) -> str:
    """Return the reason why a topic cannot move in mode `tail`, or "". Either its old records are never deleted (unless the move has a `deadline`, after
    which a deletion is requested), or they are still needed (internal and compacted topics)."""
    policy = configs.get("cleanup.policy", "delete")
    if internal:
        return sentence(page_phrases.INTERNAL_TOPIC, topic=topic)
    if "compact" in policy:
        return sentence(page_phrases.COMPACTED_TOPIC, topic=topic, policy=policy)
    if has_majority_acks(configs):
        return sentence(page_phrases.MAJORITY_TOPIC, topic=topic)
    if is_tiered(configs):
        if configs.get("remote.log.copy.disable", "false").lower() == "true":
            return sentence(page_phrases.NO_REMOTE_COPY, topic=topic)
        return ""
    if not deadline and int(configs.get("retention.ms", "0")) < 0 and int(configs.get("retention.bytes", "-1")) < 0:
        return sentence(page_phrases.UNLIMITED_RETENTION, topic=topic)
    return ""


def begin(part: PartView, observed: ObservedPart) -> PartStep:
    """Order the observers of a waiting part, unless its assignment has changed since it was read."""
    if observed.observers == part.tail_copies:
        # The observers exist already: an earlier order was withdrawn after the controller had applied it.
        return PartStep(
            part.id, PartState.CATCHING_UP, read_generation=observed.generation, submits=True, note="", cause=""
        )
    if observed.generation != part.read_generation:
        return PartStep(part.id, PartState.REJECTED, active=False, note=difference(part, observed))
    if observed.unfit:
        return PartStep(part.id, PartState.REJECTED, active=False, note=observed.unfit)
    if observed.archive_start is not None:
        note = sentence(move_phrases.ARCHIVED_BELOW, offset=observed.archive_start)
        return PartStep(part.id, PartState.REJECTED, active=False, note=note)
    return PartStep(part.id, PartState.BOOTSTRAPPING, submits=True, note="", cause="")


def advance(part: PartView, observed: ObservedPart, move: MoveSnapshot, now: float) -> PartStep | None:
    """One step of a part in one of the states above; None: no change."""
    taken = observed.observers == part.tail_copies and observed.target == part.replicas_from
    if part.state == PartState.BOOTSTRAPPING:
        if observed.generation == part.read_generation:
            return step_for_unapplied_order(part, observed, move.alive, now)
        if taken:
            return PartStep(part.id, PartState.CATCHING_UP, read_generation=observed.generation, note="", cause="")
    elif part.state == PartState.TRUNCATING:
        if taken and observed.log_start_floor == part.delete_below and observed.generation != part.read_generation:
            return PartStep(part.id, PartState.READY, read_generation=observed.generation, note="", cause="")
        if observed.generation == part.read_generation and observed.tail_start == part.delete_below:
            return step_for_unapplied_order(part, observed, move.alive, now)
        if taken and observed.generation == part.read_generation:
            note = sentence(
                move_phrases.NOTHING_DELETED, start=_offset(observed.tail_start), requested=part.delete_below
            )
            return PartStep(part.id, PartState.CATCHING_UP, note=note, cause="")
    elif taken and observed.generation == part.read_generation:
        return _follow_step(part, observed, move)
    return PartStep(part.id, PartState.REJECTED, active=False, note=difference(part, observed))


def _follow_step(part: PartView, observed: ObservedPart, move: MoveSnapshot) -> PartStep | None:
    copied_bytes = sum(observed.sizes.get(b, 0) for b in part.tail_copies)
    tail_start = observed.tail_start
    state, cause, note = _waits_for(part, observed, move)
    if (
        state == PartState.READY
        and tail_start is not None
        and (observed.log_start or 0) >= tail_start
        and move.state != MoveState.PAUSED
    ):
        return PartStep(
            part.id,
            PartState.SUBMITTED,
            bytes_total=copied_bytes,
            bytes_done=copied_bytes,
            submits=True,
            note="",
            cause="",
        )
    if (
        state == PartState.READY
        and tail_start is not None
        and move.early
        and not observed.tiered
        and move.state != MoveState.PAUSED
    ):
        return PartStep(
            part.id,
            PartState.SUBMITTED,
            bytes_total=copied_bytes,
            bytes_done=copied_bytes,
            submits=True,
            note="",
            cause="",
            hand_over_at=tail_start,
            tail_start=tail_start if tail_start != part.tail_start else None,
        )
    step = PartStep(
        part.id,
        state,
        bytes_total=copied_bytes,
        bytes_done=copied_bytes,
        progressed=copied_bytes != part.bytes_done,
        note=note,
        cause=cause,
        tail_start=tail_start if tail_start != part.tail_start else None,
    )
    unchanged = (step.state, step.note, step.cause) == (part.state, part.note, part.cause)
    return None if unchanged and step.tail_start is None and not step.progressed else step


class PartWait(NamedTuple):
    """The cause for which a part waits. `state`: CATCHING_UP or READY. `cause`: of progress.StallCause if an operator must act, else "". `note`: for people
    only."""

    state: PartState
    cause: str
    note: str


def _waits_for(part: PartView, observed: ObservedPart, move: MoveSnapshot) -> PartWait:
    copies, tail_start = part.tail_copies, observed.tail_start
    if observed.unfit:
        return PartWait(
            PartState.CATCHING_UP,
            pace.StallCause.UNFIT,
            sentence(move_phrases.UNFIT, reason=observed.unfit),
        )
    if observed.leader is None:
        return PartWait(PartState.CATCHING_UP, pace.StallCause.SOURCE_DOWN, no_leader(observed))
    if down := [b for b in copies if b not in move.alive]:
        return PartWait(
            PartState.CATCHING_UP,
            pace.StallCause.TARGET_DOWN,
            sentence(move_phrases.TARGET_DOWN, broker=down[0]),
        )
    if tail_start is None:
        return PartWait(
            PartState.CATCHING_UP,
            "",
            sentence(move_phrases.START_NOT_REPORTED),
        )
    behind = [b for b in copies if observed.lags.get(b, IN_STEP_RECORDS + 1) > IN_STEP_RECORDS]
    if behind:
        lag = observed.lags.get(behind[0])
        note = (
            sentence(move_phrases.CATCHING_UP_NOT_STARTED, start=tail_start, broker=behind[0])
            if lag is None
            else counted(lag, *move_phrases.CATCHING_UP, start=tail_start, broker=behind[0])
        )
        return PartWait(PartState.CATCHING_UP, "", note)
    offsets = {"start": tail_start, "log_start": _offset(observed.log_start)}
    if _is_deleted(observed):
        return PartWait(
            PartState.READY,
            "",
            sentence(move_phrases.OLD_RECORDS_DELETED, **offsets),
        )
    if observed.tiered:
        return PartWait(
            PartState.READY,
            "",
            sentence(move_phrases.WAITS_FOR_COPIES, **offsets),
        )
    if move.overdue:
        return PartWait(
            PartState.READY,
            pace.StallCause.DEADLINE_PASSED,
            sentence(move_phrases.DEADLINE_PASSED, **offsets),
        )
    return PartWait(
        PartState.READY,
        "",
        sentence(move_phrases.WAITS_FOR_RETENTION, **offsets),
    )


# -- deletion by an operator ------------------------------------------------------------------------------------------------


def deletion_problem(parts: Sequence[PartView]) -> str | None:
    """Return the reason why nothing can be deleted now, or None."""
    if deletable(parts):
        return None
    if any(p.state in (PartState.BOOTSTRAPPING, PartState.CATCHING_UP) for p in parts):
        return "The new replicas are not in sync yet: the records that they lack would be lost with the old replicas."
    return "No partition of the move waits for retention: there are no old records to delete."


def deletable(parts: Sequence[PartView]) -> list[PartView]:
    """Parts in step that wait for retention only."""
    return [
        p
        for p in parts
        if p.state == PartState.READY
        and p.observed is not None
        and p.observed.tail_start is not None
        and p.observed.leader is not None
        and (p.observed.log_start or 0) < p.observed.tail_start
        and not p.observed.tiered
        and not _is_deleted(p.observed)
    ]


def _is_deleted(observed: ObservedPart) -> bool:
    """Return whether no records below the start of the new replicas are left, also if the last report of the leader is older. Another deletion would be
    an unnecessary step."""
    return observed.tail_start is not None and (observed.log_start_floor or 0) >= observed.tail_start


def deletion_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Delete all records below the start offset of the new replicas. The deletion cannot be undone."""
    return [
        PartStep(p.id, PartState.TRUNCATING, delete_below=p.observed.tail_start, submits=True, note="", cause="")
        for p in deletable(parts)
        if p.observed is not None
    ]


def order(
    state: PartState,
    *,
    desired_replicas: Sequence[int],
    replicas_from: Sequence[int],
    replicas_to: Sequence[int],
    delete_below: int | None,
    hand_over_at: int | None,
) -> Order:
    """The change that a part in `bootstrapping`, `truncating` or `submitted` requests from the controller."""
    if state == PartState.BOOTSTRAPPING:
        return Order(tuple(replicas_from), observers=tuple(b for b in replicas_to if b not in replicas_from))
    if state == PartState.TRUNCATING:
        return Order(tuple(replicas_from), delete_below=delete_below)
    # The hand-over offset belongs to the first order, with old and new replicas together. Any other order has none.
    first = list(desired_replicas) == list(first_placement(replicas_from, replicas_to))
    return Order(tuple(desired_replicas), hand_over_at=hand_over_at if first else None)


class Order(NamedTuple):
    replicas: tuple[int, ...]
    observers: tuple[int, ...] = ()
    delete_below: int | None = None
    hand_over_at: int | None = None


def first_placement(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """The first placement of the order: old and new replicas together, for the comparison, if some are added and some removed."""
    return with_old_replicas(old, new) if set(new) - set(old) and set(old) - set(new) else tuple(new)


def _offset(offset: int | None) -> str:
    return sentence(move_phrases.UNKNOWN_OFFSET) if offset is None else str(offset)
