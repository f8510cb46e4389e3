"""What a move does next: pure. Given a move's rows and what was observed, it returns the row changes of one step.

Law: every order is bound to the assignment generation that was read; when that changed under it, the part is refused with the
difference and nothing else is tried. Done means the replicas are exactly the wanted ones, in order, and all in the ISR.
Called by `services.moves` inside the worker. Must not come in: the database, clocks (now is passed in), brokers.

A part's direction is its `wanted`: `replicas_to` on the way there, `replicas_from` on the way back (cancel, roll back). The states
are the same both ways, so there is one machine and not two:

    waiting -> ordered -> copying -> verifying -> done | put_back          untouched: cancelled before its order; stuck: refused
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

ORDER_UNTAKEN_SECONDS = 10.0
"""Seconds after which an order that no controller took is shown as such. A controller failover takes about 3."""

NO_PROGRESS_SECONDS = 60.0
"""Seconds without a copied byte after which a cause is looked for and shown."""

SETTLE_SECONDS = 3.0
"""Seconds a withdrawn order must have been quiet before its part counts as put back: the controller may have it in hand."""

IN_FLIGHT = ("ordered", "copying", "verifying")
ENDED = ("done", "untouched", "put_back", "stuck")


@dataclass(frozen=True, slots=True)
class ObservedPart:
    """One partition as the observer mirrored it. Sizes in bytes per broker; a broker that did not answer is absent."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int | None
    generation: int
    sizes: Mapping[int, int]
    lags: Mapping[int, int]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class PartView:
    """One MovePartition row. Times are Unix seconds."""

    id: int
    name: str
    state: str
    replicas_from: tuple[int, ...]
    replicas_to: tuple[int, ...]
    wanted: tuple[int, ...]
    read_generation: int
    ordered_at: float | None
    progress_at: float | None
    bytes_done: int | None
    observed: ObservedPart | None
    bytes_total: int | None = None
    note: str = ""

    @property
    def going_back(self) -> bool:
        return self.wanted == self.replicas_from


@dataclass(frozen=True, slots=True)
class MoveView:
    state: str
    parts: tuple[PartView, ...]
    parts_in_flight_max: int
    alive: frozenset[int]


@dataclass(frozen=True, slots=True)
class PartStep:
    """The new values of one part; None = leave as it is. `active` False frees the partition for other moves."""

    part_id: int
    state: str
    wanted: tuple[int, ...] | None = None
    read_generation: int | None = None
    bytes_total: int | None = None
    bytes_done: int | None = None
    progressed: bool = False
    ordered: bool = False
    active: bool | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Part changes first, then the move's own state (None = stays)."""

    parts: tuple[PartStep, ...]
    state: str | None
    note: str | None = None


def next_steps(move: MoveView, now: float) -> Steps:
    """One look at a move in a working state. Safe to see twice and safe to stop between."""
    steps: list[PartStep] = []
    states: dict[int, str] = {p.id: p.state for p in move.parts}
    for part in move.parts:
        step = _advance(part, move.alive, now)
        if step is not None:
            steps.append(step)
            states[part.id] = step.state
    if move.state != "paused":
        free = move.parts_in_flight_max - sum(1 for s in states.values() if s in IN_FLIGHT)
        for part in move.parts:
            if states[part.id] != "waiting":
                continue
            if free <= 0:
                break
            step = _order(part)
            steps.append(step)
            states[part.id] = step.state
            free -= step.state in IN_FLIGHT
    return Steps(tuple(steps), *_move_state(move.state, list(states.values())))


def _order(part: PartView) -> PartStep:
    """A waiting part's turn: order its placement, unless the world changed since it was read."""
    seen = part.observed
    if seen is None:
        return PartStep(part.id, "stuck", active=False, note="The partition is gone from the cluster.")
    if seen.target == part.wanted:
        # Already there, or on its way by an order that was withdrawn too late.
        return PartStep(part.id, "copying", read_generation=seen.generation, ordered=True, note="")
    if seen.generation != part.read_generation:
        return PartStep(part.id, "stuck", active=False, note=_difference(part, seen))
    return PartStep(part.id, "ordered", ordered=True, note="")


