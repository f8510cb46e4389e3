"""A replica that lacks records. The loss is reported before the registration. After it the replica stays closed,
because its ISR membership assumes a complete log."""

from __future__ import annotations

from brokerd.replication.outbox import OutboxEntry
from brokerd.storage.disk import DiskFull
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, A, Harness


def disk_with_shortened_log() -> SimDisk:
    """A directory whose log ends below its checkpointed high watermark."""
    harness = Harness(SimDisk())
    harness.append(20)
    harness.run_until_idle()
    harness.replica.core.high_watermark = 20
    harness.replica_manager.replica_opening.checkpoint()
    harness.replica.log.close()
    harness.disk.open(A / "t-0" / f"{0:020d}.log").truncate(harness.replica.log.segments[0].size // 2)
    return harness.disk


def test_a_short_log_is_reported_before_the_registration() -> None:
    reported: list[str] = []
    harness = Harness(disk_with_shortened_log(), lost=reported.append)
    assert len(reported) == 1 and "below its high watermark 20" in reported[0]
    assert harness.replica.log.end_offset < 20


def test_a_short_log_that_is_opened_after_the_registration_stays_closed() -> None:
    story = Harness(disk_with_shortened_log().killed()).disk.story
    disk, reported = disk_with_shortened_log().killed(), list[str]()
    disk.fail_at = {
        1 + next(i for i, step in enumerate(story) if step.startswith("truncate")): DiskFull("no space left")
    }
    harness = Harness(disk, lost=reported.append)
    assert TP not in harness.replica_manager.hosted and not reported, "there was room to bring the folder into order"
    harness.replica_manager.retry_opening(harness.now)
    harness.replica_manager.open_pending(harness.now, clock=lambda: 0.0)
    assert TP not in harness.replica_manager.hosted, "serves a copy that lacks what may have been acknowledged"
    assert OutboxEntry.OFFLINE_REPLICAS in harness.outbox.changed and harness.hooks.io_errors and not reported
