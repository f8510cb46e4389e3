"""State of the compaction of a log: the cleaner offset and the compacted files that will replace segments.

The cleaner offset is a hint: if it is lost, the next pass reads the log from its start. Does not contain the passes (`cleaner`).
"""

from __future__ import annotations

import logging
from pathlib import Path

from brokerd.storage import recovery
from brokerd.storage.disk import Disk, DiskFull

log = logging.getLogger(__name__)


class CleanerState:
    """`offset`: all records below it are compacted."""

    __slots__ = ("disk", "folder", "offset", "swaps")

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self.offset = 0
        self.swaps: dict[int, Path] = {}
        """{base offset: compacted file that will replace segments}. Recovery would complete the replacement."""

    def load(self, end_offset: int) -> None:
        """Read the offset when the log is opened. It is discarded if the log ends below it."""
        self.offset = recovery.read_number(self.disk, self.folder / recovery.CLEANER_OFFSET)
        self._lower(end_offset)

    def record_cleaned(self, offset: int) -> None:
        """A pass has compacted all records below `offset`. On a full disk the offset is not stored."""
        self.offset = offset
        try:
            self.disk.replace(self.folder / recovery.CLEANER_OFFSET, str(offset).encode())
        except DiskFull as e:
            log.warning("cleaner offset not written: partition=%s error=%s", self.folder.name, e)

    def before_truncation(self, offset: int) -> None:
        """The log will be truncated to `offset`. Compacted files contain records that will be deleted."""
        self.drop_swaps()
        self._lower(offset)

    def drop_swaps(self) -> None:
        for swap in self.swaps.values():
            self.disk.unlink(swap)
        self.swaps.clear()

    def segment_deleted(self, base_offset: int) -> None:
        """Retention deletes the segment: its compacted file would bring the records back."""
        if (swap := self.swaps.pop(base_offset, None)) is not None:
            self.disk.unlink(swap)

    def _lower(self, offset: int) -> None:
        # Otherwise a later tombstone would look like one whose older records are already removed.
        if self.offset > offset:
            self.disk.unlink(self.folder / recovery.CLEANER_OFFSET)
            self.offset = 0
