"""Search by timestamp: the first record at or after a time, the newest record, and the memory limit of a search."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from brokerd.wire import records
from brokerd.wire.compression import LZ4, NONE
from brokerd.wire.records import Record
from brokerd.wire.steps import run_now
from tests.unit.storage.test_log import EVERYTHING, append, batch, open_log


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_the_first_record_at_or_after_a_time_is_found(codec: int) -> None:
    log = open_log(segment_bytes="900", index_interval_bytes="200")
    times = [10, 30, 20, 20, 50, 40, 60, 60, 55, 90, 70, 80, 100, 95, 97, 120]
    for i in range(0, len(times), 2):
        data = records.build([Record(j, times[i + j], None, bytes(60)) for j in range(2)], compression=codec)
        append(log, bytearray(data), epoch=i)
    for wanted in range(130):
        expected = next(((i, t) for i, t in enumerate(times) if t >= wanted), None)
        found = run_now(log.offset_for_timestamp(wanted, EVERYTHING))
        assert (found and found[:2]) == expected
        if found:
            assert found[2] == found[0] // 2 * 2
    assert run_now(log.max_timestamp()) == (15, 120)
    assert run_now(log.offset_for_timestamp(100, 12)) is None


def test_an_empty_log_has_no_offset_for_a_timestamp() -> None:
    log = open_log()
    assert run_now(log.max_timestamp()) is None and run_now(log.offset_for_timestamp(0, EVERYTHING)) is None


def test_of_equal_timestamps_the_first_record_is_found() -> None:
    log = open_log(index_interval_bytes="0")
    for timestamp in (5, 9, 9, 9, 9):
        append(log, batch(timestamp=timestamp))
    assert run_now(log.offset_for_timestamp(9, EVERYTHING)) == (1, 9, 0)
    assert run_now(log.max_timestamp()) == (1, 9)


def test_a_look_up_in_a_batch_that_cannot_be_decompressed_returns_its_first_offset() -> None:
    """The producer sent a batch with a correct CRC. It must not prevent lookups in the batches around it."""
    log = open_log()
    append(log, batch(2, timestamp=10))
    bad = batch(3, timestamp=20)
    bad[records.HEADER_BYTES :] = b"\xff" * (len(bad) - records.HEADER_BYTES)
    struct.pack_into(">I", bad, records.CRC_AT, crc32c(bytes(bad[records.CRC_FROM :])))
    append(log, bad)
    append(log, batch(2, timestamp=30))
    assert [run_now(log.offset_for_timestamp(t, EVERYTHING)) for t in (5, 15, 25)] == [
        (0, 10, 0),
        (2, 20, 0),
        (5, 30, 0),
    ]
    struct.pack_into(">q", bad, 35, 40)  # the newest record of all, according to its header
    struct.pack_into(">I", bad, records.CRC_AT, crc32c(bytes(bad[records.CRC_FROM :])))
    append(log, bad)
    assert run_now(log.max_timestamp()) == (7, 40)


def test_look_ups_by_time_have_a_memory_limit_per_request_and_return_an_earlier_offset_above_it() -> None:
    log = open_log()
    append(log, bytearray(records.build([Record(i, 10 + i, b"k", b"v") for i in range(4)])))
    room = records.UnpackBudget(records_max=5)
    assert run_now(log.offset_for_timestamp(12, EVERYTHING, room)) == (2, 12, 0)
    assert run_now(log.offset_for_timestamp(12, EVERYTHING, room)) == (0, 13, 0), (
        "of its batch the first: nothing is missed"
    )
    assert run_now(log.max_timestamp(room)) == (0, 13)
    assert run_now(log.offset_for_timestamp(12, EVERYTHING, records.UnpackBudget())) == (2, 12, 0)
