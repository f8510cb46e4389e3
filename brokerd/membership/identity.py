"""Identity of the broker's log directories: `meta.properties`, the lock, the clean shutdown marker.

Invariants (safety.md sections 1 and 3): a directory of another cluster or broker is rejected. A directory is used by one broker process at a
time. The tail is intact only if two conditions are true: every directory is the directory that this broker wrote last (`broker_lives`,
`running_marker`), and no replica with committed records is missing. Otherwise an empty or older replica in the ISR could be elected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from brokerd.cluster import broker_lives
from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.cluster.metadata import GENESIS_HASH
from brokerd.environment import Environment
from brokerd.storage import checkpoints, running_marker
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.log_dirs import LogDir, LogDirs
from brokerd.storage.meta_properties import META, MetaWriter, Writing, read_meta
from brokerd.storage.running_marker import CLEAN

log = logging.getLogger(__name__)

META_VERSION = 1
CONSEQUENCE = "this broker leaves every ISR until it has caught up"


class IdentityError(Exception):
    """The log directories cannot be used. The message gives cause and remedy."""


class BrokerIdentity:
    """Opened once at start-up, which determines `tail_intact`. A loss stays recorded until the metadata log contains it.

    Each log directory stores its owner, its lives and the ids of the other directories. A missing one (failed, unmounted, emptied, removed from
    the settings) contained replicas that this broker may lack.
    """

    def __init__(self, dirs: LogDirs, broker_id: int, outside: Environment) -> None:
        self.dirs, self.broker_id, self._disk, self._boot = dirs, broker_id, outside.disk, outside.boot_id
        metas = self._open_directories(outside)
        readable_metas = [m for m in metas.values() if m]
        self.fresh = not readable_metas and len(metas) == len(dirs.all)
        self._check_owner(metas)
        self.broker_uuid = self._common_value("broker.uuid", readable_metas) or outside.draw_id()
        self.cluster_id = self._common_value("cluster.id", readable_metas) or None
        newest = max(readable_metas, key=lambda m: int(m.get("metadata.seq", 0)), default={})
        self.seq = int(newest.get("metadata.seq", 0))
        self.chain_hash = newest.get("metadata.hash", GENESIS_HASH)
        # The first directory of a new broker uses the broker's UUID as its id.
        self._ids = {
            d: m.get("directory.id") or (self.broker_uuid if self.fresh and d is dirs.all[0] else outside.draw_id())
            for d, m in metas.items()
        }
        named = {i for m in readable_metas for i in m.get("directory.ids", "").split(",") if i}
        self._absent = named - set(self._ids.values())
        self.life = outside.draw_life()
        """Id of this start. The metadata log records it, and the next start is compared with the record."""
        latest = broker_lives.find_newest(readable_metas)
        self.lives_before = broker_lives.limit_lives(broker_lives.lives(latest)) if latest is not None else ()
        self._of_this_broker = {self.life, *self.lives_before}
        earlier = {i: life for m in readable_metas for i, life in broker_lives.directory_lives(m).items()}
        if latest is not None:
            earlier |= broker_lives.directory_lives(latest)
        self._lives = earlier | dict.fromkeys(self._ids.values(), self.life)
        self._clean = {d: running_marker.closed_cleanly(self._disk, d.path, m) for d, m in metas.items() if m}
        self.unclean_start = not all(self._clean.values())
        """True if the last run ended without a clean shutdown: the broker was killed, it crashed, or its machine stopped. Its records are complete if there
        is no doubt."""
        self.doubt = self._find_doubt(metas, mixed=bool(readable_metas) and latest is None)
        """The reason why this broker may lack records. None: it is proved to be complete."""
        self.tail_intact = bool(readable_metas) and self.doubt is None
        if self.doubt is not None:
            self._report()
        if not dirs.any_failed:
            self._absent = set()
        self.losses = 0
        """Number of I/O errors of this life. After an error the kernel may have dropped dirty pages."""
        self._unsaved = self._recorded = False
        self._jobs: Runner = outside.jobs
        self._in_background = False
        """True if jobs write the files. Otherwise writes block the caller (start-up and shutdown)."""
        self._writer = MetaWriter(outside.disk)
        self._under_way: Writing | None = None
        self._write_first(metas)
        if not dirs.online:
            raise IdentityError("; ".join(f"{d.path}: {d.failed}" for d in dirs.all))

    def _open_directories(self, outside: Environment) -> dict[LogDir, dict[str, str]]:
        """Create and lock the log directories. Returns the meta properties of each one that can be read, empty for a new directory. Raises IdentityError
        if another process has locked a directory."""
        metas: dict[LogDir, dict[str, str]] = {}
        for directory in self.dirs.all:
            try:
                self._disk.mkdir(directory.path)
                if not outside.lock(directory.path):
                    raise IdentityError(
                        f"{directory.path} is locked by another broker process; stop that process first"
                    )
                metas[directory] = read_meta(self._disk, directory.path)
            except (DiskFailed, DiskFull, OSError) as e:
                self.dirs.fail(directory, f"cannot be opened: {e}")
        return metas

    def _check_owner(self, metas: Mapping[LogDir, Mapping[str, str]]) -> None:
        """Raises IdentityError if a directory belongs to another broker or was written by a newer program."""
        for directory, meta in metas.items():
            if int(meta.get("version", META_VERSION)) > META_VERSION:
                raise IdentityError(
                    f"{directory.path / META} has version {meta['version']} of a newer program; upgrade this program"
                )
            if meta and int(meta.get("broker.id", self.broker_id)) != self.broker_id:
                raise IdentityError(
                    f"{directory.path} belongs to broker {meta['broker.id']}, not {self.broker_id}: correct broker.id or log.dirs"
                )

    def _find_doubt(self, metas: Mapping[LogDir, Mapping[str, str]], *, mixed: bool) -> DirectoryDoubt | None:
        """The reason why this broker may lack records, or None. Logs missing replicas and directories, and marks the directories whose logs need a deep check.
        `mixed`: the directories are from different times, and none contains the last life of all others."""
        lost = checkpoints.lost_copies(self._disk, [d.path for d in metas])
        self.dirs.gone = set(lost)
        paths = ",".join(str(d.path) for d in metas)
        if lost:
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            log.error(
                "replicas with records are missing: %s%s dirs=%s. %s", ", ".join(lost[:3]), more, paths, CONSEQUENCE
            )
        if self._absent:
            log.error(
                "log directories of this broker are missing: count=%d dirs=%s. %s",
                len(self._absent),
                paths,
                CONSEQUENCE,
            )
        doubts = {
            d: running_marker.find_doubt(self._disk, d.path, metas[d], self._boot, clean=clean)
            for d, clean in self._clean.items()
        }
        for directory in metas:
            # A directory without a history is not a loss: it is new, or its earlier id is among the absent directories.
            directory.deep = doubts.get(directory) is not None
        doubt = broker_lives.most_severe_doubt(doubts.values())
        if mixed:
            return DirectoryDoubt.MIXED
        return DirectoryDoubt.MISSING if doubt is None and (lost or self._absent) else doubt

    def _write_first(self, directories: Iterable[LogDir]) -> None:
        """Record this life in the files of the directories, in an order that lets no doubt get lost if the process is killed in between."""
        for directory in directories:
            try:
                self._disk.unlink(directory.path / CLEAN)
                if self.tail_intact:
                    # Write the marker before the life. A directory with a life but without its running marker counts as a copy.
                    running_marker.mark_running(self._disk, directory.path)
                self._disk.replace(directory.path / META, self._text_of(directory), durable=True)
                if not self.tail_intact:
                    # Write the marker after the doubt, because the new marker would hide the doubt.
                    running_marker.mark_running(self._disk, directory.path)
            except DiskFull as e:
                log.warning("%s cannot be written: %s", META, e)
                self._unsaved = True
            except DiskFailed as e:
                self.dirs.fail(directory, f"cannot be written: {e}")
                self.tail_in_doubt()

    @staticmethod
    def _common_value(name: str, metas: list[dict[str, str]]) -> str:
        """The value of `name` in all directories, empty if none has it. Raises IdentityError if they differ."""
        found = sorted({m[name] for m in metas if m.get(name)})
        if len(found) > 1:
            raise IdentityError(
                f"the log directories belong to different brokers or clusters: {name} is {' and '.join(found)}"
            )
        return found[0] if found else ""

    def _text_of(self, d: LogDir) -> bytes:
        lines = {
            "version": str(META_VERSION),
            "broker.id": str(self.broker_id),
            "broker.uuid": self.broker_uuid,
            "cluster.id": self.cluster_id or "",
            "directory.id": self._ids[d],
            "directory.ids": ",".join(sorted({*self._ids.values(), *self._absent})),
            "boot.id": self._boot,
            "metadata.seq": str(self.seq),
            "metadata.hash": self.chain_hash,
            "tail.intact": str(self.tail_intact).lower(),
            "life.id": self.life,
            "life.before": ",".join(self.lives_before),
            "life.directories": ",".join(f"{i}={life}" for i, life in sorted(self._lives.items())),
        }
        return "".join(f"{k}={v}\n" for k, v in lines.items()).encode()

    def tail_in_doubt(self) -> None:
        """Record an I/O error, so that the next start does not trust the tail. The value is in the page cache when this method returns, so it survives
        a kill of the process. A job flushes it. After a power failure the flush is not needed: the boot id differs, and no tail is trusted."""
        self.losses += 1
        if self.tail_intact:
            self.tail_intact, self.doubt = False, DirectoryDoubt.NOTED
            if self._in_background:
                self._writer.mark_lost([d.path for d in self.dirs.online], flush=False)
            self._save()

    def record_loss(self, what: str) -> None:
        """Record that a log, opened before the registration, lacks records that may have been acknowledged. Blocks until it is stored."""
        log.error("%s%s", what, f": {CONSEQUENCE}" if self.tail_intact else "")
        self._distrust(DirectoryDoubt.NOTED)

    def _distrust(self, reason: DirectoryDoubt) -> None:
        if self.tail_intact:
            self.tail_intact, self.doubt = False, reason
            self._save_and_wait()

    def _report(self) -> None:
        assert self.doubt is not None
        what, action = broker_lives.REASONS[self.doubt]
        log.error(
            "data directory not trusted: broker=%d reason=%s dirs=%s. %s %s",
            self.broker_id,
            self.doubt,
            ",".join(str(d.path) for d in self.dirs.all),
            what,
            action or CONSEQUENCE,
        )

    def compare(self, recorded: str) -> str | None:
        """Compare the directories with the last recorded life of this broker id in the metadata log. Returns why this process must stop: another
        process was started with a copy of its directories. None: it may continue.

        Before this start is recorded, another life means that the directories are an older copy. That is stored as a doubt.
        """
        if not recorded or recorded in self._of_this_broker:
            return None
        if self._recorded:
            return (
                f"another process has registered broker {self.broker_id} with a copy of the data directory (its life {recorded}, "
                f"this process is life {self.life}): stop one of them"
            )
        self._of_this_broker.add(recorded)
        self._distrust(DirectoryDoubt.OLDER)
        self.doubt = DirectoryDoubt.EMPTY if self.fresh else DirectoryDoubt.OLDER
        self._report()
        return None

    def loss_is_known(self, seq: int = 0, chain_hash: str = "") -> None:
        """The metadata log contains the registration of this life, so the ISRs already exclude earlier losses.

        Until then the loss stays stored. Two starts can follow it before the controller processes the first one, and the second one has the same boot
        id and all directories.
        """
        self._recorded = True
        known = not self.tail_intact and not self.losses  # losses of this life are reported by the next life
        if known:
            self.tail_intact, self.doubt = True, None
        if known or self.lives_before:
            self.lives_before = ()
            if seq > self.seq:  # a rebuild of the metadata log uses `seq` to compare lives
                self.seq, self.chain_hash = seq, chain_hash
            self._save()

    def problem(self, cluster_id: str, seq: int) -> str | None:
        """Return the reason why the directories do not belong to the cluster in ZooKeeper, or None."""
        if self.cluster_id and cluster_id and cluster_id != self.cluster_id:
            folders = ", ".join(str(d.path) for d in self.dirs.all)
            return f"{folders} belongs to cluster {self.cluster_id}, ZooKeeper has cluster {cluster_id}"
        if seq < self.seq:
            return f"the metadata log ends at entry {seq}, but this broker has applied entry {self.seq}: ZooKeeper has older data"
        return None

    def store_last_entry(self, cluster_id: str, seq: int, chain_hash: str) -> None:
        """Store the last applied entry of the metadata log. Called periodically, not at each entry."""
        if self._unsaved or seq != self.seq or cluster_id != self.cluster_id:
            self.cluster_id, self.seq, self.chain_hash = cluster_id, seq, chain_hash
            self._save()

    def _save(self) -> None:
        """Write the files. A failed write is repeated with the next call of `applied`; it does not stop the broker."""
        if not self._in_background:
            self._save_and_wait()
        elif self._under_way is None:
            self._under_way = writing = self._plan()
            self._jobs.submit(writing.run, partial(self._on_written, writing), urgent=True)
        else:
            self._under_way.outdated = True

    def _save_and_wait(self) -> None:
        writing = self._plan()
        writing.run()
        self._judge(writing)

    def _plan(self) -> Writing:
        texts = [(d.path, self._text_of(d)) for d in self.dirs.online]
        return self._writer.plan(texts, lost=not self.tail_intact)

    def _on_written(self, writing: Writing, error: BaseException | None) -> None:
        self._under_way = None
        if error is not None:
            raise error  # `run` handles disk errors, so this is a bug
        if writing.outdated:
            self._save()
        self._judge(writing)

    def _judge(self, writing: Writing) -> None:
        known, self._unsaved = self._unsaved, bool(writing.rejected)
        for path, e in writing.rejected:
            if not known:
                log.warning("%s cannot be written and is outdated: %s", path / META, e)
            d = self.dirs.find(path)
            if isinstance(e, DiskFailed):
                self.tail_in_doubt()  # write the files again where possible
                if e.of_device and d is not None:
                    self.dirs.fail(d, str(e))

    def write_in_background(self) -> None:
        """Let jobs write the files from now on, because the event loop serves clients."""
        self._in_background = True

    def write_here(self) -> None:
        """Let writes block the caller from now on, because the event loop has ended. Waits for a running write job."""
        self._in_background, self._under_way = False, None
        self._save_and_wait()

    @property
    def may_mark(self) -> bool:
        """True if all losses that this start has found are stored, so that a new running marker does not hide a loss."""
        return not self._unsaved

    def mark_running(self) -> None:
        """Write the running markers again, so that a file-by-file restore replaces them. Runs in a job. Raises DiskFailed."""
        for d in self.dirs.online:
            with suppress(DiskFull):  # the existing marker is sufficient
                running_marker.mark_running(self._disk, d.path)

    def stopped_cleanly(self, broker_epoch: int | None) -> None:
        for d in self.dirs.online:
            try:
                self._disk.replace(d.path / CLEAN, running_marker.clean_marker(broker_epoch, self.life), durable=True)
            except (DiskFailed, DiskFull) as e:
                log.warning("clean shutdown marker not written, the next start recovers all logs: %s", e)
