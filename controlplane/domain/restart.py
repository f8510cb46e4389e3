"""Rolling restart: the next step of a job, from the steps of its brokers and the observed cluster. Pure.

Invariants: brokers restart one at a time, and the next one only after the previous one is in sync again. A broker restarts only when each of
its partitions keeps min.insync.replicas without it, and after its leadership was moved away. An unknown or old observation is a reason to
wait. Does not contain: the database, clocks, the restart of a process.

    waiting -> demoting -> restarting -> catching_up -> done          skipped: the restart was cancelled before its step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain import restart_phrases as texts
from controlplane.domain.page_phrases import ONLY_IN_SYNC, TOO_FEW_IN_SYNC
from weir_common.phrases import counted, joined, sentence

AGE_SECONDS_MAX = 5.0
"""Maximum age of the observed state of the cluster when a broker is demoted or restarted."""
SETTLED_SECONDS = 2.0
"""Seconds from the observation that a broker is in sync to the end of its step. Values from the moment of its return may still arrive."""
NOT_STARTED_SECONDS = 30.0
"""Seconds until a requested restart that did not start is reported."""
AWAY_SECONDS = 90.0
"""A broker that is down for this many seconds has probably failed to start."""


class RestartState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    DONE = "done"
    CANCELLED = "cancelled"


class StepState(StrEnum):
    """State of the step of one broker."""

    WAITING = "waiting"
    DEMOTING = "demoting"
    RESTARTING = "restarting"
    CATCHING_UP = "catching_up"
    DONE = "done"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process that does not run now. `code`: its exit status, or the negative number of the signal that ended it. `at`: Unix seconds."""

    code: int
    at: float


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process. The pid alone may be reused. `started`: its start time in clock ticks since boot."""

    pid: int
    started: int


UNDER_WAY = (StepState.DEMOTING, StepState.RESTARTING, StepState.CATCHING_UP)


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """One broker as mirrored from the metadata log. `blockers`: a sentence for each of the first partitions that cannot lose this broker; `blocked`:
    their number. `leadership_disabled`: the broker is demoted."""

    broker_id: int
    alive: bool
    broker_epoch: int
    leaders: int
    out_of_sync: int
    blocked: int
    blockers: tuple[str, ...] = ()
    leadership_disabled: bool = False


@dataclass(frozen=True, slots=True)
class StepView:
    """The step of one broker. Times are Unix seconds. `back_at`: when the broker was first observed in sync again. `leads_before`: no other user had
    demoted the broker, so the step restores its leadership."""

    id: int
    broker_id: int
    state: StepState
    broker_epoch: int | None = None
    asked_at: float | None = None
    back_at: float | None = None
    leads_before: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class RestartSnapshot:
    """`age_s`: age of the observed state of the cluster; None = unknown."""

    state: RestartState
    by_supervisor: bool
    steps: tuple[StepView, ...]
    brokers: tuple[BrokerSeen, ...]
    age_s: float | None


@dataclass(frozen=True, slots=True)
class RestartChange:
    """Change of one step; None = unchanged. `demote`: demote the broker (True) or restore its leadership (False). `restart_process`: request the restart of its
    process. The request may be repeated until the process was restarted."""

    step_id: int
    state: StepState
    note: str = ""
    broker_epoch: int | None = None
    leads_before: bool | None = None
    back: bool | None = None
    demote: bool | None = None
    restart_process: bool = False


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """The change of one step, if any, and the new state and note of the restart (None = unchanged)."""

    change: RestartChange | None = None
    state: RestartState | None = None
    note: str | None = None


def next_step(view: RestartSnapshot, now: float) -> RestartDecision:
    """One step of an unfinished restart. Idempotent; it may be interrupted between two steps."""
    seen = {b.broker_id: b for b in view.brokers}
    at = next((s for s in view.steps if s.state in UNDER_WAY), None)
    if at is not None:
        b = seen.get(at.broker_id)
        if b is None:
            return _decision_with_note(at, sentence(texts.BROKER_UNKNOWN, broker=at.broker_id))
        change = _under_way(view, at, b, now)
        return RestartDecision(change) if _has_effect(at, change) else RestartDecision()
    if view.state == RestartState.CANCELLING:
        left = sum(1 for s in view.steps if s.state == StepState.WAITING)
        return RestartDecision(
            state=RestartState.CANCELLED,
            note=sentence(texts.NOT_RESTARTED, count=left, all=len(view.steps)) if left else "",
        )
    at = next((s for s in view.steps if s.state == StepState.WAITING), None)
    if at is None:
        return RestartDecision(state=RestartState.DONE, note="")
    if view.state == RestartState.PAUSED:
        return RestartDecision()
    return _begin(view, at, seen, now)


def _begin(view: RestartSnapshot, at: StepView, brokers: dict[int, BrokerSeen], now: float) -> RestartDecision:
    """Demote the next broker as soon as all its partitions can lose it."""
    broker = brokers.get(at.broker_id)
    if broker is None:
        return _decision_with_note(at, sentence(texts.BROKER_UNKNOWN, broker=at.broker_id))
    if (reason := _not_now(view, broker)) is not None:
        return _decision_with_note(at, reason)
    return RestartDecision(
        RestartChange(
            at.id,
            StepState.DEMOTING,
            sentence(texts.LEADERSHIP_MOVES),
            broker.broker_epoch,
            leads_before=not broker.leadership_disabled,
            demote=True,
        )
    )


def _not_now(view: RestartSnapshot, broker: BrokerSeen) -> str | None:
    """The reason why this broker must not be demoted or restarted now; None = it may."""
    if view.age_s is None or view.age_s > AGE_SECONDS_MAX:
        return sentence(texts.OLD_STATE, seconds=f"{AGE_SECONDS_MAX:.0f}")
    if not broker.alive:
        return sentence(texts.START_OR_CANCEL, broker=broker.broker_id)
    if away := [o.broker_id for o in view.brokers if not o.alive and o.broker_id != broker.broker_id and o.out_of_sync]:
        return sentence(texts.START_FIRST, broker=away[0])
    if broker.blocked:
        more = broker.blocked - len(broker.blockers)
        rest = [sentence(texts.MORE_PARTITIONS, count=more)] if more > 0 else []
        return sentence(texts.NOT_SAFE, reasons=joined([*broker.blockers, *rest]))
    return None


def _under_way(view: RestartSnapshot, at: StepView, broker: BrokerSeen, now: float) -> RestartChange:
    if at.state == StepState.DEMOTING:
        return _demoting(view, at, broker)
    if at.state == StepState.RESTARTING:
        return _restarting(view, at, broker, now)
    whole = broker.alive and not broker.out_of_sync
    if not whole:
        return RestartChange(
            at.id, StepState.CATCHING_UP, _reason_to_wait(broker), back=False if at.back_at is not None else None
        )
    if at.back_at is None:
        return RestartChange(at.id, StepState.CATCHING_UP, sentence(texts.IN_SYNC), back=True)
    if now - at.back_at < SETTLED_SECONDS or view.age_s is None or view.age_s > AGE_SECONDS_MAX:
        return RestartChange(at.id, StepState.CATCHING_UP, at.note)
    return RestartChange(at.id, StepState.DONE, "", demote=False if at.leads_before else None)


def _demoting(view: RestartSnapshot, at: StepView, broker: BrokerSeen) -> RestartChange:
    if view.state != RestartState.RUNNING:
        # The broker has not restarted yet. Its leadership is restored, and it waits for its step again (or is skipped).
        return RestartChange(at.id, StepState.WAITING, "", demote=False if at.leads_before else None)
    if broker.broker_epoch != at.broker_epoch:
        return RestartChange(at.id, StepState.CATCHING_UP, sentence(texts.RESTARTED_ELSEWHERE))
    if (reason := _not_now(view, broker)) is not None:
        return RestartChange(at.id, StepState.DEMOTING, reason)
    if not broker.leadership_disabled or broker.leaders:
        return RestartChange(at.id, StepState.DEMOTING, sentence(texts.LEADERS_LEFT, count=broker.leaders))
    return RestartChange(at.id, StepState.RESTARTING, _restart_note(view, at), restart_process=view.by_supervisor)


def _restarting(view: RestartSnapshot, at: StepView, broker: BrokerSeen, now: float) -> RestartChange:
    if broker.broker_epoch != at.broker_epoch and broker.alive:
        return RestartChange(at.id, StepState.CATCHING_UP, _reason_to_wait(broker))
    since = 0.0 if at.asked_at is None else now - at.asked_at
    if not broker.alive:
        return RestartChange(
            at.id, StepState.RESTARTING, sentence(texts.DOWN if since < AWAY_SECONDS else texts.STAYS_DOWN)
        )
    if not view.by_supervisor:
        if view.state != RestartState.RUNNING:
            return RestartChange(at.id, StepState.WAITING, "", demote=False if at.leads_before else None)
        reason = _not_now(view, broker)
        return RestartChange(
            at.id,
            StepState.RESTARTING,
            _restart_note(view, at) if reason is None else sentence(texts.NOT_YET, reason=reason),
        )
    note = _restart_note(view, at)
    if since > NOT_STARTED_SECONDS:
        note = sentence(texts.SUPERVISOR_LATE)
    # The request is repeated until the restart has happened. It names the process, so a later process is not ended.
    return RestartChange(at.id, StepState.RESTARTING, note, restart_process=True)


def _restart_note(view: RestartSnapshot, at: StepView) -> str:
    if view.by_supervisor:
        return sentence(texts.SUPERVISOR_RESTARTS)
    return sentence(texts.RESTART_NOW, broker=at.broker_id)


def _reason_to_wait(b: BrokerSeen) -> str:
    if not b.alive:
        return sentence(texts.DOWN)
    return counted(b.out_of_sync, *texts.CATCHING_UP)


def _decision_with_note(at: StepView, note: str) -> RestartDecision:
    return RestartDecision(RestartChange(at.id, at.state, note)) if note != at.note else RestartDecision()


def _has_effect(at: StepView, change: RestartChange) -> bool:
    return change.state != at.state or change.note != at.note or change.back is not None or change.restart_process


def blocker(broker_id: int, topic: str, index: int, isr: Sequence[int], min_insync: int) -> str:
    """Return the reason why a partition cannot lose this broker."""
    rest = len([b for b in isr if b != broker_id])
    if not rest:
        return sentence(ONLY_IN_SYNC, partition=f"{topic}-{index}")
    return counted(rest, *TOO_FEW_IN_SYNC, partition=f"{topic}-{index}", least=f"{min_insync}")


def problem(broker_ids: Sequence[int], brokers: Sequence[BrokerSeen]) -> str | None:
    """Return the reason why a restart of these brokers cannot start, or None. A broker that is not ready yet is no problem: the job waits for it."""
    known = {b.broker_id for b in brokers}
    if not broker_ids:
        return sentence(texts.NO_BROKER_LISTED)
    if strange := [b for b in broker_ids if b not in known]:
        return sentence(texts.UNKNOWN_BROKER, broker=strange[0], brokers=f"{sorted(known)}")
    if len(set(broker_ids)) != len(broker_ids):
        return sentence(texts.BROKER_TWICE)
    return None
