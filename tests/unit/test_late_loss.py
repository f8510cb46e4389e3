"""A copy that lacks records: told before the registration; once there is a seat the copy stays shut, because the seat rests on its being whole."""

from __future__ import annotations

from brokerd.storage.disk import DiskFull
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import TP, A, House


def shortened() -> SimDisk:
    """A folder whose log ends below its checkpointed high watermark."""
    house = House(SimDisk())
    house.append(20)
    house.settle()
    house.replica.core.high_watermark = 20
    house.partitions.copies.checkpoint()
    house.replica.log.close()
    house.disk.open(A / "t-0" / f"{0:020d}.log").truncate(house.replica.log.segments[0].size // 2)
    return house.disk


def test_a_short_log_is_told_of_before_the_registration() -> None:
    told: list[str] = []
    house = House(shortened(), lost=told.append)
    assert len(told) == 1 and "below its high watermark 20" in told[0]
    assert house.replica.log.end_offset < 20


def test_a_short_log_that_opens_after_the_registration_stays_shut() -> None:
    story = House(shortened().killed()).disk.story
    disk, told = shortened().killed(), list[str]()
    disk.fail_at = {
        1 + next(i for i, step in enumerate(story) if step.startswith("truncate")): DiskFull("no space left")
    }
    house = House(disk, lost=told.append)
    assert TP not in house.partitions.hosted and not told, "there was room to bring the folder into order"
    house.partitions.open_again(house.now)
    assert TP not in house.partitions.hosted, "serves a copy that lacks what may have been acknowledged"
    assert house.partitions.offline_changed and house.doubted and not told
