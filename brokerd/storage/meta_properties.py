"""Reads and writes `meta.properties`. On a full disk, it changes one value in place.

Files are written one after the other, and older content never replaces newer content, on any thread. A file and its name are flushed before
the write is complete: on some file systems a rename without a flush can leave an empty file after a power failure. Does not contain the
meaning of the lines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from brokerd.storage.disk import Disk, DiskFailed, DiskFull

log = logging.getLogger(__name__)

META = "meta.properties"
INTACT, LOST = b"tail.intact=true", b"tail.intact=lost"


class MetaWriter:
    """Writes the files of all log directories. `plan` runs on the loop's thread; the returned `Writing` may run on any thread."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.lock = threading.Lock()
        self.planned = self.written = 0

    def plan(self, texts: Sequence[tuple[Path, bytes]], *, lost: bool) -> Writing:
        """Write each (directory, content). `lost`: the content marks the tail as not intact. This must be written even on a full disk."""
        self.planned += 1
        return Writing(self, self.planned, texts, lost=lost)

    def mark_lost(self, folders: Sequence[Path], *, flush: bool) -> None:
        """Overwrite the value in place, which is possible on a full disk. Without `flush` it is in the page cache, which survives the process."""
        for folder in folders:
            path = folder / META
            try:
                at = (self.disk.read(path) or b"").find(INTACT)
                if at >= 0:
                    file = self.disk.open(path)
                    file.pwrite(LOST, at)
                    if flush:
                        file.fsync()
            except (DiskFailed, DiskFull) as e:
                log.error("loss not recorded, the next start may trust this log directory: path=%s error=%s", path, e)


class Writing:
    """One version of all files. After `run`, `rejected` contains the directories where the write failed, with the error."""

    __slots__ = ("_lost", "_number", "_texts", "_writer", "outdated", "rejected")

    def __init__(self, writer: MetaWriter, number: int, texts: Sequence[tuple[Path, bytes]], *, lost: bool) -> None:
        self._writer, self._number, self._texts, self._lost = writer, number, texts, lost
        self.rejected: list[tuple[Path, DiskFailed | DiskFull]] = []
        self.outdated = False
        """The content has changed since; another write is necessary."""

    def run(self) -> None:
        writer = self._writer
        with writer.lock:
            if self._number < writer.written:
                return
            writer.written = self._number
            for folder, text in self._texts:
                try:
                    writer.disk.replace(folder / META, text, durable=True)
                except (DiskFailed, DiskFull) as e:
                    self.rejected.append((folder, e))
            if self._lost and self.rejected:
                writer.mark_lost([folder for folder, _ in self._texts], flush=True)


def read_meta(disk: Disk, folder: Path) -> dict[str, str]:
    """The lines of `meta.properties` as {name: value}. Empty if the file does not exist."""
    data = disk.read(folder / META)
    out: dict[str, str] = {}
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            out[name.strip()] = value.strip()
    return out