def _advance(part: PartView, alive: frozenset[int], now: float) -> PartStep | None:
    if part.state not in IN_FLIGHT:
        return None
    seen = part.observed
    if seen is None:
        return PartStep(part.id, "stuck", active=False, note="The partition is gone from the cluster.")
    if part.state == "ordered":
        return _advance_ordered(part, seen, now)
    if seen.target != part.wanted:
        if part.going_back and seen.target == part.replicas_to:
            # The forward order was in the controller's hand when it was withdrawn: bind the way back to what is there now.
            return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True)
        return PartStep(part.id, "stuck", active=False, note=_difference(part, seen))
    total, done = _bytes(part, seen)
    if seen.reassigning:
        progressed = done is not None and done != part.bytes_done
        note = "" if progressed else _cause(part, seen, alive, now)
        step = PartStep(
            part.id, "copying", bytes_total=total, bytes_done=done, progressed=progressed, note=note,
        )  # fmt: skip
        return step if _says_something(part, step) else None
    if seen.replicas == part.wanted and set(seen.isr) == set(part.wanted) and seen.leader is not None:
        settled = part.ordered_at is None or now - part.ordered_at >= SETTLE_SECONDS
        if part.going_back and not settled:
            return None
        final = "put_back" if part.going_back else "done"
        return PartStep(part.id, final, bytes_total=total, bytes_done=total, active=False, note="")
    missing = sorted(set(part.wanted) - set(seen.isr))
    note = f"Waiting for broker {', '.join(map(str, missing))} to be in sync." if missing else "Waiting for a leader."
    step = PartStep(part.id, "verifying", bytes_total=total, bytes_done=done, note=note)
    return step if _says_something(part, step) else None


def _advance_ordered(part: PartView, seen: ObservedPart, now: float) -> PartStep | None:
    if seen.target == part.wanted:
        return PartStep(part.id, "copying", read_generation=seen.generation)
    if seen.generation == part.read_generation:
        if part.ordered_at is not None and now - part.ordered_at > ORDER_UNTAKEN_SECONDS and not part.note:
            return PartStep(
                part.id, "ordered", note="No controller has taken the order yet; see the controllers' state."
            )
        return None
    if part.going_back and seen.target == part.replicas_to:
        return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True)
    return PartStep(part.id, "stuck", active=False, note=_difference(part, seen))


def _difference(part: PartView, seen: ObservedPart) -> str:
    return (
        f"Refused: the placement changed since it was read (generation {part.read_generation}, now {seen.generation}; "
        f"replicas now {list(seen.replicas)}, adding {list(seen.adding)}, removing {list(seen.removing)}). Plan it again."
    )


def _bytes(part: PartView, seen: ObservedPart) -> tuple[int | None, int | None]:
    """Bytes to copy and copied, over the replicas that are new in this direction. None = not known."""
    origin = part.replicas_to if part.going_back else part.replicas_from
    new = [b for b in part.wanted if b not in origin]
    if not new:
        return 0, 0
    whole = seen.sizes.get(seen.leader) if seen.leader is not None else None
    if whole is None:
        return part.bytes_total, part.bytes_done
    return whole * len(new), sum(min(whole, seen.sizes.get(b, 0)) for b in new)


def _cause(part: PartView, seen: ObservedPart, alive: frozenset[int], now: float) -> str:
    """Why a copy does not progress: from a closed list, with what would help. Empty while it is too early to say."""
    if seen.leader is None:
        return "Source down: the partition has no leader. Bring back one of its in-sync replicas."
    if down := [b for b in seen.adding if b not in alive]:
        return f"Target down: broker {down[0]} is not alive. Start it, or cancel the move."
    since = part.ordered_at if part.progress_at is None else part.progress_at
    if since is None or now - since < NO_PROGRESS_SECONDS:
        return ""
    if any(b not in seen.sizes for b in seen.adding):
        return "No figures: a target does not answer. See the broker's log."
    return f"No byte copied for more than {int((now - since) // 60)} min: fetch error, no space, or a controller change. See the target's log."


