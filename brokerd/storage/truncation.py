"""Truncation of the end of a log, or deletion of the whole log. The rest is a prefix of the log, and all state that is derived from records matches the rest.

Invariants: files are deleted from the end backwards, so that a crash leaves a prefix. Snapshots and flushed offsets above the new end are
forgotten before the records are deleted. Does not contain: the decision where to truncate (`replication/follower_log`).
"""

from __future__ import annotations

from brokerd.cluster.model import Now
from brokerd.storage import recovery, transaction_index
from brokerd.storage.log_state import LogState
from brokerd.storage.producers import Producers
from brokerd.storage.snapshots import Snapshot


def truncate(log_: LogState, offset: int) -> None:
    """Follower: delete all batches from the one that contains `offset` on. From the end backwards, so that a crash leaves a prefix."""
    if offset >= log_.end_offset:
        return
    if offset < max(log_.start_offset, log_.segments[0].base_offset):
        reset(log_, offset)
        return
    log_.flushing.cuts += 1
    log_.reader.clear()
    log_.cleaner.before_truncation(offset)
    _drop_snapshots_above(log_, offset)
    log_.aborted.truncate(offset)
    while len(log_.segments) > 1 and log_.segments[-1].base_offset >= offset:
        log_.segments.pop().remove()
    active = log_.segments[-1]
    active.truncate(offset)
    for segment in log_.segments:
        if segment.delay_index_decided > active.end_offset:
            segment.remove_delay_index()
    log_.set_snapshot_due()
    # A batch that contains `offset` was deleted as well.
    _drop_snapshots_above(log_, log_.end_offset)
    if active.size:
        # The truncation is not flushed. After a power failure the deleted records could reappear, before the first batch of the next segment.
        log_.flushing.truncate(log_.end_offset - 1)
    if log_.end_offset < log_.start_offset:
        reset(log_, offset)  # the batch that contained the log start offset is deleted
        return
    log_.epochs.truncate(log_.end_offset)
    rebuild_producers(log_)
    keep_state_of_deleted_records(log_)
    if log_.end_offset == log_.start_offset:
        log_.write_epochs()  # no batch is left that would contradict an older checkpoint


def reset(log_: LogState, offset: int, now: Now | None = None) -> None:
    """Delete all records. The log continues at `offset`."""
    log_.flushing.cuts += 1
    log_.reader.clear()
    log_.cleaner.before_truncation(0)
    _drop_snapshots_above(log_, -1)
    log_.aborted.clear()
    while log_.segments:
        log_.segments.pop().remove()
    log_.segments.append(log_.new_segment(offset, now or Now(0, 0)))
    log_.set_snapshot_due()
    log_.epochs.clear(offset)
    log_.producers = Producers()
    log_.start_offset = offset
    log_.stored_start.reset()
    log_.write_epochs()


def start_at_snapshot(log_: LogState, snapshot: Snapshot, now: Now) -> None:
    """Delete all records. The log continues at the offset of a snapshot of the leader (`tails`). After a crash it is empty at offset 0, or
    complete with `snapshot`: a snapshot without its segment is ignored."""
    reset(log_, 0, now)
    log_.disk.replace(log_.folder / recovery.TAIL_START, str(snapshot.offset).encode())
    log_.snapshots.write(snapshot)
    log_.segments.pop().remove()
    log_.segments.append(log_.new_segment(snapshot.offset, now))
    log_.snapshots.kept_offsets = {snapshot.offset}
    log_.epochs.entries, log_.epochs.log_end = list(snapshot.epochs), snapshot.offset
    log_.epochs.raise_start(snapshot.offset)
    log_.producers = Producers.from_json(snapshot.producers, snapshot.closing)
    log_.start_offset = snapshot.offset
    log_.write_epochs()


def keep_state_of_deleted_records(log_: LogState) -> None:
    """Write a snapshot if none is left and the records cannot replace it."""
    if log_.start_offset and not log_.snapshots.offsets:
        log_.try_snapshot()


def rebuild_producers(log_: LogState) -> None:
    """Rebuild from the newest remaining snapshot, or from the state at the log start, and the batch headers after it. Producers keep the time of their last
    batch."""
    last_batch_ms = {i: p.wall_ms for i, p in log_.producers.known.items()}
    log_.producers, since = log_.producers.before(log_.start_offset), log_.start_offset
    snapshot = next(log_.snapshots.newest_first(), None)
    if snapshot is not None:
        log_.producers, since = Producers.from_json(snapshot.producers, snapshot.closing), snapshot.offset
    for _, header, marker in transaction_index.walk(log_.segments, since, log_.end_offset):
        log_.producers.on_appended(header, header.base_offset, last_batch_ms.get(header.producer_id, 0), marker)


def _drop_snapshots_above(log_: LogState, offset: int) -> None:
    log_.snapshots.drop_above(offset)
    log_.flushing.truncate(offset)
