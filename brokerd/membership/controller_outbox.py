"""The outbox of a broker to the controller: proposals of leaders, damaged and offline replicas.

Invariant: a changed entry is sent completely at the end of the iteration of the event loop in which it changed. Several changes in one iteration are sent
together. Does not contain: the rules for the contents (`replication`), the znodes (`membership`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import (
    BootstrapProposal,
    DamageReport,
    IsrProposal,
    LogEndReport,
    Proposals,
    ResetProposal,
    StartProposal,
)
from brokerd.replication.outbox import OutboxEntry

PROPOSALS = frozenset(
    {
        OutboxEntry.ISR_PROPOSALS,
        OutboxEntry.REPLICA_RESETS,
        OutboxEntry.BOOTSTRAP_OFFSETS,
        OutboxEntry.HISTORY_STARTS,
        OutboxEntry.LOG_ENDS,
    }
)
"""Entries that are sent together: they share a znode."""


@dataclass(frozen=True, slots=True)
class OutboxContents:
    """Functions that return the current contents of each entry. They are called when the entry is sent."""

    isr_proposals: Callable[[], Sequence[IsrProposal]]
    replica_resets: Callable[[], Sequence[ResetProposal]]
    bootstrap_offsets: Callable[[], Sequence[BootstrapProposal]]
    history_starts: Callable[[], Sequence[StartProposal]]
    damage_reports: Callable[[], tuple[DamageReport, ...]]
    offline_replicas: Callable[[], frozenset[TopicPartition]]
    log_ends: Callable[[], Sequence[LogEndReport]]


class ControllerChannel(Protocol):
    """Sends values to the controller; implemented by `Membership`. The value of a call replaces the value of the previous call."""

    def propose(self, proposals: Proposals) -> None: ...

    def publish_offline_replicas(self, offline: frozenset[TopicPartition]) -> None: ...

    def publish_damage_reports(self, reports: tuple[DamageReport, ...]) -> None: ...


class ControllerOutbox:
    def __init__(self) -> None:
        self.changed: set[OutboxEntry] = set()

    def mark_changed(self, entry: OutboxEntry) -> None:
        self.changed.add(entry)

    def send(self, contents: OutboxContents, channel: ControllerChannel) -> None:
        """Send the entries that have changed since the last call."""
        if not self.changed:
            return
        changed, self.changed = self.changed, set()
        if OutboxEntry.OFFLINE_REPLICAS in changed:
            channel.publish_offline_replicas(contents.offline_replicas())
        if OutboxEntry.DAMAGE_REPORTS in changed:
            channel.publish_damage_reports(contents.damage_reports())
        if changed & PROPOSALS:
            channel.propose(
                Proposals(
                    contents.isr_proposals(),
                    contents.bootstrap_offsets(),
                    contents.history_starts(),
                    contents.replica_resets(),
                    contents.log_ends(),
                )
            )
