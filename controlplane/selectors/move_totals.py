"""Totals over the partitions of a move. Invariants: the totals of unfinished moves are computed at each read, in one pass over a covering index
(`parts_as_sums`). A partition belongs to at most one of these moves, so all of them together cost one pass over the cluster's partitions. The
totals of a finished move are stored in its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import BigIntegerField, Case, Count, F, Sum, When

from controlplane.domain.move_states import ENDED
from controlplane.domain.progress import PART_BYTES_MIN, MoveTotals
from controlplane.models import Move, MovePartition
from controlplane.models.move import FINISHED_STATES, MoveState, PartState
from controlplane.selectors.shared_rows import read_by_version


@dataclass(frozen=True, slots=True)
class TotalsKind:
    """Partitions of one move with the same state, cause and placement. `known`: the number of partitions whose size is known. Bytes are the sum over
    these, None = no size is known; `weight` likewise, each with at least PART_BYTES_MIN."""

    state: str
    cause: str
    replicas_from: list[int]
    replicas_to: list[int]
    desired_replicas: list[int]
    parts: int
    known: int
    bytes_total: int | None
    bytes_done: int | None
    weight: int | None
    bytes_per_s: float | None


def kinds_of(move_id: int) -> list[TotalsKind]:
    """Return the groups of partitions in the order of their states. Their number depends on the placements, states and causes of a move, not on the number
    of its partitions."""
    version = Move.objects.filter(pk=move_id).values_list("created_at", "version")
    return read_by_version("kinds of a move", move_id, version.first, lambda: _kinds_of(move_id))


def _kinds_of(move_id: int) -> list[TotalsKind]:
    rows = MovePartition.objects.filter(move_id=move_id).order_by()
    named = rows.values_list("state", "cause", "replicas_from", "replicas_to", "desired_replicas")
    return sorted(
        (TotalsKind(*row) for row in named.annotate(**ADDED_UP, speed=Sum("bytes_per_s"))), key=lambda k: k.state
    )


def sums_of(moves: Iterable[Move]) -> dict[int, MoveTotals]:
    """Return the totals by the id of the move."""
    out: dict[int, MoveTotals] = {}
    missing: dict[int, tuple[datetime, int]] = {}
    for m in moves:
        if m.sums is None:
            missing[m.pk] = (m.created_at, m.version)
        else:
            out[m.pk] = m.sums
    if missing:
        versions = tuple(sorted(missing.items()))
        out |= read_by_version("totals of moves", tuple(sorted(missing)), lambda: versions, lambda: added_up(missing))
    return out


def sums_of_kinds(kinds: Iterable[TotalsKind]) -> MoveTotals:
    return _sum((k.state, k.parts, k.known, k.bytes_total, k.bytes_done, k.weight) for k in kinds)


ADDED_UP: dict[str, object] = {
    "parts": Count("pk"),
    "known": Count("bytes_total"),
    "total": Sum("bytes_total"),
    "done": Sum("bytes_done"),
    "weight": Sum(
        Case(
            When(bytes_total__lt=PART_BYTES_MIN, then=PART_BYTES_MIN),
            default=F("bytes_total"),
            output_field=BigIntegerField(),
        )
    ),
}

ByState = tuple[str, int, int, int | None, int | None, int | None]
"""State; partitions, those whose size is known; bytes in all and done; weight."""


def added_up(ids: Iterable[int]) -> dict[int, MoveTotals]:
    rows = MovePartition.objects.filter(move_id__in=ids).order_by().values_list("move_id", "state").annotate(**ADDED_UP)
    states: dict[int, list[ByState]] = {}
    for move_id, *state in rows:
        states.setdefault(move_id, []).append(tuple(state))
    return {move_id: _sum(of_it) for move_id, of_it in states.items()}


def _sum(states: Iterable[ByState]) -> MoveTotals:
    rows = list(states)
    known = sum(r[2] for r in rows)
    mean = sum(r[5] or 0 for r in rows) // known if known else PART_BYTES_MIN  # the weight of a part of unknown size
    ended = [r for r in rows if r[0] in ENDED]

    def weight(row: ByState) -> int:
        return (row[5] or 0) + mean * (row[1] - row[2])

    totals, dones = [r[3] for r in rows if r[3] is not None], [r[4] for r in rows if r[4] is not None]
    return MoveTotals(
        parts=sum(r[1] for r in rows),
        ended=sum(r[1] for r in ended),
        rejected=sum(r[1] for r in rows if r[0] == PartState.REJECTED),
        unknown=sum(r[1] - r[2] for r in rows),
        total=sum(totals) if totals else None,
        done=sum(dones) if dones else None,
        weight=sum(weight(r) for r in rows),
        weight_ended=sum(weight(r) for r in ended),
        weight_arrived=sum(weight(r) for r in rows if r[0] == PartState.DONE),
        done_open=sum(r[4] or 0 for r in rows if r[0] not in ENDED),
        arrived=sum(r[1] for r in rows if r[0] == PartState.DONE),
    )


AT_TARGET_COUNT = (*FINISHED_STATES, MoveState.CANCELLING)
"""States in which only the partitions at their target are the progress. A move that was cancelled at 8 % has ended with its partitions, not at 100 %."""


def parts_ended(state: str, totals: MoveTotals) -> int:
    """The partitions that have ended. For a finished move and one that is being cancelled, those at their target: reverted and skipped ones are not its
    progress. A row of an older version has them only if there are none."""
    if state not in AT_TARGET_COUNT:
        return totals.ended
    if totals.arrived is not None:
        return totals.arrived
    return totals.ended if totals.weight_arrived else 0


def percent(state: str, totals: MoveTotals) -> float | None:
    """The progress of a move. As in `parts_ended`, the partitions at their target count for a finished or cancelled move; None where everything was returned. The value reaches 100
    only when every part has ended."""
    if state == MoveState.ROLLED_BACK:
        return None
    if state == MoveState.DONE:
        return 100.0
    if not totals.weight:
        return 0.0
    if state in AT_TARGET_COUNT:
        return float(round(totals.weight_arrived / totals.weight * 100, 1))
    share = (totals.weight_ended + totals.done_open) / totals.weight * 100
    return float(round(min(99.0, share) if totals.ended < totals.parts else share, 1))
