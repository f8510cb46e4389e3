"""Clean shutdown of the logs: each is flushed and closed, so that the next start needs no recovery.

Invariant: a log is marked as clean only after its records are on the disk. Does not contain: notifications of the shutdown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed

log = logging.getLogger(__name__)

FLUSH_EACH_MAX = 64
"""Maximum number of logs that are flushed one by one. For more logs the whole file system is flushed, because three fsyncs per log took minutes for 10,000
logs."""


def close_all(replica_manager: ReplicaManager) -> None:
    """Flush and close every online log. The next start recovers a log whose flush or close has failed, as after a crash."""
    replica_manager.replica_opening.checkpoint()
    living = [r for r in replica_manager.hosted.values() if r.offline_reason is None]
    if sum(r.log.flushing.offset < r.log.end_offset for r in living) > FLUSH_EACH_MAX:
        _flush_all(replica_manager, living)
    for replica in living:
        if replica.offline_reason is None:
            try:
                replica.log.flush()
                replica.log.close()
            except DiskFailed as e:
                replica_manager.fail(replica, e)


def _flush_all(replica_manager: ReplicaManager, replicas: Sequence[Replica]) -> None:
    """Flush the logs with two flushes per file system, however many logs there are: first the records, then the snapshots that mark the logs as
    clean."""
    try:
        _sync_all(replica_manager)
        plans = [(r, plan) for r in replicas if (plan := r.log.flushing.plan(snapshot=True)) is not None]
        for _, plan in plans:
            plan.prepare(flush=False)
        _sync_all(replica_manager)
        for replica, plan in plans:
            replica.log.flushing.on_finished(plan)
    except DiskFailed as e:
        replica_manager.log_dirs.io_error()  # the kernel reports a write error to only one flush, so a later flush may succeed although data is lost
        log.warning("file system flush failed, flushing each log: error=%s", e)


def _sync_all(replica_manager: ReplicaManager) -> None:
    for d in replica_manager.log_dirs.online:
        replica_manager.disk.sync_all(d.path)
