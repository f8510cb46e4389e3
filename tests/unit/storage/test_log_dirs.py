"""Partition directories at a start: those of deleted topics never become the logs of recreated topics of the same name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import TopicPartition
from brokerd.storage import checkpoints
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import NOW, append, config

DIR, OLD, NEW = Path("/a"), UUID(int=1), UUID(int=2)
STEPS = 8
"""More modifying calls than the deletion of the directory has."""


def with_records() -> SimDisk:
    """A disk with the log of the first topic `t`."""
    disk = SimDisk()
    disk.mkdir(DIR)
    log, created = LogDirs((DIR,), disk).open("t", TopicPartition(OLD, 0), config(), NOW)
    assert created
    append(log)
    log.close_files()
    disk.sync_all(DIR)
    return disk


def image_with_deleted_topic() -> Image:
    image = Image()
    for record in (ClusterCreated("c"), TopicCreated(OLD, "t", 1, {}, 1), TopicReady(OLD), TopicDeleted(OLD, "t", 1)):
        image.apply(record)
    return image


def end_of_recreated(disk: SimDisk, *, after_power_cut: bool) -> int:
    """The log end offset of the recreated topic `t` after the next start."""
    dirs = LogDirs((DIR,), disk)
    dirs.all[0].deep = after_power_cut
    dirs.sort(dirs.all[0], image_with_deleted_topic(), frozenset(), 1)
    log, _ = dirs.open("t", TopicPartition(NEW, 0), config(), NOW)
    return log.end_offset


@pytest.mark.parametrize("crash_at", range(1, STEPS))
def test_a_deletion_at_the_start_may_be_interrupted_anywhere(crash_at: int) -> None:
    disk = with_records()
    disk.steps, disk.crash_at = 0, crash_at
    dirs = LogDirs((DIR,), disk)
    try:
        dirs.sort(dirs.all[0], image_with_deleted_topic(), frozenset(), 1)
    except Crashed:
        pass
    else:
        assert disk.steps < crash_at
    assert end_of_recreated(disk.killed(), after_power_cut=False) == 0


def test_a_deletion_at_the_start_may_be_lost_in_a_power_cut() -> None:
    disk = with_records()
    dirs = LogDirs((DIR,), disk)
    dirs.sort(dirs.all[0], image_with_deleted_topic(), frozenset(), 1)
    for seed in range(30):
        assert end_of_recreated(disk.power_cut(random.Random(seed)), after_power_cut=True) == 0


class Lane:
    """Keeps jobs until the test runs them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Any, Any]] = []

    def submit(self, run: Any, done: Any, *, urgent: bool = False) -> None:
        self.jobs.append((run, done))

    def complete(self) -> None:
        run, done = self.jobs.pop(0)
        try:
            run()
        except (DiskFailed, DiskFull) as e:
            done(e)
        else:
            done(None)


def test_a_late_checkpoint_does_not_replace_a_newer_one() -> None:
    disk = SimDisk()
    disk.mkdir(Path("/a"))
    dirs = LogDirs([Path("/a")], disk)
    (d,) = dirs.all
    lane = d.lane = Lane()
    dirs.checkpoint(d, {("t", 0): 5})
    dirs.checkpoint(d, {("t", 0): 6})
    assert len(lane.jobs) == 1 and d.checkpointing, "one at a time"
    dirs.write_high_watermarks(d, {("t", 1): 7})
    lane.complete()
    assert checkpoints.read_offsets(disk, Path("/a") / checkpoints.HIGH_WATERMARKS) == {("t", 1): 7}
    dirs.checkpoint(d, {("t", 1): 8})
    lane.complete()
    assert checkpoints.read_offsets(disk, Path("/a") / checkpoints.HIGH_WATERMARKS) == {("t", 1): 8}
    assert not d.checkpointing and d.checkpointed


def test_a_checkpoint_on_a_failed_device_takes_the_directory_offline() -> None:
    disk = SimDisk()
    disk.mkdir(Path("/a"))
    dirs = LogDirs([Path("/a")], disk)
    (d,) = dirs.all
    lane = d.lane = Lane()
    dirs.checkpoint(d, {})
    disk.broken.add(Path("/a"))
    lane.complete()
    assert d.failed is not None and not d.checkpointed
