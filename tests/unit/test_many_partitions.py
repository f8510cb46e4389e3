"""Partitions by the thousand: where they go is known without counting all."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from uuid import UUID

from brokerd.cluster.metadata import PartitionChanged, Record, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import PartitionState, Seat, TopicPartition
from brokerd.storage import checkpoints
from brokerd.wire.errors import ErrorCode
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import TP, A, B, House

MANY = UUID(int=8)
LED = PartitionState((1,), (Seat(1, 11),), 1, 11)


def test_whose_a_folder_is_survives_a_power_cut_with_the_first_records_flushed() -> None:
    house = House(SimDisk(), configs={"flush.messages": "1"})
    house.append()
    house.settle()
    assert house.replica.log.flushing.sure_end == 1
    for seed in range(20):
        found = house.disk.power_cut(random.Random(seed))
        assert checkpoints.read_partition_metadata(found, A / "t-0") == TP.topic_id


def created(count: int) -> list[Record]:
    return [
        TopicCreated(MANY, "m", count, {}, 1),
        *(PartitionChanged(MANY, i, LED) for i in range(count)),
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


def test_partitions_made_by_the_hundred_are_opened_in_shares() -> None:
    house = House(SimDisk())
    house.partitions.openings_per_turn = 10
    house.partitions.turn_over(house.now)
    applied(house, created(25))
    assert len(house.partitions.hosted) == 1 + 10, "the loop stood still for all of them"
    assert house.partitions.turn_over(house.now), "nobody asks for the rest"
    turns = 0
    while house.partitions.turn_over(house.now):
        turns += 1
    assert turns == 1 and len(house.partitions.hosted) == 1 + 25
    assert all(r.leads for r in house.partitions.hosted.values())


def test_what_waits_to_be_opened_is_what_the_metadata_log_says_by_then() -> None:
    """Moved away, made another's to lead, or deleted while it waited."""
    house = House(SimDisk())
    house.partitions.openings_per_turn = 1
    house.partitions.turn_over(house.now)
    applied(house, created(3))
    elsewhere = PartitionState((2,), (Seat(2, 12),), 2, 12, 1, 1)
    theirs = PartitionState((2, 1), (Seat(2, 12),), 2, 12, 1, 1)
    applied(house, [PartitionChanged(MANY, 1, elsewhere), PartitionChanged(MANY, 2, theirs)])
    while house.partitions.turn_over(house.now):
        pass
    assert {tp.partition for tp in house.partitions.hosted if tp.topic_id == MANY} == {0, 2}
    assert not house.partitions.hosted[TopicPartition(MANY, 2)].leads
    applied(house, [TopicDeleted(MANY, "m", 2)])
    applied(
        house, [TopicCreated(UUID(int=9), "n", 2, {}, 1), *(PartitionChanged(UUID(int=9), i, LED) for i in range(2))]
    )
    applied(house, [TopicDeleted(UUID(int=9), "n", 2)])
    while house.partitions.turn_over(house.now):
        pass
    assert {tp.topic_id for tp in house.partitions.hosted} == {house.replica.tp.topic_id}
    assert not [f for f in house.folders() if f.name.startswith("n-") and not f.name.endswith("-delete")]
