"""Proposals to rebalance, from the rows as they are: nothing is written. What is proposed runs as a move of kind `rebalance`, which makes the
same proposal again of what is there then. Called by the API and the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane import balance
from controlplane.balance import GOALS, TOLERANCE_DEFAULT, Load
from controlplane.services import planning
from controlplane.services.common import Refused

__all__ = ["GOALS", "TOLERANCE_DEFAULT", "Load", "Proposed", "propose", "proposed", "scope_of"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """`changes` spelled out up to a limit, `changes_total` of them in all; `copies` replicas, `bytes_to_copy` of those whose size is known.
    `before` and `after` per broker; `scope` is that of the move that does it."""

    goals: list[balance.GoalResult]
    before: list[Load]
    after: list[Load]
    changes: list[balance.Relocated]
    changes_total: int
    copies: int
    bytes_to_copy: int
    notes: list[str]
    scope: dict[str, Any]


def proposed(goals: Sequence[str] | None = None, tolerance: float | None = None, limit: int = 500) -> Proposed:
    """The proposal, in the shape that doors give out. Raises Refused."""
    p = propose(goals, tolerance)
    return Proposed(
        list(p.goals), list(p.before), list(p.after), list(p.changes[:limit]), len(p.changes), sum(c.copies for c in p.changes),
        p.bytes_to_copy, list(p.notes), scope_of(goals, tolerance),
    )  # fmt: skip


def propose(goals: Sequence[str] | None = None, tolerance: float | None = None) -> balance.Balance:
    """`goals` in their order of importance, None: all. Raises Refused for what is no goal."""
    try:
        return balance.propose(
            planning.partition_views(), planning.broker_views(), list(goals or GOALS),
            tolerance if tolerance is not None else TOLERANCE_DEFAULT,
        )  # fmt: skip
    except ValueError as e:
        raise Refused(f"{str(e)[0].upper()}{str(e)[1:]}.", "tolerance" if "tolerance" in str(e) else "goals") from e


def scope_of(goals: Sequence[str] | None = None, tolerance: float | None = None) -> dict[str, Any]:
    """The scope of the move that would do it."""
    return {
        "kind": "rebalance", "goals": list(goals or GOALS),
        "tolerance": tolerance if tolerance is not None else TOLERANCE_DEFAULT,
    }  # fmt: skip
