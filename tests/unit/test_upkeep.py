"""Upkeep: jobs planned for a replica count for that replica alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.findings import Findings
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log import Log
from brokerd.upkeep import Upkeep
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_cleaner import COMPACT, fill, live
from tests.unit.storage.test_log import NOW, append, everything, opened, sim

TP = TopicPartition(UUID(int=1), 0)


class House:
    """The parts of Partitions that upkeep sees, one replica, and jobs that run when told to."""

    def __init__(self, disk: SimDisk, log: Log) -> None:
        self.disk, self.log = disk, log
        self.failed: list[str] = []
        self.unflushed: dict[TopicPartition, Any] = {}
        self.findings = Findings()
        self.replica = self.new_replica()
        self.hosted: dict[TopicPartition, Any] = {TP: self.replica}
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []
        self.upkeep = Upkeep(self, self, lambda: NOW)  # type: ignore[arg-type]

    def new_replica(self) -> Any:
        core = SimpleNamespace(high_watermark=self.log.end_offset)
        return SimpleNamespace(
            tp=TP,
            name="t-0",
            log=self.log,
            config=self.log.config,
            core=core,
            offline_reason=None,
            held=False,
            moving=False,
        )

    def fail(self, replica: Any, why: BaseException) -> None:
        replica.offline_reason = why
        self.failed.append(why)

    def flushed(self, replica: Any, now: object) -> None:
        pass

    def retain(self, now: object) -> None:
        self.log.retain(NOW, self.log.end_offset)

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs.append((run, done))

    def work(self) -> int:
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


def compacting() -> House:
    disk = sim()
    log = opened(disk, **COMPACT)
    fill(log)
    return House(disk, log)


def test_a_compacted_topic_is_compacted_once_and_rests_until_it_is_dirty_again() -> None:
    house = compacting()
    state, size = live(everything(house.log)), house.log.size_bytes
    house.upkeep.compact(NOW)
    house.upkeep.compact(NOW)
    assert house.work() == 1
    assert live(everything(house.log)) == state and house.log.size_bytes < size
    house.upkeep.compact(NOW)
    assert house.work() == 0


def test_a_pass_for_a_replica_that_is_gone_changes_nothing() -> None:
    house = compacting()
    expected = everything(house.log)
    house.upkeep.compact(NOW)
    house.hosted[TP] = house.new_replica()
    house.work()
    assert everything(house.log) == expected
    house.upkeep.compact(NOW)
    assert house.work() == 1, "the new replica gets its own"


def test_damage_is_left_alone_and_the_replica_stays_online() -> None:
    house = compacting()
    house.disk.names[house.log.segments[1].path].live[90] ^= 1
    for _ in range(2):
        house.upkeep.compact(NOW)
        house.work()
    assert TP in house.findings and not house.failed and not house.jobs


def test_a_full_disk_is_tried_again_later() -> None:
    house = compacting()
    house.disk.bytes_max = house.disk.used() + 100
    house.upkeep.compact(NOW)
    house.work()
    house.disk.bytes_max = 1 << 40
    assert not house.failed
    house.upkeep.compact(NOW)
    house.work()
    assert house.log.cleaned_offset > 0


def test_a_device_that_fails_takes_the_replica_offline() -> None:
    house = compacting()
    house.disk.reads_fail = True
    house.upkeep.compact(NOW)
    house.work()
    assert len(house.failed) == 1


def test_what_was_rolled_is_flushed_in_the_background() -> None:
    disk = sim()
    log = opened(disk, segment_bytes="400")
    house = House(disk, log)
    append(log)
    house.upkeep.flush(NOW)
    assert house.work() == 0, "the active segment alone is left to the replicas"
    for _ in range(9):
        append(log)
    house.upkeep.flush(NOW)
    house.upkeep.flush(NOW)
    assert house.work() == 1
    assert log.snapshots.flushed_offset == 10
    house.upkeep.flush(NOW)
    assert house.work() == 0


def test_a_flush_that_fails_takes_the_replica_offline_and_is_never_repeated() -> None:
    disk = sim()
    log = opened(disk, flush_messages="1")
    house = House(disk, log)
    append(log)
    house.upkeep.flush(NOW)
    disk.fail_at[disk.steps + 1] = DiskFailed("flushing: Input/output error")
    house.work()
    assert house.failed
    house.upkeep.flush(NOW)
    assert house.work() == 0


def test_who_comes_while_a_flush_runs_shares_the_next_one() -> None:
    disk = sim()
    log = opened(disk, flush_messages="1")
    house = House(disk, log)
    for _ in range(3):
        append(log)
        house.unflushed[TP] = house.replica
        house.upkeep.commit(NOW)
    assert len(house.jobs) == 1 and house.unflushed, "one flush is under way, of the first; the others wait"
    house.work()
    assert log.flushing.sure_end == 1
    house.upkeep.commit(NOW)
    house.work()
    assert log.flushing.sure_end == 3


def test_flushing_writes_its_snapshot_where_it_waits_and_not_on_the_loop() -> None:
    disk = sim()
    log = opened(disk, segment_bytes="400")
    house = House(disk, log)
    for _ in range(9):
        append(log)
    house.upkeep.flush(NOW)
    (run, done), *_ = house.jobs
    run()
    before = len(disk.story)
    done(None)
    assert log.snapshots.flushed_offset == 9
    assert not [step for step in disk.story[before:] if step.startswith("fsync")]
