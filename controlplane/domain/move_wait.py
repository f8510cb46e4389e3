"""Determination of the reasons why a move waits: pure. Invariant: a move with a partition that makes progress has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane.domain.move_states import ENDED, PartState
from controlplane.domain.move_types import PartView
from controlplane.domain.wait_reason import STALLS, Wait, WaitReason


def waits_for(parts: Iterable[PartView], omitted: Mapping[PartState, int]) -> tuple[Wait, ...]:
    """The most frequent reason first, queued partitions last; empty if a partition makes progress or all have ended. `omitted`: number of partitions by
    state that are not in `parts`."""
    counts: Counter[WaitReason] = Counter()
    for part in parts:
        if part.state in ENDED:
            continue
        reason = _reason(part)
        if reason is None:
            return ()
        counts[reason] += 1
    if waiting := omitted.get(PartState.WAITING, 0):
        counts[WaitReason.QUEUED] += waiting
    ordered = sorted(counts.items(), key=lambda c: (c[0] == WaitReason.QUEUED, -c[1], c[0]))
    return tuple(Wait(reason, n) for reason, n in ordered)


def _reason(part: PartView) -> WaitReason | None:
    """The reason of one partition; None if it makes progress."""
    if part.state == PartState.WAITING:
        return WaitReason.QUEUED
    if part.cause in STALLS:
        return WaitReason(part.cause)
    if part.state == PartState.READY:
        return WaitReason.RETENTION
    if part.state == PartState.VERIFYING:
        return WaitReason.IN_SYNC
    return None
