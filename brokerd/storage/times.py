"""Finding records by their timestamps.

Law: the time index and the headers narrow the search to one batch; only that one is unpacked. Called by `log`.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import Room


def first_at(
    segments: Sequence[Segment], timestamp: int, start_offset: int, upto_offset: int, room: Room | None = None
) -> tuple[int, int, int] | None:
    """(offset, timestamp, leader epoch) of the first record at or after `timestamp` within the bounds.

    A batch that cannot be unpacked, or for which `room` has none, is answered with its first offset: whoever reads from there misses nothing.
    """
    for segment in segments:
        if segment.sure_newest() < timestamp or segment.end_offset <= start_offset:
            continue
        for position, header in segment.batches_since(timestamp):
            if header.base_offset >= upto_offset:
                return None
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            try:
                for record in records.iterate(segment.file.pread(header.size, position), room):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        if record.offset >= upto_offset:
                            return None
                        return record.offset, record.timestamp, header.partition_leader_epoch
            except records.CorruptBatch:
                # Its producer's doing (the CRC is right): by its header it has what is asked for, and nothing later may be answered instead.
                return max(header.base_offset, start_offset), header.max_timestamp, header.partition_leader_epoch
    return None


def newest_below(segments: Sequence[Segment], upto_offset: int, room: Room | None = None) -> tuple[int, int] | None:
    """As `newest`, of the batches below `upto_offset`."""
    whole = [s for s in segments if s.end_offset <= upto_offset and s.size]
    found = newest(whole, room) if whole else None
    for segment in segments:
        if not segment.base_offset < upto_offset < segment.end_offset:
            continue
        best = max((h.max_timestamp for _, h in segment.headers(0) if h.base_offset < upto_offset), default=-1)
        if best > (found[1] if found is not None else -1):
            at = first_at([segment], best, segment.base_offset, upto_offset, room)
            return (at[0], at[1]) if at is not None else found
    return found


def newest(segments: Sequence[Segment], room: Room | None = None) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the largest timestamp; None for an empty log. Of a batch that cannot be unpacked, its first."""
    best = max(segments, key=Segment.sure_newest)
    wanted = best.max_timestamp
    if wanted < 0:
        return None
    for position, header in best.headers(best.position_of(best.max_timestamp_base)):
        if header.max_timestamp == wanted:
            try:
                for record in records.iterate(best.file.pread(header.size, position), room):
                    if record.timestamp == wanted:
                        return record.offset, wanted
            except records.CorruptBatch:
                return header.base_offset, wanted
    return None
