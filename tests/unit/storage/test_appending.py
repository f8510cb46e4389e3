"""Batches to append: offsets assigned by a leader, offsets and epochs checked by a follower."""

from __future__ import annotations

import pytest

from brokerd.storage.appending import assign_offsets, check_fetched, starts_below
from brokerd.storage.slices import FetchRejected
from brokerd.wire import records
from brokerd.wire.records import Record


def batch(count: int, base: int = 0, epoch: int = 0, timestamp: int = 1_000) -> bytearray:
    data = bytearray(records.build([Record(i, timestamp, b"k", b"v") for i in range(count)]))
    records.stamp(data, 0, base, epoch)
    return data


def check_fetched_batches(
    data: bytearray, end_offset: int, epoch: int = -1, *, empty: bool = False
) -> tuple[list[int], int]:
    batches, end = check_fetched(memoryview(data), "orders-0", end_offset, epoch, empty=empty)
    return [b.base_offset for b in batches], end


def test_a_leader_assigns_consecutive_offsets_and_its_epoch() -> None:
    data = batch(3) + batch(1) + batch(2)
    assigned = assign_offsets(data, records.check(data), 7, 4, -1)
    assert [(b.base_offset, b.last_offset) for b in assigned] == [(7, 9), (10, 10), (11, 12)]
    stored = [h for _, h in records.batches(data)]
    assert [(h.base_offset, h.partition_leader_epoch) for h in stored] == [(7, 4), (10, 4), (11, 4)]
    assert {h.max_timestamp for h in stored} == {1_000}


def test_log_append_time_replaces_the_timestamps_of_the_producer() -> None:
    data = batch(2)
    (assigned,) = assign_offsets(data, records.check(data), 0, 0, 5_000)
    (stored,) = [h for _, h in records.batches(data)]
    assert assigned.header.max_timestamp == stored.max_timestamp == 5_000
    assert records.crc_is_right(data, 0, stored)


def test_a_follower_takes_complete_batches_and_ignores_a_partial_one() -> None:
    data = batch(2, 5, 1) + batch(3, 9, 2)
    assert check_fetched_batches(data + batch(1, 12, 2)[:-1], 5) == ([5, 9], len(data))
    assert check_fetched_batches(batch(1, 5)[:40], 5) == ([], 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (batch(2, 4, 3), "fetched offset 4 is below the log end offset 5"),
        (batch(1, 5, 3) + batch(1, 5, 3), "fetched offset 5 is below the log end offset 6"),
        (batch(1, 5, 2), "fetched epoch 2 follows epoch 3"),
        (batch(1, 5, 4) + batch(1, 6, 3), "fetched epoch 3 follows epoch 4"),
    ],
)
def test_a_follower_rejects_offsets_and_epochs_that_decrease(data: bytearray, message: str) -> None:
    with pytest.raises(FetchRejected, match=f"orders-0: {message}"):
        check_fetched_batches(data, 5, 3)


def test_a_follower_rejects_a_damaged_batch() -> None:
    data = batch(1, 5)
    data[-1] ^= 1
    with pytest.raises(FetchRejected, match="batch at offset 5 is damaged"):
        check_fetched_batches(data, 5)


def test_only_an_empty_log_starts_within_the_first_batch() -> None:
    assert check_fetched_batches(batch(10, 20) + batch(1, 30), 25, empty=True)[0] == [20, 30]
    with pytest.raises(FetchRejected):
        check_fetched_batches(batch(10, 20), 25)
    with pytest.raises(FetchRejected):
        check_fetched_batches(batch(1, 25) + batch(10, 20), 25, empty=True)


def test_whether_the_first_batch_contains_the_log_end() -> None:
    data = batch(10, 20)
    assert [starts_below(data, end) for end in (20, 21, 29, 30)] == [False, True, True, False]
    assert not starts_below(data[:50], 25)
