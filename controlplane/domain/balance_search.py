"""The search that follows the greedy part of a rebalance proposal: single moves and swaps of two replicas that the greedy part does not make.

The measure of a goal is the sum over the open brokers of the squared distance of their load from the bounds. Invariants: each change is between
two brokers and strictly reduces the measure of its goal. Both loads are then strictly between the former loads of the two brokers, so the
largest distance never grows. No broker gets further out of the bounds of an earlier goal. The hard rules of `BalanceState` hold. The work is
limited by STEPS_MAX, and its order depends on the cluster only.

Not implemented: changes of three replicas in one step, and a change that makes the measure worse on the way to a better one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.domain.balance_state import BalanceState
from controlplane.domain.balance_types import LED, Goal, Obstacle

STEPS_MAX = 50_000
"""Maximum number of examined changes per goal, about half a second. A swap has two replicas, so a full search would be quadratic."""
BROKERS_TRIED_MAX = 32
"""Maximum number of donors and of receivers that are compared, those with the highest and the lowest load first."""
MOVES_TRIED_MAX = 64
"""Maximum number of single moves that are tried between two brokers, those with the best weight first."""
SWAPPED_TRIED_MAX = 64
"""Maximum number of partitions of the donor whose swap is tried between two brokers, evenly distributed over their weights."""
COUNTERPARTS_TRIED_MAX = 8
"""Maximum number of partitions that are tried in exchange for one partition, those with the best weight first."""
COPIED_PER_GAIN_MAX = 10
"""Maximum of copied bytes per byte of gain. The gain is the reduction of the larger distance of the two brokers. Without the limit, a swap of
two large replicas of nearly the same size would copy terabytes for some megabytes."""
LIST_ENTRIES_PER_STEP = 16
"""Entries of a list that is filtered or sorted, per step of the limit."""


class Exchange(NamedTuple):
    """Partition `out` moves from the donor to the receiver, and partition `back`, if any, from the receiver to the donor: replicas, or leadership."""

    out: int
    back: int | None = None


@dataclass(slots=True)
class _UnchangedPair:
    """A pair of brokers without a change: the versions of both at that time, and the rejected changes that would have helped."""

    versions: tuple[int, int]
    rejected: Counter[Obstacle]


@dataclass(slots=True)
class _Search:
    """`version[b]` counts the changes of broker b. `lists[b]`: (weight, partition) of what b can give, sorted."""

    state: BalanceState
    goal: Goal
    earlier_goals: Sequence[Goal]
    steps: int = 0
    version: Counter[int] = field(default_factory=Counter)
    lists: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    tried: dict[tuple[int, int, bool], _UnchangedPair] = field(default_factory=dict)
    rejected: Counter[Obstacle] = field(default_factory=Counter)

    # -- candidates ------------------------------------------------------------------------------------------------------
    def key(self, i: int) -> tuple[float, int]:
        return self.state.weight(self.goal, i), i

    def listed(self, b: int) -> list[tuple[float, int]]:
        if b not in self.lists:
            state = self.state
            mine = (i for i in state.spots[b] if state.movable(i) and (self.goal not in LED or state.placed[i][0] == b))
            self.lists[b] = sorted(map(self.key, mine))
            self.steps += len(self.lists[b]) // LIST_ENTRIES_PER_STEP
        return self.lists[b]

    def candidates(self, giver: int, taker: int) -> list[tuple[float, int]]:
        """Entries that `giver` could give to `taker` if only the placement counted, sorted by weight."""
        listed, placed = self.listed(giver), self.state.placed
        self.steps += len(listed) // LIST_ENTRIES_PER_STEP
        return [x for x in listed if (taker in placed[x[1]]) == (self.goal in LED)]

    # -- one change ------------------------------------------------------------------------------------------------------
    def rejection(self, broker_a: int, broker_b: int, change: Exchange, net: float) -> Obstacle | None:
        """Return why the change, whose weight `net` reduces the measure, is not permitted."""
        state, of = self.state, self.state.load[self.goal]
        for i, old, new in ((change.out, broker_a, broker_b), (change.back, broker_b, broker_a)):
            if i is None:
                continue
            if self.goal in LED:
                if not state.may_lead(i, new):
                    return Obstacle.NOT_IN_SYNC
            elif rejected := state.rejection(i, old, new):
                return rejected
        for goal in self.earlier_goals:
            flow = self._flow(goal, change.out, broker_a) - (
                self._flow(goal, change.back, broker_b) if change.back is not None else 0
            )
            loads = state.load[goal]
            for load, after in ((loads[broker_a], loads[broker_a] - flow), (loads[broker_b], loads[broker_b] + flow)):
                if flow and state.outside(goal, after) > state.outside(goal, load):
                    return Obstacle.EARLIER_GOAL
        if self.goal == Goal.DISK:
            copied = sum(state.views[i].size_bytes or 0 for i in change if i is not None)
            gain = self._furthest(of[broker_a], of[broker_b]) - self._furthest(of[broker_a] - net, of[broker_b] + net)
            if copied > gain * COPIED_PER_GAIN_MAX:
                return Obstacle.GAIN_TOO_SMALL
        return None

    def _flow(self, goal: Goal, i: int, old: int) -> float:
        """Weight that leaves `old` with partition `i`, by an earlier goal."""
        if goal in LED:
            return self.state.weight(goal, i) if self.state.placed[i][0] == old else 0.0
        return 0.0 if self.goal in LED else self.state.weight(goal, i)

    def _furthest(self, *loads: float) -> float:
        return max(self.state.outside(self.goal, x) for x in loads)

    def measure(self, *loads: float) -> float:
        return sum(self.state.outside(self.goal, x) ** 2 for x in loads)

    def reduction(self, a: int, b: int, net: float) -> float:
        """Reduction of the measure by a flow of `net` from a to b. 0 for a change below the precision of floats."""
        of = self.state.load[self.goal]
        if not 0 < net < of[a] - of[b]:
            return 0.0
        before = self.measure(of[a], of[b])
        reduced = before - self.measure(of[a] - net, of[b] + net)
        return reduced if reduced > before * 1e-9 else 0.0

    # -- pairs -----------------------------------------------------------------------------------------------------------
    def move(self, a: int, b: int) -> Exchange | None:
        found = self.candidates(a, b)
        half = (self.state.load[self.goal][a] - self.state.load[self.goal][b]) / 2
        for weight, i in _nearest(found, half, MOVES_TRIED_MAX):
            self.steps += 1
            if self.reduction(a, b, weight):
                rejected = self.rejection(a, b, Exchange(i), weight)
                if rejected is None:
                    return Exchange(i)
                self.rejected[rejected] += 1
        return None

    def swap(self, broker_a: int, broker_b: int) -> Exchange | None:
        """The swap of the largest reduction among those that are tried; of equal ones that with the smallest copies."""
        given, taken = self.candidates(broker_a, broker_b), self.candidates(broker_b, broker_a)
        if self.goal == Goal.DISK:
            # The cost of a replica of unknown size is unknown.
            given, taken = (
                [x for x in some if self.state.views[x[1]].size_bytes is not None] for some in (given, taken)
            )
        half = (self.state.load[self.goal][broker_a] - self.state.load[self.goal][broker_b]) / 2
        best: tuple[float, float, Exchange] | None = None
        for weight, i in given[:: -max(1, len(given) // SWAPPED_TRIED_MAX)]:
            for other, j in _nearest(taken, weight - half, COUNTERPARTS_TRIED_MAX):
                self.steps += 1
                reduced = self.reduction(broker_a, broker_b, weight - other)
                rank = (reduced, -weight - other)
                if not reduced or (best is not None and rank <= best[:2]):
                    continue
                rejected = self.rejection(broker_a, broker_b, Exchange(i, j), weight - other)
                if rejected is None:
                    best = (*rank, Exchange(i, j))
                else:
                    self.rejected[rejected] += 1
        return best[2] if best else None

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(donor, receiver) of which at least one is out of the bounds, the largest difference first."""
        of, open_ = self.state.load[self.goal], self.state.open
        receivers = sorted(open_, key=lambda b: (of[b], b))[:BROKERS_TRIED_MAX]
        for a in sorted(open_, key=lambda b: (-of[b], b))[:BROKERS_TRIED_MAX]:
            for b in receivers:
                if of[b] >= of[a]:
                    break
                if self._furthest(of[a], of[b]):
                    yield a, b

    def step(self, *, swaps: bool) -> bool:
        """Apply the first change that helps."""
        for broker_a, broker_b in self.pairs():
            if self.steps >= STEPS_MAX:
                return False
            versions = self.version[broker_a], self.version[broker_b]
            known = self.tried.get((broker_a, broker_b, swaps))
            if known is not None and known.versions == versions:
                continue
            self.rejected = Counter()
            change = self.swap(broker_a, broker_b) if swaps else self.move(broker_a, broker_b)
            if change is not None:
                self.apply(broker_a, broker_b, change)
                return True
            self.tried[broker_a, broker_b, swaps] = _UnchangedPair(versions, self.rejected)
        return False

    def apply(self, a: int, b: int, change: Exchange) -> None:
        for i, old, new in ((change.out, a, b), (change.back, b, a)):
            if i is None:
                continue
            self.listed(old).remove(self.key(i))
            insort(self.listed(new), self.key(i))
            if self.goal in LED:
                self.state.lead(i, new)
            else:
                self.state.replace(i, old, new)
            self.version[old] += 1

    def obstacle(self) -> Obstacle:
        """Return why the goal is not reached: the most frequent reason of the last attempts."""
        if self.steps >= STEPS_MAX:
            return Obstacle.SEARCH_LIMIT
        reasons: Counter[Obstacle] = Counter()
        for (broker_a, broker_b, _), tried in self.tried.items():
            if tried.versions == (self.version[broker_a], self.version[broker_b]):
                reasons += tried.rejected
        if reasons:
            order = list(Obstacle)
            return min(reasons, key=lambda r: (-reasons[r], order.index(r)))
        pairs = list(self.pairs())
        if any(self.candidates(a, b) for a, b in pairs):
            return Obstacle.INDIVISIBLE
        if self.goal in LED and any(self.listed(a) for a, _ in pairs):
            return Obstacle.NO_SHARED_REPLICA
        return Obstacle.PARTITIONS_FIXED


