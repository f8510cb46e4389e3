"""What this broker's followers do to their logs: where they stand, what they append, where they are cut.

Laws: only a follower's log is touched, as its leader's answers say; a failure of the disk takes the replica offline, never the broker. An
observer's log begins with its leader's seed and is never cut below it: what lies below was never there, so it begins anew.
Called by `net/fetcher`. Must not come in: sockets, which answer counts (`replication`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import DIVERGED
from brokerd.partition import Role
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.replication import Position, truncation_point
from brokerd.storage import tails
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.slices import FetchRefused

log = logging.getLogger(__name__)


class Followers:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def position(self, tp: TopicPartition) -> Position | None:
        """Where the local log stands; None when there is nothing to be fetched for it now."""
        replica = self._partitions.hosted.get(tp)
        if replica is None or replica.core.role is not Role.FOLLOWER or replica.offline_reason:
            return None
        if replica.log.flushing.sure_end < replica.log.end_offset:
            return (
                None  # to ask for more is to say that one holds what came before: not while a power cut could take it
            )
        return Position(
            replica.log.end_offset, replica.log.last_epoch, replica.log.start_offset, unseeded=replica.unseeded
        )

    def begin(self, tp: TopicPartition, seed: bytes, hw: int, now: Now) -> bool:
        """False when it is to be asked for again later."""
        with self._held(tp) as replica:
            if not replica.observes:
                return True  # the metadata log has just said otherwise: what is there is an ordinary copy's beginning
            try:
                offset = tails.begin(replica.log, seed, now)
            except ValueError as e:
                self._partitions.trouble(replica, str(e))
                return False
            self._partitions.trouble(replica, None)
            log.info("%s: the copy of its tail begins at %d", replica.name, offset)
            replica.seed_void = False
            replica.core.begun(offset)
            self._partitions.unflushed[tp] = (
                replica  # what it begins with outlives a power cut: its transactions' beginnings lie below
            )
            replica.core.told_high_watermark(hw, offset)
        return True

    @contextmanager
    def _held(self, tp: TopicPartition) -> Iterator[Replica]:
        """The replica; what its disk refuses in mid-cut ends it: only opening it anew brings it into order."""
        replica = self._partitions.hosted[tp]
        try:
            yield replica
        except (DiskFailed, DiskFull) as e:
            self._partitions.fail(replica, e)

    def append_fetched(
        self, tp: TopicPartition, records: bytes | memoryview, hw: int, log_start: int, now: Now
    ) -> bool:
        """False when the same is to be asked for again later: the disk is full, or what came is damaged and may be sound next time."""
        with self._held(tp) as replica:
            if len(records):
                try:
                    replica.log.append_fetched(memoryview(records), now)
                except (DiskFull, FetchRefused) as e:
                    self._partitions.trouble(replica, str(e))
                    return False
                self._partitions.trouble(replica, None)
                self._partitions.want_flush(replica)
            before = replica.core.high_watermark
            replica.core.told_high_watermark(hw, replica.log.end_offset)
            if replica.core.high_watermark > before:
                self._partitions.waiters.check(replica.hw_key())  # consumers may read here
            if replica.log.producers.closing:
                replica.log.producers.replicated(replica.core.high_watermark)
            if log_start > replica.log.start_offset:
                replica.log.raise_start(min(log_start, replica.log.end_offset))
        return True

    def diverged(self, tp: TopicPartition, epoch: int, end_offset: int, now: Now) -> None:
        with self._held(tp) as replica:
            point = truncation_point(replica.log.epochs.end_offset_for, replica.log.end_offset, epoch, end_offset)
            if replica.observes and point <= replica.log.start_offset:
                self._void(replica, f"the leader's epoch {epoch} parts from ours at {point}")
                return
            log.warning("%s: truncated from %d to %d, where the leader's epoch %d parts from ours",
                        replica.name, replica.log.end_offset, point, epoch)  # fmt: skip
            if point < replica.core.high_watermark:
                text = f"cut from {replica.log.end_offset} to {point}, below {replica.core.high_watermark}, which was committed"
                self._partitions.findings.add(replica.name, tp, DIVERGED, text)
            if point < replica.log.start_offset:
                replica.log.reset_to(point, now)
            else:
                replica.log.truncate_to(point)
            self._partitions.want_flush(replica)
            replica.core.truncated(replica.log.end_offset)

    def out_of_range(self, tp: TopicPartition, leader_log_start: int, now: Now) -> None:
        with self._held(tp) as replica:
            if replica.observes:
                self._void(
                    replica,
                    f"it ends at {replica.log.end_offset}, outside the leader's log, which starts at {leader_log_start}",
                )
            elif leader_log_start > replica.log.end_offset:
                log.warning("%s: the leader's log starts at %d, ours ends at %d: begun anew there",
                            replica.name, leader_log_start, replica.log.end_offset)  # fmt: skip
                replica.log.reset_to(leader_log_start, now)
                replica.core.truncated(replica.log.end_offset)

    @staticmethod
    def _void(replica: Replica, why: str) -> None:
        log.warning("%s: the copy of its tail is begun anew: %s", replica.name, why)
        replica.seed_void = True
