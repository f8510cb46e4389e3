"""How many segment files are open at once: a broker of ten thousand partitions has fewer descriptors than segments.

Law: never more than `limit` are kept; of those the ones unused for longest go first (a second chance each, as a clock hand gives it). A
file under way to a reader stays open for as long as that lasts, beyond the limit. Called by `segment`. Must not come in: what is in them.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol


class Holder(Protocol):
    """Who keeps a file open."""

    def let_go(self) -> bool:
        """Close it unless it was used since the last call; False when it was."""


class OpenFiles:
    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._lock = Lock()
        """Copies between directories open files on a thread of their own."""
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