def improve(state: BalanceState, goal: Goal, earlier_goals: Sequence[Goal]) -> Obstacle | None:
    """Apply changes until the goal is reached or nothing helps. Returns why the goal is not reached, None if it is. `earlier_goals`: earlier goals."""
    if state.within(goal):
        return None
    search = _Search(state, goal, earlier_goals)
    # A move copies one replica and a swap two, so swaps follow when no move helps.
    while not state.within(goal) and (search.step(swaps=False) or (_swappable(goal) and search.step(swaps=True))):
        pass
    return None if state.within(goal) else search.obstacle()


def _swappable(goal: Goal) -> bool:
    """In counts of replicas and leaders all weights are equal, so a swap changes nothing."""
    return goal in (Goal.DISK, Goal.TRAFFIC)


def _nearest(entries: Sequence[tuple[float, int]], weight: float, limit: int) -> Iterator[tuple[float, int]]:
    """Up to `limit` entries, those nearest to this weight first. `entries` is sorted."""
    right = bisect_left(entries, (weight, -1))
    left = right - 1
    for _ in range(limit):
        if right < len(entries) and (left < 0 or entries[right][0] - weight <= weight - entries[left][0]):
            yield entries[right]
            right += 1
        elif left >= 0:
            yield entries[left]
            left -= 1
        else:
            return
