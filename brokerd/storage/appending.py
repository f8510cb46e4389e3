"""The batches of one append: a leader assigns offsets and its epoch, a follower checks the offsets and epochs of its leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from brokerd.storage.slices import FetchRejected
from brokerd.wire import records
from brokerd.wire.records import BatchHeader


class PlacedBatch(NamedTuple):
    """A batch at `position` in the appended bytes, whose first record has `base_offset` in the log."""

    position: int
    header: BatchHeader
    base_offset: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.header.last_offset_delta


def assign_offsets(
    data: bytearray | memoryview,
    headers: Sequence[tuple[int, BatchHeader]],
    end_offset: int,
    leader_epoch: int,
    append_time_ms: int,
) -> list[PlacedBatch]:
    """Leader: write offsets from `end_offset` on and the epoch into `data`. `append_time_ms`: -1 keeps the timestamps of the producer."""
    batches: list[PlacedBatch] = []
    offset = end_offset
    for pos, header in headers:
        records.stamp(data, pos, offset, leader_epoch)
        if append_time_ms >= 0:
            records.stamp_append_time(data, pos, header, append_time_ms)
            header = header._replace(max_timestamp=append_time_ms)
        batches.append(PlacedBatch(pos, header, offset))
        offset += header.last_offset_delta + 1
    return batches


def check_fetched(
    data: memoryview, name: str, end_offset: int, latest_epoch: int, *, empty: bool
) -> tuple[list[PlacedBatch], int]:
    """Follower: the complete batches of a fetched `data`, and the position where they end.

    `name` is the name of the partition, for error messages. If `empty`, the log contains no batch, and the first batch may start below `end_offset`.
    Raises FetchRejected if a batch is damaged, or below the log end offset or the latest epoch.
    """
    batches: list[PlacedBatch] = []
    offset, end, epoch = end_offset, 0, latest_epoch
    for pos, header in records.batches(data):
        if empty and not batches and header.base_offset < offset <= header.last_offset:
            offset = header.base_offset
        if header.base_offset < offset or header.last_offset_delta < 0:
            raise FetchRejected(f"{name}: fetched offset {header.base_offset} is below the log end offset {offset}")
        if header.partition_leader_epoch < epoch:
            raise FetchRejected(f"{name}: fetched epoch {header.partition_leader_epoch} follows epoch {epoch}")
        if header.magic != records.MAGIC or not records.crc_is_right(data, pos, header):
            raise FetchRejected(f"{name}: the fetched batch at offset {header.base_offset} is damaged")
        batches.append(PlacedBatch(pos, header, header.base_offset))
        offset, end, epoch = header.next_offset, pos + header.size, header.partition_leader_epoch
    return batches, end


def starts_below(data: bytes | memoryview, end_offset: int) -> bool:
    """Return whether the first batch of `data` contains `end_offset` and starts below it."""
    if len(data) < records.HEADER_BYTES:
        return False
    first = records.peek(data)
    return first.base_offset < end_offset <= first.last_offset
