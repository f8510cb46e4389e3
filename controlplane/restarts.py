"""What a rolling restart does next: pure. Given its brokers' turns and what is known of the cluster, the change of one step.

Laws: one broker at a time, the next only when the one before is in sync again; none goes before every partition on it can do without it, with
its min.insync.replicas; leadership is off it first; what is not known for sure, or old, is a reason to wait. Called by `services.restarting`.
Must not come in: the database, clocks, how a process is restarted.

    waiting -> leaders_off -> restarting -> catching_up -> done          skipped: the restart was cancelled before its turn
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AGE_SECONDS_MAX = 5.0
"""What is known of the cluster may not be older when a broker is let go."""
SETTLED_SECONDS = 2.0
"""A broker's turn ends this long after it is seen in sync: figures of the moment of its return are on their way still."""
UNTAKEN_SECONDS = 30.0
"""A restart that nobody has begun for this long says so."""
AWAY_SECONDS = 90.0
"""A broker that has been away for this long has most likely failed to start."""

WAITING, LEADERS_OFF, RESTARTING, CATCHING_UP, DONE, SKIPPED = (
    "waiting", "leaders_off", "restarting", "catching_up", "done", "skipped",
)  # fmt: skip
UNDER_WAY = (LEADERS_OFF, RESTARTING, CATCHING_UP)


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """One broker as mirrored from the metadata log. `blockers`: sentences of the partitions that cannot do without it (the first few),
    `blocked` how many. `shunned`: leadership is taken off it."""

    broker_id: int
    alive: bool
    incarnation: int
    leaders: int
    out_of_sync: int
    blocked: int
    blockers: tuple[str, ...] = ()
    shunned: bool = False


@dataclass(frozen=True, slots=True)
class StepView:
    """One broker's turn. Times are Unix seconds; `back_at`: when it was first seen whole again. `leads_before`: leadership had not been taken
    off it by somebody else, so that it is given back."""

    id: int
    broker_id: int
    state: str
    incarnation: int | None = None
    asked_at: float | None = None
    back_at: float | None = None
    leads_before: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class RestartView:
    """`age_s`: of what is known of the cluster; None = nothing is known."""

    state: str
    by_house: bool
    steps: tuple[StepView, ...]
    brokers: tuple[BrokerSeen, ...]
    age_s: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """Of one turn; None = leave as it is. `shun`: take leadership off the broker (True) or give it back (False). `ask`: have its process
    restarted, which may be asked again until it has happened."""

    step_id: int
    state: str
    note: str = ""
    incarnation: int | None = None
    leads_before: bool | None = None
    back: bool | None = None
    shun: bool | None = None
    ask: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """The change of one turn, if any; then the restart's own state and note (None = stay)."""

    change: Change | None = None
    state: str | None = None
    note: str | None = None


def look(view: RestartView, now: float) -> Look:
    """One look at an unfinished restart. Safe to see twice and safe to stop between."""
    seen = {b.broker_id: b for b in view.brokers}
    at = next((s for s in view.steps if s.state in UNDER_WAY), None)
    if at is not None:
        b = seen.get(at.broker_id)
        if b is None:
            return _said(at, f"Broker {at.broker_id} is not known any more.")
        change = _under_way(view, at, b, now)
        return Look(change) if _says_something(at, change) else Look()
    if view.state == "cancelling":
        left = sum(1 for s in view.steps if s.state == WAITING)
        return Look(state="cancelled", note=f"{left} of {len(view.steps)} brokers were not restarted." if left else "")
    at = next((s for s in view.steps if s.state == WAITING), None)
    if at is None:
        return Look(state="done", note="")
    if view.state == "paused":
        return Look()
    return _begin(view, at, seen, now)


def _begin(view: RestartView, at: StepView, seen: dict[int, BrokerSeen], now: float) -> Look:
    """Leadership goes off the next broker once all could do without it."""
    b = seen.get(at.broker_id)
    if b is None:
        return _said(at, f"Broker {at.broker_id} is not known any more.")
    if (reason := _not_now(view, b)) is not None:
        return _said(at, reason)
    return Look(
        Change(at.id, LEADERS_OFF, "Its leaders move off.", b.incarnation, leads_before=not b.shunned, shun=True)
    )


def _not_now(view: RestartView, b: BrokerSeen) -> str | None:
    """Why this broker may not be let go now, in words; None: it may."""
    if view.age_s is None or view.age_s > AGE_SECONDS_MAX:
        return f"What is known of the cluster is older than {AGE_SECONDS_MAX:.0f} s; nobody is restarted blindly."
    if not b.alive:
        return f"Broker {b.broker_id} is down; start it, or cancel."
    if away := [o.broker_id for o in view.brokers if not o.alive and o.broker_id != b.broker_id and o.out_of_sync]:
        return f"Broker {away[0]} is down; start it first."
    if b.blocked:
        more = f" ... and {b.blocked - len(b.blockers)} more." if b.blocked > len(b.blockers) else ""
        return f"Not safe yet: {' '.join(b.blockers)}{more}"
    return None


