"""The truncations of this broker in its log directories, so that a restart does not lose those that the control plane has not read.

Invariants: each log directory has all truncations, because a directory may fail. A slow disk does not stop the event loop. A file may lag behind by one write,
and a power failure may lose it: safety does not depend on it. Does not contain: which truncations are kept (`truncations`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.replication.truncations import Truncation, Truncations
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log_dirs import LogDir, LogDirs

log = logging.getLogger(__name__)

FILE = "truncation-checkpoint"
VERSION = "0"


class StoredTruncations:
    """Reads the files of the log directories that are online."""

    def __init__(self, log_dirs: LogDirs) -> None:
        self._log_dirs = log_dirs
        self._kept = Truncations()
        self._writing: set[Path] = set()
        """Log directories whose thread writes the file."""
        self._stale: set[Path] = set()
        """Those of them whose file lacks a truncation that was added later."""
        self.is_written = True
        """False after a write failed, until the next one."""
        found = {truncation for directory in log_dirs.online for truncation in self._load(directory)}
        for truncation in sorted(found, key=lambda t: (t.at_ms, t)):
            self._kept.add(truncation)

    def add(self, truncation: Truncation) -> None:
        if self._kept.add(truncation):
            for directory in self._log_dirs.online:
                self._write(directory)

    def __iter__(self) -> Iterator[Truncation]:
        return iter(self._kept)

    def _load(self, directory: LogDir) -> list[Truncation]:
        path = directory.path / FILE
        try:
            data = self._log_dirs.disk.read(path)
            return [] if data is None else decode(data)
        except (ValueError, DiskFailed) as e:
            log.warning("unreadable checkpoint ignored: path=%s error=%s", path, e)
            return []

    def _write(self, directory: LogDir) -> None:
        """Replace the file on the thread of the directory. The next write has truncations that are added during this one."""
        if directory.path in self._writing:
            self._stale.add(directory.path)
            return
        write = partial(self._log_dirs.disk.replace, directory.path / FILE, encode(self._kept))
        if directory.lane is not None:
            self._writing.add(directory.path)
            directory.lane.submit(write, partial(self._finish_write, directory))
            return
        error: BaseException | None = None
        try:
            write()
        except (DiskFailed, DiskFull) as e:
            error = e
        self._finish_write(directory, error)

    def _finish_write(self, directory: LogDir, error: BaseException | None) -> None:
        self._writing.discard(directory.path)
        if error is not None and not isinstance(error, (DiskFailed, DiskFull)):
            raise error
        is_stale = directory.path in self._stale
        self._stale.discard(directory.path)
        self.is_written = error is None
        if error is not None:
            log.warning("truncation checkpoint not written: path=%s error=%s", directory.path, error)
            self._log_dirs.on_write_error(directory, error)
        elif is_stale:
            self._write(directory)


def encode(truncations: Iterable[Truncation]) -> bytes:
    """A version, the number of truncations, then one line for each: topic id, partition, first offset, end offset, high watermark, leader epoch, Unix time in
    ms."""
    lines = [
        f"{t.tp.topic_id} {t.tp.partition} {t.first_offset} {t.end_offset} {t.high_watermark} {t.leader_epoch} {t.at_ms}"
        for t in truncations
    ]
    return "\n".join((VERSION, str(len(lines)), *lines, "")).encode()


def decode(data: bytes) -> list[Truncation]:
    """Raises ValueError for invalid data."""
    version, _, rest = data.decode().partition("\n")
    count, *lines = rest.splitlines() or [""]
    if version != VERSION or len(lines) != int(count):
        raise ValueError("header")
    return [_parse(line) for line in lines]


def _parse(line: str) -> Truncation:
    topic_id, *numbers = line.split(" ")
    partition, first, end, high_watermark, leader_epoch, at_ms = map(int, numbers)
    return Truncation(TopicPartition(UUID(topic_id), partition), first, end, high_watermark, leader_epoch, at_ms)
