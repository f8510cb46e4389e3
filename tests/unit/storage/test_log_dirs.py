"""Partition directories at a start: those of deleted topics never become the logs of recreated topics of the same name."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import TopicPartition
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


def deleted() -> Image:
    image = Image()
    for record in (ClusterCreated("c"), TopicCreated(OLD, "t", 1, {}, 1), TopicReady(OLD), TopicDeleted(OLD, "t", 1)):
        image.apply(record)
    return image


def end_of_recreated(disk: SimDisk, *, after_power_cut: bool) -> int:
    """The log end offset of the recreated topic `t` after the next start."""
    dirs = LogDirs((DIR,), disk)
    dirs.all[0].deep = after_power_cut
    dirs.sort(dirs.all[0], deleted(), frozenset(), 1)
    log, _ = dirs.open("t", TopicPartition(NEW, 0), config(), NOW)
    return log.end_offset


@pytest.mark.parametrize("crash_at", range(1, STEPS))
def test_a_deletion_at_the_start_may_be_interrupted_anywhere(crash_at: int) -> None:
    disk = with_records()
    disk.steps, disk.crash_at = 0, crash_at
    dirs = LogDirs((DIR,), disk)
    try:
        dirs.sort(dirs.all[0], deleted(), frozenset(), 1)
    except Crashed:
        pass
    else:
        assert disk.steps < crash_at
    assert end_of_recreated(disk.killed(), after_power_cut=False) == 0


def test_a_deletion_at_the_start_may_be_lost_in_a_power_cut() -> None:
    disk = with_records()
    dirs = LogDirs((DIR,), disk)
    dirs.sort(dirs.all[0], deleted(), frozenset(), 1)
    for seed in range(30):
        assert end_of_recreated(disk.power_cut(random.Random(seed)), after_power_cut=True) == 0
