"""A disk of its own for a log directory: an ext4 file system in a file, behind a loop device. Needs root.

`fail` shuts the file system down: every call returns EIO. `slow_writes` lets a process write one byte per second to the device (blkio or io controller):
a flush does not return for an hour, and writes to the page cache work, as with a device that does not respond.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
NOLOGFLUSH = 2
"""The content of the journal in memory is lost too."""
CGROUP_V1, CGROUP_V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")


class LoopDisk:
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
        assert done.returncode == 0, f"a disk of its own needs a file system; {words[0]} failed: {done.stderr}"

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

    @contextlib.contextmanager
    def slow_writes(self, pid: int) -> Iterator[None]:
        """The device writes one byte per second for this process, until the end of the block."""
        number = os.stat(self.folder).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        v1 = CGROUP_V1.exists()
        group = (CGROUP_V1 if v1 else CGROUP_V2) / f"weir-hung-disk-{pid}"
        limit, hung, free = (
            ("blkio.throttle.write_bps_device", f"{device} 1", f"{device} 0")
            if v1
            else ("io.max", f"{device} wbps=1", f"{device} wbps=max")
        )
        group.mkdir()
        try:
            (group / limit).write_text(hung)
            (group / "cgroup.procs").write_text(f"{pid}")
            yield
        finally:
            (group / limit).write_text(free)  # the waiting writes go on
            with contextlib.suppress(ProcessLookupError):
                (group.parent / "cgroup.procs").write_text(f"{pid}")
            with contextlib.suppress(OSError):  # a process that ends is in it for some more milliseconds
                group.rmdir()
