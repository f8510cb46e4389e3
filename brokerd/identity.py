"""Who this broker is and what its folder has lived through: `meta.properties`, the lock, the clean-stop marker.

Laws (safety.md sections 1 and 3): a folder of another cluster or broker is refused; a folder has one broker at a time; the tail
counts as intact after a clean stop, or while the kernel that held the written pages still runs, and only if no copy that held committed
records is missing: an emptied replica that keeps its place in the ISR could be elected.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from brokerd.cluster.metadata import GENESIS_HASH
from brokerd.outside import Outside
from brokerd.storage import checkpoints
from brokerd.storage.disk import DiskFailed, DiskFull

log = logging.getLogger(__name__)

META = "meta.properties"
CLEAN = ".kafka_cleanshutdown"


class IdentityError(Exception):
    """The folder cannot be served; the text says why and what would help."""


class Identity:
    """Opened once at start. `tail_intact` is decided then; a loss stays a loss until the metadata log knows of it."""

    def __init__(self, folder: Path, broker_id: int, outside: Outside) -> None:
        disk = outside.disk
        self.folder, self.broker_id, self._disk = folder, broker_id, disk
        disk.mkdir(folder)
        if not outside.lock(folder):
            raise IdentityError(f"{folder} is served by another broker process; stop that one first")
        meta = self._read_meta()
        boot = outside.boot_id
        self.fresh = not meta
        if meta and int(meta.get("broker.id", broker_id)) != broker_id:
            raise IdentityError(
                f"{folder} belongs to broker {meta['broker.id']}, not {broker_id}: fix broker.id or log.dirs"
            )
        self.broker_uuid = meta.get("broker.uuid") or outside.draw_id()
        self.cluster_id = meta.get("cluster.id") or None
        self.seq = int(meta.get("metadata.seq", 0))
        self.chain_hash = meta.get("metadata.hash", GENESIS_HASH)
        clean = disk.exists(folder / CLEAN)
        self.same_boot = bool(boot) and meta.get("boot.id") == boot
        lost = checkpoints.lost_copies(disk, folder)
        if lost:
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            log.error("%s%s held records and are gone from %s: this broker gives up its seats in every ISR until it has caught up",
                      ", ".join(lost[:3]), more, folder)  # fmt: skip
        told = meta.get("tail.intact", "true") == "true"
        self.tail_intact = bool(meta) and (clean or self.same_boot) and not lost and told
        self.losses = 0
        """I/O errors of this life: after one the kernel may have dropped pages that it had taken."""
        self._unsaved = False
        self._boot = boot
        disk.unlink(folder / CLEAN)
        try:
            self._write_meta()
        except DiskFailed:
            self.tail_in_doubt()
            raise

    def _read_meta(self) -> dict[str, str]:
        data = self._disk.read(self.folder / META)
        out: dict[str, str] = {}
        for line in (data or b"").decode("utf-8", "replace").splitlines():
            name, equals, value = line.partition("=")
            if equals and not name.startswith("#"):
                out[name.strip()] = value.strip()
        return out

    def _write_meta(self) -> None:
        lines = {
            "version": "1", "broker.id": str(self.broker_id), "broker.uuid": self.broker_uuid,
            "cluster.id": self.cluster_id or "", "boot.id": self._boot,
            "metadata.seq": str(self.seq), "metadata.hash": self.chain_hash, "tail.intact": str(self.tail_intact).lower(),
        }  # fmt: skip
        text = "".join(f"{k}={v}\n" for k, v in lines.items())
        self._disk.replace(self.folder / META, text.encode(), durable=True)

    def tail_in_doubt(self) -> None:
        """An I/O error. Written down at once: the next start, on the same kernel, would find an intact tail otherwise."""
        self.losses += 1
        if self.tail_intact:
            self.tail_intact = False
            self._save()

    def loss_is_known(self, losses: int) -> None:
        """The metadata log holds a registration that said so, made after `losses` I/O errors: the ISRs have been drawn without it.

        Until then the loss stays written down. Two starts can follow it before the controller hears of the first, and the second
        has the same boot id and every folder.
        """
        if not self.tail_intact and losses == self.losses:
            self.tail_intact = True
            self._save()

    def problem(self, cluster_id: str, seq: int) -> str | None:
        """Why the cluster that was met is not this folder's, or None."""
        if self.cluster_id and cluster_id and cluster_id != self.cluster_id:
            return f"{self.folder} belongs to cluster {self.cluster_id}, ZooKeeper holds cluster {cluster_id}"
        if seq < self.seq:
            return f"ZooKeeper's metadata log ends at {seq}, this folder has seen entry {self.seq}: an older ZooKeeper"
        return None

    def applied(self, cluster_id: str, seq: int, chain_hash: str) -> None:
        """Remember how far the metadata log was followed (now and then, not at each entry)."""
        if self._unsaved or seq != self.seq or cluster_id != self.cluster_id:
            self.cluster_id, self.seq, self.chain_hash = cluster_id, seq, chain_hash
            self._save()

    def _save(self) -> None:
        """What cannot be written now is written with the next note of how far the metadata log was followed: no reason to end a broker."""
        try:
            self._write_meta()
            self._unsaved = False
        except (DiskFailed, DiskFull) as e:
            log.warning("%s could not be written: %s", META, e)
            self._unsaved = True
            if isinstance(e, DiskFailed):
                self.losses += 1
                self.tail_intact = False

    def stopped_cleanly(self, incarnation: int | None) -> None:
        self._disk.replace(self.folder / CLEAN, json.dumps({"incarnation": incarnation}).encode(), durable=True)
