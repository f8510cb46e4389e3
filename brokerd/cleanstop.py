"""A clean stop: every log flushed and closed, so that the next start believes the disk without reading it.

Law: a log is vouched for only after its records are on the disk. Called by the broker at its end. Must not come in: who is told of the stop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.storage.disk import DiskFailed

log = logging.getLogger(__name__)

FLUSH_EACH_MAX = 64
"""Logs that a stop flushes one by one; of more, the whole file system is flushed: three fsyncs each took minutes for ten thousand."""


def close_all(partitions: Partitions) -> None:
    """Flush and close every log that is not offline; one that fails is left as a crash would leave it."""
    partitions.copies.checkpoint()
    living = [r for r in partitions.hosted.values() if r.offline_reason is None]
    if sum(r.log.flushing.offset < r.log.end_offset for r in living) > FLUSH_EACH_MAX:
        _flush_all(partitions, living)
    for replica in living:
        if replica.offline_reason is None:
            try:
                replica.log.flush()
                replica.log.close()
            except DiskFailed as e:
                partitions.fail(replica, e)


def _flush_all(partitions: Partitions, replicas: Sequence[Replica]) -> None:
    """Thousands of logs in two flushes of their file systems: first the records, then the snapshots that vouch for them."""
    try:
        _sync_all(partitions)
        plans = [(r, plan) for r in replicas if (plan := r.log.flushing.plan(snapshot=True)) is not None]
        for _, plan in plans:
            plan.prepare(flush=False)
        _sync_all(partitions)
        for replica, plan in plans:
            replica.log.flushing.finished(plan)
    except DiskFailed as e:
        partitions.log_dirs.on_error()  # the kernel tells it once: whoever flushes after this may hear nothing
        log.warning("every log is flushed by itself, which may show whose directory has failed: %s", e)


def _sync_all(partitions: Partitions) -> None:
    for d in partitions.log_dirs.online:
        partitions.disk.sync_all(d.path)
