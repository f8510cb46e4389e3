"""What every log on this broker needs now and then: retention, compaction, flushing, rest.

Laws: leaders alone decide retention, every replica compacts its own copy below its high watermark; what blocks runs as a job, and
its outcome counts only for the replica it was planned for. Called by the broker's timers. Must not come in: sockets, roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import CORRUPT
from brokerd.partition_events import LogStartRaised
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.storage import cleaner
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.flushing import Flush
from brokerd.storage.jobs import Runner
from brokerd.storage.log import Log
from brokerd.wire.records import CorruptBatch

log = logging.getLogger(__name__)

COMPACTIONS_MAX = 1
"""Passes planned at once: each may hold a million keys in memory."""
FLUSHES_MAX = 16
"""Flushes planned at once: a slow disk must not gather a queue that keeps files open."""


class Upkeep:
    def __init__(self, partitions: Partitions, jobs: Runner, clock: Callable[[], Now]) -> None:
        self._partitions, self._jobs, self._clock = partitions, jobs, clock
        self._compacting: set[TopicPartition] = set()
        self._flushing: set[TopicPartition] = set()

    def _alive(self, replica: Replica) -> bool:
        return self._partitions.hosted.get(replica.tp) is replica and replica.offline_reason is None

    # -- retention -------------------------------------------------------------------------------------------------------
    def retain(self, now: Now) -> None:
        """Remove what retention allows; only leaders decide, followers are told the new start."""
        for replica in list(self._partitions.hosted.values()):
            if replica.offline_reason is not None:
                continue
            try:
                if replica.leads:
                    replica.log.retain(now, replica.core.high_watermark)
                    for start in replica.core.late_starts:
                        replica.log.retain_as(start, now, replica.core.high_watermark)
                    self._partitions.run(replica, LogStartRaised(replica.log.start_offset), now)
                    if self._partitions.archives is not None:
                        self._partitions.archives.retain(replica)
            except DiskFull as e:
                self._partitions.trouble(replica, str(e))
            except DiskFailed as e:
                self._partitions.fail(replica, e)
            if replica.offline_reason is None:
                replica.log.rest(now)

    # -- flushing --------------------------------------------------------------------------------------------------------
    def flush(self, now: Now) -> None:
        """Flush what has been rolled, and what a topic's settings ask for."""
        for replica in list(self._partitions.hosted.values()):
            if len(self._flushing) >= FLUSHES_MAX:
                return
            if (
                replica.tp not in self._flushing
                and not replica.held
                and self._alive(replica)
                and replica.log.flushing.due(now)
            ):
                self._flush(replica, now, urgent=False)

    def commit(self, now: Now) -> None:
        """Group commit: one flush per log for everybody who waits for it; who comes while it runs shares the next one."""
        unflushed = self._partitions.unflushed
        for tp, replica in list(unflushed.items()):
            if tp in self._flushing or replica.held:
                continue
            del unflushed[tp]
            if self._alive(replica):
                self._flush(replica, now, urgent=True)

    def _flush(self, replica: Replica, now: Now, *, urgent: bool) -> None:
        plan = replica.log.flushing.plan(now)
        if plan is not None:
            self._flushing.add(replica.tp)
            self._jobs.submit(plan.run, partial(self._flushed, replica, replica.log, plan), urgent=urgent)

    def _flushed(self, replica: Replica, log_: Log, plan: Flush, error: BaseException | None) -> None:
        self._flushing.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return
        if error is not None:
            self._partitions.fail(
                replica, error
            )  # also if there was no room: pages that could not be written are dropped
            return
        try:
            log_.flushing.finished(plan)
        except DiskFailed as e:
            self._partitions.fail(replica, e)
            return
        self._partitions.flushed(replica, self._clock())

    # -- compaction ------------------------------------------------------------------------------------------------------
    def compact(self, now: Now) -> None:
        for replica in list(self._partitions.hosted.values()):
            if len(self._compacting) >= COMPACTIONS_MAX:
                return
            if (
                not replica.config.compacts
                or replica.moving
                or replica.tp in self._partitions.findings
                or not self._alive(replica)
            ):
                continue
            try:
                job = cleaner.plan(replica.log, now, replica.core.high_watermark)
            except (DiskFailed, DiskFull) as e:
                self._failed(replica, e)
                continue
            if job is not None:
                self._compacting.add(replica.tp)
                self._jobs.submit(job.run, partial(self._compacted, replica, replica.log, job))

    def _compacted(self, replica: Replica, log_: Log, job: cleaner.Cleaning, error: BaseException | None) -> None:
        self._compacting.discard(replica.tp)
        if not self._alive(replica) or replica.log is not log_:
            return  # leftovers in the folder go at its next opening
        try:
            if error is None and replica.moving:
                cleaner.discard(job)  # what is copied already would not have been thinned
                return
            if error is not None:
                cleaner.discard(job)
                raise error
            cleaner.finish(replica.log, job)
        except (DiskFailed, DiskFull, CorruptBatch) as e:
            self._failed(replica, e)

    def _failed(self, replica: Replica, error: Exception) -> None:
        if isinstance(error, DiskFailed):
            self._partitions.fail(replica, error)
        elif isinstance(error, CorruptBatch):
            self._partitions.findings.add(replica.name, replica.tp, CORRUPT, f"it is not compacted: {error}")
        else:
            log.warning("%s is not compacted now: %s", replica.name, error)
