"""The directories that hold this broker's logs: `log.dirs`, and what lies in them.

Laws: absence never deletes: a folder of an unknown topic is set aside as `-stray`; a directory whose device failed is given up until the next start and never asked again, the others go on; a new partition goes
where the fewest are (Kafka's rule); a partition's folder is in one directory. Called by `identity`, `partitions` and the doors.
Must not come in: roles.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from uuid import UUID

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now, TopicPartition
from brokerd.storage import checkpoints, recovery
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.log import Log

log = logging.getLogger(__name__)


FUTURE = re.compile(r".*-(\d+)\.([0-9a-f]{32})-future")
NAME_BYTES_MAX = 255


def future_name(topic: str, tp: TopicPartition) -> str:
    """The folder of a copy on its way to another directory. Kafka's `-future`, with the topic's id, and short enough for a file
    system with the longest topic name."""
    return f"{topic[:200]}-{tp.partition}.{tp.topic_id.hex}-future"


def future_of(name: str) -> TopicPartition | None:
    """Whose future copy a folder of this name is."""
    found = FUTURE.fullmatch(name)
    return TopicPartition(UUID(found[2]), int(found[1])) if found else None


class LogDir:
    """One of them. `failed` is why it is offline. `deep`: after a power cut, what was not flushed in it is not trusted."""

    __slots__ = ("checkpointed", "deep", "failed", "held", "high_watermarks", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: str | None = None
        self.deep = False
        self.checkpointed = True
        self.held = 0
        """Partitions that are open here. Counted as they come and go: to count them at each new one is quadratic."""
        self.high_watermarks: checkpoints.Offsets = {}
        """As last written down."""


class LogDirs:
    def __init__(self, paths: Sequence[Path], disk: Disk) -> None:
        self.all = [LogDir(path) for path in paths]
        self.disk = disk
        self.on_error: Callable[[], None] = lambda: None
        """An I/O error: what was written and not flushed may be gone, of any file."""
        self.lost: Callable[[str], None] = lambda what: None
        """Told when a copy turns out to lack what may have been acknowledged: it must not keep its place in the ISR."""
        self.gone: set[str] = set()
        """Names of partitions that held records and whose folders were missing at the start."""
        self._owners: dict[Path, UUID] = {}
        self.preferred: dict[str, LogDir] = {}
        """Where a partition is to be, by its name, if somebody asked before it came here."""
        self.on_failure: Callable[[LogDir], None] = lambda failed: None

    @property
    def online(self) -> list[LogDir]:
        return [d for d in self.all if d.failed is None]

    @property
    def any_failed(self) -> bool:
        return len(self.online) < len(self.all)

    def at(self, path: Path) -> LogDir | None:
        return next((d for d in self.all if d.path == path), None)

    def of(self, folder: Path) -> LogDir:
        """The directory that holds a partition's folder."""
        found = self.at(folder.parent)
        assert found is not None, f"{folder} lies in none of {[str(d.path) for d in self.all]}"
        return found

    def folders(self, name: str) -> list[Path]:
        """Where a partition's folder is: one place, two after a directory came back that was replaced meanwhile."""
        return [d.path / name for d in self.online if self.disk.exists(d.path / name)]

    def place(self, name: str) -> LogDir:
        """Where a new partition goes: where the fewest are, the first of equals."""
        preferred = self.preferred.pop(name, None)
        if preferred is not None and preferred.failed is None:
            return preferred
        if not self.online:
            raise DiskFailed("no directory of log.dirs is left")
        return min(self.online, key=lambda d: d.held)

    def fail(self, failed: LogDir, why: str) -> None:
        if failed.failed is None:
            failed.failed = why
            left = len(self.online)
            log.error(
                "%s is given up until the next start, %d of %d directories are left: %s",
                failed.path,
                left,
                len(self.all),
                why,
            )
            self.on_failure(failed)

    # -- folders ---------------------------------------------------------------------------------------------------------
    def open(self, topic: str, tp: TopicPartition, config: TopicConfig, now: Now) -> tuple[Log, bool]:
        """A partition's log, and whether it was begun just now. Raises DiskFailed, DiskFull."""
        name, topic_id = f"{topic}-{tp.partition}", tp.topic_id
        found: list[Log] = []
        folders = self.folders(name)
        if not self.any_failed and not folders and self._finish_move(name, future_name(topic, tp)):
            folders = self.folders(name)
        for folder in folders:
            owner = self._owners.get(folder) or checkpoints.read_partition_metadata(self.disk, folder)
            if owner is not None and owner != topic_id:
                self.set_aside(folder, f"belongs to topic id {owner}, not {topic_id}")
            else:
                found.append(Log.open(folder, config, self.disk, now, deep=self.of(folder).deep, damaged=self.lost))
        if found:
            # A directory that comes back may hold a copy that was replaced in another meanwhile: of two, the one that knows more.
            found.sort(key=lambda opened: (opened.last_epoch, opened.end_offset))
            for older in found[:-1]:
                older.close()
                self.set_aside(older.folder, f"{found[-1].folder} is the newer copy")
            return found[-1], False
        folder = self.place(name).path / name
        self.disk.mkdir(folder)
        checkpoints.write_partition_metadata(self.disk, folder, topic_id)
        return Log.open(folder, config, self.disk, now), True

    def _finish_move(self, name: str, future: str) -> bool:
        """The live copy went away for the future one to take its place, and then the process ended."""
        for folder in self.folders(future):
            log.info("%s takes the place of %s, as was under way", folder, name)
            self.disk.rename(folder, folder.with_name(name))
            return True
        return False

    def remove_folder(self, folder: Path) -> None:
        gone = self.aside(folder, "-delete")
        self.disk.rename(folder, gone)
        self.disk.discard_tree(gone)

    def aside(self, folder: Path, tail: str) -> Path:
        """A name that is not taken, beside `folder`, ending in `tail`, within what a file system allows."""
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
            log.warning("%s is left behind: %s", log_.folder, e)

    def sort(self, d: LogDir, image: Image, hosted: Set[UUID], broker_id: int) -> None:
        """Folders of topics that the image does not know are set aside; of deleted topics, removed (safety section 1). Whose the others
        are is remembered for their opening, until `sorted_out`. A copy of a tail that is nobody's any more is set aside, too: as an ordinary
        copy it could not be in sync before everybody's logs start where it does."""
        for name in self.disk.listdir(d.path):
            folder = d.path / name
            if name.endswith("-stray") or not self.disk.isdir(folder):
                continue
            if name.endswith("-delete"):
                self.disk.discard_tree(folder)  # given up before the last end, whosever it was
                continue
            topic_id = checkpoints.read_partition_metadata(self.disk, folder)
            if topic_id is None:
                continue
            if topic_id in image.topics:
                index = name.rpartition("-")[2]
                state = image.topics[topic_id].partitions.get(int(index)) if index.isdigit() else None
                left = state is not None and broker_id not in state.hosts
                if left and self.disk.exists(folder / recovery.TAIL_START):
                    self.set_aside(
                        folder, "its tail was copied here, and the metadata log says that it lives here no more"
                    )
                else:
                    self._owners[folder] = topic_id
                continue
            if topic_id in image.deleted:
                self.disk.rmtree(folder)
            elif topic_id not in hosted:
                self.set_aside(folder, f"topic id {topic_id} is unknown to the metadata log")

    def sorted_out(self) -> None:
        self._owners.clear()

    def set_aside(self, folder: Path, why: str) -> None:
        log.warning("%s set aside as -stray: %s", folder.name, why)
        self.disk.rename(folder, self.aside(folder, "-stray"))

    # -- high watermarks -------------------------------------------------------------------------------------------------
    def read_high_watermarks(self) -> None:
        for d in self.online:
            d.high_watermarks = checkpoints.read_offsets(self.disk, d.path / checkpoints.HIGH_WATERMARKS)

    def high_watermark(self, key: tuple[str, int]) -> int:
        """As last written down, in whatever directory the copy was then."""
        return max((d.high_watermarks.get(key, 0) for d in self.online), default=0)

    def write_high_watermarks(self, d: LogDir, offsets: checkpoints.Offsets) -> None:
        d.high_watermarks = offsets
        try:
            checkpoints.write_offsets(self.disk, d.path / checkpoints.HIGH_WATERMARKS, offsets)
        except (DiskFailed, DiskFull) as e:
            if d.checkpointed:
                log.warning("high watermarks not written down, which costs a restart some fetching: %s", e)
            d.checkpointed = False
            if isinstance(e, DiskFailed):
                self.on_error()
                if e.of_device:
                    self.fail(d, str(e))
        else:
            d.checkpointed = True
