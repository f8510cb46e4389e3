"""What a move's partitions add up to. Laws: of unfinished moves it is added up at each reading, in one pass over an index that holds all of it
(`parts_as_sums`), and since a partition belongs to one of them at most, all of them together cost the cluster's partitions once; of a finished one it is
kept in its row. Called by `selectors.moves` and `selectors.move_loads`; kept by `services.advancing` and `services.moves`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum

from controlplane.models import Move, MovePartition
from controlplane.moveparts import ENDED

Sums = dict[str, Any]
"""parts, ended, stuck; total and done in bytes; unknown: parts whose size is not known; sizeless: unended ones of which none was seen yet."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Partitions of one move that are in one state, for one cause, and go one way. `known`: those whose size is known, `empty`: those of them that hold
    nothing. Bytes are of those that are known, None = of none is anything."""

    state: str
    cause: str
    replicas_from: list[int]
    replicas_to: list[int]
    wanted: list[int]
    parts: int
    known: int
    empty: int
    bytes_total: int | None
    bytes_done: int | None
    bytes_per_s: float | None


def kinds_of(move_id: int) -> list[Kind]:
    """In the order of their states. As many as a move has ways, states and causes, whatever the number of its partitions."""
    rows = MovePartition.objects.filter(move_id=move_id).order_by()
    named = rows.values_list("state", "cause", "replicas_from", "replicas_to", "wanted")
    return sorted((Kind(*row) for row in named.annotate(**ADDED_UP, speed=Sum("bytes_per_s"))), key=lambda k: k.state)


def sums_of(moves: Iterable[Move]) -> dict[int, Sums]:
    """By the moves' numbers."""
    out: dict[int, Sums] = {}
    missing = []
    for m in moves:
        if m.sums is None:
            missing.append(m.pk)
        else:
            out[m.pk] = m.sums
    return out | (_added_up(missing) if missing else {})


def sums_of_kinds(kinds: Iterable[Kind]) -> Sums:
    return _sum((k.state, k.parts, k.known, k.empty, k.bytes_total, k.bytes_done) for k in kinds)


def keep(move_id: int) -> None:
    """The move has finished: its sums stay what they are. In the caller's transaction."""
    Move.objects.filter(pk=move_id).update(sums=_added_up([move_id]).get(move_id, {}))


ADDED_UP: dict[str, Any] = {
    "parts": Count("pk"),
    "known": Count("bytes_total"),
    "empty": Count("pk", filter=Q(bytes_total=0)),
    "total": Sum("bytes_total"),
    "done": Sum("bytes_done"),
}

ByState = tuple[str, int, int, int, int | None, int | None]
"""State; partitions, those whose size is known, those of nothing; bytes in all and done."""


def _added_up(ids: Iterable[int]) -> dict[int, Sums]:
    rows = MovePartition.objects.filter(move_id__in=ids).order_by().values_list("move_id", "state").annotate(**ADDED_UP)
    states: dict[int, list[ByState]] = {}
    for move_id, *state in rows:
        states.setdefault(move_id, []).append(tuple(state))
    return {move_id: _sum(of_it) for move_id, of_it in states.items()}


def _sum(states: Iterable[ByState]) -> Sums:
    out: Sums = {"parts": 0, "ended": 0, "stuck": 0, "unknown": 0, "sizeless": 0, "total": None, "done": None}
    for state, parts, known, empty, total, done in states:
        out["parts"] += parts
        out["unknown"] += parts - known
        if state in ENDED:
            out["ended"] += parts
        else:
            out["sizeless"] += parts - known + empty
        if state == "stuck":
            out["stuck"] += parts
        for name, value in (("total", total), ("done", done)):
            if value is not None:
                out[name] = (out[name] or 0) + value
    return out
