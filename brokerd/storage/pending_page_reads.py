"""Ranges of files whose pages the device may still be reading.

The page cache counts such a page as cached (`cachestat`), but a read of it waits for the device. So bytes of these ranges are checked page by page until they
are found in memory. This check costs ten times as much.
Invariants: a range is known before its read starts, and for `PENDING_S` after it. Ranges are stored by path, because jobs (scrubbing, compaction) read a file
through their own handles, and the loaded pages are shared by all handles. Used by several threads.
Does not contain system calls.
"""

from __future__ import annotations

import threading

PENDING_S = 60
"""Seconds after a read in which its pages may still be pending. A slower device is unusable for clients anyway."""
READ_AHEAD_BYTES = 16 * 1024 * 1024
"""Bytes that the kernel may read beyond an ordinary read: twice the largest read-ahead of usual devices (`read_ahead_kb`)."""
RANGES_MAX = 64
"""Maximum number of ranges of one file. Above the limit a new range is joined with all others, and bytes that are found in memory do not split a range."""
FILES_MAX = 4_096
"""Number of files with ranges above which expired ranges are removed."""

Range = tuple[int, int, float]
"""First byte, byte after the last one, monotonic time of the read."""


class PendingPageReads:
    """All positions and lengths are in bytes, all times in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[Range, ...]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of files with ranges."""
        return len(self._ranges)

    def add(self, path: str, position: int, length: int, now_s: float) -> None:
        """The bytes are about to be read from the device. `length` includes what the kernel may read ahead."""
        start, end = position, position + length
        with self._lock:
            kept = []
            for known in self._ranges.get(path, ()):
                if now_s - known[2] >= PENDING_S:
                    continue
                if known[0] <= end and start <= known[1]:
                    start, end = min(start, known[0]), max(end, known[1])
                else:
                    kept.append(known)
            if len(kept) >= RANGES_MAX:
                start = min(start, *(known[0] for known in kept))
                end = max(end, *(known[1] for known in kept))
                kept.clear()
            self._ranges[path] = (*kept, (start, end, now_s))
            if len(self._ranges) > FILES_MAX:
                for other, ranges in list(self._ranges.items()):
                    if all(now_s - known[2] >= PENDING_S for known in ranges):
                        del self._ranges[other]

    def contains(self, path: str, position: int, length: int, now_s: float) -> bool:
        """Return whether one of the bytes may be pending."""
        ranges = self._ranges.get(path)
        if ranges is None:
            return False
        return any(
            start < position + length and position < end and now_s - since_s < PENDING_S
            for start, end, since_s in ranges
        )

    def on_cached(self, path: str, position: int, length: int, since_s: float) -> None:
        """All of the bytes were in memory at the time `since_s`. A read that started later keeps its range."""
        until = position + length
        with self._lock:
            left: list[Range] = []
            for known in self._ranges.get(path, ()):
                start, end, began_s = known
                splits = start < position and until < end
                if began_s > since_s or until <= start or end <= position or (splits and len(left) >= RANGES_MAX):
                    left.append(known)
                    continue
                if start < position:
                    left.append((start, position, began_s))
                if until < end:
                    left.append((until, end, began_s))
            if left:
                self._ranges[path] = tuple(left)
            else:
                self._ranges.pop(path, None)
