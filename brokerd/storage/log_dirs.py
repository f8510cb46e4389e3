"""The log directories of the broker (`log.dirs`) and their partition directories.

A directory of an unknown topic is renamed to `-stray`, never deleted. A log directory whose device failed is offline until the next start;
the others continue. A new partition is created in the log directory with the fewest partitions (Kafka's rule). A partition is in one log
directory. Does not contain replica roles.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Protocol
from uuid import UUID

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.partition_names import split_partition_name
from brokerd.storage import checkpoints, recovery
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.log import Log

log = logging.getLogger(__name__)


FUTURE = re.compile(r".*-(\d+)\.([0-9a-f]{32})-future")
NAME_BYTES_MAX = 255


def future_name(topic: str, tp: TopicPartition) -> str:
    """Directory name of a replica that is being moved to another log directory: Kafka's `-future` with the topic id. Topic names are shortened
    to the file system's limit."""
    return f"{topic[:200]}-{tp.partition}.{tp.topic_id.hex}-future"


def future_of(name: str) -> TopicPartition | None:
    """The partition of a future replica directory of this name, None for other names."""
    found = FUTURE.fullmatch(name)
    return TopicPartition(UUID(found[2]), int(found[1])) if found else None


class LogDir:
    """One log directory. `failed` is the reason why the directory is offline, None if it is online. `deep` means that only flushed data is trusted, because the
    last run may have ended with a power failure."""

    __slots__ = (
        "checkpoint_number",
        "checkpointed",
        "checkpointing",
        "deep",
        "failed",
        "health",
        "high_watermarks",
        "lane",
        "lock",
        "path",
        "probe_ms",
        "replica_count",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: str | None = None
        self.health = DiskHealth.OK
        self.probe_ms: int | None = None
        """Time of the last probe in ms, or of the current one if it is longer. None: unknown."""
        self.deep = False
        self.lane: Runner | None = None
        """The thread of this directory, for work that may wait for its disk. If None, such work runs on the caller's thread (at the start, in tools)."""
        self.checkpointed = True
        self.checkpointing = False
        """True while the lane writes a checkpoint."""
        self.checkpoint_number = 0
        self.lock = threading.Lock()
        """Held while a checkpoint is written. A checkpoint that is not the newest one any more is not written."""
        self.replica_count = 0
        """Number of open partitions. A counter, because counting at each new partition would be quadratic."""
        self.high_watermarks: checkpoints.Offsets = {}
        """High watermarks in the last checkpoint."""


class LogDirListener(Protocol):
    """Reacts to failures of the log directories."""

    def io_error(self) -> None:
        """Called after an I/O error. Unflushed data of any file may be lost."""

    def records_lost(self, what: str) -> None:
        """Called when a replica lacks records that may have been acknowledged. The replica must leave the ISR. `what`: text for the log message. May
        raise DiskFailed."""

    def directory_failed(self, failed: LogDir) -> None: ...


class LogDirs:
    def __init__(self, paths: Sequence[Path], disk: Disk) -> None:
        self.all = [LogDir(path) for path in paths]
        self._by_name = {str(d.path): d for d in self.all}
        self.disk = disk
        self._listeners: list[LogDirListener] = []
        self.gone: set[str] = set()
        """Names of partitions with records whose directories were missing at start-up."""
        self._owners: dict[Path, UUID] = {}
        self.preferred: dict[str, LogDir] = {}
        """Log directory of a partition that is not here yet, if AlterReplicaLogDirs requested one: {partition name: directory}."""

    def add_listener(self, listener: LogDirListener) -> None:
        """Set the listener. Failures that were found earlier are not reported to it; `any_failed` returns whether there are any."""
        self._listeners.append(listener)

    def io_error(self) -> None:
        for listener in self._listeners:
            listener.io_error()

    def records_lost(self, what: str) -> None:
        """Notify the listeners that a replica lacks records. Raises DiskFailed if only the next start can handle the loss."""
        for listener in self._listeners:
            listener.records_lost(what)

    @property
    def online(self) -> list[LogDir]:
        return [d for d in self.all if d.failed is None]

    @property
    def any_failed(self) -> bool:
        return len(self.online) < len(self.all)

    def find(self, path: Path) -> LogDir | None:
        return next((d for d in self.all if d.path == path), None)

    def directory_of(self, folder: Path) -> LogDir:
        """The log directory of a partition directory."""
        name = str(folder)  # called for each replica of a response: `folder.parent` would create a path
        found = self._by_name.get(name[: name.rfind(os.sep)])
        assert found is not None, f"{folder} is in none of {[str(d.path) for d in self.all]}"
        return found

    def folders(self, name: str) -> list[Path]:
        """The directories of a partition. There are two if a failed log directory is online again and the replica was recreated in another one since then."""
        return [d.path / name for d in self.online if self.disk.exists(d.path / name)]

    def place(self, name: str) -> LogDir:
        """The log directory for a new partition: the first one with the fewest partitions."""
        preferred = self.preferred.pop(name, None)
        if preferred is not None and preferred.failed is None:
            return preferred
        if not self.online:
            raise DiskFailed("all log directories are offline")
        return min(self.online, key=lambda d: d.replica_count)

    def fail(self, failed: LogDir, reason: str) -> None:
        if failed.failed is None:
            failed.failed = reason
            left = len(self.online)
            log.error(
                "log directory offline: path=%s online=%d total=%d reason=%s",
                failed.path,
                left,
                len(self.all),
                reason,
            )
            for listener in self._listeners:
                listener.directory_failed(failed)

    # -- directories -----------------------------------------------------------------------------------------------------
    def open(self, topic: str, tp: TopicPartition, config: TopicConfig, now: Now) -> tuple[Log, bool]:
        """Open the log of a partition. Returns (log, whether it was created). Raises DiskFailed, DiskFull."""
        name, topic_id = f"{topic}-{tp.partition}", tp.topic_id
        logs: list[Log] = []
        folders = self.folders(name)
        if not self.any_failed and not folders and self._finish_move(name, future_name(topic, tp)):
            folders = self.folders(name)
        for folder in folders:
            owner = self._owners.get(folder) or checkpoints.read_partition_metadata(self.disk, folder)
            if owner is not None and owner != topic_id:
                self._forget_high_watermarks([folder.name])
                self.set_aside(folder, f"belongs to topic id {owner}, not {topic_id}")
            else:
                if owner is None:
                    checkpoints.write_partition_metadata(self.disk, folder, topic_id)
                logs.append(
                    Log.open(
                        folder, config, self.disk, now, deep=self.directory_of(folder).deep, damaged=self.records_lost
                    )
                )
        if logs:
            # A log directory that is available again may contain a replica that was recreated elsewhere. Use the one with the later epoch and end offset.
            logs.sort(key=lambda opened: (opened.last_epoch, opened.end_offset))
            for older in logs[:-1]:
                older.close()
                self.set_aside(older.folder, f"{logs[-1].folder} is newer")
            return logs[-1], False
        folder = self.place(name).path / name
        self.disk.mkdir(folder)
        checkpoints.write_partition_metadata(self.disk, folder, topic_id)
        return Log.open(folder, config, self.disk, now), True

    def _finish_move(self, name: str, future: str) -> bool:
        """Complete a move that was interrupted after the current replica directory was renamed. Returns whether there was one."""
        for folder in self.folders(future):
            log.info("interrupted directory move completed: path=%s partition=%s", folder, name)
            self.disk.rename(folder, folder.with_name(name))
            return True
        return False

    def remove_folder(self, folder: Path) -> None:
        """Delete a partition directory. It is renamed first: after a crash, a rest of it under its own name and without `partition.metadata` would become
        the log of a recreated topic."""
        gone = self.aside(folder, "-delete")
        self.disk.rename(folder, gone)
        self.disk.discard_tree(gone)

    def aside(self, folder: Path, tail: str) -> Path:
        """An unused path next to `folder` that ends with `tail` and is short enough for the file system."""
        number = 1
        while True:
            end = tail if number == 1 else f".{number}{tail}"
            target = folder.with_name(folder.name[: NAME_BYTES_MAX - len(end)] + end)
            if not self.disk.exists(target):
                return target
            number += 1

    def remove(self, log_: Log) -> None:
        try:
            log_.close_files()
            self.remove_folder(log_.folder)
        except DiskFailed as e:
            log.warning("partition directory not deleted: path=%s error=%s", log_.folder, e)

    def sort(self, directory: LogDir, image: Image, hosted: Set[UUID], broker_id: int) -> None:
        """Classify the partition directories (safety section 1). Directories of deleted topics are deleted. These are renamed to `-stray`:
        directories of topics that the image does not contain; after a power failure, logs without topic id, because the topic may have been
        recreated (such a log was never flushed, and this broker has left the ISR); observer replicas that were removed from the partition,
        because they lack the older records of a replica. The topic ids of the others are kept until `sorted_out`."""
        deleted, stray = [], []
        for name in self.disk.listdir(directory.path):
            folder = directory.path / name
            if name.endswith("-stray") or not self.disk.isdir(folder):
                continue
            if name.endswith("-delete"):
                self.disk.discard_tree(folder)  # marked for deletion before the last shutdown
                continue
            topic_id = checkpoints.read_partition_metadata(self.disk, folder)
            if topic_id is None:
                if directory.deep and recovery.offsets_of_names(self.disk.listdir(folder), ".log"):
                    stray.append((folder, "partition.metadata is missing after a power failure"))
                continue
            if topic_id in image.topics:
                partition = split_partition_name(name)
                state = image.topics[topic_id].partitions.get(partition[1]) if partition is not None else None
                left = state is not None and broker_id not in state.hosts
                if left and self.disk.exists(folder / recovery.TAIL_START):
                    stray.append((folder, "observer replica that the metadata log does not contain any more"))
                else:
                    self._owners[folder] = topic_id
                continue
            if topic_id in image.deleted:
                deleted.append(folder)
            elif topic_id not in hosted:
                stray.append((folder, f"topic id {topic_id} is not in the metadata log"))
        self._forget_high_watermarks([*(folder.name for folder in deleted), *(folder.name for folder, _ in stray)])
        for folder in deleted:
            self.remove_folder(folder)
        for folder, reason in stray:
            self.set_aside(folder, reason)

    def _forget_high_watermarks(self, folders: Sequence[str]) -> None:
        """Called before the directories are deleted or renamed. A recreated topic of the same name must not get the old high watermark, and the
        next start would report a high watermark without directory as a lost replica."""
        gone = {partition for name in folders if (partition := split_partition_name(name)) is not None}
        for d in self.online:
            if not gone.isdisjoint(d.high_watermarks):
                self.write_high_watermarks(d, {k: v for k, v in d.high_watermarks.items() if k not in gone})

    def sorted_out(self) -> None:
        self._owners.clear()

    def set_aside(self, folder: Path, reason: str) -> None:
        log.warning("partition directory renamed to -stray: partition=%s reason=%s", folder.name, reason)
        self.disk.rename(folder, self.aside(folder, "-stray"))

    # -- high watermarks -------------------------------------------------------------------------------------------------
    def read_high_watermarks(self) -> None:
        for d in self.online:
            d.high_watermarks = checkpoints.read_offsets(self.disk, d.path / checkpoints.HIGH_WATERMARKS)

    def high_watermark(self, key: tuple[str, int]) -> int:
        """The high watermark in the last checkpoint of any log directory, 0 if there is none."""
        return max((d.high_watermarks.get(key, 0) for d in self.online), default=0)

    def write_high_watermarks(self, d: LogDir, offsets: checkpoints.Offsets) -> None:
        """Write a checkpoint now."""
        error: DiskFailed | DiskFull | None = None
        try:
            self._checkpoint(d, offsets)()
        except (DiskFailed, DiskFull) as e:
            error = e
        self._on_checkpoint_written(d, error)

    def checkpoint(self, directory: LogDir, offsets: checkpoints.Offsets) -> None:
        """Write a checkpoint on the directory's thread: a rename waits for a slow disk. Skipped while the last one is being written."""
        if directory.lane is None:
            self.write_high_watermarks(directory, offsets)
        elif not directory.checkpointing:
            directory.checkpointing = True

            def done(error: BaseException | None) -> None:
                directory.checkpointing = False
                if error is not None and not isinstance(error, (DiskFailed, DiskFull)):
                    raise error
                self._on_checkpoint_written(directory, error)

            directory.lane.submit(self._checkpoint(directory, offsets), done)

    def _checkpoint(self, directory: LogDir, offsets: checkpoints.Offsets) -> Callable[[], None]:
        directory.high_watermarks = offsets
        directory.checkpoint_number += 1
        number = directory.checkpoint_number

        def write() -> None:
            with directory.lock:
                if number == directory.checkpoint_number:
                    checkpoints.write_offsets(self.disk, directory.path / checkpoints.HIGH_WATERMARKS, offsets)

        return write

    def _on_checkpoint_written(self, d: LogDir, error: DiskFailed | DiskFull | None) -> None:
        if error is not None and d.checkpointed:
            log.warning("high watermark checkpoint not written: path=%s error=%s", d.path, error)
        d.checkpointed = error is None
        if error is not None:
            self.on_write_error(d, error)

    def on_write_error(self, d: LogDir, error: DiskFailed | DiskFull) -> None:
        """Called when a file of the directory could not be written. A full disk is no I/O error."""
        if isinstance(error, DiskFailed) and d.failed is None:
            self.io_error()
            if error.of_device:
                self.fail(d, str(error))
