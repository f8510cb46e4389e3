"""Proposals to rebalance a cluster: a placement with a more even load, and the load of each broker before and after. Pure functions.

Hard rules: two replicas of a partition are never in one failure domain. No replica moves to a broker that is down, cordoned or short of disk
space. A partition that is being reassigned or is offline stays. The replication factor stays. No partition gets more replicas in one rack.

Soft goals are applied in the requested order. A later goal never moves a broker out of the bounds of an earlier goal. Moves are few: only
load outside the bounds moves, and only as far as the bounds. Leaders and traffic are balanced by a new order of replicas, which copies no data.
The same cluster always gives the same proposal.

Not implemented: a swap of two replicas that cannot move one at a time, and a search for a better solution after the first good one. Does not contain: the
database, the clock, the execution of moves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.domain.errors import Rejected
from controlplane.domain.planner_types import PlannerBroker, PlannerPartition
from controlplane.domain.text import count_text


class Goal(StrEnum):
    """Goals of a rebalance proposal, in the default order."""

    RACK = "rack"
    DISK = "disk"
    REPLICAS = "replicas"
    LEADERS = "leaders"
    TRAFFIC = "traffic"


GOALS = tuple(Goal)
COUNTED = (Goal.DISK, Goal.REPLICAS, Goal.LEADERS, Goal.TRAFFIC)
TOLERANCE_DEFAULT = 0.1
"""Allowed deviation from the mean, as a fraction. A closer fit moves much data for little gain."""
TIGHT = 0.8
"""Fraction of the free bytes of a broker. A replica that needs more causes a warning in a plan and is not proposed here."""
RECEIVERS_TRIED_MAX = 32
"""Maximum number of brokers that are tried as the target of a replica, the least loaded first. Limits the work in a cluster of hundreds of brokers."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one broker: replicas, leaders (first in the replica list), bytes of its replicas, records per second that it leads."""

    broker_id: int
    replicas: int
    leaders: int
    bytes: int
    records_per_s: float


@dataclass(frozen=True, slots=True)
class GoalResult:
    """Deviation over the brokers that accept replicas: the largest distance from the mean in per cent, before and after. For `rack`: number of
    partitions that share a rack unnecessarily. `reached`: all brokers are within the bounds afterwards."""

    goal: Goal
    before: float
    after: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Relocated:
    """`replicas_to` is in order, the preferred leader first. A new order of the same brokers copies no data."""

    topic: str
    partition: int
    replicas_from: tuple[int, ...]
    replicas_to: tuple[int, ...]
    size_bytes: int | None

    @property
    def copies(self) -> int:
        return len(set(self.replicas_to) - set(self.replicas_from))


@dataclass(frozen=True, slots=True)
class Balance:
    changes: tuple[Relocated, ...]
    before: tuple[Load, ...]
    after: tuple[Load, ...]
    goals: tuple[GoalResult, ...]
    notes: tuple[str, ...]

    @property
    def bytes_to_copy(self) -> int:
        """Bytes of the new replicas, of partitions with a known size."""
        return sum((c.size_bytes or 0) * c.copies for c in self.changes)


