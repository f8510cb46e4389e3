"""Partitions by the thousand: where they go is known without counting all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import UUID

from brokerd.cluster.metadata import PartitionChanged, Record, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import PartitionState, Seat
from brokerd.wire.errors import ErrorCode
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import A, B, House

MANY = UUID(int=8)


def created(count: int) -> list[Record]:
    state = PartitionState((1,), (Seat(1, 11),), 1, 11)
    return [
        TopicCreated(MANY, "m", count, {}, 1),
        *(PartitionChanged(MANY, i, state) for i in range(count)),
        TopicReady(MANY),
    ]


def applied(house: House, records: list[Record]) -> None:
    for record in records:
        house.image.apply(record)
    house.partitions.apply(house.image, records, house.now)


def counted(house: House) -> dict[Path, int]:
    return dict(Counter(r.log.folder.parent for r in house.partitions.hosted.values()))


def test_what_a_directory_holds_is_counted_as_it_comes_moves_and_goes() -> None:
    house = House(SimDisk())
    applied(house, created(9))
    dirs = house.partitions.log_dirs
    assert {d.path: d.held for d in dirs.all} == counted(house) == {A: 5, B: 5}
    assert house.ask(B) is ErrorCode.NONE
    house.settle()
    assert {d.path: d.held for d in dirs.all} == counted(house) == {A: 4, B: 6}
    applied(house, [TopicDeleted(MANY, "m", 2)])
    assert {d.path: d.held for d in dirs.all} == {A: 0, B: 1}
    assert counted(house) == {B: 1}
