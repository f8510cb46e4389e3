"""Log maintenance: jobs planned for a replica apply to that replica only."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.maintenance.log_maintenance import LogMaintenance
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication.damage_reports import DamageReports
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log import Log
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_cleaner import COMPACT, fill, live
from tests.unit.storage.test_log import NOW, append, open_log, read_all, sim

TP = TopicPartition(UUID(int=1), 0)


class Harness:
    """The parts of ReplicaManager that log maintenance uses, one replica, and jobs that run on request."""

    def __init__(self, disk: SimDisk, log: Log) -> None:
        self.disk, self.log = disk, log
        self.log_dirs = LogDirs([log.folder.parent], disk)
        self.failed: list[str] = []
        self.unflushed: dict[TopicPartition, Any] = {}
        self.outbox = ControllerOutbox()
        self.damage_reports = DamageReports(self.outbox)
        self.replica = self.new_replica()
        self.hosted: dict[TopicPartition, Any] = {TP: self.replica}
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []
        self.log_maintenance = LogMaintenance(self, self, lambda: NOW)  # type: ignore[arg-type]

    def new_replica(self) -> Any:
        core = SimpleNamespace(high_watermark=self.log.end_offset)
        return SimpleNamespace(
            tp=TP,
            name="t-0",
            log=self.log,
            config=self.log.config,
            core=core,
            offline_reason=None,
            flush_suspended=False,
            moving=False,
        )

    def fail(self, replica: Any, reason: BaseException) -> None:
        replica.offline_reason = reason
        self.failed.append(reason)

    def on_flushed(self, replica: Any, now: object) -> None:
        pass

    def retain(self, now: object) -> None:
        self.log.retain(NOW, self.log.end_offset)

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs.append((run, done))

    def run_jobs(self) -> int:
        count = len(self.jobs)
        while self.jobs:
            run, done = self.jobs.pop(0)
            error: BaseException | None = None
            try:
                run()
            except Exception as e:
                error = e
            done(error)
        return count


def harness_of_compacted_log() -> Harness:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    return Harness(disk, log)


def test_a_compacted_log_is_compacted_again_only_when_it_is_dirty() -> None:
    harness = harness_of_compacted_log()
    state, size = live(read_all(harness.log)), harness.log.size_bytes
    harness.log_maintenance.compact(NOW)
    harness.log_maintenance.compact(NOW)
    assert harness.run_jobs() == 1
    assert live(read_all(harness.log)) == state and harness.log.size_bytes < size
    harness.log_maintenance.compact(NOW)
    assert harness.run_jobs() == 0


def test_a_compaction_of_a_deleted_replica_changes_nothing() -> None:
    harness = harness_of_compacted_log()
    expected = read_all(harness.log)
    harness.log_maintenance.compact(NOW)
    harness.hosted[TP] = harness.new_replica()
    harness.run_jobs()
    assert read_all(harness.log) == expected
    harness.log_maintenance.compact(NOW)
    assert harness.run_jobs() == 1, "the new replica gets its own"


def test_a_damaged_segment_is_not_compacted_and_the_replica_stays_online() -> None:
    harness = harness_of_compacted_log()
    harness.disk.names[harness.log.segments[1].path].live[90] ^= 1
    for _ in range(2):
        harness.log_maintenance.compact(NOW)
        harness.run_jobs()
    assert TP in harness.damage_reports and not harness.failed and not harness.jobs


def test_compaction_on_a_full_disk_is_retried_later() -> None:
    harness = harness_of_compacted_log()
    harness.disk.bytes_max = harness.disk.used() + 100
    harness.log_maintenance.compact(NOW)
    harness.run_jobs()
    harness.disk.bytes_max = 1 << 40
    assert not harness.failed
    harness.log_maintenance.compact(NOW)
    harness.run_jobs()
    assert harness.log.cleaner.offset > 0


def test_a_failed_device_takes_the_replica_offline() -> None:
    harness = harness_of_compacted_log()
    harness.disk.reads_fail = True
    harness.log_maintenance.compact(NOW)
    harness.run_jobs()
    assert len(harness.failed) == 1


def test_a_rolled_segment_is_flushed_in_the_background() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    harness = Harness(disk, log)
    append(log)
    harness.log_maintenance.flush(NOW)
    assert harness.run_jobs() == 1, "a new log, with its topic id"
    append(log)
    harness.log_maintenance.flush(NOW)
    assert harness.run_jobs() == 0, "the active segment alone is left to the replicas"
    for _ in range(8):
        append(log)
    harness.log_maintenance.flush(NOW)
    harness.log_maintenance.flush(NOW)
    assert harness.run_jobs() == 1
    assert log.snapshots.flushed_offset == 10
    harness.log_maintenance.flush(NOW)
    assert harness.run_jobs() == 0


def test_a_new_log_on_a_failed_device_goes_offline_at_its_first_flush() -> None:
    disk = sim()
    log = open_log(disk)
    harness = Harness(disk, log)
    append(log)
    disk.broken.add(log.folder)
    harness.log_maintenance.flush(NOW)
    harness.run_jobs()
    assert len(harness.failed) == 1


def test_a_failed_flush_takes_the_replica_offline_and_is_not_repeated() -> None:
    disk = sim()
    log = open_log(disk, flush_messages="1")
    harness = Harness(disk, log)
    append(log)
    harness.log_maintenance.flush(NOW)
    disk.fail_at[disk.steps + 1] = DiskFailed("flushing: Input/output error")
    harness.run_jobs()
    assert harness.failed
    harness.log_maintenance.flush(NOW)
    assert harness.run_jobs() == 0


def test_requests_during_a_flush_share_the_next_one() -> None:
    disk = sim()
    log = open_log(disk, flush_messages="1")
    harness = Harness(disk, log)
    for _ in range(3):
        append(log)
        harness.unflushed[TP] = harness.replica
        harness.log_maintenance.commit(NOW)
    assert len(harness.jobs) == 1 and harness.unflushed, "one flush is under way, of the first; the others wait"
    harness.run_jobs()
    assert log.flushing.acknowledgeable_end == 1
    harness.log_maintenance.commit(NOW)
    harness.run_jobs()
    assert log.flushing.acknowledgeable_end == 3


def test_a_flush_writes_its_snapshot_on_the_background_thread() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    harness = Harness(disk, log)
    for _ in range(9):
        append(log)
    harness.log_maintenance.flush(NOW)
    (run, done), *_ = harness.jobs
    run()
    before = len(disk.story)
    done(None)
    assert log.snapshots.flushed_offset == 9
    assert not [step for step in disk.story[before:] if step.startswith("fsync")]
