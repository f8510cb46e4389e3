"""What a move's partitions add up to. Laws: of unfinished moves it is added up at each reading, and since a partition belongs to one of them at most, all of them
together cost the cluster's partitions once; of a finished one it is kept in its row. Called by `selectors.moves`; kept by `services.advancing` and `services.moves`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Q, Sum

from controlplane.models import Move, MovePartition
from controlplane.moveparts import ENDED

Sums = dict[str, Any]
"""parts, ended, stuck; total and done in bytes; unknown: parts whose size is not known; sizeless: unended ones of which none was seen yet."""


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


def _added_up(ids: Iterable[int]) -> dict[int, Sums]:
    rows = (
        MovePartition.objects.filter(move_id__in=ids)
        .order_by()
        .values("move_id")
        .annotate(
            parts=Count("pk"),
            ended=Count("pk", filter=Q(state__in=ENDED)),
            stuck=Count("pk", filter=Q(state="stuck")),
            unknown=Count("pk", filter=Q(bytes_total__isnull=True)),
            sizeless=Count("pk", filter=~Q(state__in=ENDED) & (Q(bytes_total__isnull=True) | Q(bytes_total=0))),
            total=Sum("bytes_total"),
            done=Sum("bytes_done"),
        )
    )
    return {row["move_id"]: {k: v for k, v in row.items() if k != "move_id"} for row in rows}


def keep(move_id: int) -> None:
    """The move has finished: its sums stay what they are. In the caller's transaction."""
    Move.objects.filter(pk=move_id).update(sums=_added_up([move_id]).get(move_id, {}))
