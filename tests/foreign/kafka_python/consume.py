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
    expect_rejection,
    numbers,
    poll_records,
    producer,
    read,
    read_records,
    send,
    values,
)
from tests.foreign.stage import FIRST_MS, equal, wait_until


def from_start(name: str) -> None:
    equal([v.rstrip(".") for v in values(read(name, 3000))], numbers(3000))


def members(cooperative: bool = False, **settings: Any) -> Callable[[str], None]:
    def feature(name: str) -> None:
        one = Member(name, name, **settings)
        wait_until(lambda: one.owned_partitions() == [0, 1, 2, 3], "one member to own all")
        two = Member(name, name, **settings)
        wait_until(lambda: (len(one.owned_partitions()), len(two.owned_partitions())) == (2, 2), "two members to share")
        equal(sorted(one.owned_partitions() + two.owned_partitions()), [0, 1, 2, 3])
        if cooperative:
            equal(set(one.lost) & set(one.owned_partitions()), set())
        wait_until(
            lambda: one.owned_partitions() and two.owned_partitions() and len({*one.seen, *two.seen}) == 400,
            "all records",
        )
        two.consumer.close()
        wait_until(lambda: one.owned_partitions() == [0, 1, 2, 3], "the one that stayed to own all again")
        one.consumer.close()

    return feature


group = members()
assignor_range = members(partition_assignment_strategy=[RangePartitionAssignor])
assignor_roundrobin = members(partition_assignment_strategy=[RoundRobinPartitionAssignor])
assignor_sticky = members(partition_assignment_strategy=[StickyPartitionAssignor])
assignor_cooperative = members(True, partition_assignment_strategy=[CooperativeStickyAssignor])


def static(name: str) -> None:
    one = Member(name, name, group_instance_id="one", session_timeout_ms=30_000)
    wait_until(lambda: one.owned_partitions() == [0, 1, 2, 3], "one member to own all")
    two = Member(name, name, group_instance_id="two", session_timeout_ms=30_000)
    wait_until(lambda: (len(one.owned_partitions()), len(two.owned_partitions())) == (2, 2), "two members to share")
    had, one.lost = two.owned_partitions(), []
    two.consumer.close()
    two = Member(name, name, group_instance_id="two", session_timeout_ms=30_000)
    wait_until(
        lambda: one.owned_partitions() and two.owned_partitions() == had,
        "the second member to have its partitions again",
    )
    equal(one.lost, [])
    one.consumer.close()
    two.consumer.close()


def commits(name: str) -> None:
    partition = TopicPartition(name, 0)
    first = consumer(name, group_id=name)
    read_records(first, 40)
    first.commit({partition: OffsetAndMetadata(40, "a note", -1)})
    first.close()
    second = consumer(name, group_id=name)
    kept = second.committed(partition, metadata=True)
    equal((kept.offset, kept.metadata), (40, "a note"))
    equal(values(read_records(second, 1)), ["40"])
    second.close()


def resets(name: str) -> None:
    earliest = consumer(name, group_id=name + "-e")
    equal(values(read_records(earliest, 1)), ["0"])
    earliest.seek(TopicPartition(name, 0), 10_000)
    equal(values(read_records(earliest, 1)), ["0"])
    earliest.close()
    none = consumer(name, group_id=name + "-n", auto_offset_reset="none")
    expect_rejection(NoOffsetForPartitionError, lambda: read_records(none, 1))
    none.close()
    latest = consumer(name, group_id=name + "-l", auto_offset_reset="latest")
    first: list[Any] = []
    wait_until(
        lambda: send(producer(), name, ["new"]) or first.extend(poll_records(latest, 1000)) or first,
        "a record that is new",
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
    equal(values(read_records(reader, 1)), ["50"])
    reader.close()


def pause(name: str) -> None:
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    reader = consumer(group_id=None)
    reader.assign([zero, one])
    reader.pause(zero)
    equal({m.partition for m in read_records(reader, 100)}, {1})
    equal(poll_records(reader, 2000), [])
    reader.resume(zero)
    equal({m.partition for m in read_records(reader, 100)}, {0})
    reader.close()


def pattern(name: str) -> None:
    reader = consumer(group_id=name)
    reader.subscribe(pattern=f"^{re.escape(name)}.*")
    equal({m.topic for m in read_records(reader, 100)}, {name, name + "-two"})
    reader.close()
