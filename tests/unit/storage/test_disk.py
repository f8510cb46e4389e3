"""One conformance test for the real and the simulated disk, and the faults of the simulated disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.os_disk import OsDisk
from tests.simulation.disk import Crashed, SimDisk


@pytest.fixture(params=["os", "sim"])
def disk_and_folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    disk: Disk = OsDisk() if request.param == "os" else SimDisk()
    folder = tmp_path / "data" / "t-0"
    disk.mkdir(folder)
    return disk, folder


def test_written_bytes_are_read_at_any_position(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    file = disk.open(folder / "a", create=True)
    file.pwrite(b"hello world", 0)
    file.pwrite(memoryview(b"W"), 6)
    file.pwrite(b"!", 14)
    assert file.pread(100, 0) == b"hello World\0\0\0!"
    assert file.pread(5, 6) == b"World" and file.pread(5, 50) == b""
    assert file.size() == disk.size(folder / "a") == 15
    file.truncate(5)
    file.truncate(7)
    file.fsync()
    assert disk.read(folder / "a") == b"hello\0\0"


def test_a_missing_file_is_reported(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    assert disk.read(folder / "x") is None and disk.size(folder / "x") == -1 and not disk.exists(folder / "x")
    disk.unlink(folder / "x")
    disk.discard(folder / "x")
    for attempt in (
        lambda: disk.open(folder / "x"),
        lambda: disk.rename(folder / "x", folder / "y"),
        lambda: disk.listdir(folder / "none"),
        lambda: disk.open(folder / "none" / "x", create=True),
    ):
        with pytest.raises(DiskFailed):
            attempt()


def test_files_are_renamed_and_deleted(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    disk.replace(folder / "a", b"1", durable=True)
    disk.replace(folder / "a", b"22")
    disk.replace(folder / "b", b"3")
    assert disk.listdir(folder) == ["a", "b"]
    disk.rename(folder / "b", folder / "a")
    assert disk.read(folder / "a") == b"3" and disk.listdir(folder) == ["a"]
    disk.sync_folder(folder)
    disk.sync_all(folder)
    disk.unlink(folder / "a")
    assert disk.listdir(folder) == []


def test_an_open_file_stays_readable_after_its_deletion(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    disk.replace(folder / "a", b"old")
    held = disk.open(folder / "a")
    disk.replace(folder / "a", b"new")
    assert (held.pread(3, 0), disk.read(folder / "a")) == (b"old", b"new")
    held = disk.open(folder / "a")
    disk.discard(folder / "a")
    assert held.pread(3, 0) == b"new"


def test_directories_are_created_moved_and_removed_with_their_content(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    disk.mkdir(folder)
    disk.replace(folder / "a", b"1")
    assert disk.isdir(folder) and not disk.isdir(folder / "a") and disk.exists(folder)
    assert folder.name in disk.listdir(folder.parent)
    moved = folder.with_name("t-0-delete")
    disk.rename(folder, moved)
    assert disk.read(moved / "a") == b"1" and not disk.exists(folder)
    disk.rmtree(moved)
    disk.rmtree(moved)
    assert not disk.exists(moved)
    assert disk.space(folder.parent).free > 0


# -- the simulated disk alone ------------------------------------------------------------------------------------------
FOLDER = Path("/d")


def sim() -> SimDisk:
    disk = SimDisk()
    disk.mkdir(FOLDER)
    return disk


def test_a_power_cut_keeps_flushed_bytes_and_a_prefix_of_the_others() -> None:
    seen = set()
    for seed in range(200):
        disk = sim()
        file = disk.open(FOLDER / "f", create=True)
        file.pwrite(b"A" * 600, 0)
        file.fsync()
        file.pwrite(b"B" * 600, 600)
        file.pwrite(b"C" * 600, 1200)
        left = disk.power_cut(random.Random(seed)).read(FOLDER / "f")
        assert left is not None and (b"A" * 600 + b"B" * 600 + b"C" * 600).startswith(left) and len(left) >= 600
        seen.add(len(left))
    assert {600, 600 + 512, 1200, 1800} <= seen


def test_a_power_cut_after_a_flush_of_the_file_system_loses_nothing() -> None:
    for seed in range(20):
        disk = SimDisk()
        disk.mkdir(FOLDER)
        for i in range(5):
            disk.replace(FOLDER / f"{i}", bytes(2_000))
        disk.rename(FOLDER / "1", FOLDER / "9")
        disk.sync_all(FOLDER)
        found = disk.power_cut(random.Random(seed))
        assert found.listdir(FOLDER) == ["0", "2", "3", "4", "9"]
        assert {found.size(FOLDER / n) for n in found.listdir(FOLDER)} == {2_000}


def test_a_power_cut_loses_unflushed_names_in_order() -> None:
    found = set()
    for seed in range(100):
        disk = sim()
        for name in "abc":
            disk.open(FOLDER / name, create=True)
            if name == "a":
                disk.sync_folder(FOLDER)
        found.add("".join(disk.power_cut(random.Random(seed)).listdir(FOLDER)))
    assert found == {"a", "ab", "abc"}


def test_a_power_cut_during_the_deletion_of_a_directory_leaves_no_file_without_directory() -> None:
    """If files remained, a new directory of the same name would contain them."""
    disk, found = SimDisk(), set()
    disk.mkdir(FOLDER)
    for name in "abc":
        disk.open(FOLDER / name, create=True).fsync()
    disk.rmtree(FOLDER)
    assert not disk.exists(FOLDER)
    for again in (False, True):
        if again:
            disk.mkdir(FOLDER)
            disk.open(FOLDER / "new", create=True)
        for seed in range(60):
            after = disk.power_cut(random.Random(seed))
            assert after.exists(FOLDER) or not any(FOLDER in path.parents for path in after.names)
            found.add("".join(after.listdir(FOLDER)) if after.exists(FOLDER) else None)
    assert found == {None, "abc", "bc", "c", "", "new"}


def test_a_power_cut_after_the_rename_of_a_directory_leaves_no_file_without_directory() -> None:
    """The replay of the rename must not remove the new directory that has the old name."""
    disk, found = SimDisk(), set()
    disk.mkdir(FOLDER)
    disk.open(FOLDER / "old", create=True).fsync()
    disk.rename(FOLDER, FOLDER.with_name("d-delete"))
    disk.mkdir(FOLDER)
    disk.open(FOLDER / "new", create=True)
    for seed in range(60):
        after = disk.power_cut(random.Random(seed))
        found.add("".join(after.listdir(FOLDER)) if after.exists(FOLDER) else None)
    assert found == {"old", None, "", "new"}


def test_a_killed_process_loses_no_written_byte() -> None:
    disk = sim()
    disk.open(FOLDER / "f", create=True).pwrite(b"x", 0)
    assert disk.killed().read(FOLDER / "f") == b"x"


def test_a_full_disk_writes_a_part_and_reports_it() -> None:
    disk = SimDisk(bytes_max=10)
    disk.mkdir(FOLDER)
    file = disk.open(FOLDER / "f", create=True)
    with pytest.raises(DiskFull):
        file.pwrite(b"x" * 20, 0)
    assert file.size() == 10


def test_a_crash_happens_at_the_requested_step() -> None:
    disk = sim()
    disk.crash_at = 2
    file = disk.open(FOLDER / "f", create=True)
    with pytest.raises(Crashed):
        file.pwrite(b"half", 0)
    assert disk.killed().read(FOLDER / "f") == b"ha"


def test_a_file_keeps_its_id_and_no_copy_has_it(disk_and_folder: tuple[Disk, Path]) -> None:
    disk, folder = disk_and_folder
    assert disk.file_id(folder / "a") == ""
    disk.replace(folder / "a", b"1")
    first = disk.file_id(folder / "a")
    disk.open(folder / "a").pwrite(b"22", 0)
    disk.rename(folder / "a", folder / "b")
    assert first and disk.file_id(folder / "b") == first
    disk.replace(folder / "a", b"22")
    disk.unlink(folder / "b")
    disk.replace(folder / "b", b"22")  # file systems reuse the inode number of a removed file
    assert len({first, disk.file_id(folder / "a"), disk.file_id(folder / "b")}) == 3
