"""The state of a log: segments, leader epochs, producers, aborted transactions, snapshots, and the offsets where the log starts and ends.

Invariants: a segment starts where the previous one ends. Only the last segment is written. Indexes and snapshots are optional: the log continues if a
full disk prevents them. Does not contain: append and read (`log`), truncation of the end (`truncation`), deletion of old records
(`prefix_deletion`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage import recovery, transaction_index
from brokerd.storage.appended_keys import AppendedKeys
from brokerd.storage.cleaner_state import CleanerState
from brokerd.storage.disk import Disk, DiskFull
from brokerd.storage.epochs import EpochCache
from brokerd.storage.flushing import Flushing
from brokerd.storage.log_reader import LogReader
from brokerd.storage.log_start import StoredLogStart
from brokerd.storage.producers import EXPIRATION_MS, Producers
from brokerd.storage.segment import Segment
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.storage.transaction_index import TransactionIndex

log = logging.getLogger(__name__)

SNAPSHOT_BYTES = 64 * 1024 * 1024
"""Bytes appended between two snapshots. Limits what recovery must check after a kill -9."""
CLOSED_ENTRIES_MAX = 512 * 1024
"""Maximum number of collected key index entries of the closed segments of a log: 4 MiB."""


class LogState:
    """The attributes of one log, and what append, truncation and the deletion of old records have in common."""

    def __init__(self, folder: Path, config: TopicConfig, disk: Disk) -> None:
        self.folder, self.config, self.disk = folder, config, disk
        self.segments: list[Segment] = []
        self.reader = LogReader(self.segments)
        self.epochs = EpochCache()
        self.producers = Producers()
        self.producer_expiration_ms = EXPIRATION_MS
        self.start_offset = 0
        self.flushing = Flushing(self)
        self.stored_start = StoredLogStart(self)
        self.snapshots = Snapshots(folder, disk)
        self.aborted = TransactionIndex(folder, disk, self.segments, self.snapshots)
        self.batches_checked = self.bytes_cut = 0
        """Result of recovery: number of batches whose CRC was checked, number of truncated bytes."""
        self.written_bytes = 0
        """Bytes appended since the log was opened. Truncation and retention do not decrease it."""
        self.cleaner = CleanerState(folder, disk)
        self.snapshot_due = SNAPSHOT_BYTES
        """Size of the active segment at which the next snapshot is written."""
        self._closed_with_keys: list[Segment] = []
        """Closed segments whose collected key index entries no build has used yet, oldest first."""

    # -- metrics -----------------------------------------------------------------------------------------------------------
    @property
    def end_offset(self) -> int:
        # No segment: creating the first segment of a reset log failed. The replica is offline until the log is opened again.
        return self.segments[-1].end_offset if self.segments else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        return sum(s.size for s in self.segments)

    def has_segment(self, base_offset: int) -> bool:
        return any(s.base_offset == base_offset for s in self.segments)

    # -- segments ----------------------------------------------------------------------------------------------------------
    def new_segment(self, base: int, now: Now) -> Segment:
        segment = Segment(self.folder, base, self.disk, self.config.index_interval_bytes, now.wall_ms)
        segment.create()
        return segment

    def roll(self, now: Now) -> Segment:
        """Close the active segment and create a new one at the log end offset."""
        active = self.segments[-1]
        if not active.size:
            return active
        segment = self.new_segment(self.end_offset, now)
        self.try_write("index", active.save_indexes)
        for closed in self.segments:
            closed.release_idle()
        if active.appended_keys is not None:
            segment.appended_keys = AppendedKeys(active.appended_keys.hashed, 0)
            self._closed_with_keys.append(active)
            while self._closed_entries() > CLOSED_ENTRIES_MAX:
                self._closed_with_keys.pop(0).appended_keys = None  # the build reads this segment
        self.segments.append(segment)
        self.reader.clear()
        self.set_snapshot_due()
        self.try_snapshot()
        return segment

    # -- collected key index entries ---------------------------------------------------------------------------------------
    def _closed_entries(self) -> int:
        self._closed_with_keys = [s for s in self._closed_with_keys if s.appended_keys is not None]
        return sum(s.appended_keys.count for s in self._closed_with_keys if s.appended_keys is not None)

    @property
    def collected_entries(self) -> int:
        """Number of key index entries that appends have collected and no build has used yet."""
        active = self.segments[-1].appended_keys if self.segments else None
        return self._closed_entries() + (active.count if active is not None else 0)

    def discard_collected_entries(self) -> None:
        """The builds read the batches from the log. The active segment continues to collect."""
        for closed in self._closed_with_keys:
            closed.appended_keys = None
        active = self.segments[-1] if self.segments else None
        if active is not None and active.appended_keys is not None:
            active.appended_keys.take(active.size)

    # -- optional files: snapshots and indexes ----------------------------------------------------------------------------------
    def try_write(self, what: str, write: Callable[[], None]) -> None:
        """Write an optional file. On a full disk the next start takes longer, but the append succeeds."""
        try:
            write()
        except DiskFull as e:
            log.warning("optional log file not written: partition=%s file=%s error=%s", self.folder.name, what, e)

    def write_optional_files(self) -> None:
        self.try_write("index", self.segments[-1].save_indexes)
        self.try_snapshot()

    def try_snapshot(self) -> None:
        self.try_write("snapshot", self._write_snapshot)

    def snapshot(self, *, flushed: bool) -> Snapshot:
        active = self.segments[-1]
        self.try_write(transaction_index.SUFFIX, self.aborted.save)
        return Snapshot(
            self.end_offset,
            active.base_offset,
            active.size,
            flushed,
            list(self.epochs.entries),
            self.producers.to_json(),
            [list(c) for c in self.producers.closing],
            self.aborted.to_json(),
        )

    def _write_snapshot(self) -> None:
        if self.end_offset not in self.snapshots.offsets:
            self.write_epochs()
            self.snapshots.write(self.snapshot(flushed=False))

    def set_snapshot_due(self) -> None:
        """Called when a snapshot is written, and when the active segment becomes another one or shorter."""
        self.snapshot_due = self.segments[-1].size + SNAPSHOT_BYTES

    def write_epochs(self) -> None:
        self.disk.replace(self.folder / recovery.EPOCHS, self.epochs.to_text().encode())
