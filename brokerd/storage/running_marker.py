"""Evidence of the last life (run of a broker process) in a log directory: running marker, clean shutdown marker, `meta.properties`.

The running marker contains the id of its own file (device, inode, birth time), so that a copy of the directory is detected. It is not
flushed, and is valid only while the same kernel runs. Does not contain the comparison with the metadata log (`broker_lives`).
"""

from __future__ import annotations

import json
from pathlib import Path

from brokerd.cluster.broker_lives import DirectoryDoubt, Meta
from brokerd.storage.disk import Disk

CLEAN = ".kafka_cleanshutdown"
RUNNING = ".running"


def find_doubt(disk: Disk, folder: Path, meta: Meta, boot: str, *, clean: bool) -> DirectoryDoubt | None:
    """Return the reason why the log tails in `folder` are not trusted, from the evidence in the directory. None: all written data is present. `clean`: the
    result of `closed_cleanly`."""
    if meta.get("tail.intact", "true") != "true":
        return DirectoryDoubt.NOTED
    if clean:
        return None
    rebooted = not boot or meta.get("boot.id") != boot
    found = DirectoryDoubt.UNCLEAN if rebooted else None
    if "life.id" not in meta:
        return found  # written by a program without running markers
    mark, itself = _mark(disk, folder), disk.file_id(folder / RUNNING)
    if mark is None:  # not flushed: it may be empty after a power failure
        return found or DirectoryDoubt.COPIED
    if mark == itself:
        return found
    same_file = mark.partition(":")[2] == itself.partition(":")[2]
    return (found or DirectoryDoubt.REATTACHED) if same_file else DirectoryDoubt.COPIED


def closed_cleanly(disk: Disk, folder: Path, meta: Meta) -> bool:
    """Return whether the clean shutdown marker belongs to the last run of the broker. A marker of another run comes from an older copy of the directory. Older
    versions wrote no run id."""
    data = disk.read(folder / CLEAN)
    if data is None or "life.id" not in meta:
        return data is not None
    try:
        return bool(json.loads(data)["life"] == meta["life.id"])
    except (ValueError, KeyError, TypeError):
        return False


def clean_marker(broker_epoch: int | None, life: str) -> bytes:
    return json.dumps({"incarnation": broker_epoch, "life": life}).encode()


def _mark(disk: Disk, folder: Path) -> str | None:
    text = (disk.read(folder / RUNNING) or b"").decode("utf-8", "replace")
    return text[len("file=") : -1] if text.startswith("file=") and text.endswith("\n") else None


def mark_running(disk: Disk, folder: Path) -> None:
    """Write the running marker. It is not flushed, because it is valid only while the same kernel runs. Raises DiskFull, DiskFailed."""
    temporary = folder / (RUNNING + ".tmp")
    disk.unlink(temporary)
    file = disk.open(temporary, create=True)
    file.pwrite(f"file={disk.file_id(temporary)}\n".encode(), 0)
    disk.rename(temporary, folder / RUNNING)
