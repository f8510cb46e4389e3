"""The disk under one of a broker's two log directories fails and comes back with its journal's content: an ext4 file system, shut down during the test.

From then on every call returns EIO, as with a failed disk controller. Unflushed data is lost.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import LogLines, create, leader, produce, read, recovered, state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
EXT4_IOC_SHUTDOWN = 0x8004587D
NOLOGFLUSH = 2
"""The content of the journal in memory is lost too."""
BROKER = 1


class Disk:
    """`folder` is on its own device, backed by a file."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder, self._image = folder, image
        folder.mkdir()
        with open(image, "wb") as f:
            f.truncate(96 * 1024 * 1024)
        self._run("mkfs.ext4", "-q", "-F", str(image))
        self.mount()

    def _run(self, *words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"a failing disk needs its own file system; {words[0]} failed: {done.stderr}"

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self._image), str(self.folder))

    def unmount(self) -> None:
        self._run("umount", "-l", str(self.folder))

    def fail(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))
        finally:
            os.close(fd)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "other-disk", tmp_path / "image")
    yield made
    made.unmount()


def replica_bytes(name: str, *directories: Path) -> bytes:
    """The bytes of a broker's replica, in whichever log directory it is."""
    folder = next(d / f"{name}-0" for d in directories if (d / f"{name}-0").exists())
    return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))


def test_a_failed_disk_loses_no_record_and_its_replicas_recover_after_a_remount(tmp_path: Path, disk: Disk) -> None:
    first, second = tmp_path / f"data-{BROKER}", disk.folder / "data"
    c = LocalCluster(tmp_path, 3, {"replica.lag.time.max.ms": "2000"})
    c.own_settings[BROKER] = {"log.dirs": f"{first},{second}"}
    with c:
        names = [f"t{i}" for i in range(4)]
        for name in names:
            create(c, name, min_insync=2, replicas=(1, 2, 3))
            produce(c, name, [f"{name}-before{i}" for i in range(50)])
        lost = [n for n in names if (second / f"{n}-0").exists()]
        kept = [n for n in names if (first / f"{n}-0").exists()]
        assert lost and kept and sorted(lost + kept) == names
        process, log_lines = c.processes[f"broker-{BROKER}"], LogLines(c, f"broker-{BROKER}")
        disk.fail()
        for name in names:
            produce(c, name, [f"{name}-meanwhile{i}" for i in range(50)])
        for name in lost:
            wait_for(lambda name=name: leader(c, name) in (2, 3), f"{name} to be led by a broker that has it")  # type: ignore[misc]
            wait_for(lambda name=name: BROKER not in state(c, name).isr_ids, f"{name} to go on without the dead disk")  # type: ignore[misc]
        assert log_lines.wait(log_phrases.LOG_DIRECTORY_OFFLINE, str(second), "online=1 total=2")
        assert process.poll() is None, "the broker ended with one failed disk"
        assert all(leader(c, name) == BROKER for name in kept)
        c.kill(f"broker-{BROKER}", signal.SIGTERM)
        disk.unmount()
        disk.mount()
        c.start_broker(BROKER)
        recovered(c)
        for name in names:
            expected = [f"{name}-{when}{i}" for when in ("before", "meanwhile") for i in range(50)]
            assert read(c, name) == expected
            wait_for(
                lambda name=name: (
                    replica_bytes(name, first, second)
                    == replica_bytes(name, tmp_path / "data-2")
                    == replica_bytes(name, tmp_path / "data-3")
                ),  # type: ignore[misc]
                f"replicas of {name} equal byte for byte",
            )
