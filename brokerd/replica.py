"""One partition that a broker holds.

Called by `partitions` and whoever serves them. Must not come in: how it comes and goes (`partitions`), its rules (`partition`).
"""

from __future__ import annotations

from collections.abc import Hashable

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import TopicPartition
from brokerd.partition import Partition, Role
from brokerd.storage import tails
from brokerd.storage.log import Log


class Replica:
    """One partition that this broker holds."""

    __slots__ = (
        "_end_key", "_hw_key", "archive_from", "config", "core", "held", "log", "moving", "offline_reason", "seed_void", "topic", "tp", "trouble",
    )  # fmt: skip

    def __init__(self, tp: TopicPartition, topic: str, config: TopicConfig, log_: Log, core_: Partition) -> None:
        self.tp, self.topic, self.config, self.log, self.core = tp, topic, config, log_, core_
        self.offline_reason: str | None = None
        self.trouble: str | None = None
        self.moving = self.held = False
        """To another directory: no compaction; about to change over: no flush either (`relocations`)."""
        self.seed_void = False
        """An observer's: the leader's log is another than the one it began in."""
        self.archive_from = -1
        """Where the archive's records begin, as a holder said last."""
        self._hw_key, self._end_key = object(), object()

    @property
    def leads(self) -> bool:
        return self.core.role is Role.LEADER and self.offline_reason is None

    @property
    def observes(self) -> bool:
        """Its copy is of the tail, and counts for nothing."""
        return self.core.state is not None and self.core.broker_id in self.core.state.observers

    # -- an archive (safety section 8) -----------------------------------------------------------------------------------
    @property
    def goes_on(self) -> bool:
        """Its log goes on from where the archive ends: nothing was written below that since there is one. (After an unclean election something may.)"""
        state = self.core.state
        if state is None or state.archive_start < 0:
            return False
        if self.leads and self.core.epoch_start < state.archive_start:
            return False
        return all(epoch < state.archive_epoch or at >= state.archive_start for epoch, at in self.log.epochs.entries)

    @property
    def asks_below(self) -> int:
        """Its records below this offset lie with the holders of its archive; 0: all there is stands here."""
        state = self.core.state
        if state is None or state.archive_start < 0 or self.core.broker_id in state.holders:
            return 0
        start = self.log.start_offset
        return start if state.log_start_floor < start <= state.archive_start and self.goes_on else 0

    @property
    def start_offset(self) -> int:
        """Where the partition begins, as far as is known here, wherever that lies."""
        state = self.core.state
        if state is None or not self.asks_below:
            return self.log.start_offset
        return max(0, state.log_start_floor, self.archive_from)

    def last_stable(self) -> int:
        return self.log.last_stable(self.core.high_watermark, self.start_offset)

    @property
    def unseeded(self) -> bool:
        """An observer's copy that has not begun at S, or not with all that was known there, or that others have left behind."""
        state = self.core.state
        if state is None or not self.observes:
            return False
        begun = 0 <= state.tail_start <= self.log.end_offset
        return self.seed_void or not begun or not tails.seeded(self.log)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.tp.partition}"

    def hw_key(self) -> Hashable:
        """What to wait on for the high watermark (`Waiters`). Of this replica: one opened anew has another."""
        return self._hw_key

    def end_key(self) -> Hashable:
        return self._end_key
