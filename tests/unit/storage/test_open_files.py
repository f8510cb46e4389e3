"""The number of open file descriptors is bounded for any number of logs. Reads and writes are not affected."""

from __future__ import annotations

import os
import random
from pathlib import Path

from brokerd.storage.log import Log
from brokerd.storage.open_files import OpenFiles
from brokerd.storage.os_disk import OsDisk
from tests.unit.storage.test_log import NOW, append, config, read_all

LIMIT = 20


def descriptors(folder: Path) -> int:
    """Open descriptors of files below `folder`."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder))
        except FileNotFoundError:
            pass
    return found


def test_hundreds_of_logs_work_with_twenty_file_descriptors(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.limit_open_files(OpenFiles(LIMIT))
    logs = []
    for i in range(300):
        disk.mkdir(tmp_path / f"t-{i}")
        logs.append(Log.open(tmp_path / f"t-{i}", config(segment_bytes="400"), disk, NOW))
    rng = random.Random(1)
    written = [0] * len(logs)
    for _ in range(2_000):
        i = rng.randrange(len(logs))
        append(logs[i])
        written[i] += 1
        if rng.random() < 0.1:
            i = rng.randrange(len(logs))
            assert [r.offset for r in read_all(logs[i])] == list(range(written[i]))
        if rng.random() < 0.02:
            logs[i].flush()
        assert descriptors(tmp_path) <= LIMIT
    for log, count in zip(logs, written, strict=True):
        assert [r.offset for r in read_all(log)] == list(range(count))


def test_a_file_region_in_flight_stays_readable_after_its_file_is_closed_and_deleted(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.limit_open_files(OpenFiles(1))
    for name in "ab":
        disk.mkdir(tmp_path / name)
    one, other = (Log.open(tmp_path / name, config(), disk, NOW) for name in "ab")
    append(one)
    region = one.read(0, 1 << 20, 1).regions[0]
    append(other)
    append(other)
    assert descriptors(tmp_path) == 2, "the one under way, and one kept"
    one.reset_to(9)
    assert len(region.file.pread(region.length, 0)) == region.length
    del region
    assert descriptors(tmp_path) <= 1 + 1


def test_used_files_stay_open_and_unused_ones_are_closed() -> None:
    class FakeFile:
        def __init__(self, used: bool = False) -> None:
            self.used, self.open = used, True

        def let_go(self) -> bool:
            used, self.used = self.used, False
            self.open = used
            return not used

    files = OpenFiles(3)
    busy, idle = FakeFile(used=True), FakeFile()
    for used_file in (busy, idle):
        files.on_opened(used_file)
    for _ in range(10):
        busy.used = True
        files.on_opened(FakeFile())
    assert busy.open and not idle.open and len(files) == 3
