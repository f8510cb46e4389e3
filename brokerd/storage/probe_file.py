"""The small file of a log directory that its probe writes and flushes. Does not contain the schedule and the limits (`maintenance.disk_probe`)."""

from __future__ import annotations

import time
from pathlib import Path

from brokerd.storage.disk import Disk

PROBE_FILE = ".probe"
PROBE_BYTES = 4_096
"""One block. After the first write the block exists, so a flush changes no metadata of the file system and a full disk does not matter."""


def write_probe(disk: Disk, folder: Path) -> int:
    """Write and flush the file, and return the time in ms. Blocks. Raises DiskFailed, DiskFull."""
    began_ns = time.monotonic_ns()
    file = disk.open(folder / PROBE_FILE, create=True)
    file.pwrite(str(began_ns).encode().ljust(PROBE_BYTES), 0)
    file.fsync()
    return (time.monotonic_ns() - began_ns) // 1_000_000
