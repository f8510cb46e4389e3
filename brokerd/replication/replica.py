"""One partition replica of a broker: its log, its state machine and their runtime flags.

Does not contain: opening and closing (`replica_manager`), the replication rules (`partition`).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import TopicPartition
from brokerd.remote.view import RemoteView
from brokerd.replication.partition import Partition, Role
from brokerd.storage import observer_bootstrap
from brokerd.storage.log import Log

log = logging.getLogger(__name__)

TO_CONSUMERS, TO_FOLLOWERS = 0, 1
"""Positions in `Replica.sent_bytes`."""


class Replica:
    """One partition replica on this broker."""

    __slots__ = (
        "_end_key",
        "_hw_key",
        "append_problem",
        "config",
        "core",
        "flush_suspended",
        "history_start_offset",
        "log",
        "moving",
        "needs_bootstrap",
        "offline_reason",
        "remote",
        "replication_bytes_in",
        "sent_bytes",
        "topic",
        "tp",
        "truncation_pending",
    )

    def __init__(self, tp: TopicPartition, topic: str, config: TopicConfig, log_: Log, core_: Partition) -> None:
        self.tp, self.topic, self.config, self.log, self.core = tp, topic, config, log_, core_
        self.offline_reason: str | None = None
        self.append_problem: str | None = None
        self.moving = self.flush_suspended = False
        """`moving`: the replica moves to another log directory and is not compacted. `flush_suspended`: the move is about to
        complete, so nothing is flushed (`relocations`)."""
        self.truncation_pending = False
        """Only on a follower: the log must be truncated, and the flush before that is not finished."""
        self.needs_bootstrap = False
        """On an observer: the leader's log no longer contains the log from which this replica was bootstrapped. On a follower: the leader's local log
        starts above this log."""
        self.history_start_offset = -1
        """The lowest offset that a history replica has reported. -1: unknown."""
        self.remote: RemoteView | None = None
        """The remote records of a partition with tiered storage. None on a follower that does not read the remote log."""
        self.replication_bytes_in = 0
        """Bytes of record batches that were copied from the leader since the replica was opened."""
        self.sent_bytes = [0, 0]
        """Bytes of record batches that were sent since the replica was opened: TO_CONSUMERS, TO_FOLLOWERS."""
        self._hw_key, self._end_key = object(), object()

    @property
    def leads(self) -> bool:
        return self.core.role is Role.LEADER and self.offline_reason is None

    @property
    def bytes_in(self) -> int:
        """Bytes that were appended on this broker as leader since the replica was opened. Computed from other counters, so that an append does not have to
        count."""
        return self.log.written_bytes - self.replication_bytes_in

    @property
    def bytes_out(self) -> int:
        return self.sent_bytes[TO_CONSUMERS]

    @property
    def replication_bytes_out(self) -> int:
        return self.sent_bytes[TO_FOLLOWERS]

    @property
    def observes(self) -> bool:
        """True for an observer: its replica has the tail only and does not count for commits."""
        return self.core.state is not None and self.core.broker_id in self.core.state.observers

    def set_append_problem(self, reason: str | None) -> None:
        """Record a temporary problem of appends, or its end (None). Only changes are logged."""
        if reason is not None and self.append_problem is None:
            log.error("appends suspended: partition=%s reason=%s", self.name, reason)
        elif reason is None and self.append_problem is not None:
            log.info("appends resumed: partition=%s", self.name)
        self.append_problem = reason

    # -- history reads (safety section 8) --------------------------------------------------------------------------------
    @property
    def is_contiguous(self) -> bool:
        """True when the log continues the history without a gap: no record below the hand-over offset has a later epoch. An unclean
        election can write such records."""
        state = self.core.state
        if state is None or state.handover_offset < 0:
            return False
        if self.leads and self.core.epoch_start < state.handover_offset:
            return False
        return all(epoch < state.handover_epoch or at >= state.handover_offset for epoch, at in self.log.epochs.entries)

    @property
    def local_log_start_offset(self) -> int:
        """Records below this offset are in the remote store or on history replicas (KIP-405: local log start offset). 0: all records are local."""
        if self.reads_remote:
            return self.log.start_offset
        state = self.core.state
        if state is None or state.handover_offset < 0 or self.core.broker_id in state.history_replicas:
            return 0
        start = self.log.start_offset
        return start if state.log_start_floor < start <= state.handover_offset and self.is_contiguous else 0

    @property
    def reads_remote(self) -> bool:
        """True if the records below the local log are, or may be, in the remote store."""
        if self.remote is None:
            # A leader has a view as soon as it is elected. A follower without a view must not answer OFFSET_OUT_OF_RANGE for records that its leader can read.
            return self.config.remote_storage and not self.leads and self.log.start_offset > 0
        return self.remote.reaches_below(self.log.start_offset)

    @property
    def remote_start_offset(self) -> int:
        """The first offset, local or remote, that consumers can read from this replica. -1 if its remote records are not known."""
        remote, local_start = self.remote, self.log.start_offset
        return remote.start_offset(local_start) if remote is not None and remote.joins(local_start) else -1

    @property
    def start_offset(self) -> int:
        """The partition's log start offset as far as this broker knows it, on any replica or in the remote store."""
        if self.remote is not None:
            return self.remote.start_offset(self.log.start_offset)
        state = self.core.state
        # For an ordinary partition the first two conditions decide. They come first because each fetch reads this property several times.
        if state is None or state.handover_offset < 0 or self.reads_remote or not self.local_log_start_offset:
            return self.log.start_offset
        return max(0, state.log_start_floor, self.history_start_offset)

    def last_stable(self) -> int:
        return self.log.last_stable(self.core.high_watermark, self.start_offset)

    @property
    def awaits_bootstrap(self) -> bool:
        """True for an observer whose replica is not bootstrapped at S with the complete snapshot, or whose log the leader no longer contains. True for
        a follower whose next records are only in the remote store: it starts at the leader's local log start."""
        state = self.core.state
        if state is None:
            return False
        if not self.observes:
            return self.needs_bootstrap
        begun = 0 <= state.tail_start <= self.log.end_offset
        return self.needs_bootstrap or not begun or not observer_bootstrap.has_bootstrap_snapshot(self.log)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.tp.partition}"

    def hw_key(self) -> Hashable:
        """The purgatory key for the high watermark. A reopened replica has a new key."""
        return self._hw_key

    def end_key(self) -> Hashable:
        return self._end_key
