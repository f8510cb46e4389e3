"""Reading, alone and in groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.foreign.kafka_python.kit import (
    Member,
    consumer,
    numbers,
    polled,
    producer,
    read,
    rejected,
    send,
    some,
    values,
)
from tests.foreign.stage import FIRST_MS, equal, until


def from_start(name: str) -> None:
    equal([v.rstrip(".") for v in values(read(name, 3000))], numbers(3000))


def members(cooperative: bool = False, **settings: Any) -> Callable[[str], None]:
    def feature(name: str) -> None:
        one = Member(name, name, **settings)
        until(lambda: one.owned() == [0, 1, 2, 3], "one member to own all")
        two = Member(name, name, **settings)
        until(lambda: (len(one.owned()), len(two.owned())) == (2, 2), "two members to share")
        equal(sorted(one.owned() + two.owned()), [0, 1, 2, 3])
        if cooperative:
            equal(set(one.lost) & set(one.owned()), set())
        until(lambda: one.owned() and two.owned() and len({*one.seen, *two.seen}) == 400, "all records")
        two.consumer.close()
        until(lambda: one.owned() == [0, 1, 2, 3], "the one that stayed to own all again")
        one.consumer.close()

    return feature


group = members()
assignor_range = members(partition_assignment_strategy=[RangePartitionAssignor])
assignor_roundrobin = members(partition_assignment_strategy=[RoundRobinPartitionAssignor])
assignor_sticky = members(partition_assignment_strategy=[StickyPartitionAssignor])
assignor_cooperative = members(True, partition_assignment_strategy=[CooperativeStickyAssignor])


def static(name: str) -> None:
    one = Member(name, name, group_instance_id="one", session_timeout_ms=30_000)
    until(lambda: one.owned() == [0, 1, 2, 3], "one member to own all")
    two = Member(name, name, group_instance_id="two", session_timeout_ms=30_000)
    until(lambda: (len(one.owned()), len(two.owned())) == (2, 2), "two members to share")
    had, one.lost = two.owned(), []
    two.consumer.close()
    two = Member(name, name, group_instance_id="two", session_timeout_ms=30_000)
    until(lambda: one.owned() and two.owned() == had, "the second member to have its partitions again")
    equal(one.lost, [])
    one.consumer.close()
    two.consumer.close()


def commits(name: str) -> None:
    partition = TopicPartition(name, 0)
    first = consumer(name, group_id=name)
    some(first, 40)
    first.commit({partition: OffsetAndMetadata(40, "a note", -1)})
    first.close()
    second = consumer(name, group_id=name)
    kept = second.committed(partition, metadata=True)
    equal((kept.offset, kept.metadata), (40, "a note"))
    equal(values(some(second, 1)), ["40"])
    second.close()


def resets(name: str) -> None:
    earliest = consumer(name, group_id=name + "-e")
    equal(values(some(earliest, 1)), ["0"])
    earliest.seek(TopicPartition(name, 0), 10_000)
    equal(values(some(earliest, 1)), ["0"])
    earliest.close()
    none = consumer(name, group_id=name + "-n", auto_offset_reset="none")
    rejected(NoOffsetForPartitionError, lambda: some(none, 1))
    none.close()
    latest = consumer(name, group_id=name + "-l", auto_offset_reset="latest")
    first: list[Any] = []
    until(
        lambda: send(producer(), name, ["new"]) or first.extend(polled(latest, 1000)) or first, "a record that is new"
    )
    equal(values(first)[0], "new")
    latest.close()


def timestamps(name: str) -> None:
    partition = TopicPartition(name, 0)
    reader = consumer(group_id=None)
    equal(reader.offsets_for_times({partition: FIRST_MS + 49_500})[partition].offset, 50)
    equal(reader.offsets_for_times({partition: FIRST_MS + 1_000_000})[partition], None)
    reader.assign([partition])
    reader.seek(partition, reader.offsets_for_times({partition: FIRST_MS + 50_000})[partition].offset)
    equal(values(some(reader, 1)), ["50"])
    reader.close()


def pause(name: str) -> None:
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    reader = consumer(group_id=None)
    reader.assign([zero, one])
    reader.pause(zero)
    equal({m.partition for m in some(reader, 100)}, {1})
    equal(polled(reader, 2000), [])
    reader.resume(zero)
    equal({m.partition for m in some(reader, 100)}, {0})
    reader.close()


def pattern(name: str) -> None:
    reader = consumer(group_id=name)
    reader.subscribe(pattern=f"^{re.escape(name)}.*")
    equal({m.topic for m in some(reader, 100)}, {name, name + "-two"})
    reader.close()