@dataclass(slots=True)
class _Work:
    """The cluster after the changes so far. `spots[b]`: partitions with a replica on broker b, as indexes into `views`."""

    views: Sequence[PlannerPartition]
    brokers: Mapping[int, PlannerBroker]
    open: tuple[int, ...]
    tolerance: float
    placed: list[list[int]]
    spots: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    load: dict[Goal, dict[int, float]] = field(default_factory=dict)
    received_bytes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    limits: dict[Goal, tuple[float, float]] = field(default_factory=dict)
    """Bounds per goal. They are cached, because the mean does not change while load moves only between open brokers."""

    def count(self) -> None:
        self.load = {goal: dict.fromkeys(self.brokers, 0.0) for goal in COUNTED}
        for i, replicas in enumerate(self.placed):
            for place, b in enumerate(replicas):
                self.spots[b].add(i)
                self._add(i, b, 1, leads=place == 0)

    def _add(self, i: int, b: int, sign: int, *, leads: bool) -> None:
        for goal in COUNTED:
            if leads or goal in (Goal.DISK, Goal.REPLICAS):
                of = self.load[goal]
                of[b] = of.get(b, 0.0) + sign * self.weight(goal, i)

    def weight(self, goal: Goal, i: int) -> float:
        match goal:
            case Goal.DISK:
                return float(self.views[i].size_bytes or 0)
            case Goal.TRAFFIC:
                return self.views[i].records_per_s
            case _:
                return 1.0

    def mean(self, goal: Goal) -> float:
        of = self.load[goal]
        return sum(of[b] for b in self.open) / len(self.open)

    def bounds(self, goal: Goal) -> tuple[float, float]:
        if goal in self.limits:
            return self.limits[goal]
        mean = self.mean(goal)
        low, high = mean * (1 - self.tolerance), mean * (1 + self.tolerance)
        if goal in (Goal.REPLICAS, Goal.LEADERS):
            low, high = min(math.floor(mean), math.ceil(low)), max(math.ceil(mean), math.floor(high))
        out = (low, high)
        self.limits[goal] = out
        return out

    def furthest(self, goal: Goal) -> float:
        mean = self.mean(goal)
        return max((abs(self.load[goal][b] - mean) / mean * 100 for b in self.open), default=0.0) if mean else 0.0

    def within(self, goal: Goal) -> bool:
        low, high = self.bounds(goal)
        return all(low <= self.load[goal][b] <= high for b in self.open)

    # -- allowed changes --------------------------------------------------------------------------------------------------
    def domain(self, b: int) -> str | None:
        known = self.brokers.get(b)
        return known.failure_domain if known is not None else None

    def rack(self, b: int) -> str | None:
        known = self.brokers.get(b)
        return known.rack if known is not None else None

    def movable(self, i: int) -> bool:
        v = self.views[i]
        return not v.reassigning and bool(v.isr) and v.leader is not None

    def may_replace(self, i: int, old: int, new: int) -> bool:
        replicas, size = self.placed[i], self.views[i].size_bytes or 0
        if new in replicas:
            return False
        rest = [b for b in replicas if b != old]
        domain = self.domain(new)
        if domain is not None and any(self.domain(b) == domain for b in rest):
            return False
        free = self.brokers[new].free_bytes
        if free is not None and new not in self.views[i].replicas and self.received_bytes[new] + size > free * TIGHT:
            return False
        return _racks_in_common([self.rack(b) for b in (*rest, new)]) <= _racks_in_common(
            [self.rack(b) for b in replicas]
        )

    def replace(self, i: int, old: int, new: int) -> None:
        place = self.placed[i].index(old)
        self._add(i, old, -1, leads=place == 0)
        self._add(i, new, 1, leads=place == 0)
        self.placed[i][place] = new
        self.spots[old].discard(i)
        self.spots[new].add(i)
        for b, sign in ((new, 1), (old, -1)):
            if b not in self.views[i].replicas:
                self.received_bytes[b] += sign * (self.views[i].size_bytes or 0)

    def lead(self, i: int, new: int) -> None:
        replicas = self.placed[i]
        old, place = replicas[0], replicas.index(new)
        for goal in (Goal.LEADERS, Goal.TRAFFIC):
            self.load[goal][old] = self.load[goal].get(old, 0.0) - self.weight(goal, i)
            self.load[goal][new] += self.weight(goal, i)
        replicas[0], replicas[place] = new, old


