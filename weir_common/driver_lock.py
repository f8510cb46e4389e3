"""The lock of a Spark driver's folder. The file names the process that has the lock, so a worker that lost the process id of a driver finds it again.

Invariants: the kernel releases the lock with the end of the process, also after kill -9. The process id stays in the file, so a reader must check that
the process is a driver of this folder. Does not contain: processes.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "_lock"


class FolderLocked(Exception):
    """Another process has the lock."""


class FolderLock:
    """Locks the folder for this process until `close`, and writes the process id. Raises FolderLocked."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise FolderLocked(str(folder)) from None
        # Only after the lock: the process id of another driver must not be removed.
        os.truncate(self._fd, 0)
        os.write(self._fd, str(os.getpid()).encode())

    def close(self) -> None:
        os.close(self._fd)


def last_pid(folder: Path) -> int | None:
    """The process that locked the folder last; None if there is none. It may have ended."""
    try:
        text = (folder / LOCK_FILE).read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None
