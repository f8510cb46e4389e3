"""Limits the number of open segment files. A broker with ten thousand partitions has more segments than file descriptors.

At most `limit` files are kept open. The least recently used files are closed first (clock algorithm). A file that is being sent to a client stays
open until it is sent. It does not count for the limit.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol


class FileOwner(Protocol):
    """An object that keeps a file open."""

    def let_go(self) -> bool:
        """Close the file, unless it was used since the last call. Returns whether it was closed."""


class OpenFiles:
    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._lock = Lock()
        """Moves between log directories open files on another thread."""
        self._owners: dict[FileOwner, None] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def on_opened(self, owner: FileOwner) -> None:
        with self._lock:
            owners = self._owners
            owners.pop(owner, None)
            owners[owner] = None
            chances = len(owners)
            while len(owners) > self.limit:
                oldest = next(iter(owners))
                del owners[oldest]
                if not oldest.let_go() and chances > 0:
                    chances -= 1
                    owners[oldest] = None
