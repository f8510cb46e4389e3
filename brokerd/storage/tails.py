"""Logs that begin in the middle of another: with what that one knew at the offset where they begin (safety section 8).

Laws: such a log is `seeded` or empty at 0, at every moment that a crash may choose; what it began with is kept as long as its first segment,
so that a cut back to there forgets nothing. Called by `seeds` (the leader's side) and `followers` (the observer's). Must not come in: who may.
"""

from __future__ import annotations

import zlib

from brokerd.cluster.model import Now
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.snapshots import Snapshot


def roll_for_seed(log: Log, now: Now) -> int | None:
    """Begin a segment at the log's end and keep what is known there; its offset, None when there is no room to write that down."""
    try:
        log.roll(now)
    except DiskFull:
        return None
    log.leave_snapshot()
    offset = log.end_offset
    if offset not in log.snapshots.offsets:
        return None
    log.snapshots.kept = {log.segments[0].base_offset, offset}
    return offset


def seed_at(log: Log, offset: int) -> bytes | None:
    """What was known at `offset`, as `begin` takes it: our own brokers' format. None when nobody wrote it down, or it is gone."""
    snapshot = log.snapshots.read(offset) if offset in log.snapshots.offsets else None
    return None if snapshot is None else zlib.compress(snapshot.to_bytes(), 1)


def begin(log: Log, seed: bytes, now: Now) -> int:
    """Throw away what `log` holds and begin where the seed says, which is returned. Raises ValueError for what is no seed (nothing is
    done), DiskFull, DiskFailed."""
    try:
        told = Snapshot.from_bytes(zlib.decompress(seed))
    except (zlib.error, KeyError, TypeError) as e:
        raise ValueError(f"no seed: {e!r}") from e
    epochs = [(epoch, at) for epoch, at in told.epochs if at <= told.offset]
    log.begin_with(
        # All records below it that this log has are on the disk: there are none.
        Snapshot(told.offset, told.offset, 0, True, epochs, told.producers, told.closing),
        now,
    )
    return told.offset


def seeded(log: Log) -> bool:
    """Whether epochs and producers are known to be whole: from a snapshot on. A log whose snapshots a power cut took has only what its own
    records tell."""
    return any(offset <= log.end_offset for offset in log.snapshots.offsets)
