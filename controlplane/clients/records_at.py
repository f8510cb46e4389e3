"""Reads single records of one topic by their offsets. Committed records only.

Invariant: a record that was not read in time is `unread`, never missing. Does not contain: reads of a range (`clients.record_range`), of a page
(`selectors.messages`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.clients.connection import NoResponse
from controlplane.clients.record_reader import CHUNK_BYTES_MIN, RecordReaderClient
from controlplane.domain.produce import REQUEST_BYTES_MAX, NewRecord
from controlplane.domain.record_scan import Chunk, FetchRange

READ_SECONDS = 15.0
"""Time limit for all records of a call. One record takes a few milliseconds, or longer if a broker reads old records from disk."""

Place = tuple[int, int]
"""(partition, offset)."""


@dataclass(frozen=True, slots=True)
class RecordsAt:
    """`records`: records by place. `unread`: places that could not be read now. The log has no record at the others."""

    records: dict[Place, NewRecord] = field(default_factory=dict)
    unread: set[Place] = field(default_factory=set)


def read_records_at(topic: str, places: Iterable[Place], seconds: float = READ_SECONDS) -> RecordsAt:
    """Return the records at the offsets, at most REQUEST_BYTES_MAX bytes. Further records are reported as unread."""
    requested = sorted(set(places))
    result = RecordsAt()
    until, size = time.monotonic() + seconds, 0
    with RecordReaderClient(topic, seconds, CHUNK_BYTES_MIN) as reader:
        try:
            reader.load_leaders()
        except NoResponse:
            result.unread.update(requested)
            return result
        for partition, offset in requested:
            chunk = _read_chunk(reader, partition, offset, until) if size < REQUEST_BYTES_MAX else None
            if chunk is None:
                result.unread.add((partition, offset))
            elif chunk.records:
                r = chunk.records[0]
                new = NewRecord(r.key, r.value, tuple(r.headers), None, r.timestamp)
                size += new.size
                result.records[partition, offset] = new
    return result


def _read_chunk(reader: RecordReaderClient, partition: int, offset: int, until: float) -> Chunk | None:
    """Return None if there was no response, or only a problem, until the deadline."""
    while time.monotonic() < until:
        chunk = reader.fetch({partition: FetchRange(offset, offset + 1)})[partition]
        if chunk.problem is not None:
            return None
        # Without a record: the response is after the offset, or begins after it (compaction), or ends before it.
        if chunk.records or chunk.next_offset > offset or chunk.size or (chunk.end is not None and chunk.end <= offset):
            return chunk
    return None
