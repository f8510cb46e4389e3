"""Periodic maintenance of every log: retention, compaction, flushing, release of idle memory.

Invariants: only leaders decide retention. Every replica compacts its own log below its high watermark. Blocking work runs as a job, whose
outcome counts only for the replica for which it was planned. Does not contain: sockets, roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import CORRUPT
from brokerd.replication.partition_events import LogStartRaised
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage import cleaner, retention
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.flushing import Flush
from brokerd.storage.jobs import Runner
from brokerd.storage.log import Log
from brokerd.storage.log_start import LogStartFlush
from brokerd.storage.nonblocking import NotInPageCache, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.records import CorruptBatch

log = logging.getLogger(__name__)

COMPACTIONS_MAX = 1
"""Maximum number of concurrent compactions. Each may have a million keys in memory."""
RETENTION_LOOKUPS_MAX = 1_000
"""Maximum number of reads per retention check of a log. Each deleted segment needs four or five reads."""
FLUSHES_MAX = 16
"""Maximum number of concurrent flushes. Otherwise a slow disk would collect a long queue of flushes, each with open files."""


class LogMaintenance:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        jobs: Runner,
        clock: Callable[[], Now],
        read_ahead: ReadAhead | None = None,
    ) -> None:
        self._replica_manager, self._jobs, self._clock, self._read_ahead = replica_manager, jobs, clock, read_ahead
        self._compacting: set[TopicPartition] = set()
        self._flushing: set[TopicPartition] = set()
        self._flushing_starts: set[TopicPartition] = set()

    def _alive(self, replica: Replica) -> bool:
        return self._replica_manager.hosted.get(replica.tp) is replica and replica.offline_reason is None

    def _forget_offline(self, under_way: set[TopicPartition]) -> None:
        """Work on a hung disk may never end, and must not count against the limits."""
        hosted = self._replica_manager.hosted
        under_way -= {tp for tp in under_way if (r := hosted.get(tp)) is not None and r.offline_reason is not None}

    # -- retention -------------------------------------------------------------------------------------------------------
    def retain(self, now: Now) -> None:
        """Apply retention. Only leaders decide it; followers receive the new log start offset."""
        for replica in list(self._replica_manager.hosted.values()):
            if replica.offline_reason is None:
                self._retain(replica, now)
            if replica.offline_reason is None:
                replica.log.release_idle(now)

    def _retain(self, replica: Replica, now: Now, lookups: int = 0) -> None:
        try:
            if replica.leads:
                missing = self._needed_read(replica, now, lookups)
                if missing is not None:
                    self._after_read(missing, replica, partial(self._retain, replica, now, lookups + 1))
                    return
                remote, log_ = replica.remote, replica.log
                copied_end = None if remote is None else remote.copied_end(log_.start_offset)
                log_.retain(now, replica.core.high_watermark, copied_end)
                for start in replica.core.late_starts if remote is None else ():
                    log_.retain_as(start, now, replica.core.high_watermark)
                self._replica_manager.run(replica, LogStartRaised(replica.log.start_offset), now)
                self._replica_manager.hooks.retain_history(replica)
        except DiskFull as e:
            replica.set_append_problem(str(e))
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)

    def _needed_read(self, replica: Replica, now: Now, lookups: int) -> NotInPageCache | None:
        """The first read of retention that would block on the disk (timestamps of segments that may be deleted). None: retention can run now."""
        if (
            self._read_ahead is None
            or self._read_ahead.blind
            or lookups >= RETENTION_LOOKUPS_MAX
            or not replica.config.deletes
        ):
            return None
        try:
            with nonblocking_reads():
                config = replica.config if replica.remote is None else replica.config.local
                retention.new_start(replica.log.segments, config, now.wall_ms, replica.core.high_watermark)
        except NotInPageCache as cold:
            return cold
        return None

    def _after_read(self, missing: NotInPageCache, replica: Replica, again: Callable[[], None]) -> None:
        assert self._read_ahead is not None
        log_ = replica.log
        self._read_ahead.look_up(missing, lambda: again() if self._alive(replica) and replica.log is log_ else None)

    # -- flushing --------------------------------------------------------------------------------------------------------
    def flush(self, now: Now) -> None:
        """Flush closed segments, and logs whose topic settings require it."""
        self._forget_offline(self._flushing)
        for replica in list(self._replica_manager.hosted.values()):
            if replica.log.stored_start.pending:  # the disk was full, or the log start offset was raised again
                self._replica_manager.unflushed_starts[replica.tp] = replica
            if len(self._flushing) >= FLUSHES_MAX:
                return
            if (
                replica.tp not in self._flushing
                and not replica.flush_suspended
                and self._alive(replica)
                and replica.log.flushing.due(now)
            ):
                self._flush(replica, now, urgent=False)

    def commit(self, now: Now) -> None:
        """Group commit: one flush per log for all waiting operations. Operations that arrive during a flush share the next flush."""
        unflushed = self._replica_manager.unflushed
        for tp, replica in list(unflushed.items()):
            if tp in self._flushing or replica.flush_suspended:
                continue
            del unflushed[tp]
            if self._alive(replica):
                self._flush(replica, now, urgent=True)

    def commit_starts(self) -> None:
        """Flush the log start offsets that clients have raised."""
        unflushed = self._replica_manager.unflushed_starts
        for tp, replica in list(unflushed.items()):
            if tp in self._flushing_starts:
                continue
            del unflushed[tp]
            if not self._alive(replica):
                continue
            try:
                plan = replica.log.stored_start.plan()
            except DiskFailed as e:
                self._replica_manager.fail(replica, e)
                continue
            if plan is not None:
                self._flushing_starts.add(tp)
                self._jobs.submit(plan.run, partial(self._start_flushed, replica, replica.log, plan), urgent=True)

    def _start_flushed(self, replica: Replica, log_: Log, plan: LogStartFlush, error: BaseException | None) -> None:
        self._flushing_starts.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return
        if error is not None:
            self._replica_manager.fail(replica, error)
            return
        log_.stored_start.on_finished(plan)
        self._replica_manager.log_start_flushed(replica)

    def _flush(self, replica: Replica, now: Now, *, urgent: bool) -> None:
        try:
            plan = replica.log.flushing.plan(now)
        except DiskFailed as e:  # a closed segment file cannot be opened
            self._replica_manager.fail(replica, e)
            return
        if plan is not None:
            self._flushing.add(replica.tp)
            self._jobs.submit(plan.run, partial(self._on_flushed, replica, replica.log, plan), urgent=urgent)

    def _on_flushed(self, replica: Replica, log_: Log, plan: Flush, error: BaseException | None) -> None:
        self._flushing.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return
        if error is not None:
            self._replica_manager.fail(
                replica, error
            )  # also when the disk is full: the kernel drops pages that it could not write
            return
        try:
            log_.flushing.on_finished(plan)
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            return
        self._replica_manager.on_flushed(replica, self._clock())

    # -- compaction ------------------------------------------------------------------------------------------------------
    def compact(self, now: Now) -> None:
        self._forget_offline(self._compacting)
        for replica in list(self._replica_manager.hosted.values()):
            if len(self._compacting) >= COMPACTIONS_MAX:
                return
            if (
                not replica.config.compacts
                or replica.moving
                or replica.tp in self._replica_manager.damage_reports
                or not self._alive(replica)
            ):
                continue
            try:
                job = cleaner.plan(replica.log, now, replica.core.high_watermark)
            except (DiskFailed, DiskFull) as e:
                self._on_failed(replica, e)
                continue
            if job is not None:
                self._compacting.add(replica.tp)
                self._jobs.submit(job.run, partial(self._on_compacted, replica, replica.log, job))

    def _on_compacted(self, replica: Replica, log_: Log, job: cleaner.Cleaning, error: BaseException | None) -> None:
        self._compacting.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return  # its leftovers are removed when the log is opened next
        try:
            if error is None and replica.moving:
                cleaner.discard(job)  # the records were already copied to the future log without compaction
                return
            if error is not None:
                cleaner.discard(job)
                raise error
            if cleaner.prepare(replica.log, job):
                self._compacting.add(replica.tp)
                sync = partial(log_.disk.sync_folder, log_.folder)
                self._jobs.submit(sync, partial(self._on_swapped, replica, log_, job), urgent=True)
        except (DiskFailed, DiskFull, CorruptBatch) as e:
            self._on_failed(replica, e)

    def _on_swapped(self, replica: Replica, log_: Log, job: cleaner.Cleaning, error: BaseException | None) -> None:
        self._compacting.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return
        try:
            if error is not None:
                raise error
            if replica.moving:
                log_.cleaner.drop_swaps()
            else:
                cleaner.finish(log_, job)
        except (DiskFailed, DiskFull) as e:
            self._on_failed(replica, e)

    def _on_failed(self, replica: Replica, error: Exception) -> None:
        if isinstance(error, DiskFailed):
            self._replica_manager.fail(replica, error)
        elif isinstance(error, CorruptBatch):
            self._replica_manager.damage_reports.add(replica.name, replica.tp, CORRUPT, f"compaction failed: {error}")
        else:
            log.warning("compaction failed, retrying later: partition=%s error=%s", replica.name, error)
