"""Reading, alone and in groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    KafkaError,
    Producer,
    TopicPartition,
)

from tests.foreign.confluent.kit import PLAIN, Member, group_consumer, read, read_records, rejection, send, values
from tests.foreign.stage import FIRST_MS, equal, wait_until


# -- consume ---------------------------------------------------------------------------------------------------------------
def from_start(name: str) -> None:
    equal([int(v.rstrip(".")) for v in values(read(name, 3000))], list(range(3000)))


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
assignor_range = members(partition_assignment_strategy="range")
assignor_roundrobin = members(partition_assignment_strategy="roundrobin")
assignor_cooperative = members(True, partition_assignment_strategy="cooperative-sticky")
new_protocol = members(group_protocol="consumer")


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
    first = group_consumer(name)
    first.subscribe([name])
    read_records(first, 40)
    first.commit(offsets=[TopicPartition(name, 0, 40, metadata="a note")], asynchronous=False)
    first.close()
    second = group_consumer(name)
    kept = second.committed([TopicPartition(name, 0)], 30)[0]
    equal((kept.offset, kept.metadata), (40, "a note"))
    second.subscribe([name])
    equal(values(read_records(second, 1)), ["40"])
    second.close()


def resets(name: str) -> None:
    earliest = group_consumer(name + "-e")
    earliest.subscribe([name])
    equal(values(read_records(earliest, 1)), ["0"])
    earliest.seek(TopicPartition(name, 0, 10_000))
    equal(values(read_records(earliest, 1)), ["0"])
    earliest.close()
    none = group_consumer(name + "-n", auto_offset_reset="error")
    none.subscribe([name])
    equal(rejection(lambda: read_records(none, 1)), KafkaError._AUTO_OFFSET_RESET)
    none.close()
    latest = group_consumer(name + "-l", auto_offset_reset="latest")
    latest.subscribe([name])
    first: list[Any] = []

    def read_new_records() -> bool:
        send(Producer(PLAIN), name, ["new"])
        first.extend(latest.consume(1, 1))
        return bool(first)

    wait_until(read_new_records, "a record that is new")
    equal(values(first[:1]), ["new"])
    latest.close()


def timestamps(name: str) -> None:
    reader = group_consumer(name)
    at = lambda ms: reader.offsets_for_times([TopicPartition(name, 0, ms)], 30)[0].offset  # noqa: E731
    equal(at(FIRST_MS + 49_500), 50)
    equal(at(FIRST_MS + 1_000_000), OFFSET_END)
    reader.assign([TopicPartition(name, 0, at(FIRST_MS + 50_000))])
    equal(values(read_records(reader, 1)), ["50"])
    reader.close()


def pause(name: str) -> None:
    reader = group_consumer(name)
    reader.assign([TopicPartition(name, 0, 0), TopicPartition(name, 1, 0)])
    reader.pause([TopicPartition(name, 0)])
    equal({m.partition() for m in read_records(reader, 100)}, {1})
    equal(reader.consume(1, 2), [])
    reader.resume([TopicPartition(name, 0)])
    equal({m.partition() for m in read_records(reader, 100)}, {0})
    reader.close()


def pattern(name: str) -> None:
    reader = group_consumer(name)
    reader.subscribe([f"^{re.escape(name)}.*"])
    equal({m.topic() for m in read_records(reader, 100)}, {name, name + "-two"})
    reader.close()
