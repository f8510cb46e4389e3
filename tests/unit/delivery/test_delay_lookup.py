"""Look-ups of pending delayed records: a random schedule against a list, the limits, the time limit, appends meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from brokerd.delivery import delay_lookup
from brokerd.delivery.delay_lookup import (
    LaterBucket,
    PendingPage,
    PendingQuery,
    look_up,
    pack_record,
    unpack_records,
)
from brokerd.delivery.delay_schedule import BUCKET_MS, PendingRecord
from brokerd.storage.delay_index import InvalidDelayIndex
from brokerd.wire.steps import Ended, next_step, run_now

Parts = tuple[tuple[PendingRecord, ...], list[LaterBucket]]
DIGESTS = [b"", *(bytes([i]) * 16 for i in range(1, 4))]


def return_false() -> bool:
    return False


def parts_of(records: list[PendingRecord], rng: random.Random) -> Parts:
    """The records spread over memory near, memory later, stored and indexed, as a schedule may have them."""
    near: list[PendingRecord] = []
    indexed: dict[int, bytes] = {}
    later: dict[int, tuple[PendingRecord, ...]] = {}
    stored: dict[int, bytearray] = {}
    for record in records:
        where = rng.choice(("near", "later", "stored", "indexed")) if record.bucket else "near"
        if where == "near":
            near.append(record)
        elif where == "later":
            later[record.bucket] = (*later.get(record.bucket, ()), record)
        elif where == "indexed":
            indexed[record.bucket] = indexed.get(record.bucket, b"") + pack_record(record)
        else:
            stored.setdefault(record.bucket, bytearray()).extend(pack_record(record))
    buckets = []
    for bucket in sorted({*later, *stored, *indexed}):
        data = stored.get(bucket, bytearray())
        readers = (partial(indexed.__getitem__, bucket),) if bucket in indexed else ()
        buckets.append(LaterBucket(bucket, later.get(bucket, ()), data, len(data), readers))
    return tuple(near), buckets


def pages(parts: Parts, query: PendingQuery, out_of_time: Callable[[], bool]) -> list[PendingRecord]:
    found: list[PendingRecord] = []
    after = query.after
    for _ in range(1_000):
        asked = PendingQuery(query.limit, query.key_digest, query.from_ms, query.to_ms, after)
        page: PendingPage = run_now(look_up(asked, *parts, out_of_time))
        assert len(page.records) <= query.limit
        found += page.records
        if page.following is None:
            return found
        assert page.following > after
        after = page.following
    raise AssertionError("no end")


def test_the_pages_of_a_random_look_up_are_the_matches_in_order() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        times = [rng.randrange(4 * BUCKET_MS) for _ in range(20)]
        records = [PendingRecord(rng.choice(times), o, rng.choice(DIGESTS)) for o in range(rng.randrange(120))]
        rng.shuffle(records)
        query = PendingQuery(
            limit=rng.randrange(1, 30),
            key_digest=rng.choice([None, *DIGESTS[1:]]),
            from_ms=rng.choice([0, rng.randrange(2 * BUCKET_MS)]),
            to_ms=rng.choice([delay_lookup.MAX_MS, rng.randrange(4 * BUCKET_MS)]),
        )
        expected = sorted(
            r
            for r in records
            if query.key_digest in (None, r.key_digest) and query.from_ms <= r.deliver_at_ms < query.to_ms
        )
        parts = parts_of(records, rng)
        for out_of_time in (return_false, lambda: True):
            assert pages(parts, query, out_of_time) == expected, seed


def test_stored_records_of_several_jobs_are_searched() -> None:
    count = 2 * delay_lookup.JOB_RECORDS + 3
    records = [PendingRecord(5 * BUCKET_MS + o % 1_000, o, DIGESTS[1 + o % 2]) for o in range(count)]
    data = bytearray(b"".join(map(pack_record, records)))
    parts: Parts = (), [LaterBucket(5, (), data, len(data))]
    assert pages(parts, PendingQuery(5, from_ms=5 * BUCKET_MS + 999), return_false)[:2] == [
        records[999],
        records[1_999],
    ]
    odd = PendingQuery(3, DIGESTS[2], after=(5 * BUCKET_MS + 997, count))
    assert run_now(look_up(odd, *parts, return_false)).records == (records[999], records[1_999], records[2_999])


def test_a_digest_across_two_records_does_not_match() -> None:
    digest = b"\0" * 8 + b"\1" * 8
    split = [PendingRecord(BUCKET_MS, 1, b"\2" * 8 + digest[:8]), PendingRecord(BUCKET_MS, 2, digest)]
    data = bytearray(b"".join(map(pack_record, split)))
    assert run_now(
        look_up(PendingQuery(9, digest), (), [LaterBucket(1, (), data, len(data))], return_false)
    ).records == (split[1],)


def test_records_that_are_stored_meanwhile_do_not_disturb() -> None:
    record = PendingRecord(BUCKET_MS, 1, DIGESTS[1])
    data = bytearray(pack_record(record))
    steps = look_up(PendingQuery(9), (), [LaterBucket(1, (), data, len(data))], return_false)
    job = next_step(steps)
    for _ in range(2):
        assert job is not None and not isinstance(job, Ended)
        data += pack_record(PendingRecord(BUCKET_MS, 2))
        job = next_step(steps, job())
    assert isinstance(job, Ended) and job.value.records == (record,)


def test_packed_records_keep_the_absence_of_a_key() -> None:
    records = (PendingRecord(1, 2), PendingRecord(3, 4, DIGESTS[1]))
    assert unpack_records(b"".join(map(pack_record, records))) == records


def test_a_response_ends_before_a_bucket_whose_index_is_invalid() -> None:
    def raise_invalid_index() -> bytes:
        raise InvalidDelayIndex("damaged")

    first, second = PendingRecord(BUCKET_MS, 1), PendingRecord(2 * BUCKET_MS, 2)
    buckets = [
        LaterBucket(1, (first,), bytearray(), 0),
        LaterBucket(2, (second,), bytearray(), 0, (raise_invalid_index,)),
    ]
    page = run_now(look_up(PendingQuery(9), (), buckets, return_false))
    assert page == PendingPage((first,), (2 * BUCKET_MS - 1, delay_lookup.MAX_MS))
