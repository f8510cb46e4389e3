"""Proposals to rebalance a cluster: a placement with a more even load, and the load of each broker before and after. Pure functions.

Hard rules: two replicas of a partition are never in one failure domain. No replica moves to a broker that is down, cordoned or short of disk
space. A partition that is being reassigned or is offline stays. The replication factor stays. No partition gets more replicas in one rack.

Soft goals are applied in the requested order. A later goal never moves a broker out of the bounds of an earlier goal. Moves are few: only
load outside the bounds moves, and only as far as the bounds. Leaders and traffic are balanced by a new order of replicas, which copies no data.
The same cluster always gives the same proposal. For each goal a greedy part makes the moves that keep all brokers within the bounds. If it does
not reach the goal, `balance_search` continues.

Does not contain: the database, the clock, the execution of moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from controlplane.domain import balance_search
from controlplane.domain.balance_state import BalanceState, racks_in_common
from controlplane.domain.balance_types import (
    COUNTED,
    GOALS,
    LED,
    OBSTACLE_TEXTS,
    TOLERANCE_DEFAULT,
    Balance,
    Goal,
    GoalResult,
    Load,
    Note,
    NoteCode,
    Obstacle,
    PlacementChange,
)
from controlplane.domain.errors import Rejected
from controlplane.domain.planner_types import PlannerBroker, PlannerPartition
from weir_common.phrases import sentence

__all__ = [
    "COUNTED",
    "GOALS",
    "TOLERANCE_DEFAULT",
    "Balance",
    "Goal",
    "GoalResult",
    "Load",
    "Note",
    "NoteCode",
    "Obstacle",
    "PlacementChange",
    "propose",
]

RECEIVERS_TRIED_MAX = 32
"""Maximum number of brokers that are tried as the target of a replica, the least loaded first. Limits the work in a cluster of hundreds of brokers."""
ATTEMPTS_MAX = 200_000
"""Maximum number of attempted changes and, in sixteens, of listed candidates per goal in the greedy part, about a second. If failure domains reject most changes, a cluster of 100,000
partitions would need far more."""


def propose(
    partitions: Sequence[PlannerPartition],
    brokers: Sequence[PlannerBroker],
    goals: Sequence[str] = GOALS,
    tolerance: float = TOLERANCE_DEFAULT,
) -> Balance:
    """`goals` are of GOALS, the most important first. Raises Rejected for an unknown goal or an invalid tolerance."""
    if unknown := [g for g in goals if g not in GOALS]:
        raise Rejected(
            sentence("Unknown goal {unknown}; use {allowed}.", unknown=repr(unknown[0]), allowed=", ".join(GOALS)),
            "goals",
        )
    if not 0.01 <= tolerance <= 1:
        raise Rejected(
            sentence("Tolerance {tolerance} is out of range; use 0.01 to 1.", tolerance=tolerance), "tolerance"
        )
    views = sorted(partitions, key=lambda p: (p.topic, p.partition))
    known = {b.broker_id: b for b in sorted(brokers, key=lambda b: b.broker_id)}
    open_ = tuple(b for b, v in known.items() if v.open)
    work = BalanceState(views, known, open_, tolerance, [list(v.replicas) for v in views])
    work.count()
    before = _loads(work)
    requested = [Goal(g) for g in dict.fromkeys(goals)]
    initial = (
        {g: _shared_racks_avoidable(work) if g == Goal.RACK else work.furthest(g) for g in requested} if open_ else {}
    )
    obstacles: dict[Goal, Obstacle | None] = dict.fromkeys(requested, Obstacle.TOO_FEW_BROKERS)
    if len(open_) > 1:
        kept: list[Goal] = []
        for goal in requested:
            if goal == Goal.RACK:
                obstacles[goal] = _spread_racks(work, kept)
                if not kept:
                    work.limits.clear()  # some load may have moved off brokers that are not open
            else:
                _spread(work, goal, kept)
                obstacles[goal] = balance_search.improve(work, goal, kept)
                kept.append(goal)
    changes = tuple(
        PlacementChange(v.topic, v.partition, v.replicas, tuple(placed), v.size_bytes)
        for v, placed in zip(views, work.placed, strict=True)
        if tuple(placed) != v.replicas
    )
    results = [_result(work, goal, initial[goal], obstacles[goal]) for goal in requested if open_]
    return Balance(changes, before, _loads(work), tuple(results), _notes(work, len(open_)))


def _spread(work: BalanceState, goal: Goal, current: Sequence[Goal]) -> None:
    """Move load off overloaded brokers first, then onto underloaded brokers, each only as far as the bounds. `current`: goals whose bounds
    must be kept."""
    work.attempts = 0
    low, high = work.bounds(goal)
    of = work.load[goal]
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if of[donor] > high:
            _move_off(work, goal, donor, current, until=high, floor=low, ceiling=high)
    for needy in sorted(work.open, key=lambda b: (of[b], b)):
        if of[needy] < low:
            _move_onto(work, goal, needy, current, low, high)


def _move_off(
    work: BalanceState,
    goal: Goal,
    donor: int,
    current: Sequence[Goal],
    *,
    until: float,
    floor: float,
    ceiling: float,
    only: int | None = None,
) -> None:
    """Move load off `donor` until it carries at most `until`. With `only`: move it to that broker alone, until that broker carries `floor`."""
    of = work.load[goal]
    if work.attempts >= ATTEMPTS_MAX:
        return
    work.attempts += len(work.spots[donor]) // 16
    for i in _candidates(work, goal, donor):
        if work.attempts >= ATTEMPTS_MAX or ((of[donor] <= until) if only is None else (of[only] >= floor)):
            return
        weight = work.weight(goal, i)
        if not weight or of[donor] - weight < floor:
            continue
        receivers = (only,) if only is not None else _receivers(work, goal, i, donor)
        for new in receivers:
            if of[new] + weight <= ceiling and _move(work, goal, i, donor, new, current):
                break


def _move_onto(work: BalanceState, goal: Goal, needy: int, current: Sequence[Goal], low: float, high: float) -> None:
    of = work.load[goal]
    mean = work.mean(goal)
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if work.attempts >= ATTEMPTS_MAX or of[needy] >= low or of[donor] <= mean:
            return
        _move_off(work, goal, donor, current, until=mean, floor=low, ceiling=high, only=needy)


def _candidates(work: BalanceState, goal: Goal, donor: int) -> Iterator[int]:
    """Partitions whose move reduces the load of `donor`. For bytes and traffic the largest first, which needs the fewest moves; for counts
    the smallest first."""
    movable = (i for i in work.spots[donor] if work.movable(i))
    if goal in LED:
        mine = [i for i in movable if work.placed[i][0] == donor]
        return iter(sorted(mine, key=lambda i: (-work.weight(goal, i), i)))
    if goal == Goal.DISK:
        return iter(sorted(movable, key=lambda i: (-work.weight(Goal.DISK, i), i)))
    return iter(sorted(movable, key=lambda i: (work.weight(Goal.DISK, i), i)))


def _receivers(work: BalanceState, goal: Goal, i: int, donor: int) -> list[int]:
    of = work.load[goal]
    among = work.placed[i][1:] if goal in LED else work.open
    fit = [b for b in among if b != donor and b in work.load[goal] and work.brokers[b].open]
    return sorted(fit, key=lambda b: (of[b], b))[:RECEIVERS_TRIED_MAX]


def _move(work: BalanceState, goal: Goal, i: int, old: int, new: int, current: Sequence[Goal]) -> bool:
    """Apply the move if the hard rules and the earlier goals allow it."""
    work.attempts += 1
    if goal in LED:
        # A new order changes neither replicas nor bytes.
        if new not in work.placed[i] or not work.may_lead(i, new):
            return False
        if not _keeps(work, [g for g in current if g in LED], i, old, new):
            return False
        work.lead(i, new)
        return True
    leads = work.placed[i][0] == old
    if not work.may_replace(i, old, new) or not _keeps(work, current, i, old, new, leads=leads):
        return False
    work.replace(i, old, new)
    return True


def _keeps(work: BalanceState, current: Sequence[Goal], i: int, old: int, new: int, *, leads: bool = True) -> bool:
    """Return whether no broker leaves the bounds of an earlier goal, or moves further out of them."""
    for goal in current:
        if goal in LED and not leads:
            continue
        low, high = work.bounds(goal)
        weight, of = work.weight(goal, i), work.load[goal]
        if weight and (of[new] + weight > high or (old in work.open and of[old] - weight < low)):
            return False
    return True


# -- racks ---------------------------------------------------------------------------------------------------------------------
def _shared_racks_avoidable(work: BalanceState) -> int:
    """Number of partitions with two replicas in one rack although an open rack has none."""
    racks = {work.rack(b) for b in work.open} - {None}
    count = 0
    for replicas in work.placed:
        of = [work.rack(b) for b in replicas]
        count += bool(racks_in_common(of) and racks - set(of))
    return count


def _spread_racks(work: BalanceState, current: Sequence[Goal]) -> Obstacle | None:
    """`current`: goals whose bounds must be kept and whose means must not change. Returns the most frequent reason why a replica stays in a shared
    rack, None if none does."""
    racks = {work.rack(b) for b in work.open} - {None}
    stays: Counter[Obstacle] = Counter()
    for i, replicas in enumerate(work.placed):
        for place in range(len(replicas) - 1, -1, -1):
            of = [work.rack(b) for b in replicas]
            if of[place] is None or of.count(of[place]) < 2 or not racks - set(of):
                continue
            rejected = _change_rack(work, i, place, racks - set(of), current)
            if rejected is not None:
                stays[rejected] += 1
    order = list(Obstacle)
    return min(stays, key=lambda r: (-stays[r], order.index(r))) if stays else None


def _change_rack(
    work: BalanceState, i: int, place: int, racks: set[str | None], earlier_goals: Sequence[Goal]
) -> Obstacle | None:
    """Move this replica to a broker of one of `racks`. Returns the most frequent reason if no broker may take it."""
    if not work.movable(i):
        return Obstacle.PARTITIONS_FIXED
    old = work.placed[i][place]
    rejected: list[Obstacle] = []
    fit = [b for b in work.open if work.rack(b) in racks]
    for new in sorted(fit, key=lambda b: (work.load[Goal.REPLICAS][b], b)):
        if earlier_goals and not (old in work.open and _keeps(work, earlier_goals, i, old, new, leads=place == 0)):
            rejected.append(Obstacle.EARLIER_GOAL)
        elif reason := work.rejection(i, old, new):
            rejected.append(reason)
        else:
            work.replace(i, old, new)
            return None
    return max(rejected, key=rejected.count)


# -- results -----------------------------------------------------------------------------------------------------------
def _result(work: BalanceState, goal: Goal, before: float, obstacle: Obstacle | None) -> GoalResult:
    after = _shared_racks_avoidable(work) if goal == Goal.RACK else work.furthest(goal)
    reached = not after if goal == Goal.RACK else work.within(goal)
    if reached or obstacle is None:
        return GoalResult(goal, round(before, 1), round(after, 1), reached)
    return GoalResult(goal, round(before, 1), round(after, 1), reached, obstacle, *OBSTACLE_TEXTS[obstacle])


def _loads(work: BalanceState) -> tuple[Load, ...]:
    of = work.load
    return tuple(
        Load(
            b, int(of[Goal.REPLICAS][b]), int(of[Goal.LEADERS][b]), int(of[Goal.DISK][b]), round(of[Goal.TRAFFIC][b], 1)
        )
        for b in work.brokers
    )


def _notes(work: BalanceState, open_: int) -> tuple[Note, ...]:
    out = []
    if open_ < 2:
        out.append(Note.of(NoteCode.TOO_FEW_BROKERS, open_))
    if sizeless := sum(1 for v in work.views if v.size_bytes is None):
        out.append(Note.of(NoteCode.SIZES_UNKNOWN, sizeless))
    if fixed := sum(1 for i in range(len(work.views)) if not work.movable(i)):
        out.append(Note.of(NoteCode.PARTITIONS_FIXED, fixed))
    if closed := tuple(b for b, v in work.brokers.items() if not v.open):
        out.append(Note.of(NoteCode.BROKERS_CLOSED, len(closed), closed))
    return tuple(out)
