"""A slice of a log: its size and bytes, over the borders of files."""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.slices import NOTHING, Slice
from brokerd.wire.framing import FileRegion
from tests.simulation.disk import SimDisk


def test_a_slice_over_two_files_has_the_bytes_of_both() -> None:
    disk = SimDisk()
    disk.mkdir(Path("/data"))
    disk.replace(Path("/data/a"), b"0123456")
    disk.replace(Path("/data/b"), b"abc")
    files = [disk.open(Path(f"/data/{name}")) for name in "ab"]
    found = Slice((FileRegion(files[0], 3, 4), FileRegion(files[1], 0, 2)))
    assert (found.size, found.bytes()) == (6, b"3456ab")


def test_an_empty_slice_has_no_bytes() -> None:
    assert (NOTHING.size, NOTHING.bytes()) == (0, b"")
