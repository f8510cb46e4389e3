"""The scrubbing job: slices of a closed segment, damage, and offsets that go back."""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.segment_scrub import SegmentScrub
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log import batch

PATH = Path("/data/t-0/00000000000000000000.log")
SIZE = len(batch())


def segment(*base_offsets: int, damage: int | None = None) -> SimDisk:
    disk = SimDisk()
    disk.mkdir(PATH.parent)
    data = b"".join(base.to_bytes(8, "big") + bytes(batch())[8:] for base in base_offsets)
    if damage is not None:
        data = data[:damage] + bytes([data[damage] ^ 1]) + data[damage + 1 :]
    disk.replace(PATH, data)
    return disk


def read_again(disk: SimDisk, position: int = 0, offset: int = 0, bytes_max: int = 1 << 20) -> SegmentScrub:
    job = SegmentScrub(disk, PATH, position, disk.size(PATH), offset, bytes_max)
    job.run()
    return job


def test_a_valid_segment_is_read_to_its_end() -> None:
    job = read_again(segment(0, 1, 2))
    assert (job.position, job.offset, job.problem) == (3 * SIZE, 3, None)


def test_a_slice_ends_after_the_batch_that_reaches_its_size() -> None:
    disk = segment(0, 1, 2)
    first = read_again(disk, bytes_max=1)
    assert (first.position, first.offset, first.problem) == (SIZE, 1, None)
    second = read_again(disk, first.position, first.offset, SIZE + 1)
    assert (second.position, second.offset, second.problem) == (3 * SIZE, 3, None)


def test_a_damaged_batch_is_reported_with_its_position() -> None:
    job = read_again(segment(0, 1, 2, damage=SIZE + SIZE // 2))
    assert job.position == SIZE and job.problem is not None
    assert f"the batch at position {SIZE} is damaged" in job.problem


def test_an_offset_that_goes_back_is_reported() -> None:
    job = read_again(segment(5, 3))
    assert job.problem is not None and f"offset 3 at position {SIZE} is lower" in job.problem
