"""Descriptors are bounded whatever the number of logs; nobody who reads or writes notices."""

from __future__ import annotations

import os
import random
from pathlib import Path

from brokerd.outside import Outside
from brokerd.storage.disk import OsDisk
from brokerd.storage.log import Log
from brokerd.storage.openfiles import OpenFiles
from tests.unit.storage.test_log import NOW, append, config, everything

LIMIT = 20


def descriptors(folder: Path) -> int:
    """Of files below `folder`."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder))
        except FileNotFoundError:
            pass
    return found


def test_a_few_hundred_logs_are_written_read_rolled_and_flushed_with_twenty_descriptors(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open_files = OpenFiles(LIMIT)
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
            assert [r.offset for r in everything(logs[i])] == list(range(written[i]))
        if rng.random() < 0.02:
            logs[i].flush()
        assert descriptors(tmp_path) <= LIMIT
    for log, count in zip(logs, written, strict=True):
        assert [r.offset for r in everything(log)] == list(range(count))


def test_a_region_under_way_stays_readable_when_its_file_is_let_go_and_deleted(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open_files = OpenFiles(1)
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


def test_what_is_used_stays_open_and_what_is_not_goes() -> None:
    class Held:
        def __init__(self, used: bool = False) -> None:
            self.used, self.open = used, True

        def let_go(self) -> bool:
            used, self.used = self.used, False
            self.open = used
            return not used

    files = OpenFiles(3)
    busy, idle = Held(used=True), Held()
    for held in (busy, idle):
        files.opened(held)
    for _ in range(10):
        busy.used = True
        files.opened(Held())
    assert busy.open and not idle.open and len(files) == 3


def test_the_limit_of_the_process_is_raised_to_what_it_may_have() -> None:
    import resource

    assert Outside().descriptors_max == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
