"""Totals of a finished move, stored in its row, so that a list of moves reads no partition rows."""

from __future__ import annotations

from controlplane.domain.progress import MoveTotals
from controlplane.models import Move
from controlplane.selectors.move_totals import added_up


def store_totals(move_id: int) -> None:
    """Store the totals of a finished move. Runs in the caller's transaction."""
    Move.objects.filter(pk=move_id).update(sums=added_up([move_id]).get(move_id, MoveTotals()))
