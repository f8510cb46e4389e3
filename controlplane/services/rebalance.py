"""Rebalance proposals, computed from the current rows without writing. A proposal runs as a move of kind `rebalance`, which computes the proposal
again from the rows at that time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain import balance
from controlplane.domain.balance import GOALS, TOLERANCE_DEFAULT, Load
from controlplane.domain.scope import RebalanceScope
from controlplane.services import move_planning

__all__ = ["GOALS", "TOLERANCE_DEFAULT", "Load", "Proposed", "propose", "propose_changes", "scope_of"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """`changes`: the first changes, up to a limit; `changes_total`: the number of all. `copies`: the number of replicas to copy; `bytes_to_copy`: the
    sum over the replicas with a known size.
    `before` and `after` per broker; `scope` is that of the move that carries out the proposal."""

    goals: list[balance.GoalResult]
    before: list[Load]
    after: list[Load]
    changes: list[balance.PlacementChange]
    changes_total: int
    copies: int
    bytes_to_copy: int
    notes: list[balance.Note]
    scope: RebalanceScope

    @property
    def unreached(self) -> bool:
        return any(not goal.reached for goal in self.goals)


def propose_changes(goals: Sequence[str] | None = None, tolerance: float | None = None, limit: int = 500) -> Proposed:
    """The proposal, in the shape of the API. Raises Rejected."""
    proposal = propose(goals, tolerance)
    return Proposed(
        list(proposal.goals),
        list(proposal.before),
        list(proposal.after),
        list(proposal.changes[:limit]),
        len(proposal.changes),
        sum(c.copies for c in proposal.changes),
        proposal.bytes_to_copy,
        list(proposal.notes),
        scope_of(goals, tolerance),
    )


def propose(goals: Sequence[str] | None = None, tolerance: float | None = None) -> balance.Balance:
    """`goals` in their order of importance, None: all. Raises Rejected for an unknown goal or an invalid tolerance."""
    return balance.propose(
        move_planning.partition_views(),
        move_planning.broker_views(),
        list(goals or GOALS),
        tolerance if tolerance is not None else TOLERANCE_DEFAULT,
    )


def scope_of(goals: Sequence[str] | None = None, tolerance: float | None = None) -> RebalanceScope:
    """The scope of the move that carries out this proposal."""
    return RebalanceScope(tuple(goals or GOALS), TOLERANCE_DEFAULT if tolerance is None else tolerance)