def propose(
    partitions: Sequence[PlannerPartition],
    brokers: Sequence[PlannerBroker],
    goals: Sequence[str] = GOALS,
    tolerance: float = TOLERANCE_DEFAULT,
) -> Balance:
    """`goals` are of GOALS, the most important first. Raises Rejected for an unknown goal or an invalid tolerance."""
    if unknown := [g for g in goals if g not in GOALS]:
        raise Rejected(f"Unknown goal {unknown[0]!r}; use {', '.join(GOALS)}.", "goals")
    if not 0.01 <= tolerance <= 1:
        raise Rejected(f"Tolerance {tolerance} is out of range; use 0.01 to 1.", "tolerance")
    views = sorted(partitions, key=lambda p: (p.topic, p.partition))
    known = {b.broker_id: b for b in sorted(brokers, key=lambda b: b.broker_id)}
    open_ = tuple(b for b, v in known.items() if v.open)
    work = _Work(views, known, open_, tolerance, [list(v.replicas) for v in views])
    work.count()
    before = _loads(work)
    requested = [Goal(g) for g in dict.fromkeys(goals)]
    initial = {g: _needless(work) if g == Goal.RACK else work.furthest(g) for g in requested} if open_ else {}
    if len(open_) > 1:
        kept: list[Goal] = []
        for goal in requested:
            if goal == Goal.RACK:
                _spread_racks(work, kept)
                if not kept:
                    work.limits.clear()  # some load may have moved off brokers that are not open
            else:
                _spread(work, goal, kept)
                kept.append(goal)
    changes = tuple(
        Relocated(v.topic, v.partition, v.replicas, tuple(placed), v.size_bytes)
        for v, placed in zip(views, work.placed, strict=True)
        if tuple(placed) != v.replicas
    )
    results = []
    for goal in requested if open_ else []:
        after = _needless(work) if goal == Goal.RACK else work.furthest(goal)
        results.append(
            GoalResult(
                goal, round(initial[goal], 1), round(after, 1), not after if goal == Goal.RACK else work.within(goal)
            )
        )
    return Balance(changes, before, _loads(work), tuple(results), _notes(work, len(open_)))


def _spread(work: _Work, goal: Goal, kept: Sequence[Goal]) -> None:
    """Move load off overloaded brokers first, then onto underloaded brokers, each only as far as the bounds. `kept`: goals whose bounds
    must be kept."""
    low, high = work.bounds(goal)
    of = work.load[goal]
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if of[donor] > high:
            _give(work, goal, donor, kept, until=high, floor=low, ceiling=high)
    for needy in sorted(work.open, key=lambda b: (of[b], b)):
        if of[needy] < low:
            _take(work, goal, needy, kept, low, high)


def _give(
    work: _Work,
    goal: Goal,
    donor: int,
    kept: Sequence[Goal],
    *,
    until: float,
    floor: float,
    ceiling: float,
    only: int | None = None,
) -> None:
    """Move load off `donor` until it carries at most `until`. With `only`: move it to that broker alone, until that broker carries `floor`."""
    of = work.load[goal]
    for i in _candidates(work, goal, donor):
        if (of[donor] <= until) if only is None else (of[only] >= floor):
            return
        weight = work.weight(goal, i)
        if not weight or of[donor] - weight < floor:
            continue
        receivers = (only,) if only is not None else _receivers(work, goal, i, donor)
        for new in receivers:
            if of[new] + weight <= ceiling and _move(work, goal, i, donor, new, kept):
                break


def _take(work: _Work, goal: Goal, needy: int, kept: Sequence[Goal], low: float, high: float) -> None:
    of = work.load[goal]
    mean = work.mean(goal)
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if of[needy] >= low or of[donor] <= mean:
            return
        _give(work, goal, donor, kept, until=mean, floor=low, ceiling=high, only=needy)


def _candidates(work: _Work, goal: Goal, donor: int) -> Iterator[int]:
    """Partitions whose move reduces the load of `donor`. For bytes and traffic the largest first, which needs the fewest moves; for counts
    the smallest first."""
    movable = (i for i in work.spots[donor] if work.movable(i))
    if goal in (Goal.LEADERS, Goal.TRAFFIC):
        mine = [i for i in movable if work.placed[i][0] == donor]
        return iter(sorted(mine, key=lambda i: (-work.weight(goal, i), i)))
    if goal == Goal.DISK:
        return iter(sorted(movable, key=lambda i: (-work.weight(Goal.DISK, i), i)))
    return iter(sorted(movable, key=lambda i: (work.weight(Goal.DISK, i), i)))


def _receivers(work: _Work, goal: Goal, i: int, donor: int) -> list[int]:
    of = work.load[goal]
    among = work.placed[i][1:] if goal in (Goal.LEADERS, Goal.TRAFFIC) else work.open
    fit = [b for b in among if b != donor and b in work.load[goal] and work.brokers[b].open]
    return sorted(fit, key=lambda b: (of[b], b))[:RECEIVERS_TRIED_MAX]


