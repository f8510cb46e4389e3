"""The durable state of one share partition, and the merge of updates into it (Kafka: ShareGroupOffset, PersisterStateBatchCombiner). Pure.

Invariants: batches are sorted, do not overlap and are at or above the start offset. The last write of an offset decides its state. The start offset
does not go back within a state epoch, so that a repeated or late write is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NO_START = -1
"""The start offset is not initialized: the leader of the partition derives it from `share.auto.offset.reset`."""
UNKNOWN_COUNT = -1


class StateBatch(NamedTuple):
    """Offsets `first` to `last` (inclusive) in one delivery state: 0 available, 2 acknowledged, 4 archived."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """`complete_count`: number of offsets from the start offset on whose delivery is complete, or -1. Times in Unix ms."""

    state_epoch: int = 0
    leader_epoch: int = -1
    start: int = NO_START
    batches: tuple[StateBatch, ...] = ()
    complete_count: int = UNKNOWN_COUNT
    snapshot_epoch: int = 0
    created_wall_ms: int = 0
    written_wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A write of the leader of the partition. `start` -1: unchanged."""

    leader_epoch: int
    start: int
    batches: tuple[StateBatch, ...]
    complete_count: int = UNKNOWN_COUNT


def merge_batches(old: Sequence[StateBatch], new: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """`new` over `old`, without offsets below `start`. Neighbours in the same state with the same number of deliveries are joined."""
    base = [b for b in old if b.last >= start]
    for batch in sorted(new):
        kept: list[StateBatch] = []
        for existing in base:
            if existing.last < batch.first or existing.first > batch.last:
                kept.append(existing)
                continue
            if existing.first < batch.first:
                kept.append(existing._replace(last=batch.first - 1))
            if existing.last > batch.last:
                kept.append(existing._replace(first=batch.last + 1))
        kept.append(batch)
        base = kept
    out: list[StateBatch] = []
    for merged in sorted(base):
        if merged.last < start:
            continue
        merged = merged._replace(first=max(merged.first, start))
        if out and out[-1].last + 1 == merged.first and out[-1][2:] == merged[2:]:
            out[-1] = out[-1]._replace(last=merged.last)
        else:
            out.append(merged)
    return tuple(out)


def apply_update(old: ShareState, update: StateUpdate, wall_ms: int) -> ShareState:
    """The state after a write."""
    start = old.start if update.start == NO_START else max(old.start, update.start)
    return ShareState(
        old.state_epoch,
        max(old.leader_epoch, update.leader_epoch),
        start,
        merge_batches(old.batches, update.batches, start),
        update.complete_count,
        old.snapshot_epoch,
        old.created_wall_ms,
        wall_ms,
    )
