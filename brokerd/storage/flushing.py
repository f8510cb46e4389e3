"""How much of a log a power cut cannot take, and when it must be more.

Laws: a flush covers what was there when it was planned, and counts only if the log was not cut meanwhile; what blocks (fsync) is in
`Flush.run`, which touches nothing of the log and may run on any thread. Most flushes are of records alone: recovery checks them
batch by batch. One that finds a closed segment leaves a flushed snapshot as well, so that there is little to check. Called by
`log` and the broker's upkeep. Must not come in: when to look.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from brokerd.cluster.model import Now
from brokerd.storage.checkpoints import PARTITION_METADATA
from brokerd.storage.disk import DiskFull, File
from brokerd.storage.snapshots import Snapshot, Snapshots

if TYPE_CHECKING:
    from brokerd.storage.log import Log

log = logging.getLogger(__name__)


class Flush(NamedTuple):
    """What was found unflushed. `run` does the waiting; then tell the log it is `finished`."""

    files: tuple[File, ...]
    end_offset: int
    cuts: int
    snapshot: Snapshot | None
    snapshots: Snapshots

    def run(self) -> None:
        """Raises DiskFailed: the replica is then to be taken offline, never flushed again. A full disk costs the snapshot only."""
        for file in self.files:
            file.fsync()
        self.prepare(flush=True)

    def prepare(self, *, flush: bool) -> None:
        """The records are on the disk: leave the snapshot beside them."""
        if self.snapshot is not None:
            try:
                self.snapshots.prepare(self.snapshot, flush=flush)
            except DiskFull as e:
                log.warning("%s: flushed, but without a snapshot: %s", self.snapshots.folder.name, e)


class Flushing:
    """One log's account. `offset`: everything below it is on the disk; -1 when nothing is known to be."""

    __slots__ = ("_log", "_mono_ms", "_snapshot_asked", "cuts", "offset")

    def __init__(self, log_: Log) -> None:
        self._log = log_
        self.offset = -1
        self._mono_ms = 0
        self._snapshot_asked = -1
        self.cuts = 0
        """How often the log's end was cut: a flush planned before the last cut is void."""

    def begin(self, offset: int, now: Now) -> None:
        self.offset, self._mono_ms = offset, now.mono_ms

    @property
    def sure_end(self) -> int:
        """Where acknowledgements end: at the log's end, or as far as flush.messages and flush.ms=0 let them go (decision 015)."""
        log_ = self._log
        return min(log_.end_offset, max(self.offset, log_.start_offset) + log_.config.unflushed_max)

    def due(self, now: Now) -> bool:
        """Whether a closed segment is not flushed yet, or `flush.messages` or `flush.ms` ask for a flush."""
        if self._behind:
            return True
        config = self._log.config
        unflushed = self._log.end_offset - max(self.offset, self._log.start_offset)
        return unflushed > 0 and (unflushed >= config.flush_messages or now.mono_ms - self._mono_ms >= config.flush_ms)

    @property
    def _behind(self) -> bool:
        """A closed segment has no flushed snapshot behind it."""
        log_ = self._log
        known = max(log_.snapshots.flushed_offset, log_.start_offset, self._snapshot_asked)
        return log_.segments[-1].base_offset > known

    def plan(self, now: Now | None = None, *, snapshot: bool = False) -> Flush | None:
        """What a power cut could take; None when there is nothing. `snapshot`: leave one in any case."""
        log_ = self._log
        if now is not None:
            self._mono_ms = now.mono_ms
        snapshot = (snapshot and log_.snapshots.flushed_offset < log_.end_offset) or self._behind
        if self.offset >= log_.end_offset and not snapshot:
            return None
        files = tuple(s.file for s in log_.segments if s.end_offset > self.offset and s.size)
        if self.offset < 0:
            # Whose the records are, before they count, and what they go on from.
            first = (log_.folder / PARTITION_METADATA, *(log_.snapshots.path(o) for o in sorted(log_.snapshots.kept)))
            files = (*(log_.disk.open(path) for path in first if log_.disk.exists(path)), *files)
        state = None
        if snapshot:
            state, self._snapshot_asked = log_.snapshot(flushed=True), log_.end_offset  # a full disk is not asked again
        return Flush(files, log_.end_offset, self.cuts, state, log_.snapshots)

    def finished(self, done: Flush) -> None:
        """`done.run` has returned. Void when the log was cut meanwhile."""
        sound = done.cuts == self.cuts
        if sound:
            self.offset = max(self.offset, done.end_offset)
        if done.snapshot is not None:
            self._log.snapshots.adopt(done.snapshot, sound=sound and self._log.has_segment(done.snapshot.segment))

    def cut(self, end_offset: int) -> None:
        self.offset, self._snapshot_asked = min(self.offset, end_offset), -1
