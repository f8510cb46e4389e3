"""The stored log start offset of one log, and its flush: records that a client deleted do not return after a power failure.

`LogStartFlush.run` blocks and does not access the log, so it may run on any thread. The file is written by the owner of the log, in the page
cache. Retention needs no flush, because records that reappear are deleted again. Does not contain the schedule.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple, Protocol

from brokerd.storage.disk import Disk, DiskFull

log = logging.getLogger(__name__)

LOG_START = "log-start-offset"
"""Name of the file in the partition directory."""


class StartedLog(Protocol):
    """The part of a log that this module needs."""

    folder: Path
    disk: Disk
    start_offset: int


class LogStartFlush(NamedTuple):
    """A flush of the stored log start offset. Call `StoredLogStart.on_finished` after `run`."""

    path: Path
    disk: Disk
    offset: int
    resets: int

    def run(self) -> None:
        """Raises DiskFailed. Nothing is flushed if the log was reset since then."""
        if self.disk.exists(self.path):
            self.disk.open(self.path).fsync()
            self.disk.sync_folder(self.path.parent)


class StoredLogStart:
    """The stored log start offset of one log. Deleted records below `flushed` stay deleted after a power failure. `flushed` is 0 when the log is opened,
    because a killed process may have written the file without a flush."""

    __slots__ = ("_log", "_reported", "_resets", "flushed", "lowered")

    def __init__(self, log_: StartedLog) -> None:
        self._log = log_
        self.flushed = 0
        self.lowered = False
        """The file was lowered at opening and not flushed since. A flush of records must flush it first."""
        self._reported: int | None = None
        self._resets = 0

    @property
    def pending(self) -> bool:
        """A flush is needed and has not covered the log start offset yet."""
        return self._reported is not None or self.lowered

    @property
    def reported(self) -> int:
        """The log start offset that a follower reports to its leader. While a flush is pending, this is the offset before the raise."""
        return self._log.start_offset if self._reported is None else self._reported

    def request(self, before: int) -> bool:
        """Request a flush of the raised log start offset. `before`: the offset before the raise. Returns whether a flush is needed."""
        if self.flushed >= self._log.start_offset:
            return False
        if self._reported is None:
            self._reported = before
        return True

    def write(self) -> None:
        """Write the file. Raises DiskFull, DiskFailed.

        The file is overwritten in place. Its content fits into one sector, so a power failure leaves the old offset or the new one. With a rename, a power
        failure could leave an empty file although the old offset was flushed.
        """
        path, disk, data = self._log.folder / LOG_START, self._log.disk, _encode(self._log.start_offset)
        if disk.size(path) == len(data):
            disk.open(path).pwrite(data, 0)
        else:
            disk.replace(path, data)

    def plan(self) -> LogStartFlush | None:
        """A flush of the log start offset. None: the disk is full. Raises DiskFailed."""
        try:
            self.write()
        except DiskFull as e:
            log.warning("log start offset not written: partition=%s error=%s", self._log.folder.name, e)
            return None
        return LogStartFlush(self._log.folder / LOG_START, self._log.disk, self._log.start_offset, self._resets)

    def on_finished(self, done: LogStartFlush) -> None:
        """`done.run` has returned. Still pending if the log start offset was raised since then."""
        if done.resets != self._resets:
            return
        self.flushed, self.lowered = max(self.flushed, done.offset), False
        if self.flushed >= self._log.start_offset:
            self._reported = None

    def lower(self) -> None:
        """Replace the stored offset at the opening of a log that ends below it. Records up to the stored offset were lost, and the stored offset would hide
        records that are appended later. The flush follows in a job, and before any flush of records (`Flushing.plan`). Raises DiskFull, DiskFailed."""
        self.write()
        self.lowered = True

    def reset(self) -> None:
        """The log was deleted and starts at another offset. The stored offset may be higher: it would hide records that are appended later."""
        self._log.disk.unlink(self._log.folder / LOG_START)
        self._resets += 1
        self.flushed, self.lowered, self._reported = 0, False, None


def _encode(offset: int) -> bytes:
    """The content of the file, always of the same length."""
    return b"%020d" % offset
