"""A look-up of pending delayed records, by key or by delivery time, in the order of their delivery.

The steps run on copies of the schedule's memory, the long ones on another thread. So the event loop never waits for a look-up, however many records are
pending. Invariant: a response contains every matching record between its first and its last record. Does not contain: the schedule (`delay_schedule`), the
request and its response (`brokerd/apis`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from brokerd.delivery.delay_schedule import BUCKET_MS, PendingRecord
from brokerd.storage.delay_index import NO_KEY, STORED, InvalidDelayIndex
from brokerd.wire.steps import Steps

JOB_RECORDS = 65_536
"""Number of stored records per job: about 20 ms on another thread."""
MAX_MS = 2**63 - 1
Place = tuple[int, int]
"""(delivery time, offset)"""


@dataclass(frozen=True, slots=True)
class PendingQuery:
    """Selects records with delivery times from `from_ms` (inclusive) to `to_ms` (exclusive), after the position `after`. If `key_digest` is None, records with
    any key match."""

    limit: int
    key_digest: bytes | None = None
    from_ms: int = 0
    to_ms: int = MAX_MS
    after: Place = (-1, -1)

    def matches(self, deliver_at_ms: int, offset: int) -> bool:
        """Return whether the time is in the range. Does not compare keys."""
        return self.from_ms <= deliver_at_ms < self.to_ms and (deliver_at_ms, offset) > self.after


@dataclass(frozen=True, slots=True)
class PendingPage:
    """`following` is the value of `after` for the query of the next page. None if there are no more records."""

    records: tuple[PendingRecord, ...]
    following: Place | None


@dataclass(frozen=True, slots=True)
class LaterBucket:
    """A copy of the records of a bucket that are not stored, and its stored records, to which records are only appended. The look-up uses the first
    `stored_bytes`. `parts` are functions that read more stored records from files; they block, and raise InvalidDelayIndex."""

    bucket: int
    records: tuple[PendingRecord, ...]
    stored: bytearray
    stored_bytes: int
    parts: tuple[Callable[[], bytes], ...] = ()


def pack_record(record: PendingRecord) -> bytes:
    return STORED.pack(record.deliver_at_ms, record.offset, record.key_digest or NO_KEY)


def unpack_records(data: bytes | bytearray) -> tuple[PendingRecord, ...]:
    return tuple(
        PendingRecord(at, o, b"" if digest == NO_KEY else digest) for at, o, digest in STORED.iter_unpack(data)
    )


def look_up(
    query: PendingQuery, near: tuple[PendingRecord, ...], later: Iterable[LaterBucket], out_of_time: Callable[[], bool]
) -> Steps[PendingPage]:
    """Return the first matches. When the time limit is reached, the response ends before the first bucket that was not searched; at least one bucket is searched.
    The response also ends before a bucket with an invalid index."""
    matches: list[PendingRecord] = yield partial(first_matches, near, query)
    searched = False
    for bucket in later:
        start_ms = bucket.bucket * BUCKET_MS
        last: Place = (start_ms + BUCKET_MS - 1, MAX_MS)
        if len(matches) >= query.limit and matches[-1].deliver_at_ms < start_ms:
            break
        if last[0] < query.from_ms or start_ms >= query.to_ms or last <= query.after:
            continue
        if searched and out_of_time():
            return _page_before(start_ms, matches, query)
        searched = True
        matches = _merge(matches, first_matches(bucket.records, query), query.limit)
        for at in range(0, bucket.stored_bytes, JOB_RECORDS * STORED.size):
            data = bytes(bucket.stored[at : min(at + JOB_RECORDS * STORED.size, bucket.stored_bytes)])
            stored: list[PendingRecord] = yield partial(stored_matches, data, query)
            matches = _merge(matches, stored, query.limit)
        for read in bucket.parts:
            indexed: list[PendingRecord] | None = yield partial(_indexed_matches, read, query)
            if indexed is None:
                return _page_before(start_ms, matches, query)
            matches = _merge(matches, indexed, query.limit)
    full = len(matches) >= query.limit
    return PendingPage(tuple(matches), (matches[-1].deliver_at_ms, matches[-1].offset) if full and matches else None)


def _page_before(start_ms: int, matches: list[PendingRecord], query: PendingQuery) -> PendingPage:
    before = tuple(r for r in matches if r.deliver_at_ms < start_ms)
    return PendingPage(before, max(query.after, (start_ms - 1, MAX_MS)))


def _indexed_matches(read: Callable[[], bytes], query: PendingQuery) -> list[PendingRecord] | None:
    """Return None if the index is invalid."""
    try:
        return stored_matches(read(), query)
    except InvalidDelayIndex:
        return None


def _merge(matches: list[PendingRecord], further: list[PendingRecord], limit: int) -> list[PendingRecord]:
    return heapq.nsmallest(limit, (*matches, *further)) if further else matches


def first_matches(records: Iterable[PendingRecord], query: PendingQuery) -> list[PendingRecord]:
    digest = query.key_digest
    return heapq.nsmallest(
        query.limit,
        (r for r in records if (digest is None or r.key_digest == digest) and query.matches(r.deliver_at_ms, r.offset)),
    )


def stored_matches(data: bytes, query: PendingQuery) -> list[PendingRecord]:
    """Return the first matches in the stored records `data`."""
    if query.key_digest is not None:
        return first_matches(_with_digest(data, query.key_digest), query)
    places = (p for p in STORED.iter_unpack(data) if query.matches(p[0], p[1]))
    return [PendingRecord(at, o, b"" if d == NO_KEY else d) for at, o, d in heapq.nsmallest(query.limit, places)]


def _with_digest(data: bytes, digest: bytes) -> Iterable[PendingRecord]:
    """A search with `bytes.find` is about fifty times as fast as unpacking each record."""
    at = data.find(digest)
    while at >= 0:
        base, inside = divmod(at, STORED.size)
        if inside == STORED.size - len(digest):
            yield from unpack_records(data[base * STORED.size : (base + 1) * STORED.size])
        at = data.find(digest, at + 1)
