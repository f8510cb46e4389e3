"""State of a stopped broker's log directories as JSON: `python -m brokerd.tools.inspect_log_dirs --config broker.properties [--out FILE]`.

Read-only. Each log is evaluated as at the start of the broker, without the records that recovery would truncate. A directory that a running broker
has locked is rejected, because its logs still grow. The commands `rebuild` and `restore` of the control plane use the output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict
from uuid import UUID

from brokerd.cluster import broker_lives
from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.model import Now
from brokerd.cluster.partition_names import split_partition_name
from brokerd.config.broker import BrokerConfig, ConfigError
from brokerd.environment import Environment
from brokerd.storage import checkpoints, recovery, running_marker
from brokerd.storage.disk import Bytes, DiskFailed, File
from brokerd.storage.log_dirs import FUTURE
from brokerd.storage.meta_properties import read_meta
from brokerd.storage.os_disk import OsDisk

FORMAT = 1
STRAY = "-stray"
INDEX_INTERVAL_BYTES = 4096


class InspectionError(Exception):
    """The log directories cannot be evaluated; the message has the reason."""


class _LookedAt(File):
    """A read-only file. Recovery runs as if its writes had succeeded."""

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        self.path, self._file = file.path, file

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def pread(self, length: int, position: int) -> bytes:
        return self._file.pread(length, position)

    def pwrite(self, data: Bytes, position: int) -> None:
        pass

    def truncate(self, size: int) -> None:
        pass

    def fsync(self) -> None:
        pass


class LookingDisk(OsDisk):
    """The real disk, read-only. Operations that would change the disk do nothing."""

    def open(self, path: Path, *, create: bool = False) -> File:
        return _LookedAt(super().open(path))

    def mkdir(self, path: Path) -> None:
        pass

    def rename(self, old: Path, new: Path) -> None:
        pass

    def unlink(self, path: Path) -> None:
        pass

    def discard(self, path: Path) -> None:
        pass

    def rmtree(self, path: Path) -> None:
        pass

    def replace(self, path: Path, data: bytes, *, durable: bool = False) -> None:
        pass


class InspectedCopy(TypedDict):
    """A replica in the output. `start`, `end`: offsets of its log."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    high_watermark: int
    last_epoch: int
    damage: list[str]


class Inspection(TypedDict):
    """The output."""

    format: int
    broker_id: int
    broker_uuid: str
    cluster_id: str
    metadata_seq: int
    trusted: bool
    doubt: DirectoryDoubt | None
    lives: Sequence[str]
    lost: list[str]
    strays: list[str]
    copies: list[InspectedCopy]


def inspect_log_dirs(broker_id: int, log_dirs: Sequence[Path], environment: Environment) -> Inspection:
    """The log directories of one broker. Raises InspectionError, DiskFailed."""
    disk = LookingDisk()
    present = [d for d in log_dirs if disk.isdir(d)]
    for directory in present:
        if not environment.lock(directory):
            raise InspectionError(f"{directory} is in use by a running broker; stop it first")
    metas = {d: meta for d in present if (meta := read_meta(disk, d))}
    for directory, meta in metas.items():
        if int(meta.get("broker.id", broker_id)) != broker_id:
            raise InspectionError(f"{directory} belongs to broker {meta['broker.id']}, not {broker_id}")
    named = {i for m in metas.values() for i in m.get("directory.ids", "").split(",") if i}
    found = {m.get("directory.id", "") for m in metas.values()}
    copies: dict[tuple[str, int], InspectedCopy] = {}
    strays: list[str] = []
    doubts = {
        d: running_marker.find_doubt(
            disk, d, meta, environment.boot_id, clean=running_marker.closed_cleanly(disk, d, meta)
        )
        for d, meta in metas.items()
    }
    latest = broker_lives.find_newest(list(metas.values()))
    doubt = broker_lives.most_severe_doubt(doubts.values())
    if metas and latest is None:
        doubt = DirectoryDoubt.MIXED
    elif doubt is None and not (len(present) == len(log_dirs) and named <= found):
        doubt = DirectoryDoubt.MISSING
    for directory in present:
        high = checkpoints.read_offsets(disk, directory / checkpoints.HIGH_WATERMARKS)
        for name in disk.listdir(directory):
            folder = directory / name
            if name.endswith(STRAY) and disk.isdir(folder):
                strays.append(str(folder))
                continue
            partition = split_partition_name(name)
            if partition is None or FUTURE.fullmatch(name) or not disk.isdir(folder):
                continue
            topic_id = checkpoints.read_partition_metadata(disk, folder)
            if topic_id is None:
                continue
            is_checked = directory not in metas or doubts[directory] is not None
            mark = high.get(partition, 0)
            copy = _copy(folder, disk, *partition, topic_id, high_watermark=mark, deep=is_checked)
            older = copies.get((copy["topic_id"], copy["partition"]))
            if older is None or (older["last_epoch"], older["end"]) < (copy["last_epoch"], copy["end"]):
                copies[copy["topic_id"], copy["partition"]] = copy
    return {
        "format": FORMAT,
        "broker_id": broker_id,
        "broker_uuid": _common_value("broker.uuid", metas),
        "cluster_id": _common_value("cluster.id", metas),
        "metadata_seq": max((int(m.get("metadata.seq", 0)) for m in metas.values()), default=0),
        "trusted": bool(metas) and doubt is None,
        "doubt": doubt,
        "lives": broker_lives.lives(latest) if latest is not None else (),
        "lost": checkpoints.lost_copies(disk, present),
        "strays": strays,
        "copies": list(copies.values()),
    }


def _common_value(name: str, metas: dict[Path, dict[str, str]]) -> str:
    found = sorted({m[name] for m in metas.values() if m.get(name)})
    if len(found) > 1:
        raise InspectionError(
            f"the log directories belong to different brokers or clusters: {name} is {' and '.join(found)}"
        )
    return found[0] if found else ""


def _copy(
    folder: Path, disk: OsDisk, topic: str, index: int, topic_id: UUID, *, high_watermark: int, deep: bool
) -> InspectedCopy:
    damage: list[str] = []
    found = recovery.recover(folder, disk, Now(0, 0), INDEX_INTERVAL_BYTES, deep=deep, damaged=damage.append)
    end = found.segments[-1].end_offset if found.segments else found.start_offset
    if found.state_offset > end:
        found.epochs.truncate(end)
    found.epochs.drop_above(end)
    return {
        "topic": topic,
        "partition": index,
        "topic_id": str(topic_id),
        "start": found.start_offset,
        "end": end,
        "high_watermark": high_watermark,
        "last_epoch": found.epochs.latest,
        "damage": damage,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="brokerd.tools.inspect_log_dirs",
        description="Print the state of a stopped broker's log directories as JSON.",
    )
    parser.add_argument("--config", required=True, type=Path, help="the broker's .properties file")
    parser.add_argument("--out", type=Path, help="default: standard output")
    arguments = parser.parse_args()
    try:
        config = BrokerConfig.load(arguments.config, BROKER_SYNONYMS.__contains__)
        text = json.dumps(inspect_log_dirs(config.broker_id, config["log.dirs"], Environment()))
        if arguments.out is None:
            print(text)
        else:
            arguments.out.write_text(text)
    except (ConfigError, InspectionError, DiskFailed, OSError) as e:
        print(f"inspect_log_dirs: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
