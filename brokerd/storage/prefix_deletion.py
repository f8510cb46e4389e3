"""Old records of a log are deleted: by retention, by DeleteRecords, or because another replica has deleted them.

Invariants: the log start offset never decreases. It is stored before the segments below it are deleted, oldest first. Retention deletes nothing above
the high watermark. Does not contain: which segments retention permits to delete (`retention`), the flush of the stored offset (`log_start`).
"""

from __future__ import annotations

import logging

from brokerd.cluster.model import Now
from brokerd.storage import retention
from brokerd.storage.log_state import LogState
from brokerd.storage.segment import Segment

log = logging.getLogger(__name__)


def raise_start(log_: LogState, offset: int) -> None:
    """Increase the log start offset, because of DeleteRecords or because the leader has a higher log start offset."""
    if offset <= log_.start_offset:
        return
    log_.start_offset = min(offset, log_.end_offset)
    _start_raised(log_)


def delete_below(log_: LogState, offset: int) -> bool:
    """Increase the log start offset because a client deleted the records below. Returns whether `stored_start` must be flushed for it."""
    before = log_.start_offset
    raise_start(log_, offset)
    return log_.stored_start.request(before)


def _start_raised(log_: LogState) -> list[Segment]:
    """Store the new log start offset, then delete the segments below it, oldest first."""
    removed = []
    while len(log_.segments) > 1 and log_.segments[1].base_offset <= log_.start_offset:
        removed.append(log_.segments.pop(0))
    if log_.start_offset > log_.segments[0].base_offset:
        # On a full disk the offset is not stored, and deleted records may reappear at the next start. Keeping the segments would not free any space.
        log_.try_write("log start", log_.stored_start.write)
    log_.epochs.raise_start(log_.start_offset)
    log_.snapshots.kept_offsets = {o for o in log_.snapshots.kept_offsets if o >= log_.segments[0].base_offset}
    log_.aborted.drop(s.base_offset for s in removed)
    for segment in removed:
        log_.cleaner.segment_deleted(segment.base_offset)
        segment.remove()
    return removed


def retain(log_: LogState, now: Now, high_watermark: int, copied_end: int | None = None) -> list[Segment]:
    """Delete segments below the high watermark by age and size. An expired active segment is rolled first. Returns the deleted segments.
    `copied_end`: for a tiered partition, the local retention applies and only below this offset."""
    if not log_.config.deletes:
        return []
    config = log_.config if copied_end is None else log_.config.local
    active = log_.segments[-1]
    if active.size and log_.end_offset <= high_watermark and retention.expired(active, config, now.wall_ms):
        log_.roll(now)
    limit = high_watermark if copied_end is None else min(high_watermark, copied_end)
    upto = retention.new_start(log_.segments, config, now.wall_ms, limit)
    if upto <= log_.start_offset:
        return []
    log_.start_offset = upto
    removed = _start_raised(log_)
    log.info(
        "retention deleted segments: partition=%s count=%d log_start_offset=%d", log_.folder.name, len(removed), upto
    )
    return removed


def retain_as(log_: LogState, offset: int, now: Now, high_watermark: int) -> bool:
    """Adopt the log start offset of a follower after retention ran there, if retention allows the deletion here too. Segments of replicas may end at
    different offsets. Returns whether the log start offset has changed."""
    if not log_.config.deletes or not log_.start_offset < offset <= high_watermark:
        return False
    if not retention.may_delete(log_.segments, log_.config, now.wall_ms, offset):
        return False
    raise_start(log_, offset)
    log.info(
        "retention adopted the log start offset of a follower: partition=%s log_start_offset=%d",
        log_.folder.name,
        offset,
    )
    return True
