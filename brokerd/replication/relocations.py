"""Moves of replicas between this broker's log directories (KIP-113): a future log is copied next to the live log and replaces it.

Invariants:
  - The future log is a prefix of the live log. It is truncated by epoch when the live log was truncated.
  - The future log replaces the live log when it contains all records of the live log, and when its flushed end is at least that of the live log.
    The replacement needs two renames: the live directory becomes `-delete`, then the future directory gets the name of the live directory.
    After a crash before the first rename, the move continues. After a crash between the renames, only the complete future log is left. If a
    power failure undoes only the first rename, both logs contain all flushed records, and the longer log is used (`log_dirs`).
  - A replica that moves is not compacted. Otherwise a tombstone could be removed before it is copied, while the older record is copied.

Long work runs as a job. Does not contain: the wire format.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.fetch_client import truncation_point
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage import checkpoints, observer_bootstrap
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.flushing import Flush
from brokerd.storage.jobs import Runner
from brokerd.storage.log import Log
from brokerd.storage.log_dirs import LogDir, future_name, future_of
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import LOOKUPS_MAX
from brokerd.storage.slices import Slice
from brokerd.wire.errors import ErrorCode

log = logging.getLogger(__name__)

COPY_BYTES = 4 * 1024 * 1024
"""Bytes copied per job. Flushes and compactions of other logs run between the jobs."""
LAST_BYTES = 1024 * 1024
"""Bytes that may be copied on the event loop when the future log replaces the live one. Small enough for a short pause."""
ROUNDS_MAX = 20
"""Maximum number of rounds of copying and flushing after which the rest is copied on the event loop. Otherwise a busy log would never complete its move."""


class LiveFailed(Exception):
    """The live log failed, not the future log."""

    def __init__(self, error: DiskFailed) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Relocation:
    replica: Replica
    target: LogDir
    future: Log
    cuts: int
    """Truncations of the live log when the future log was last compared with it."""
    rounds: int = 0
    busy: bool = False
    cancelled: bool = False
    lookups: int = 0
    """Number of reads since the last copied piece that raised NotInPageCache."""


class Relocations:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        jobs: Runner,
        clock: Callable[[], Now],
        *,
        bytes_per_s_max: Callable[[], int],
    ) -> None:
        self._replica_manager, self._jobs, self._clock = replica_manager, jobs, clock
        self._dirs, self._disk = replica_manager.log_dirs, replica_manager.disk
        self._bytes_per_s_max = bytes_per_s_max
        self._not_before_ms = 0
        self.under_way: dict[TopicPartition, Relocation] = {}

    # -- requests --------------------------------------------------------------------------------------------------------
    def request(self, topic: str, index: int, path: str, now: Now) -> ErrorCode:
        """Start a move. Returns NONE if it was started or nothing is to do, otherwise an error code of Kafka's AlterReplicaLogDirs."""
        target = self._dirs.find(Path(path))
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._replica_manager.image.topic_named(topic)
        if state is None or index not in state.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._replica_manager.find(state, index)
        if replica is None:
            self._dirs.preferred[f"{topic}-{index}"] = target  # used when the replica is created here later
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if replica.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        present = self.under_way.get(replica.tp)
        if present is not None and present.target is target and not present.cancelled:
            return ErrorCode.NONE
        if present is not None:
            self.cancel(present)
            if present.busy:
                return ErrorCode.REPLICA_NOT_AVAILABLE  # the client retries until the job has ended
        if self._dirs.directory_of(replica.log.folder) is target:
            return ErrorCode.NONE
        try:
            self._start(replica, target, now)
        except (DiskFailed, DiskFull) as e:
            self._log_failure("not started", replica.name, target, e)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _start(self, replica: Replica, target: LogDir, now: Now) -> None:
        folder = target.path / future_name(replica.topic, replica.tp)
        self._disk.mkdir(folder)
        checkpoints.write_partition_metadata(self._disk, folder, replica.tp.topic_id)
        future = Log.open(folder, replica.config, self._disk, now, deep=target.deep)
        self.under_way[replica.tp] = Relocation(replica, target, future, cuts=-1)
        replica.moving = True
        log.info(
            "log directory move started: partition=%s source=%s target=%s",
            replica.name,
            replica.log.folder.parent,
            target.path,
        )

    def resume(self, now: Now) -> None:
        """Continue the moves that were in progress at the last stop, and remove other future logs."""
        for directory in self._dirs.online:
            for name in self._disk.listdir(directory.path):
                tp = future_of(name)
                if tp is None or tp in self.under_way:
                    continue
                replica = self._replica_manager.hosted.get(tp)
                try:
                    if (
                        replica is not None
                        and replica.offline_reason is None
                        and self._dirs.directory_of(replica.log.folder) is not directory
                    ):
                        self._start(replica, directory, now)
                    elif replica is not None:
                        self._dirs.remove_folder(directory.path / name)
                except (DiskFailed, DiskFull) as e:
                    self._log_failure("not continued", name, directory, e)

    def cancel(self, move: Relocation) -> None:
        """Abandon the future log: immediately, or when its current job has ended."""
        move.cancelled = True
        move.replica.moving = move.replica.flush_suspended = False
        if not move.busy:
            self.under_way.pop(move.replica.tp, None)
            self._dirs.remove(move.future)

    def _log_failure(self, outcome: str, name: str, target: LogDir, error: Exception) -> None:
        """Log the failed move of a partition with this name, and take the target offline if its device failed."""
        log.error("log directory move %s: partition=%s target=%s error=%s", outcome, name, target.path, error)
        if isinstance(error, DiskFailed) and error.of_device:
            self._dirs.fail(target, str(error))

    # -- steps -----------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        if now.mono_ms < self._not_before_ms or any(move.busy for move in self.under_way.values()):
            return
        for move in list(self.under_way.values()):
            try:
                self._step(move, now)
            except (DiskFailed, DiskFull, LiveFailed) as e:
                self._on_failed(move, e)
            if move.busy:
                return

    def _step(self, move: Relocation, now: Now) -> None:
        replica, future = move.replica, move.future
        if self._replica_manager.hosted.get(replica.tp) is not replica or replica.offline_reason is not None:
            self.cancel(move)
            return
        if move.target.failed is not None:
            self.cancel(move)
            return
        live = replica.log
        if not self._align(move, now):
            return
        while live.end_offset > future.end_offset:
            try:
                with nonblocking_reads() if move.lookups < LOOKUPS_MAX else blocking_reads():
                    piece = _next_piece(live, future, COPY_BYTES)
            except NotInPageCache as cold:
                move.lookups += 1
                self._run_job(move, partial(_load, cold), None)
                return
            move.lookups = 0
            self._throttle(piece.size, now)
            if piece.size > LAST_BYTES or live.segments[-1].base_offset > future.end_offset:
                self._run_job(move, partial(_copy, future, piece, now), None)
                return
            _copy(future, piece, now)
        plan = future.flushing.plan(snapshot=True)
        if plan is None:
            self._replace_live_log(move, now)
            return
        replica.flush_suspended = True  # otherwise the flushed end of the live log could always be ahead
        self._run_job(move, plan.run, plan)

    def _throttle(self, size: int, now: Now) -> None:
        self._not_before_ms = now.mono_ms + size * 1000 // self._bytes_per_s_max()

    def _may_truncate(self, move: Relocation, offset: int) -> bool:
        """Return whether the future log may be truncated now. Otherwise a job flushes its directory first, and the next step continues."""
        future = move.future
        if not future.forget_flushed(offset):
            return True
        self._run_job(move, partial(self._disk.sync_folder, future.folder), None)
        return False

    def _align(self, move: Relocation, now: Now) -> bool:
        """Truncate the future log as the live log was truncated, or reset it to the start of the live log. Returns False if this is not done yet."""
        live, future = move.replica.log, move.future
        future.snapshots.unsynced = False  # the job that flushed the directory has ended
        if move.cuts != live.flushing.cuts:
            epoch, end = live.epochs.end_offset_for(future.last_epoch)
            point = min(truncation_point(future.epochs.end_offset_for, future.end_offset, epoch, end), live.end_offset)
            if point < future.end_offset:
                if not self._may_truncate(move, point):
                    return False
                future.truncate_to(point)
            move.cuts = live.flushing.cuts
        if future.end_offset < live.start_offset or future.end_offset < live.segments[0].base_offset:
            first = next(live.headers(live.start_offset), None)
            begins = first.base_offset if first is not None else live.start_offset
            if not self._may_truncate(move, -1):
                return False
            snapshot = observer_bootstrap.bootstrap_snapshot_at(live, begins)
            if snapshot is not None:
                observer_bootstrap.begin(future, snapshot, now)  # the bootstrap snapshot is not in the records
            else:
                future.reset_to(begins, now)
        return True

    def _run_job(self, move: Relocation, run: Callable[[], None], plan: Flush | None) -> None:
        move.busy = True
        self._jobs.submit(run, partial(self._job_done, move, plan))

    def _job_done(self, move: Relocation, plan: Flush | None, error: BaseException | None) -> None:
        move.busy = False
        if move.cancelled:
            self.cancel(move)
            return
        try:
            if error is not None:
                raise error
            if plan is not None:
                move.future.flushing.on_finished(plan)
                self._replace_live_log(move, self._clock())
        except (DiskFailed, DiskFull, LiveFailed) as e:
            self._on_failed(move, e)
        self.tick(self._clock())

    def _on_failed(self, move: Relocation, error: Exception) -> None:
        if isinstance(error, LiveFailed):
            self._replica_manager.fail(move.replica, error.error)
        else:
            self._log_failure("failed", move.replica.name, move.target, error)
        self.cancel(move)

    # -- replacement -----------------------------------------------------------------------------------------------------
    def _replace_live_log(self, move: Relocation, now: Now) -> None:
        """Replace the live log. Everything is copied and flushed, except for the latest appends."""
        replica, live, future = move.replica, move.replica.log, move.future
        move.rounds += 1
        if self._replica_manager.hosted.get(replica.tp) is not replica or replica.offline_reason is not None:
            return  # the next step cancels
        if move.cuts != live.flushing.cuts or future.flushing.offset < min(live.flushing.offset, live.end_offset):
            return  # truncated or flushed since then; flushes are suspended now
        while live.end_offset > future.end_offset:
            piece = _next_piece(live, future, LAST_BYTES)
            _copy(future, piece, now)
            if piece.size > LAST_BYTES // 2 and move.rounds < ROUNDS_MAX:
                return
        future.raise_start(live.start_offset)
        old, gone = live.folder, self._dirs.aside(live.folder, "-delete")
        live.close_files()
        try:
            self._disk.rename(old, gone)
        except DiskFailed as e:
            raise LiveFailed(e) from e
        try:
            future.rename(move.target.path / old.name)
        except (DiskFailed, DiskFull):
            self._disk.rename(gone, old)
            raise
        del self.under_way[replica.tp]
        replica.flush_suspended = replica.moving = False
        future.config, future.producers, future.epochs = replica.config, live.producers, live.epochs
        future.producer_expiration_ms = live.producer_expiration_ms
        future.written_bytes = live.written_bytes  # the copied bytes do not count as traffic of the partition
        replica.log = future
        self._dirs.directory_of(old).replica_count -= 1
        move.target.replica_count += 1
        log.info(
            "log directory move completed: partition=%s source=%s target=%s", replica.name, old.parent, move.target.path
        )
        self._replica_manager.replica_opening.checkpoint()
        self._disk.discard_tree(gone)
        self._replica_manager.on_flushed(replica, now)


def _load(cold: NotInPageCache) -> None:
    try:
        cold.load()
    except DiskFailed as e:
        raise LiveFailed(e) from e


def _next_piece(live: Log, future: Log, bytes_max: int) -> Slice:
    try:
        return live.read(future.end_offset, bytes_max, live.end_offset)
    except DiskFailed as e:
        raise LiveFailed(e) from e


def _copy(future: Log, piece: Slice, now: Now) -> None:
    try:
        data = piece.bytes()
    except DiskFailed as e:
        raise LiveFailed(e) from e
    future.append_fetched(memoryview(data), now)
