"""When a log starts a new segment: by size, by record timestamps, by the size of the index."""

from __future__ import annotations

from brokerd.wire import records
from tests.unit.storage.test_log import FOLDER, NOW, append, batch, offsets, open_log, sim


def test_a_gap_of_more_than_31_bits_starts_a_new_segment() -> None:
    log = open_log()
    append(log)
    far = batch()
    records.stamp(far, 0, 2**33, 0)
    log.append_fetched(memoryview(far), NOW)
    append(log)
    assert offsets(log, 5) == [2**33, 2**33 + 1]


def test_segments_are_named_by_their_base_offset_and_indexes_are_written_at_the_roll() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    for _ in range(6):
        append(log, batch(2))
    names = disk.listdir(FOLDER)
    for segment in log.segments:
        assert f"{segment.base_offset:020d}.log" in names
    assert f"{0:020d}.index" in names and f"{0:020d}.timeindex" in names


def test_a_segment_is_rolled_by_record_timestamps() -> None:
    log = open_log(segment_ms="1000")
    append(log, batch(timestamp=5_000))
    append(log, batch(timestamp=6_000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=6_001))
    assert [s.base_offset for s in log.segments] == [0, 2]


def test_segment_jitter_rolls_earlier_and_deterministically() -> None:
    ends = set()
    for _ in range(2):
        log = open_log(segment_ms="1000", segment_jitter_ms="900")
        step = 0
        while len(log.segments) == 1:
            append(log, batch(timestamp=step))
            step += 10
        ends.add(step)
    assert len(ends) == 1 and ends.pop() <= 1_020


def test_a_full_index_rolls_the_segment() -> None:
    log = open_log(index_interval_bytes="0", segment_index_bytes="32")
    for _ in range(9):
        append(log)
    assert [s.base_offset for s in log.segments] == [0, 4, 8]
