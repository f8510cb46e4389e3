"""What every log on this broker needs now and then: retention, compaction, flushing, rest.

Laws: leaders alone decide retention, every replica compacts its own copy below its high watermark; what blocks runs as a job, and
its outcome counts only for the replica it was planned for. Called by the broker's timers. Must not come in: sockets, roles.
"""

from __future__ import annotations

import logging
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.partitions import Partitions, Replica
from brokerd.storage import cleaner
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.slices import Flush
from brokerd.wire.records import CorruptBatch

log = logging.getLogger(__name__)

COMPACTIONS_MAX = 1
"""Passes planned at once: each may hold a million keys in memory."""
FLUSHES_MAX = 16
"""Flushes planned at once: a slow disk must not gather a queue that keeps files open."""


class Upkeep:
    def __init__(self, partitions: Partitions, jobs: Runner) -> None:
        self._partitions, self._jobs = partitions, jobs
        self._compacting: set[TopicPartition] = set()
        self._flushing: set[TopicPartition] = set()
        self.damaged: dict[TopicPartition, str] = {}
        """Logs in which compaction met damage; left alone until the next start."""

    def _alive(self, replica: Replica) -> bool:
        return self._partitions.hosted.get(replica.tp) is replica and replica.offline_reason is None

    # -- retention -------------------------------------------------------------------------------------------------------
    def retain(self, now: Now) -> None:
        self._partitions.retain(now)
        for replica in list(self._partitions.hosted.values()):
            replica.log.rest(now)

    # -- flushing --------------------------------------------------------------------------------------------------------
    def flush(self, now: Now) -> None:
        """Flush what has been rolled, and what a topic's settings ask for."""
        for replica in list(self._partitions.hosted.values()):
            if len(self._flushing) >= FLUSHES_MAX:
                return
            if replica.tp in self._flushing or not self._alive(replica) or not replica.log.flush_due(now):
                continue
            plan = replica.log.plan_flush(now)
            if plan is not None:
                self._flushing.add(replica.tp)
                self._jobs.submit(plan.run, partial(self._flushed, replica, plan))

    def _flushed(self, replica: Replica, plan: Flush, error: BaseException | None) -> None:
        self._flushing.discard(replica.tp)
        if not self._alive(replica):
            return
        if error is not None:
            self._partitions.fail(replica, error)
            return
        try:
            replica.log.flushed(plan)
        except DiskFailed as e:
            self._partitions.fail(replica, e)

    # -- compaction ------------------------------------------------------------------------------------------------------
    def compact(self, now: Now) -> None:
        for replica in list(self._partitions.hosted.values()):
            if len(self._compacting) >= COMPACTIONS_MAX:
                return
            if not replica.config.compacts or replica.tp in self.damaged or not self._alive(replica):
                continue
            try:
                job = cleaner.plan(replica.log, now, replica.core.high_watermark)
            except (DiskFailed, DiskFull) as e:
                self._failed(replica, e)
                continue
            if job is not None:
                self._compacting.add(replica.tp)
                self._jobs.submit(job.run, partial(self._compacted, replica, job))

    def _compacted(self, replica: Replica, job: cleaner.Cleaning, error: BaseException | None) -> None:
        self._compacting.discard(replica.tp)
        if not self._alive(replica):
            return  # leftovers in the folder go at its next opening
        try:
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
            log.error("%s is not compacted: %s", replica.name, error)
            self.damaged[replica.tp] = str(error)
        else:
            log.warning("%s is not compacted now: %s", replica.name, error)
