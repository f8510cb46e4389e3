"""Damaged or incomplete replicas of this broker, as published to the control plane.

Invariants: a report is added once and stays until the replica is deleted. A report of damage that replication repairs is removed when the replica is in sync
again. A report has no other effect: a damaged replica continues to serve. A repair first checks that another replica is in sync.
Does not contain: files, the repair.
"""

from __future__ import annotations

import logging

from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import CORRUPT, DAMAGE_REPORTS_MAX, DamageReport
from brokerd.replication.outbox import Outbox, OutboxEntry

log = logging.getLogger(__name__)


class DamageReports:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._reports: dict[TopicPartition, DamageReport] = {}

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._reports

    def add(self, name: str, tp: TopicPartition, kind: str, text: str) -> None:
        """Add a report. A replica keeps its first report, except that CORRUPT replaces a report of another kind."""
        before = self._reports.get(tp)
        if (before is not None and (before.kind == CORRUPT or kind != CORRUPT)) or len(
            self._reports
        ) >= DAMAGE_REPORTS_MAX:
            return
        log.error("replica damaged: partition=%s kind=%s reason=%s", name, kind, text)
        self._reports[tp] = DamageReport(tp, kind, text)
        self._outbox.mark_changed(OutboxEntry.DAMAGE_REPORTS)

    def remove(self, tp: TopicPartition) -> None:
        """The replica was deleted."""
        if self._reports.pop(tp, None) is not None:
            self._outbox.mark_changed(OutboxEntry.DAMAGE_REPORTS)

    def remove_repaired(self, image: Image, broker_id: int) -> None:
        """Remove the reports of replicas that are in sync again, except reports of kind CORRUPT."""
        for tp, report in list(self._reports.items()):
            state = image.partition(tp)
            if report.kind != CORRUPT and state is not None and broker_id in state.isr_ids:
                self.remove(tp)

    def reports(self) -> tuple[DamageReport, ...]:
        return tuple(sorted(self._reports.values(), key=lambda f: f.tp))