def _says_something(part: PartView, step: PartStep) -> bool:
    return (
        step.state != part.state
        or step.progressed
        or (step.note is not None and step.note != part.note)
        or (step.bytes_total is not None and step.bytes_total != part.bytes_total)
    )


def _move_state(state: str, parts: Sequence[str]) -> tuple[str | None, str | None]:
    """The move's next state from the states of all its parts."""
    if any(s == "waiting" for s in parts) and state in ("running", "paused", "rolling_back", "cancelling"):
        return None, None
    if any(s in ("ordered", "copying", "waiting") for s in parts):
        return ("running", None) if state == "verifying" else (None, None)
    if any(s == "verifying" for s in parts):
        return ("verifying", None) if state == "running" else (None, None)
    stuck = sum(1 for s in parts if s == "stuck")
    if stuck:
        return (
            "failed",
            f"{stuck} of {len(parts)} partitions were refused; their notes say why. Roll back, or plan the rest again.",
        )
    if state == "rolling_back":
        return "rolled_back", ""
    if state == "cancelling":
        kept = sum(1 for s in parts if s == "done")
        return (
            "cancelled",
            f"{kept} partitions had arrived before and stay; roll back to return them too." if kept else "",
        )
    return "done", ""


# -- orders of the operator: pure checks and changes ----------------------------------------------------------------------


def cancel_problem(parts: Sequence[PartView], alive: frozenset[int]) -> str | None:
    """Why cancelling is not safe, or None: every part in flight needs an old replica that is alive and in sync, or the way back
    would leave it without a leader (Kafka's own cancel does: KAFKA-14424)."""
    for part in parts:
        if part.state not in IN_FLIGHT:
            continue
        if part.observed is None:
            continue
        if not any(b in alive and b in part.observed.isr for b in part.replicas_from):
            return (
                f"{part.name}: none of its old replicas {list(part.replicas_from)} is alive and in sync; putting them back would "
                f"leave it without a leader. Bring one of them back, or let the move finish."
            )
    return None


def cancel_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Waiting parts stay where they are; parts in flight are ordered back; parts that arrived stay."""
    steps = []
    for part in parts:
        if part.state == "waiting":
            steps.append(PartStep(part.id, "untouched", wanted=part.replicas_from, active=False))
        elif part.state in IN_FLIGHT:
            steps.append(_send_back(part, "ordered"))
    return steps


def roll_back_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Everything that was touched returns to its recorded placement, in flight and arrived alike, a few at a time."""
    steps = []
    for part in parts:
        if part.state in ("untouched", "put_back"):
            continue
        if part.state == "waiting" and not part.going_back:
            steps.append(PartStep(part.id, "untouched", wanted=part.replicas_from, active=False))
        elif part.observed is not None and part.observed.replicas == part.replicas_from and part.state == "stuck":
            steps.append(PartStep(part.id, "put_back", wanted=part.replicas_from, active=False, note=""))
        else:
            steps.append(_send_back(part, "ordered" if part.state in IN_FLIGHT else "waiting"))
    return steps


def _send_back(part: PartView, state: str) -> PartStep:
    seen = part.observed
    return PartStep(
        part.id,
        state,
        wanted=part.replicas_from,
        read_generation=seen.generation if seen is not None else part.read_generation,
        ordered=state == "ordered",
        active=True,
        note="",
    )


def after(part: PartView, step: PartStep, now: float) -> PartView:
    """The part with the step's values in it (for tests and previews)."""
    return replace(
        part,
        state=step.state,
        wanted=part.wanted if step.wanted is None else step.wanted,
        read_generation=part.read_generation if step.read_generation is None else step.read_generation,
        bytes_done=part.bytes_done if step.bytes_done is None else step.bytes_done,
        bytes_total=part.bytes_total if step.bytes_total is None else step.bytes_total,
        progress_at=now if step.progressed else part.progress_at,
        ordered_at=now if step.ordered else part.ordered_at,
        note=part.note if step.note is None else step.note,
    )
