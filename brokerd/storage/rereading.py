"""A slice of a closed segment read again: is every batch what it was written as? A job: it opens the file for itself and owns nothing else.

Called by `scrub`. Must not come in: which segment is next, what is done about damage.
"""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.disk import Disk
from brokerd.storage.segment import sound


class Rereading:
    """From `position`, the edge of a batch, on; `end` is the segment's size, `offset` the least that the next batch may have. After `run`,
    `position` is where the next slice begins and `problem` says what is wrong there, None for nothing."""

    __slots__ = ("_bytes_max", "_disk", "end", "offset", "path", "position", "problem")

    def __init__(self, disk: Disk, path: Path, position: int, end: int, offset: int, bytes_max: int) -> None:
        self._disk, self.path, self.position, self.end, self.offset = disk, path, position, end, offset
        self._bytes_max = bytes_max
        self.problem: str | None = None

    def run(self) -> None:
        """Raises DiskFailed when the device does not give back what it holds."""
        upto = self.position + self._bytes_max
        file = self._disk.open(self.path)
        for at, header in sound(file, self.position, self.end):
            if header.base_offset < self.offset:
                self.problem = f"{self.path.name}: offset {header.base_offset} at position {at} goes back"
                return
            self.position, self.offset = at + header.size, header.next_offset
            if self.position >= upto:
                return
        if self.position < self.end:
            self.problem = f"{self.path.name}: the batch at position {self.position} is damaged"
