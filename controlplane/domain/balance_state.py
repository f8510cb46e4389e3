"""The cluster during the computation of a rebalance proposal: the placement after the changes so far, and the load and bounds of each broker.

Invariant: `placed`, `spots`, `load` and `received_bytes` agree, because only `replace` and `lead` change them. Does not contain: which changes are made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.domain.balance_types import COUNTED, LED, Goal, Obstacle
from controlplane.domain.planner_types import PlannerBroker, PlannerPartition

TIGHT = 0.8
"""Fraction of the free bytes of a broker. A replica that needs more causes a warning in a plan and is not proposed here."""


@dataclass(slots=True)
class BalanceState:
    """The cluster after the changes so far. `spots[b]`: partitions with a replica on broker b, as indexes into `views`."""

    views: Sequence[PlannerPartition]
    brokers: Mapping[int, PlannerBroker]
    open: tuple[int, ...]
    tolerance: float
    placed: list[list[int]]
    spots: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    load: dict[Goal, dict[int, float]] = field(default_factory=dict)
    received_bytes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    attempts: int = 0
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
            if leads or goal not in LED:
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

    def outside(self, goal: Goal, load: float) -> float:
        """Distance of this load from the bounds of the goal, 0 within them."""
        low, high = self.bounds(goal)
        return max(load - high, low - load, 0.0)

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

    def rejection(self, i: int, old: int, new: int) -> Obstacle | None:
        """The hard rule that forbids that the replica of partition `i` on `old` moves to `new`, which has none of the partition yet."""
        replicas, size = self.placed[i], self.views[i].size_bytes or 0
        rest = [b for b in replicas if b != old]
        domain = self.domain(new)
        if domain is not None and any(self.domain(b) == domain for b in rest):
            return Obstacle.FAILURE_DOMAIN
        free = self.brokers[new].free_bytes
        if free is not None and new not in self.views[i].replicas and self.received_bytes[new] + size > free * TIGHT:
            return Obstacle.DISK_SPACE
        if racks_in_common([self.rack(b) for b in (*rest, new)]) > racks_in_common([self.rack(b) for b in replicas]):
            return Obstacle.RACK
        return None

    def may_replace(self, i: int, old: int, new: int) -> bool:
        return new not in self.placed[i] and self.rejection(i, old, new) is None

    def may_lead(self, i: int, new: int) -> bool:
        """Only an in-sync replica may become first, because the preferred leader must be able to lead. A new replica will be in sync."""
        return new in self.views[i].isr or new not in self.views[i].replicas

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
        for goal in LED:
            self.load[goal][old] = self.load[goal].get(old, 0.0) - self.weight(goal, i)
            self.load[goal][new] += self.weight(goal, i)
        replicas[0], replicas[place] = new, old


def racks_in_common(racks: Sequence[str | None]) -> int:
    known = [r for r in racks if r is not None]
    return len(known) - len(set(known))
