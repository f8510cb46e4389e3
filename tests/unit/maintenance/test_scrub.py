"""The scrub: damage in closed segments is confirmed by a second read and reported. Replaced segments are not damage. The read rate is limited."""

from __future__ import annotations

from types import SimpleNamespace

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, TopicCreated
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import (
    CORRUPT,
    DAMAGE_REPORTS_MAX,
    DIVERGED,
    LOST,
    decode_damage_reports,
    encode_damage_reports,
)
from brokerd.maintenance.scrub import JOBS_PER_TICK, Scrub
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication.damage_reports import DamageReports
from brokerd.replication.outbox import OutboxEntry
from brokerd.storage.disk import DiskFailed
from tests.unit.maintenance.test_log_maintenance import TP, Harness
from tests.unit.storage.test_log import NOW, append, open_log, sim

BATCHES = 40


def harness_with_scrub(rate: int = 1_000_000) -> tuple[Harness, Scrub]:
    disk = sim()
    log = open_log(disk, segment_bytes="1000")
    for _ in range(BATCHES):
        append(log)
    assert len(log.segments) > 4
    harness = Harness(disk, log)
    clock = Clock()
    return harness, Scrub(harness, harness, clock, lambda: rate)  # type: ignore[arg-type]


class Clock:
    """The clock advances half a minute per call, so each tick may start a round."""

    def __init__(self) -> None:
        self.mono_ms = 0

    def __call__(self) -> Now:
        self.mono_ms += 30_000
        return Now(self.mono_ms, NOW.wall_ms)


def run_ticks(harness: Harness, scrub: Scrub, times: int = 30) -> None:
    for _ in range(times):
        scrub.tick(NOW)
        harness.run_jobs()


def run_one_job(harness: Harness) -> None:
    """Run the waiting job only, no job that it submits."""
    run, done = harness.jobs.pop(0)
    run()
    done(None)


def test_a_scrub_round_waits_for_its_interval_and_each_step_reads_few_slices() -> None:
    harness, scrub = harness_with_scrub()
    scrub._clock = lambda: NOW
    run_ticks(harness, scrub, 40)
    assert scrub.rounds == 1 and scrub.bytes_read == sum(s.size for s in harness.log.segments[:-1])
    harness, scrub = harness_with_scrub()
    scrub.tick(NOW)
    ran = 0
    while harness.jobs:
        run_one_job(harness)
        ran += 1
    assert ran == JOBS_PER_TICK, "the clock would allow for more rounds, the tick does not"


def flip(harness: Harness, segment: int, at: int = 90) -> None:
    harness.disk.names[harness.log.segments[segment].path].live[at] ^= 1


def test_a_flipped_bit_in_a_closed_segment_is_reported_and_the_replica_keeps_serving() -> None:
    harness, scrub = harness_with_scrub()
    run_ticks(harness, scrub)
    assert harness.damage_reports.reports() == () and scrub.rounds >= 1
    flip(harness, 2)
    run_ticks(harness, scrub)
    (found,) = harness.damage_reports.reports()
    assert (found.tp, found.kind) == (TP, CORRUPT)
    assert harness.log.segments[2].path.name in found.text and "damaged" in found.text
    assert not harness.failed and harness.replica.offline_reason is None
    assert OutboxEntry.DAMAGE_REPORTS in harness.outbox.changed


def test_the_active_segment_is_not_scrubbed() -> None:
    harness, scrub = harness_with_scrub()
    flip(harness, -1)
    run_ticks(harness, scrub, 60)
    assert harness.damage_reports.reports() == ()


def test_damage_that_a_second_read_does_not_confirm_is_not_reported() -> None:
    harness, scrub = harness_with_scrub()
    flip(harness, 0)
    scrub.tick(NOW)
    run_one_job(harness)  # the first detection
    flip(harness, 0)  # the first read saw another file or a wrong cached page
    run_ticks(harness, scrub)
    assert harness.damage_reports.reports() == ()


