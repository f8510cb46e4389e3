"""Small files that are replaced as a whole: offsets per partition (Kafka's text format), the topic id of a partition directory.

An unreadable checkpoint is treated as missing and logged. Safety does not depend on checkpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from brokerd.storage.disk import Disk

log = logging.getLogger(__name__)

HIGH_WATERMARKS = "replication-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"

Offsets = dict[tuple[str, int], int]


def read_offsets(disk: Disk, path: Path) -> Offsets:
    """{(topic, partition): offset}. Empty if the file is missing or unreadable."""
    data = disk.read(path)
    if data is None:
        return {}
    try:
        return parse_offsets(data)
    except (ValueError, IndexError) as e:
        log.warning("unreadable checkpoint ignored: path=%s error=%s", path, e)
        return {}


def parse_offsets(data: bytes) -> Offsets:
    """Raises ValueError or IndexError for an invalid checkpoint."""
    lines = data.decode().splitlines()
    if lines[0] != "0" or len(lines) < 2 or len(lines) - 2 < int(lines[1]):
        raise ValueError("header")
    out: Offsets = {}
    for line in lines[2 : 2 + int(lines[1])]:
        topic, partition, offset = line.split(" ")
        out[topic, int(partition)] = int(offset)
    return out


def write_offsets(disk: Disk, path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    ]
    disk.replace(path, ("\n".join(lines) + "\n").encode())


def lost_copies(disk: Disk, log_dirs: Sequence[Path]) -> list[str]:
    """Names of missing partition directories that had committed records at the last checkpoint: deleted manually or on an unmounted volume.

    A regular deletion removes the partition from the checkpoint before the directory, so a killed broker causes no false alarm.
    """
    by_dir = [read_offsets(disk, log_dir / HIGH_WATERMARKS) for log_dir in log_dirs]
    lost = [
        (topic, partition)
        for offsets in by_dir
        for (topic, partition), offset in offsets.items()
        # In any log directory: the replica may have moved since the checkpoint was written.
        if offset > 0 and not any(disk.exists(log_dir / f"{topic}-{partition}") for log_dir in log_dirs)
    ]
    if lost and len(log_dirs) > 1:
        # The move may not have renamed the directory yet (`log_dirs`).
        moving = [name for d in log_dirs for name in disk.listdir(d) if name.endswith("-future")]
        lost = [(t, p) for t, p in lost if not any(name.startswith(f"{t[:200]}-{p}.") for name in moving)]
    return [f"{topic}-{partition}" for topic, partition in lost]


def read_partition_metadata(disk: Disk, folder: Path) -> UUID | None:
    """The topic id of a partition directory, None if it has none."""
    data = disk.read(folder / PARTITION_METADATA)
    if data is None:
        return None
    for line in data.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name == "topic_id":
            try:
                return UUID(value.strip())
            except ValueError:
                return None
    return None


def write_partition_metadata(disk: Disk, folder: Path, topic_id: UUID) -> None:
    disk.replace(folder / PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}\n".encode())
