"""Bootstrap of observer replicas: logs that start at an offset of their leader's log, with the leader's snapshot (safety section 8). Also: followers that
start at the log start of their leader, because the leader has deleted the next records.

After a crash at any moment such a log is complete with its snapshot (`has_bootstrap_snapshot`) or empty at offset 0. The snapshot is kept as long as the
first segment, so that a truncation to its offset loses no state. Does not contain the protocol (`replication/bootstrap`).
"""

from __future__ import annotations

import zlib

from brokerd.cluster.model import Now
from brokerd.storage import recovery
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.snapshots import Snapshot


def roll_for_bootstrap(log: Log, now: Now) -> int | None:
    """Leader: roll a segment at the log end offset and keep a snapshot there. Returns the offset, None on a full disk."""
    try:
        log.roll(now)
    except DiskFull:
        return None
    log.try_snapshot()
    offset = log.end_offset
    if offset not in log.snapshots.offsets:
        return None
    log.snapshots.kept_offsets = {log.segments[0].base_offset, offset}
    return offset


def bootstrap_snapshot_at(log: Log, offset: int) -> bytes | None:
    """Leader: the snapshot at `offset` for `begin`, in a private format. None if there is no snapshot."""
    snapshot = log.snapshots.read(offset) if offset in log.snapshots.offsets else None
    return None if snapshot is None else zlib.compress(snapshot.to_bytes(), 1)


def begin(log: Log, data: bytes, now: Now) -> int:
    """Observer: delete all records of `log` and continue at the offset of the snapshot `data`, which is returned. Raises ValueError for an invalid
    snapshot (the log is unchanged), DiskFull, DiskFailed."""
    try:
        snapshot = Snapshot.from_bytes(zlib.decompress(data))
    except (zlib.error, KeyError, TypeError) as e:
        raise ValueError(f"invalid bootstrap snapshot: {e!r}") from e
    epochs = [(epoch, at) for epoch, at in snapshot.epochs if at <= snapshot.offset]
    log.start_at_snapshot(
        # This log has no records below the offset, so the snapshot counts as flushed.
        Snapshot(snapshot.offset, snapshot.offset, 0, True, epochs, snapshot.producers, snapshot.closing),
        now,
    )
    return snapshot.offset


def snapshot_at_log_start(log: Log) -> bytes:
    """Leader: the snapshot at the log start for `begin_at_log_start`. It has the producers of deleted records. Without epochs: the epoch cache does not
    know whether its first epoch began below the log start."""
    offset = log.start_offset
    snapshot = Snapshot(offset, offset, 0, True, [], list(log.producers.before(offset).to_json()))
    return zlib.compress(snapshot.to_bytes(), 1)


def begin_at_log_start(log: Log, data: bytes, now: Now) -> None:
    """Follower: delete all records of `log` and continue at the leader's log start with the snapshot `data`. Raises ValueError for an invalid snapshot (the
    log is unchanged), DiskFull, DiskFailed."""
    begin(log, data, now)
    log.disk.unlink(log.folder / recovery.TAIL_START)  # this log lacks no record that a replica must have


def has_bootstrap_snapshot(log: Log) -> bool:
    """Return whether the leader epochs and the producer state were loaded from the bootstrap snapshot and are complete. If a power failure has destroyed the
    snapshots, they contain only the state of the records in this log."""
    return any(offset <= log.end_offset for offset in log.snapshots.offsets)