def test_a_segment_deleted_during_the_read_is_no_damage() -> None:
    harness, scrub = harness_with_scrub()
    flip(harness, 0)
    scrub.tick(NOW)
    harness.log.segments.pop(0)
    run_one_job(harness)
    run_ticks(harness, scrub)
    assert harness.damage_reports.reports() == ()


def test_the_scrub_rate_is_limited_and_zero_disables_it() -> None:
    harness, scrub = harness_with_scrub(rate=200)
    run_ticks(harness, scrub, 10)
    assert 200 <= scrub.bytes_read <= 10 * 200 + 200, "one batch at least each time, and debts are paid"
    idle_harness, idle = harness_with_scrub(rate=0)
    run_ticks(idle_harness, idle)
    assert idle.bytes_read == 0 and idle.rounds == 0


def test_slices_cover_the_whole_log_before_the_next_round() -> None:
    harness, scrub = harness_with_scrub(rate=300)
    closed = sum(s.size for s in harness.log.segments[:-1])
    flip(harness, -2)  # the last closed segment
    for _ in range(200):
        run_ticks(harness, scrub, 1)
        if harness.damage_reports.reports():
            break
    assert harness.damage_reports.reports() and scrub.bytes_read >= closed - harness.log.segments[-2].size


def test_a_device_with_a_read_error_takes_the_replica_offline() -> None:
    harness, scrub = harness_with_scrub()
    scrub.tick(NOW)
    ((run, done),) = harness.jobs
    harness.jobs.clear()
    done(DiskFailed("EIO", of_device=True))
    assert harness.failed
    assert run is not None


def test_a_removed_file_is_reported_and_is_no_device_error() -> None:
    harness, scrub = harness_with_scrub()
    harness.disk.names.pop(harness.log.segments[1].path)
    run_ticks(harness, scrub)
    (found,) = harness.damage_reports.reports()
    assert found.kind == CORRUPT and "No such file" in found.text
    assert not harness.failed


# -- reports --------------------------------------------------------------------------------------------------------------------
def test_damage_is_reported_until_the_reset_and_other_reports_until_in_sync() -> None:
    image = Image(cluster_id="c")
    other = TopicPartition(TP.topic_id, 1)
    image.apply(TopicCreated(TP.topic_id, "t", 1, {}, 2))
    for tp in (TP, other):
        image.apply(
            PartitionChanged(
                tp.topic_id,
                tp.partition,
                PartitionState((1, 2), (ReplicaIncarnation(1, 9), ReplicaIncarnation(2, 9)), 1, 9),
            )
        )
    found = DamageReports(ControllerOutbox())
    found.add("t-0", TP, LOST, "gone")
    found.add("t-0", TP, CORRUPT, "bits")
    found.add("t-0", TP, DIVERGED, "cut")
    found.add("t-1", other, DIVERGED, "cut")
    assert [f.kind for f in found.reports()] == [CORRUPT, DIVERGED]
    found.remove_repaired(image, 1)
    assert [f.kind for f in found.reports()] == [CORRUPT]
    found.remove(TP)
    assert found.reports() == ()


def test_damage_reports_are_bounded_and_read_back_unchanged() -> None:
    found = DamageReports(ControllerOutbox())
    for i in range(DAMAGE_REPORTS_MAX + 10):
        found.add("t", TopicPartition(TP.topic_id, i), CORRUPT, "x")
    assert len(found.reports()) == DAMAGE_REPORTS_MAX
    assert decode_damage_reports(encode_damage_reports(7, found.reports())) == (7, found.reports())


def test_a_replica_that_moves_between_directories_is_scrubbed_later() -> None:
    harness, scrub = harness_with_scrub()
    harness.hosted[TP] = SimpleNamespace(
        tp=TP,
        name="t-0",
        log=harness.log,
        config=harness.log.config,
        offline_reason=None,
        flush_suspended=False,
        moving=True,
    )
    run_ticks(harness, scrub)
    assert scrub.bytes_read == 0