def _under_way(view: RestartView, at: StepView, b: BrokerSeen, now: float) -> Change:
    if at.state == LEADERS_OFF:
        return _leaders_off(view, at, b)
    if at.state == RESTARTING:
        return _restarting(view, at, b, now)
    whole = b.alive and not b.out_of_sync
    if not whole:
        return Change(at.id, CATCHING_UP, _behind(b), back=False if at.back_at is not None else None)
    if at.back_at is None:
        return Change(at.id, CATCHING_UP, "In sync.", back=True)
    if now - at.back_at < SETTLED_SECONDS or view.age_s is None or view.age_s > AGE_SECONDS_MAX:
        return Change(at.id, CATCHING_UP, at.note)
    return Change(at.id, DONE, "", shun=False if at.leads_before else None)


def _leaders_off(view: RestartView, at: StepView, b: BrokerSeen) -> Change:
    if view.state != "running":
        # Nothing has happened to it yet: it gets its leaders back, and its turn comes again (or not at all).
        return Change(at.id, WAITING, "", shun=False if at.leads_before else None)
    if b.incarnation != at.incarnation:
        return Change(at.id, CATCHING_UP, "It was restarted by somebody else meanwhile.")
    if (reason := _not_now(view, b)) is not None:
        return Change(at.id, LEADERS_OFF, reason)
    if not b.shunned or b.leaders:
        return Change(at.id, LEADERS_OFF, f"Its leaders move off: {b.leaders} left.")
    return Change(at.id, RESTARTING, _ask_for(view, at), ask=view.by_house)


def _restarting(view: RestartView, at: StepView, b: BrokerSeen, now: float) -> Change:
    if b.incarnation != at.incarnation and b.alive:
        return Change(at.id, CATCHING_UP, _behind(b))
    since = 0.0 if at.asked_at is None else now - at.asked_at
    if not b.alive:
        note = (
            "It is away."
            if since < AWAY_SECONDS
            else "It does not come back; see its log. Nobody else is restarted before."
        )
        return Change(at.id, RESTARTING, note)
    if not view.by_house:
        if view.state != "running":
            return Change(at.id, WAITING, "", shun=False if at.leads_before else None)
        reason = _not_now(view, b)
        return Change(at.id, RESTARTING, _ask_for(view, at) if reason is None else f"Wait with it. {reason}")
    note = _ask_for(view, at)
    if since > UNTAKEN_SECONDS:
        note = "Nobody has restarted it yet; is the house's supervisor running?"
    # Asked until it has happened: the request names the process, and a later one is not ended for it.
    return Change(at.id, RESTARTING, note, ask=True)


def _ask_for(view: RestartView, at: StepView) -> str:
    if view.by_house:
        return "The supervisor restarts it."
    return f"Restart broker {at.broker_id} now (a clean stop, then a start); the job goes on when it is back."


def _behind(b: BrokerSeen) -> str:
    if not b.alive:
        return "It is away."
    return f"It catches up: {b.out_of_sync} replica{'' if b.out_of_sync == 1 else 's'} to go."


def _said(at: StepView, note: str) -> Look:
    return Look(Change(at.id, at.state, note)) if note != at.note else Look()


def _says_something(at: StepView, change: Change) -> bool:
    return change.state != at.state or change.note != at.note or change.back is not None or change.ask


def blocker(broker_id: int, topic: str, index: int, isr: Sequence[int], min_insync: int) -> str:
    """Why a partition cannot do without this broker."""
    rest = len([b for b in isr if b != broker_id])
    if not rest:
        return f"{topic}-{index}: no other replica is in sync (in sync: {list(isr)})."
    return f"{topic}-{index}: {rest} would stay in sync, min.insync.replicas is {min_insync}."


def problem(broker_ids: Sequence[int], brokers: Sequence[BrokerSeen]) -> str | None:
    """Why no restart of these may be begun, or None. That somebody must be waited for is no problem: that is what the job is for."""
    known = {b.broker_id for b in brokers}
    if not broker_ids:
        return "No broker is named."
    if strange := [b for b in broker_ids if b not in known]:
        return f"There is no broker {strange[0]}; known are {sorted(known)}."
    if len(set(broker_ids)) != len(broker_ids):
        return "A broker is named twice."
    return None