def _move(work: _Work, goal: Goal, i: int, old: int, new: int, kept: Sequence[Goal]) -> bool:
    """Apply the move if the hard rules and the earlier goals allow it."""
    if goal in (Goal.LEADERS, Goal.TRAFFIC):
        # A new order changes neither replicas nor bytes. Only an in-sync replica may become first, because the preferred leader must be able to lead.
        if new not in work.placed[i] or (new not in work.views[i].isr and new in work.views[i].replicas):
            return False
        if not _keeps(work, [g for g in kept if g in (Goal.LEADERS, Goal.TRAFFIC)], i, old, new):
            return False
        work.lead(i, new)
        return True
    leads = work.placed[i][0] == old
    if not work.may_replace(i, old, new) or not _keeps(work, kept, i, old, new, leads=leads):
        return False
    work.replace(i, old, new)
    return True


def _keeps(work: _Work, kept: Sequence[Goal], i: int, old: int, new: int, *, leads: bool = True) -> bool:
    """Return whether no broker leaves the bounds of an earlier goal, or moves further out of them."""
    for goal in kept:
        if goal in (Goal.LEADERS, Goal.TRAFFIC) and not leads:
            continue
        low, high = work.bounds(goal)
        weight, of = work.weight(goal, i), work.load[goal]
        if weight and (of[new] + weight > high or (old in work.open and of[old] - weight < low)):
            return False
    return True


# -- racks ---------------------------------------------------------------------------------------------------------------------
def _racks_in_common(racks: Sequence[str | None]) -> int:
    known = [r for r in racks if r is not None]
    return len(known) - len(set(known))


def _needless(work: _Work) -> int:
    """Number of partitions with two replicas in one rack although an open rack has none."""
    racks = {work.rack(b) for b in work.open} - {None}
    count = 0
    for replicas in work.placed:
        of = [work.rack(b) for b in replicas]
        count += bool(_racks_in_common(of) and racks - set(of))
    return count


def _spread_racks(work: _Work, kept: Sequence[Goal]) -> None:
    """`kept`: goals whose bounds must be kept and whose means must not change."""
    racks = {work.rack(b) for b in work.open} - {None}
    for i, replicas in enumerate(work.placed):
        if not work.movable(i):
            continue
        for place in range(len(replicas) - 1, -1, -1):
            of = [work.rack(b) for b in replicas]
            if of[place] is None or of.count(of[place]) < 2 or not racks - set(of):
                continue
            fit = [b for b in work.open if work.rack(b) in racks - set(of)]
            fit.sort(key=lambda b: (work.load[Goal.REPLICAS][b], b))
            old = replicas[place]
            if kept:
                leads = place == 0
                fit = [b for b in fit if old in work.open and _keeps(work, kept, i, old, b, leads=leads)]
            new = next((b for b in fit if work.may_replace(i, old, b)), None)
            if new is not None:
                work.replace(i, old, new)


# -- results -----------------------------------------------------------------------------------------------------------
def _loads(work: _Work) -> tuple[Load, ...]:
    of = work.load
    return tuple(
        Load(
            b, int(of[Goal.REPLICAS][b]), int(of[Goal.LEADERS][b]), int(of[Goal.DISK][b]), round(of[Goal.TRAFFIC][b], 1)
        )
        for b in work.brokers
    )


def _notes(work: _Work, open_: int) -> tuple[str, ...]:
    out = []
    if open_ < 2:
        out.append(f"{open_ or 'No'} broker is alive and not cordoned: a rebalance needs two.")
    if sizeless := sum(1 for v in work.views if v.size_bytes is None):
        out.append(f"The size of {count_text(sizeless, 'partition')} is unknown; their size counts as 0.")
    if fixed := sum(1 for i in range(len(work.views)) if not work.movable(i)):
        out.append(
            f"{count_text(fixed, 'partition is', 'partitions are')} being reassigned or offline and stay unchanged."
        )
    if aside := [b for b, v in work.brokers.items() if not v.open]:
        out.append(f"Brokers {', '.join(map(str, aside))} are down or cordoned: they get no replicas and keep theirs.")
    return tuple(out)
