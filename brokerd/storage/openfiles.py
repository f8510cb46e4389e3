"""Limits the number of open segment files. A broker with ten thousand partitions has more segments than file descriptors.

At most `limit` files are kept open. The least recently used files are closed first (clock algorithm). A file that is being sent to a client stays
open until it is sent. It does not count for the limit.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol


class Holder(Protocol):
    """An object that keeps a file open."""

    def let_go(self) -> bool:
        """Close the file, unless it was used since the last call. Returns whether it was closed."""


class OpenFiles:
    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._lock = Lock()
        """Moves between log directories open files on another thread."""
        self._holders: dict[Holder, None] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        with self._lock:
            holders = self._holders
            holders.pop(holder, None)
            holders[holder] = None
            chances = len(holders)
            while len(holders) > self.limit:
                oldest = next(iter(holders))
                del holders[oldest]
                if not oldest.let_go() and chances > 0:
                    chances -= 1
                    holders[oldest] = None
