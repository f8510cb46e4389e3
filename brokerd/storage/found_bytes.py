"""Memory of the bytes of a file that were found in the page cache a moment ago. Several consumers that read the same records share one check. Pure.

Does not contain: system calls, loads.
"""

from __future__ import annotations

from typing import NamedTuple

VALID_SECONDS = 0.02
"""Time for which bytes count as found. The kernel may evict them within this time; then a send or read waits for the device."""


class FoundBytes(NamedTuple):
    """Bytes from `start` to `end` were in the page cache at a time that is at most VALID_SECONDS before `until_s` (monotonic)."""

    start: int
    end: int
    until_s: float

    def contains(self, position: int, length: int, now_s: float) -> bool:
        return self.start <= position and position + length <= self.end and now_s < self.until_s

    def with_range(self, position: int, length: int, now_s: float) -> FoundBytes:
        """Add bytes that were found now. A range that touches a valid one is merged with it and ends with it, because its older part was found earlier."""
        if now_s < self.until_s and position <= self.end and self.start <= position + length:
            return FoundBytes(min(self.start, position), max(self.end, position + length), self.until_s)
        return FoundBytes(position, position + length, now_s + VALID_SECONDS)


NOTHING_FOUND = FoundBytes(0, 0, 0.0)
