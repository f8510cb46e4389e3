"""Scrubbing job: reads a slice of a closed segment again and checks every batch. It uses its own file handle.

Does not contain the selection of segments or the reaction to damage (`scrub`).
"""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.disk import Disk
from brokerd.storage.segment import valid_batches


class SegmentScrub:
    """Checks batches from `position`, the start of a batch. `end` is the size of the segment, `offset` the minimum base offset of the next batch.
    After `run`, `position` is the start of the next slice and `problem` describes damage there, or is None."""

    __slots__ = ("_bytes_max", "_disk", "end", "offset", "path", "position", "problem")

    def __init__(self, disk: Disk, path: Path, position: int, end: int, offset: int, bytes_max: int) -> None:
        self._disk, self.path, self.position, self.end, self.offset = disk, path, position, end, offset
        self._bytes_max = bytes_max
        self.problem: str | None = None

    def run(self) -> None:
        """Raises DiskFailed if the device cannot read the data."""
        upto = self.position + self._bytes_max
        file = self._disk.open(self.path)
        for at, header in valid_batches(file, self.position, self.end):
            if header.base_offset < self.offset:
                self.problem = (
                    f"{self.path.name}: offset {header.base_offset} at position {at} is lower than the previous offset"
                )
                return
            self.position, self.offset = at + header.size, header.next_offset
            if self.position >= upto:
                return
        if self.position < self.end:
            self.problem = f"{self.path.name}: the batch at position {self.position} is damaged"
