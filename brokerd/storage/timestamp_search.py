"""Search of records by timestamp.

The time index and batch headers narrow the search to one batch; only that batch is decompressed. A search may pause between two steps and
continues with the current log.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, UnpackBudget
from brokerd.wire.scan import first_since
from brokerd.wire.steps import Steps


def first_at(
    segments: Sequence[Segment], timestamp: int, start_offset: int, upto_offset: int, budget: UnpackBudget
) -> Steps[tuple[int, int, int] | None]:
    """(offset, timestamp, leader epoch) of the first record at or after `timestamp` within the bounds. `segments` are those of the log, or a copy.

    If the matching batch cannot be decompressed or exceeds `budget`, the result is the first offset of the batch. A consumer that starts there misses no
    record.
    """
    from_offset = start_offset
    while (found := _batch_since(segments, timestamp, from_offset, upto_offset)) is not None:
        header, data = found
        try:
            record = yield from first_since(data, 0, header, timestamp, start_offset, budget)
        except records.CorruptBatch:
            # The CRC is valid, so the producer sent the batch in this form. Its header contains a matching timestamp, so a later offset would be wrong.
            return max(header.base_offset, start_offset), header.max_timestamp, header.partition_leader_epoch
        if record is not None:
            return (*record, header.partition_leader_epoch) if record[0] < upto_offset else None
        from_offset = header.next_offset
        yield None
    return None


def _batch_since(
    segments: Sequence[Segment], timestamp: int, from_offset: int, upto_offset: int
) -> tuple[BatchHeader, bytes] | None:
    """The first batch at or above `from_offset` whose header has a maximum timestamp at or after `timestamp`."""
    for segment in segments:
        if segment.sure_newest() < timestamp or segment.end_offset <= from_offset:
            continue
        for position, header in segment.batches_since(timestamp):
            if header.base_offset >= upto_offset:
                return None
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return header, segment.file.pread(header.size, position)
    return None


def newest_below(segments: Sequence[Segment], upto_offset: int, budget: UnpackBudget) -> Steps[tuple[int, int] | None]:
    """Like `newest`, but for the batches below `upto_offset`."""
    whole = [s for s in segments if s.end_offset <= upto_offset and s.size]
    found = (yield from find_newest(whole, budget)) if whole else None
    for segment in segments:
        if not segment.base_offset < upto_offset < segment.end_offset:
            continue
        best = max((h.max_timestamp for _, h in segment.headers(0) if h.base_offset < upto_offset), default=-1)
        if best > (found[1] if found is not None else -1):
            at = yield from first_at([segment], best, segment.base_offset, upto_offset, budget)
            return (at[0], at[1]) if at is not None else found
    return found


def find_newest(segments: Sequence[Segment], budget: UnpackBudget) -> Steps[tuple[int, int] | None]:
    """(offset, timestamp) of the first record with the maximum timestamp. None for an empty log. The first offset of a batch that cannot be decompressed."""
    best = max(segments, key=Segment.sure_newest)
    needed = best.max_timestamp
    if needed < 0:
        return None
    for position, header in best.headers(best.position_of(best.max_timestamp_base)):
        if header.max_timestamp == needed:
            data = best.file.pread(header.size, position)
            try:
                record = yield from first_since(data, 0, header, needed, header.base_offset, budget)
            except records.CorruptBatch:
                return header.base_offset, needed
            return record if record is not None else (header.base_offset, needed)
    return None
