"""Flushing of a log: the flushed offset and when the next flush is due.

A flush covers the records that existed when it was planned. It is ignored if the log was truncated since then. The blocking part (fsync) is
`Flush.run`, which does not access the log and may run on any thread. Most flushes write only records, which recovery checks batch by batch.
A flush after a segment was closed also writes a snapshot, so that recovery has little to check. Does not contain the schedule.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage.checkpoints import PARTITION_METADATA
from brokerd.storage.disk import Disk, DiskFull, File
from brokerd.storage.log_start import LOG_START, StoredLogStart
from brokerd.storage.segment import Segment
from brokerd.storage.snapshots import Snapshot, Snapshots

log = logging.getLogger(__name__)


class FlushableLog(Protocol):
    """The part of a log that flushing needs."""

    folder: Path
    disk: Disk
    config: TopicConfig
    snapshots: Snapshots
    start_offset: int
    stored_start: StoredLogStart

    @property
    def segments(self) -> Sequence[Segment]: ...

    @property
    def end_offset(self) -> int: ...

    def snapshot(self, *, flushed: bool) -> Snapshot: ...

    def has_segment(self, base_offset: int) -> bool: ...


class Flush(NamedTuple):
    """The unflushed part of a log. `run` blocks. Call `Flushing.on_finished` afterwards."""

    files: tuple[File, ...]
    end_offset: int
    cuts: int
    snapshot: Snapshot | None
    snapshots: Snapshots
    disk: Disk
    before: tuple[Path, ...] = ()
    """Small files that recovery needs with the records. They are flushed before the segments, if they exist."""

    def run(self) -> None:
        """Raises DiskFailed: the caller takes the replica offline and never flushes it again. On a full disk only the snapshot is missing."""
        for path in self.before:
            if self.disk.exists(path):
                self.disk.open(path).fsync()
        for file in self.files:
            file.fsync()
        self.prepare(flush=True)

    def prepare(self, *, flush: bool) -> None:
        """Write the snapshot of the log, after its records are flushed. Without `flush` the snapshot is not flushed. A full disk is logged."""
        if self.snapshot is not None:
            try:
                self.snapshots.prepare(self.snapshot, flush=flush)
            except DiskFull as e:
                log.warning(
                    "log flushed without producer snapshot: partition=%s error=%s", self.snapshots.folder.name, e
                )


class Flushing:
    """Flush state of one log. `offset`: all records below it are flushed; -1: unknown."""

    __slots__ = ("_log", "_mono_ms", "_snapshot_requested", "cuts", "offset")

    def __init__(self, log_: FlushableLog) -> None:
        self._log = log_
        self.offset = -1
        self._mono_ms = 0
        self._snapshot_requested = -1
        self.cuts = 0
        """Number of truncations of the log end. A flush that was planned before the last truncation is ignored."""

    def begin(self, offset: int, now: Now) -> None:
        self.offset, self._mono_ms = offset, now.mono_ms

    @property
    def acknowledgeable_end(self) -> int:
        """The end of the records that may be acknowledged: the log end offset, or less because of flush.messages or flush.ms=0 (decision 015)."""
        log_ = self._log
        end, flushed, unflushed_max = log_.end_offset, self.offset, log_.config.unflushed_max
        if end - flushed <= unflushed_max:
            return end  # the usual case: with the default settings each append ends here
        return min(end, max(flushed, log_.start_offset) + unflushed_max)

    def due(self, now: Now) -> bool:
        """Return whether a closed segment or the topic id of a new log is not flushed yet, or `flush.messages` or `flush.ms` require a flush.

        A new log is flushed as soon as it has records. After a power failure a log without topic id could belong to a deleted topic of the same name.
        """
        if self._snapshot_is_missing or (self.offset < 0 and self._log.end_offset > self._log.start_offset):
            return True
        config = self._log.config
        unflushed = self._log.end_offset - max(self.offset, self._log.start_offset)
        return unflushed > 0 and (unflushed >= config.flush_messages or now.mono_ms - self._mono_ms >= config.flush_ms)

    @property
    def _snapshot_is_missing(self) -> bool:
        """True if a closed segment has no flushed snapshot after it."""
        log_ = self._log
        known = max(log_.snapshots.flushed_offset, log_.start_offset, self._snapshot_requested)
        return log_.segments[-1].base_offset > known

    def plan(self, now: Now | None = None, *, snapshot: bool = False) -> Flush | None:
        """Plan a flush of the unflushed records. Returns None if there are none. With `snapshot` a snapshot is written in any case."""
        log_ = self._log
        if now is not None:
            self._mono_ms = now.mono_ms
        snapshot = (snapshot and log_.snapshots.flushed_offset < log_.end_offset) or self._snapshot_is_missing
        if self.offset >= log_.end_offset and not snapshot:
            return None
        files = tuple(s.file for s in log_.segments if s.end_offset > self.offset and s.size)
        before: tuple[Path, ...] = ()
        if self.offset < 0:
            # The topic id, and the producer state at the log start.
            before = (
                log_.folder / PARTITION_METADATA,
                *(log_.snapshots.path(o) for o in sorted(log_.snapshots.kept_offsets)),
            )
        if log_.stored_start.lowered:
            before += (log_.folder / LOG_START,)  # a power failure must not leave the higher offset with these records
        state = None
        if snapshot:
            state, self._snapshot_requested = log_.snapshot(flushed=True), log_.end_offset  # not retried on a full disk
        return Flush(files, log_.end_offset, self.cuts, state, log_.snapshots, log_.disk, before)

    def on_finished(self, done: Flush) -> None:
        """`done.run` has returned. Ignored if the log was truncated since then."""
        sound = done.cuts == self.cuts
        if sound:
            self.offset = max(self.offset, done.end_offset)
        if done.snapshot is not None:
            self._log.snapshots.adopt(done.snapshot, sound=sound and self._log.has_segment(done.snapshot.segment))

    def truncate(self, end_offset: int) -> None:
        self.offset, self._snapshot_requested = min(self.offset, end_offset), -1
