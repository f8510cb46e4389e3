"""Proposals to rebalance a cluster: pure. From what every broker carries to a placement that spreads it better, with before and after per broker.

Hard rules: no two replicas of a partition in one failure domain, nothing onto a broker that is down, cordoned or short of room, nothing of a
partition that is being reassigned or offline, no other number of replicas, nobody's racks made worse. Soft goals in the order they are asked
for; a later one never takes a broker out of the bounds that an earlier one wants. Moves are few: only what lies outside of the bounds goes, and
only as far as to come inside; leaders and traffic are spread by reordering replicas, which copies nothing. The same cluster gives the same
proposal. Called by `services.rebalancing`. Must not come in: the database, the clock, how a move runs.

Does not: swap two replicas where neither could go alone; leave its first good solution for a better one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.placed import BrokerView, PartitionView
from controlplane.words import some

RACK, DISK, REPLICAS, LEADERS, TRAFFIC = "rack", "disk", "replicas", "leaders", "traffic"
GOALS = (RACK, DISK, REPLICAS, LEADERS, TRAFFIC)
"""The order in which they hold when nobody asks for another."""
COUNTED = (DISK, REPLICAS, LEADERS, TRAFFIC)
TOLERANCE_DEFAULT = 0.1
"""Share of the mean by which a broker may lie beside it: a closer fit moves much for little."""
TIGHT = 0.8
"""Share of a broker's free bytes that a copy may take before it is worth a warning, and is not proposed."""
RECEIVERS_TRIED_MAX = 32
"""Brokers asked, least loaded first, before a replica is left where it is: bounds the work in a cluster of hundreds."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one broker carries: replicas, leaders (first of the replicas), bytes held, records per second that it leads."""

    broker_id: int
    replicas: int
    leaders: int
    bytes: int
    records_per_s: float


@dataclass(frozen=True, slots=True)
class GoalResult:
    """Of the brokers that may be given replicas: the furthest from the mean, in per cent of it, before and after (of `rack`: partitions that
    share a rack needlessly). `reached`: all are within the bounds now."""

    goal: str
    before: float
    after: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Relocated:
    """`replicas_to` in order, the preferred leader first. The same brokers in another order copy nothing."""

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
        """Of those whose size is known."""
        return sum((c.size_bytes or 0) * c.copies for c in self.changes)


