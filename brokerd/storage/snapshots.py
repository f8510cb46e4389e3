"""Snapshots of the state of a log at an offset, so that recovery need not read the log before it.

A snapshot is valid if its checksum matches; after a power failure only if it was flushed together with the log before it. Snapshots above
the new log end offset are deleted before a truncation: otherwise they would seem valid when the log has grown again.

Files, `<offset as 20 digits>.snapshot`: a line with the CRC-32C of the rest in hex, then JSON: offset, segment (base offset),
position (bytes), flushed, epochs, producers, closing (transactions), aborted (entries per segment). This is Weir's own format; Kafka's
snapshots contain only the producer state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from brokerd.storage.disk import Disk

log = logging.getLogger(__name__)

KEPT = 2
"""Number of newest snapshots to keep, in addition to the newest flushed one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state before `offset`, which is at `position` in the segment with the base offset `segment`."""

    offset: int
    segment: int
    position: int
    flushed: bool
    epochs: list[tuple[int, int]]
    producers: list[object]
    closing: list[object] = field(default_factory=list)
    aborted: list[list[int]] = field(default_factory=list)
    """[segment base offset, number of entries of its .txnindex, their CRC-32C] for segments with entries."""

    def to_bytes(self) -> bytes:
        body = json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":")).encode()
        return b"%08x\n" % crc32c(body) + body

    @staticmethod
    def from_bytes(data: bytes) -> Snapshot:
        """Raises ValueError for an invalid snapshot."""
        checksum, _, body = data.partition(b"\n")
        if int(checksum or b"0", 16) != crc32c(body):
            raise ValueError("checksum")
        fields = json.loads(body)
        fields["epochs"] = [(e, o) for e, o in fields["epochs"]]
        return Snapshot(**fields)


class Snapshots:
    """The snapshot files of one log. `offsets` is {offset: flushed}."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self.offsets: dict[int, bool] = {}
        self.kept_offsets: set[int] = set()
        """Offsets whose snapshots are never replaced by newer ones: the start of this log, or the start of observer replicas."""
        self.unsynced = False
        """Flushed snapshots were deleted, but the deletion is not flushed yet."""

    def path(self, offset: int) -> Path:
        return self.folder / f"{offset:020d}.snapshot"

    @property
    def flushed_offset(self) -> int:
        return max((o for o, flushed in self.offsets.items() if flushed), default=-1)

    def read(self, offset: int) -> Snapshot | None:
        """The snapshot, None if it is missing or invalid."""
        try:
            snapshot = Snapshot.from_bytes(self.disk.read(self.path(offset)) or b"")
        except (ValueError, KeyError, TypeError):
            return None
        return snapshot if snapshot.offset == offset else None

    def newest_first(self) -> Iterator[Snapshot]:
        for offset in sorted(self.offsets, reverse=True):
            snapshot = self.read(offset)
            if snapshot is not None:
                yield snapshot

    def write(self, snapshot: Snapshot) -> None:
        """Write an unflushed snapshot. It is valid after a kill, but not after a power failure."""
        self.disk.replace(self.path(snapshot.offset), snapshot.to_bytes())
        self._on_written(snapshot)

    # A flushed snapshot is written in two steps: the first blocks, on any thread; the second runs on the log's thread.
    def _temporary_path(self, snapshot: Snapshot) -> Path:
        return self.folder / f"{snapshot.offset:020d}.snapshot.flushed.tmp"

    def prepare(self, snapshot: Snapshot, *, flush: bool = True) -> None:
        """Write the temporary file. Without `flush` the caller flushes the file system before `adopt`."""
        file = self.disk.open(self._temporary_path(snapshot), create=True)
        file.truncate(0)
        file.pwrite(snapshot.to_bytes(), 0)
        if flush:
            file.fsync()

    def adopt(self, snapshot: Snapshot, *, sound: bool) -> None:
        """Rename the file of `prepare` (`sound`), or delete it. If a power failure undoes the rename, recovery only takes longer."""
        prepared = self._temporary_path(snapshot)
        if not sound:
            self.disk.unlink(prepared)
        elif self.disk.exists(prepared):
            self.disk.rename(prepared, self.path(snapshot.offset))
            self._on_written(snapshot)

    def _on_written(self, snapshot: Snapshot) -> None:
        self.offsets[snapshot.offset] = snapshot.flushed
        flushed = self.flushed_offset
        for offset in sorted(self.offsets)[:-KEPT]:
            if offset != flushed and offset not in self.kept_offsets:
                self.drop(offset)

    def drop(self, offset: int) -> bool:
        """Delete a snapshot. Returns whether it was a flushed one."""
        self.disk.unlink(self.path(offset))
        return self.offsets.pop(offset, False)

    def drop_above(self, offset: int) -> None:
        """Called before a truncation. The deletion of flushed snapshots must be durable: a caller that must not block calls `forget_flushed` before."""
        dropped = [self.drop(o) for o in sorted(self.offsets) if o > offset]
        if any(dropped) or self.unsynced:
            self.disk.sync_folder(self.folder)
            self.unsynced = False

    def forget_flushed(self, offset: int) -> bool:
        """Delete flushed snapshots above `offset` before a truncation. Returns whether the directory must be flushed before the truncation; the caller
        then resets `unsynced`. The log may grow during this time."""
        for o in [o for o, flushed in self.offsets.items() if flushed and o > offset]:
            self.drop(o)
            self.unsynced = True
        return self.unsynced
