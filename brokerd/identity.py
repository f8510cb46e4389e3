"""Who this broker is and what its folder has lived through: `meta.properties`, the lock, the clean-stop marker.

Laws (safety.md sections 1 and 3): a folder of another cluster or broker is refused; a folder has one broker at a time, a broker
may have several; the tail
counts as intact after a clean stop, or while the kernel that held the written pages still runs, and only if no copy that held committed
records is missing: an emptied replica that keeps its place in the ISR could be elected.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from brokerd.cluster.metadata import GENESIS_HASH
from brokerd.logdirs import LogDir, LogDirs
from brokerd.outside import Outside
from brokerd.storage import checkpoints
from brokerd.storage.disk import Disk, DiskFailed, DiskFull

log = logging.getLogger(__name__)

META = "meta.properties"
META_VERSION = 1
INTACT, LOST = b"tail.intact=true", b"tail.intact=lost"
CLEAN = ".kafka_cleanshutdown"
CONSEQUENCE = "this broker gives up its seats in every ISR until it has caught up"


class IdentityError(Exception):
    """The folder cannot be served; the text says why and what would help."""


class Identity:
    """Opened once at start. `tail_intact` is decided then; a loss stays a loss until the metadata log knows of it.

    Each directory of log.dirs says on its own whose it is and what it has lived through, and names the others: one that was there and
    is not (failed, unmounted, emptied, taken out of the settings) held copies that this broker cannot vouch for.
    """

    def __init__(self, dirs: LogDirs, broker_id: int, outside: Outside) -> None:
        disk = outside.disk
        self.dirs, self.broker_id, self._disk, self._boot = dirs, broker_id, disk, outside.boot_id
        metas: dict[LogDir, dict[str, str]] = {}
        for d in dirs.all:
            try:
                disk.mkdir(d.path)
                if not outside.lock(d.path):
                    raise IdentityError(f"{d.path} is served by another broker process; stop that one first")
                metas[d] = read_meta(disk, d.path)
            except (DiskFailed, DiskFull, OSError) as e:
                dirs.fail(d, f"it cannot be opened: {e}")
        known = [m for m in metas.values() if m]
        self.fresh = not known and len(metas) == len(dirs.all)
        for d, meta in metas.items():
            if int(meta.get("version", META_VERSION)) > META_VERSION:
                raise IdentityError(
                    f"{d.path / META} has version {meta['version']}: it was written by a newer program; upgrade this one"
                )
            if meta and int(meta.get("broker.id", broker_id)) != broker_id:
                raise IdentityError(
                    f"{d.path} belongs to broker {meta['broker.id']}, not {broker_id}: fix broker.id or log.dirs"
                )
        self.broker_uuid = self._one("broker.uuid", known) or outside.draw_id()
        self.cluster_id = self._one("cluster.id", known) or None
        newest = max(known, key=lambda m: int(m.get("metadata.seq", 0)), default={})
        self.seq = int(newest.get("metadata.seq", 0))
        self.chain_hash = newest.get("metadata.hash", GENESIS_HASH)
        # The first directory of a new broker shares its id: as unique, and no chance is needed twice.
        self._ids = {
            d: m.get("directory.id") or (self.broker_uuid if self.fresh and d is dirs.all[0] else outside.draw_id())
            for d, m in metas.items()
        }
        named = {i for m in known for i in m.get("directory.ids", "").split(",") if i}
        self._absent = named - set(self._ids.values())
        lost = checkpoints.lost_copies(disk, [d.path for d in metas])
        dirs.gone = set(lost)
        if lost:
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            log.error("%s%s held records and are gone from %s: %s",
                      ", ".join(lost[:3]), more, ", ".join(str(d.path) for d in metas), CONSEQUENCE)  # fmt: skip
        if self._absent:
            log.error("%d of the directories that held this broker's logs are not among %s: %s",
                      len(self._absent), ", ".join(str(d.path) for d in metas), CONSEQUENCE)  # fmt: skip
        whole = True
        for d, meta in metas.items():
            trusted = tail_trusted(disk, d.path, meta, self._boot)
            d.deep = bool(meta) and not trusted
            # One without a history is no loss: it is new, or its earlier self is among the absent.
            whole = whole and (trusted or not meta)
        self.tail_intact = bool(known) and whole and not lost and not self._absent
        if not dirs.any_failed:
            self._absent = set()
        self.losses = 0
        """I/O errors of this life: after one the kernel may have dropped pages that it had taken."""
        self._unsaved = False
        for d in list(metas):
            try:
                disk.unlink(d.path / CLEAN)
                self._write_meta(d)
            except DiskFull as e:
                log.warning("%s could not be written: %s", META, e)
                self._unsaved = True
            except DiskFailed as e:
                dirs.fail(d, f"it cannot be written: {e}")
                self.tail_in_doubt()
        if not dirs.online:
            raise IdentityError("; ".join(f"{d.path}: {d.failed}" for d in dirs.all))

    @staticmethod
    def _one(name: str, metas: list[dict[str, str]]) -> str:
        """What all directories say under `name`; empty where none says anything."""
        found = sorted({m[name] for m in metas if m.get(name)})
        if len(found) > 1:
            raise IdentityError(f"the directories of log.dirs do not belong together: {name} is {' and '.join(found)}")
        return found[0] if found else ""

    def _write_meta(self, d: LogDir) -> None:
        lines = {
            "version": str(META_VERSION), "broker.id": str(self.broker_id), "broker.uuid": self.broker_uuid,
            "cluster.id": self.cluster_id or "", "directory.id": self._ids[d],
            "directory.ids": ",".join(sorted({*self._ids.values(), *self._absent})), "boot.id": self._boot,
            "metadata.seq": str(self.seq), "metadata.hash": self.chain_hash,
            "tail.intact": str(self.tail_intact).lower(),
        }  # fmt: skip
        text = "".join(f"{k}={v}\n" for k, v in lines.items())
        self._disk.replace(d.path / META, text.encode(), durable=True)

    def tail_in_doubt(self) -> None:
        """An I/O error. Written down at once: the next start, on the same kernel, would find an intact tail otherwise."""
        self.losses += 1
        self._distrust()

    def lost(self, what: str) -> None:
        """A log, opened before the registration, lacks records that may have been acknowledged. Returns once that is written down."""
        log.error("%s%s", what, f": {CONSEQUENCE}" if self.tail_intact else "")
        self._distrust()

    def _distrust(self) -> None:
        if self.tail_intact:
            self.tail_intact = False
            self._save()
            if self._unsaved:
                self._mark_in_place()

    def _mark_in_place(self) -> None:
        """Over the word that is there: a full disk takes that."""
        for d in self.dirs.online:
            path = d.path / META
            try:
                at = (self._disk.read(path) or b"").find(INTACT)
                if at >= 0:
                    file = self._disk.open(path)
                    file.pwrite(LOST, at)
                    file.fsync()
            except (DiskFailed, DiskFull) as e:
                log.error("%s: nor in place: %s; the next start may take this tail for intact", path, e)

    def loss_is_known(self) -> None:
        """The metadata log holds this life's registration: whatever was lost before, the ISRs have been drawn without it.

        Until then the loss stays written down. Two starts can follow it before the controller hears of the first, and the second
        has the same boot id and every folder.
        """
        if not self.tail_intact and not self.losses:  # what this life may have lost, the next one sees
            self.tail_intact = True
            self._save()

    def problem(self, cluster_id: str, seq: int) -> str | None:
        """Why the cluster that was met is not this folder's, or None."""
        if self.cluster_id and cluster_id and cluster_id != self.cluster_id:
            folders = ", ".join(str(d.path) for d in self.dirs.all)
            return f"{folders} belongs to cluster {self.cluster_id}, ZooKeeper holds cluster {cluster_id}"
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
        told, self._unsaved = self._unsaved, False
        for d in self.dirs.online:
            try:
                self._write_meta(d)
            except (DiskFailed, DiskFull) as e:
                if not told:
                    log.warning("%s could not be written, so that it tells of an earlier time: %s", d.path / META, e)
                self._unsaved = True
                if isinstance(e, DiskFailed):
                    self.tail_in_doubt()  # saved again, where it can be
                    if e.of_device:
                        self.dirs.fail(d, str(e))

    def stopped_cleanly(self, incarnation: int | None) -> None:
        for d in self.dirs.online:
            try:
                self._disk.replace(d.path / CLEAN, json.dumps({"incarnation": incarnation}).encode(), durable=True)
            except (DiskFailed, DiskFull) as e:
                log.warning("the clean stop is not written down, so that the next start is one as after a kill: %s", e)


def tail_trusted(disk: Disk, folder: Path, meta: Mapping[str, str], boot: str) -> bool:
    """Whether all that was written into `folder` is still there: a clean stop, or the same kernel, and no loss that nobody knows of."""
    intact = disk.exists(folder / CLEAN) or (bool(boot) and meta.get("boot.id") == boot)
    return intact and meta.get("tail.intact", "true") == "true"


def read_meta(disk: Disk, folder: Path) -> dict[str, str]:
    """What `meta.properties` says; empty when it is not there."""
    data = disk.read(folder / META)
    out: dict[str, str] = {}
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            out[name.strip()] = value.strip()
    return out