@dataclass(slots=True)
class _Work:
    """The cluster as it would be. `spots[b]`: partitions with a replica on b, by their place in `views`."""

    views: Sequence[PartitionView]
    brokers: Mapping[int, BrokerView]
    open: tuple[int, ...]
    tolerance: float
    placed: list[list[int]]
    spots: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    load: dict[str, dict[int, float]] = field(default_factory=dict)
    came: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Bounds per goal: the mean does not change while what open brokers carry stays among them."""

    def count(self) -> None:
        self.load = {goal: dict.fromkeys(self.brokers, 0.0) for goal in COUNTED}
        for i, replicas in enumerate(self.placed):
            for place, b in enumerate(replicas):
                self.spots[b].add(i)
                self._add(i, b, 1, leads=place == 0)

    def _add(self, i: int, b: int, sign: int, *, leads: bool) -> None:
        for goal in COUNTED:
            if leads or goal in (DISK, REPLICAS):
                of = self.load[goal]
                of[b] = of.get(b, 0.0) + sign * self.weight(goal, i)

    def weight(self, goal: str, i: int) -> float:
        match goal:
            case "disk":
                return float(self.views[i].size_bytes or 0)
            case "traffic":
                return self.views[i].records_per_s
            case _:
                return 1.0

    def mean(self, goal: str) -> float:
        of = self.load[goal]
        return sum(of[b] for b in self.open) / len(self.open)

    def bounds(self, goal: str) -> tuple[float, float]:
        if goal in self.limits:
            return self.limits[goal]
        mean = self.mean(goal)
        low, high = mean * (1 - self.tolerance), mean * (1 + self.tolerance)
        if goal in (REPLICAS, LEADERS):
            low, high = min(math.floor(mean), math.ceil(low)), max(math.ceil(mean), math.floor(high))
        out = (low, high)
        self.limits[goal] = out
        return out

    def furthest(self, goal: str) -> float:
        mean = self.mean(goal)
        return max((abs(self.load[goal][b] - mean) / mean * 100 for b in self.open), default=0.0) if mean else 0.0

    def within(self, goal: str) -> bool:
        low, high = self.bounds(goal)
        return all(low <= self.load[goal][b] <= high for b in self.open)

    # -- what may go where -----------------------------------------------------------------------------------------------
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
        if free is not None and new not in self.views[i].replicas and self.came[new] + size > free * TIGHT:
            return False
        return _shared([self.rack(b) for b in (*rest, new)]) <= _shared([self.rack(b) for b in replicas])

    def replace(self, i: int, old: int, new: int) -> None:
        place = self.placed[i].index(old)
        self._add(i, old, -1, leads=place == 0)
        self._add(i, new, 1, leads=place == 0)
        self.placed[i][place] = new
        self.spots[old].discard(i)
        self.spots[new].add(i)
        for b, sign in ((new, 1), (old, -1)):
            if b not in self.views[i].replicas:
                self.came[b] += sign * (self.views[i].size_bytes or 0)

    def lead(self, i: int, new: int) -> None:
        replicas = self.placed[i]
        old, place = replicas[0], replicas.index(new)
        for goal in (LEADERS, TRAFFIC):
            self.load[goal][old] = self.load[goal].get(old, 0.0) - self.weight(goal, i)
            self.load[goal][new] += self.weight(goal, i)
        replicas[0], replicas[place] = new, old


def propose(
    partitions: Sequence[PartitionView],
    brokers: Sequence[BrokerView],
    goals: Sequence[str] = GOALS,
    tolerance: float = TOLERANCE_DEFAULT,
) -> Balance:
    """`goals` out of GOALS, the most important first. Raises ValueError for what is no goal or no tolerance."""
    if strange := [g for g in goals if g not in GOALS]:
        raise ValueError(f"{strange[0]!r} is no goal; use {', '.join(GOALS)}")
    if not 0.01 <= tolerance <= 1:
        raise ValueError(f"a tolerance of {tolerance} cannot be meant; use 0.01 to 1")
    views = sorted(partitions, key=lambda p: (p.topic, p.partition))
    known = {b.broker_id: b for b in sorted(brokers, key=lambda b: b.broker_id)}
    open_ = tuple(b for b, v in known.items() if v.open)
    work = _Work(views, known, open_, tolerance, [list(v.replicas) for v in views])
    work.count()
    before = _loads(work)
    wanted = list(dict.fromkeys(goals))
    asked = {g: _needless(work) if g == RACK else work.furthest(g) for g in wanted} if open_ else {}
    if len(open_) > 1:
        held: list[str] = []
        for goal in wanted:
            if goal == RACK:
                _spread_racks(work, held)
                if not held:
                    work.limits.clear()  # some may have come from brokers that are not open
            else:
                _spread(work, goal, held)
                held.append(goal)
    changes = tuple(
        Relocated(v.topic, v.partition, v.replicas, tuple(placed), v.size_bytes)
        for v, placed in zip(views, work.placed, strict=True)
        if tuple(placed) != v.replicas
    )
    results = []
    for goal in wanted if open_ else []:
        after = _needless(work) if goal == RACK else work.furthest(goal)
        results.append(
            GoalResult(goal, round(asked[goal], 1), round(after, 1), not after if goal == RACK else work.within(goal))
        )
    return Balance(changes, before, _loads(work), tuple(results), _notes(work, len(open_)))


def _spread(work: _Work, goal: str, held: Sequence[str]) -> None:
    """Off who carries too much first, onto who carries too little then: each only as far as the bounds. `held`: goals whose bounds hold."""
    low, high = work.bounds(goal)
    of = work.load[goal]
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if of[donor] > high:
            _give(work, goal, donor, held, until=high, floor=low, ceiling=high)
    for needy in sorted(work.open, key=lambda b: (of[b], b)):
        if of[needy] < low:
            _take(work, goal, needy, held, low, high)


def _give(
    work: _Work, goal: str, donor: int, held: Sequence[str], *, until: float, floor: float, ceiling: float,
    only: int | None = None,
) -> None:  # fmt: skip
    """Move from `donor` until it carries no more than `until` (with `only`: to that broker alone, until it carries `floor`)."""
    of = work.load[goal]
    for i in _candidates(work, goal, donor):
        if (of[donor] <= until) if only is None else (of[only] >= floor):
            return
        weight = work.weight(goal, i)
        if not weight or of[donor] - weight < floor:
            continue
        receivers = (only,) if only is not None else _receivers(work, goal, i, donor)
        for new in receivers:
            if of[new] + weight <= ceiling and _move(work, goal, i, donor, new, held):
                break


def _take(work: _Work, goal: str, needy: int, held: Sequence[str], low: float, high: float) -> None:
    of = work.load[goal]
    mean = work.mean(goal)
    for donor in sorted(work.open, key=lambda b: (-of[b], b)):
        if of[needy] >= low or of[donor] <= mean:
            return
        _give(work, goal, donor, held, until=mean, floor=low, ceiling=high, only=needy)


def _candidates(work: _Work, goal: str, donor: int) -> Iterator[int]:
    """Partitions on it that could relieve it: for bytes and traffic the heaviest first, which takes the fewest; for counts the lightest copy."""
    movable = (i for i in work.spots[donor] if work.movable(i))
    if goal in (LEADERS, TRAFFIC):
        mine = [i for i in movable if work.placed[i][0] == donor]
        return iter(sorted(mine, key=lambda i: (-work.weight(goal, i), i)))
    if goal == DISK:
        return iter(sorted(movable, key=lambda i: (-work.weight(DISK, i), i)))
    return iter(sorted(movable, key=lambda i: (work.weight(DISK, i), i)))


def _receivers(work: _Work, goal: str, i: int, donor: int) -> list[int]:
    of = work.load[goal]
    among = work.placed[i][1:] if goal in (LEADERS, TRAFFIC) else work.open
    fit = [b for b in among if b != donor and b in work.load[goal] and work.brokers[b].open]
    return sorted(fit, key=lambda b: (of[b], b))[:RECEIVERS_TRIED_MAX]


def _move(work: _Work, goal: str, i: int, old: int, new: int, held: Sequence[str]) -> bool:
    """Do it where the rules and the goals before allow it."""
    if goal in (LEADERS, TRAFFIC):
        # A reordering touches nobody's replicas or bytes. It may lead who is in sync only: the preferred leader is to lead.
        if new not in work.placed[i] or (new not in work.views[i].isr and new in work.views[i].replicas):
            return False
        if not _keeps(work, [g for g in held if g in (LEADERS, TRAFFIC)], i, old, new):
            return False
        work.lead(i, new)
        return True
    leads = work.placed[i][0] == old
    if not work.may_replace(i, old, new) or not _keeps(work, held, i, old, new, leads=leads):
        return False
    work.replace(i, old, new)
    return True


def _keeps(work: _Work, held: Sequence[str], i: int, old: int, new: int, *, leads: bool = True) -> bool:
    """No broker leaves the bounds of a goal before, nor goes further out of them."""
    for goal in held:
        if goal in (LEADERS, TRAFFIC) and not leads:
            continue
        low, high = work.bounds(goal)
        weight, of = work.weight(goal, i), work.load[goal]
        if weight and (of[new] + weight > high or (old in work.open and of[old] - weight < low)):
            return False
    return True


# -- racks ---------------------------------------------------------------------------------------------------------------------
def _shared(racks: Sequence[str | None]) -> int:
    known = [r for r in racks if r is not None]
    return len(known) - len(set(known))


def _needless(work: _Work) -> int:
    """Partitions with two replicas in a rack though a rack without one is open."""
    racks = {work.rack(b) for b in work.open} - {None}
    count = 0
    for replicas in work.placed:
        of = [work.rack(b) for b in replicas]
        count += bool(_shared(of) and racks - set(of))
    return count


def _spread_racks(work: _Work, held: Sequence[str]) -> None:
    """`held`: goals whose bounds hold, and whose means are not to change."""
    racks = {work.rack(b) for b in work.open} - {None}
    for i, replicas in enumerate(work.placed):
        if not work.movable(i):
            continue
        for place in range(len(replicas) - 1, -1, -1):
            of = [work.rack(b) for b in replicas]
            if of[place] is None or of.count(of[place]) < 2 or not racks - set(of):
                continue
            fit = [b for b in work.open if work.rack(b) in racks - set(of)]
            fit.sort(key=lambda b: (work.load[REPLICAS][b], b))
            old = replicas[place]
            if held:
                leads = place == 0
                fit = [b for b in fit if old in work.open and _keeps(work, held, i, old, b, leads=leads)]
            new = next((b for b in fit if work.may_replace(i, old, b)), None)
            if new is not None:
                work.replace(i, old, new)


# -- what is told ---------------------------------------------------------------------------------------------------------------
def _loads(work: _Work) -> tuple[Load, ...]:
    of = work.load
    return tuple(
        Load(b, int(of[REPLICAS][b]), int(of[LEADERS][b]), int(of[DISK][b]), round(of[TRAFFIC][b], 1))
        for b in work.brokers
    )


def _notes(work: _Work, open_: int) -> tuple[str, ...]:
    out = []
    if open_ < 2:
        out.append(f"{open_ or 'No'} broker is alive and not cordoned: there is nobody to spread over.")
    if sizeless := sum(1 for v in work.views if v.size_bytes is None):
        out.append(f"The size of {some(sizeless, 'partition')} is not known; such count as empty.")
    if fixed := sum(1 for i in range(len(work.views)) if not work.movable(i)):
        out.append(
            f"{some(fixed, 'partition is', 'partitions are')} being reassigned or offline, and kept where they are."
        )
    if aside := [b for b, v in work.brokers.items() if not v.open]:
        out.append(
            f"Brokers {', '.join(map(str, aside))} are down or cordoned: they are given nothing and keep what they have."
        )
    return tuple(out)
