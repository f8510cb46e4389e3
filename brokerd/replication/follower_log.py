"""Log changes of this broker's follower replicas: position, append, truncation, reset.

Invariants: only follower logs change, and only by their leader's responses. A disk failure takes the replica offline, never the broker. An
observer's log starts with its leader's bootstrap snapshot. It is never truncated below that offset: it is bootstrapped again instead.
Does not contain: sockets, which response is valid (`fetch_client`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import DIVERGED
from brokerd.replication.fetch_client import Position, truncation_point
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.truncations import Truncation
from brokerd.storage import observer_bootstrap
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log import Log
from brokerd.storage.slices import FetchRejected

log = logging.getLogger(__name__)


class FollowerLogs:
    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replica_manager = replica_manager

    def position(self, tp: TopicPartition) -> Position | None:
        """The position of the local log. None if the partition must not be fetched now."""
        replica = self._replica_manager.hosted.get(tp)
        if (
            replica is None
            or replica.core.role is not Role.FOLLOWER
            or replica.offline_reason
            or replica.truncation_pending
        ):
            return None
        if replica.log.flushing.acknowledgeable_end < replica.log.end_offset:
            # A fetch implies that all earlier records are stored, so they must be flushed first if a power failure could lose them.
            return None
        return Position(
            replica.log.end_offset,
            replica.log.last_epoch,
            replica.log.stored_start.reported,
            awaits_bootstrap=replica.awaits_bootstrap,
            remote_start=replica.remote_start_offset,
        )

    def begin(self, tp: TopicPartition, snapshot: bytes, hw: int, now: Now) -> bool:
        """Bootstrap the log of an observer with the leader's `snapshot`. Returns False if the snapshot must be fetched again, because it is invalid or a
        flush must end first."""
        with self._changing_replica(tp) as replica:
            if not (replica.observes or replica.needs_bootstrap):
                return True  # the metadata log has changed since the request: the records belong to an ordinary replica
            if not self._may_truncate(replica, -1):
                return False
            try:
                offset = observer_bootstrap.begin(replica.log, snapshot, now)
            except ValueError as e:
                replica.set_append_problem(str(e))
                return False
            replica.set_append_problem(None)
            log.info("replica bootstrapped: partition=%s log_start=%d", replica.name, offset)
            replica.needs_bootstrap = False
            replica.core.on_bootstrapped(offset)
            # The snapshot is flushed: the open transactions in it started below this log, and a power failure must not lose them.
            self._replica_manager.unflushed[tp] = replica
            replica.core.update_follower_high_watermark(hw, offset)
        return True

    @contextmanager
    def _changing_replica(self, tp: TopicPartition) -> Iterator[Replica]:
        """Yield the replica for a change of its log. A disk error in the block takes the replica offline, because the log is consistent only after it is opened
        again."""
        replica = self._replica_manager.hosted[tp]
        try:
            yield replica
        except (DiskFailed, DiskFull) as e:
            self._replica_manager.fail(replica, e)

    def append_fetched(
        self, tp: TopicPartition, records: bytes | memoryview, hw: int, log_start: int, now: Now
    ) -> bool:
        """Append fetched records, and apply the leader's high watermark `hw` and its log start offset. Returns False if the records must be fetched again,
        because the disk is full, a batch is damaged or a flush must end first."""
        with self._changing_replica(tp) as replica:
            if len(records):
                if replica.log.starts_within(records) and not self._may_truncate(replica, -1):
                    return False
                written = replica.log.written_bytes
                try:
                    replica.log.append_fetched(memoryview(records), now)
                except (DiskFull, FetchRejected) as e:
                    replica.set_append_problem(str(e))
                    return False
                replica.replication_bytes_in += replica.log.written_bytes - written
                replica.set_append_problem(None)
                self._replica_manager.request_flush(replica)
            before = replica.core.high_watermark
            replica.core.update_follower_high_watermark(hw, replica.log.end_offset)
            if replica.core.high_watermark > before:
                self._replica_manager.purgatory.check(replica.hw_key())  # consumers may wait for the high watermark
            if replica.log.producers.closing:
                replica.log.producers.on_replicated(replica.core.high_watermark)
            if log_start > replica.log.start_offset:
                # The leader may have raised its log start offset for DeleteRecords. It acknowledges the deletion when this replica has stored the offset.
                self._replica_manager.delete_below(replica, min(log_start, replica.log.end_offset))
        return True

    def _may_truncate(self, replica: Replica, offset: int) -> bool:
        """Return whether the log may be truncated to `offset` (-1: emptied) now. Otherwise a flush of its directory is started. Until the flush ends nothing is
        fetched. After the flush the follower sends the same fetch again."""
        log_ = replica.log
        if not log_.forget_flushed(offset):
            return True
        replica.truncation_pending = True
        self._replica_manager.jobs.submit(
            partial(self._replica_manager.disk.sync_folder, log_.folder),
            partial(self._on_synced, replica, log_),
            urgent=True,
        )
        return False

    def _on_synced(self, replica: Replica, log_: Log, error: BaseException | None) -> None:
        if (
            self._replica_manager.hosted.get(replica.tp) is not replica
            or replica.offline_reason is not None
            or replica.log is not log_
        ):
            return
        replica.truncation_pending = False
        if error is not None:
            self._replica_manager.fail(replica, error)
            return
        try:
            log_.flushed_snapshots_forgotten()
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            return
        self._replica_manager.hooks.resume(replica.tp)

    def truncate_to_divergence(self, tp: TopicPartition, epoch: int, end_offset: int, now: Now) -> None:
        with self._changing_replica(tp) as replica:
            point = truncation_point(replica.log.epochs.end_offset_for, replica.log.end_offset, epoch, end_offset)
            if replica.observes and point <= replica.log.start_offset:
                self._require_bootstrap(replica, f"reason=diverging-epoch leader_epoch={epoch} offset={point}")
                return
            if not self._may_truncate(replica, point if point >= replica.log.start_offset else -1):
                return
            log.warning(
                "replica truncated: partition=%s end=%d new_end=%d reason=diverging-epoch leader_epoch=%d",
                replica.name,
                replica.log.end_offset,
                point,
                epoch,
            )
            if point < replica.core.high_watermark:
                text = f"truncated from {replica.log.end_offset} to {point}, below the high watermark {replica.core.high_watermark}"
                self._replica_manager.damage_reports.add(replica.name, tp, DIVERGED, text)
            start, end = replica.log.start_offset, replica.log.end_offset
            if point < start:
                replica.log.reset_to(point, now)
            else:
                replica.log.truncate_to(point)
            self._replica_manager.truncations.add(
                # The batch that contains the point is deleted as a whole.
                Truncation(
                    tp,
                    max(start, replica.log.end_offset),
                    end,
                    replica.core.high_watermark,
                    replica.core.state.leader_epoch if replica.core.state is not None else epoch,
                    now.wall_ms,
                )
            )
            self._replica_manager.request_flush(replica)
            replica.core.on_truncated(replica.log.end_offset)

    def out_of_range(self, tp: TopicPartition, leader_log_start: int, snapshot: bytes, now: Now) -> None:
        """The leader's log starts at `leader_log_start` and does not contain the position of this log. `snapshot`: the leader's state there."""
        with self._changing_replica(tp) as replica:
            if replica.needs_bootstrap and not replica.observes:
                replica.needs_bootstrap = (
                    False  # the leader has no remote records any more: the next response names its log start
                )
            elif replica.observes:
                self._require_bootstrap(
                    replica,
                    f"reason=offset-out-of-range end={replica.log.end_offset} leader_log_start={leader_log_start}",
                )
            elif leader_log_start > replica.log.end_offset and self._may_truncate(replica, -1):
                log.warning(
                    "log reset: reason=below-leader-log-start partition=%s new_start=%d end=%d",
                    replica.name,
                    leader_log_start,
                    replica.log.end_offset,
                )
                self._restart_at(replica, leader_log_start, snapshot, now)
            elif replica.log.start_offset == replica.log.end_offset and self._may_truncate(replica, -1):
                # The leader ends below the local log. An empty log has no epoch from which the leader could find the divergence.
                log.warning(
                    "log reset: reason=empty-beyond-leader-end partition=%s end=%d new_start=%d",
                    replica.name,
                    replica.log.end_offset,
                    leader_log_start,
                )
                self._restart_at(replica, leader_log_start, snapshot, now)

    def _restart_at(self, replica: Replica, leader_log_start: int, snapshot: bytes, now: Now) -> None:
        """Delete the log and continue at the leader's log start. Without the producers of the deleted records this replica, as a leader, would append batches
        again that their producer sends again."""
        try:
            if snapshot:
                observer_bootstrap.begin_at_log_start(replica.log, snapshot, now)
                self._replica_manager.unflushed[replica.tp] = replica
            else:
                replica.log.reset_to(leader_log_start, now)
        except ValueError as e:
            replica.set_append_problem(str(e))
            return
        replica.core.on_truncated(replica.log.end_offset)

    def moved_to_tier(self, tp: TopicPartition, leader_log_start: int) -> None:
        """The leader has the next records only in the remote store, so start the log at the leader's local log start offset with the leader's state there. A
        log that reaches the leader's local log is never replaced."""
        with self._changing_replica(tp) as replica:
            if replica.log.end_offset < leader_log_start and not replica.needs_bootstrap:
                log.info(
                    "bootstrap required: partition=%s reason=moved-to-tier end=%d leader_local_start=%d",
                    replica.name,
                    replica.log.end_offset,
                    leader_log_start,
                )
                replica.needs_bootstrap = True

    @staticmethod
    def _require_bootstrap(replica: Replica, reason: str) -> None:
        log.warning("observer is bootstrapped again: partition=%s %s", replica.name, reason)
        replica.needs_bootstrap = True
