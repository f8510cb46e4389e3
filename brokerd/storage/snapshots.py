"""What a log knew at an offset, written down so that the next start need not read everything before it.

Laws: a snapshot counts if its own checksum holds; after a power cut only if it was flushed together with the log before it. One
above the log's end is removed before the end is cut: later, when the log has grown again, it would vouch for other bytes.

Files, `<offset as 20 digits>.snapshot`: a line with the CRC-32C of the rest in hex, then JSON: offset, segment (base offset),
position (bytes), flushed, epochs, producers, closing (of transactions), aborted (entries per segment). This project's own format; Kafka's holds producers only. Called by `log`, `recovery`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crc32c import crc32c

from brokerd.storage.disk import Disk

log = logging.getLogger(__name__)

KEPT = 2
"""The newest ones, and the newest flushed one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state just before `offset`, which stood at `position` of the segment with the base offset `segment`."""

    offset: int
    segment: int
    position: int
    flushed: bool
    epochs: list[tuple[int, int]]
    producers: list[Any]
    closing: list[Any] = field(default_factory=list)
    aborted: list[Any] = field(default_factory=list)
    """[base offset of a segment, entries of its .txnindex, their CRC-32C], where there are any."""

    def to_bytes(self) -> bytes:
        body = json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":")).encode()
        return b"%08x\n" % crc32c(body) + body

    @staticmethod
    def from_bytes(data: bytes) -> Snapshot:
        """ValueError when it cannot be trusted."""
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
        self.kept: set[int] = set()
        """Of these offsets it is kept whatever comes later: what a log began with, or what others are to begin with."""

    def path(self, offset: int) -> Path:
        return self.folder / f"{offset:020d}.snapshot"

    @property
    def flushed_offset(self) -> int:
        return max((o for o, flushed in self.offsets.items() if flushed), default=-1)

    def read(self, offset: int) -> Snapshot | None:
        """None when it cannot be trusted."""
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
        """One that is not flushed: a shortcut after a kill, nothing after a power cut."""
        self.disk.replace(self.path(snapshot.offset), snapshot.to_bytes())
        self._written(snapshot)

    # A flushed one in two steps: the first waits for the disk, on any thread, the second belongs to the log's.
    def _prepared(self, snapshot: Snapshot) -> Path:
        return self.folder / f"{snapshot.offset:020d}.snapshot.flushed.tmp"

    def prepare(self, snapshot: Snapshot, *, flush: bool = True) -> None:
        """Without `flush` the caller flushes the file system before it is adopted."""
        file = self.disk.open(self._prepared(snapshot), create=True)
        file.truncate(0)
        file.pwrite(snapshot.to_bytes(), 0)
        if flush:
            file.fsync()

    def adopt(self, snapshot: Snapshot, *, sound: bool) -> None:
        """Put what `prepare` wrote in its place, or throw it away. A power cut may take the name again, which costs time only."""
        prepared = self._prepared(snapshot)
        if not sound:
            self.disk.unlink(prepared)
        elif self.disk.exists(prepared):
            self.disk.rename(prepared, self.path(snapshot.offset))
            self._written(snapshot)

    def _written(self, snapshot: Snapshot) -> None:
        self.offsets[snapshot.offset] = snapshot.flushed
        flushed = self.flushed_offset
        for offset in sorted(self.offsets)[:-KEPT]:
            if offset != flushed and offset not in self.kept:
                self.drop(offset)

    def drop(self, offset: int) -> bool:
        """True if it was a flushed one."""
        self.disk.unlink(self.path(offset))
        return self.offsets.pop(offset, False)

    def drop_above(self, offset: int) -> None:
        """Before the log is cut. A flushed one must be gone for good."""
        dropped = [self.drop(o) for o in sorted(self.offsets) if o > offset]
        if any(dropped):
            self.disk.sync_folder(self.folder)
