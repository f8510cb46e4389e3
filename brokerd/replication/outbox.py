"""Interface through which the replicas of a broker mark proposals and reports to the controller as changed. Does not contain: contents, sending."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol


class OutboxEntry(Enum):
    """A kind of report that is sent to the controller. Each kind is sent as a whole, so a new report replaces the previous one."""

    ISR_PROPOSALS = auto()
    REPLICA_RESETS = auto()
    BOOTSTRAP_OFFSETS = auto()
    HISTORY_STARTS = auto()
    DAMAGE_REPORTS = auto()
    OFFLINE_REPLICAS = auto()
    LOG_ENDS = auto()


class Outbox(Protocol):
    def mark_changed(self, entry: OutboxEntry) -> None:
        """Mark a report as changed. It is built and sent at the end of the iteration of the event loop."""
