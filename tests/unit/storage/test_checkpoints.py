"""Checkpoints of offsets and topic ids, and the detection of missing partition directories."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage import checkpoints
from tests.simulation.disk import SimDisk

DATA, OTHER = Path("/data"), Path("/other")


def disk_with(*folders: str) -> SimDisk:
    disk = SimDisk()
    for folder in (str(DATA), str(OTHER), *folders):
        disk.mkdir(Path(folder))
    return disk


@given(st.dictionaries(st.tuples(st.text("az.-_", min_size=1, max_size=9), st.integers(0, 99)), st.integers(0, 2**62)))
def test_offsets_are_read_back(offsets: dict[tuple[str, int], int]) -> None:
    disk = disk_with()
    checkpoints.write_offsets(disk, DATA / "c", offsets)
    assert checkpoints.read_offsets(disk, DATA / "c") == offsets


@pytest.mark.parametrize("data", [b"", b"1\n0\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\nx\n", b"\xff\n", b"0\n"])
def test_an_invalid_checkpoint_is_treated_as_missing(data: bytes) -> None:
    disk = disk_with()
    disk.replace(DATA / "c", data)
    assert checkpoints.read_offsets(disk, DATA / "c") == checkpoints.read_offsets(disk, DATA / "missing") == {}


def test_a_missing_directory_with_committed_records_is_a_lost_replica() -> None:
    disk = disk_with("/data/t-0")
    checkpoints.write_offsets(disk, DATA / checkpoints.HIGH_WATERMARKS, {("t", 0): 5, ("t", 1): 7, ("t", 2): 0})
    assert checkpoints.lost_copies(disk, [DATA]) == ["t-1"], "a partition without committed records cannot lose any"


def test_a_replica_that_moved_to_another_log_directory_is_not_lost() -> None:
    future = f"/other/{'t'}-1.{UUID(int=1).hex}-future"
    disk = disk_with("/other/t-0", future)
    checkpoints.write_offsets(disk, DATA / checkpoints.HIGH_WATERMARKS, {("t", 0): 5, ("t", 1): 7, ("t", 2): 9})
    assert checkpoints.lost_copies(disk, [DATA, OTHER]) == ["t-2"]


def test_a_topic_id_is_read_back() -> None:
    disk = disk_with()
    checkpoints.write_partition_metadata(disk, DATA, UUID(int=7))
    assert checkpoints.read_partition_metadata(disk, DATA) == UUID(int=7)


@pytest.mark.parametrize("data", [None, b"", b"version: 0\n", b"topic_id: no-uuid\n", b"\xff\xfe"])
def test_a_directory_without_a_valid_topic_id_has_none(data: bytes | None) -> None:
    disk = disk_with()
    if data is not None:
        disk.replace(DATA / checkpoints.PARTITION_METADATA, data)
    assert checkpoints.read_partition_metadata(disk, DATA) is None
