"""Which changes of replicas mark which entry of the outbox."""

from __future__ import annotations

from brokerd.cluster.model import ReplicaIncarnation
from brokerd.cluster.znodes import CORRUPT
from brokerd.replication.outbox import OutboxEntry
from brokerd.replication.partition_events import ProposeIsr
from brokerd.storage.disk import DiskFailed
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness


def test_a_failed_replica_is_an_offline_replica() -> None:
    harness = Harness(SimDisk())
    harness.outbox.changed.clear()
    harness.replica_manager.fail(harness.replica, DiskFailed("read error"))
    assert harness.outbox.changed == {OutboxEntry.OFFLINE_REPLICAS}
    assert harness.replica_manager.offline() == {TP}


def test_a_report_marks_its_entry_when_it_is_added_and_when_it_is_removed() -> None:
    harness = Harness(SimDisk())
    reports = harness.replica_manager.damage_reports
    for change in (
        lambda: reports.add("t-0", TP, CORRUPT, "damaged"),
        lambda: reports.remove(TP),
    ):
        harness.outbox.changed.clear()
        change()
        assert harness.outbox.changed == {OutboxEntry.DAMAGE_REPORTS}
    harness.outbox.changed.clear()
    reports.remove(TP)
    assert not harness.outbox.changed


def test_an_isr_proposal_marks_its_entry_until_it_is_answered() -> None:
    harness = Harness(SimDisk())
    proposals = harness.replica_manager.controller_proposals
    harness.outbox.changed.clear()
    proposals.propose(TP, ProposeIsr(0, 1, (ReplicaIncarnation(1, 11),)))
    assert harness.outbox.changed == {OutboxEntry.ISR_PROPOSALS}
    harness.outbox.changed.clear()
    proposals.remove_isr_proposal(TP)
    assert harness.outbox.changed == {OutboxEntry.ISR_PROPOSALS} and not proposals.isrs
    harness.outbox.changed.clear()
    proposals.remove_isr_proposal(TP)
    assert not harness.outbox.changed
