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

from tests.foreign.confluent.kit import PLAIN, Member, grouped, read, rejection, send, some, values
from tests.foreign.stage import FIRST_MS, equal, until


# -- consume ---------------------------------------------------------------------------------------------------------------
def from_start(name: str) -> None:
    equal([int(v.rstrip(".")) for v in values(read(name, 3000))], list(range(3000)))


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
assignor_range = members(partition_assignment_strategy="range")
assignor_roundrobin = members(partition_assignment_strategy="roundrobin")
assignor_cooperative = members(True, partition_assignment_strategy="cooperative-sticky")
new_protocol = members(group_protocol="consumer")


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
    first = grouped(name)
    first.subscribe([name])
    some(first, 40)
    first.commit(offsets=[TopicPartition(name, 0, 40, metadata="a note")], asynchronous=False)
    first.close()
    second = grouped(name)
    kept = second.committed([TopicPartition(name, 0)], 30)[0]
    equal((kept.offset, kept.metadata), (40, "a note"))
    second.subscribe([name])
    equal(values(some(second, 1)), ["40"])
    second.close()


def resets(name: str) -> None:
    earliest = grouped(name + "-e")
    earliest.subscribe([name])
    equal(values(some(earliest, 1)), ["0"])
    earliest.seek(TopicPartition(name, 0, 10_000))
    equal(values(some(earliest, 1)), ["0"])
    earliest.close()
    none = grouped(name + "-n", auto_offset_reset="error")
    none.subscribe([name])
    equal(rejection(lambda: some(none, 1)), KafkaError._AUTO_OFFSET_RESET)
    none.close()
    latest = grouped(name + "-l", auto_offset_reset="latest")
    latest.subscribe([name])
    first: list[Any] = []

    def brought() -> bool:
        send(Producer(PLAIN), name, ["new"])
        first.extend(latest.consume(1, 1))
        return bool(first)

    until(brought, "a record that is new")
    equal(values(first[:1]), ["new"])
    latest.close()


def timestamps(name: str) -> None:
    reader = grouped(name)
    at = lambda ms: reader.offsets_for_times([TopicPartition(name, 0, ms)], 30)[0].offset  # noqa: E731
    equal(at(FIRST_MS + 49_500), 50)
    equal(at(FIRST_MS + 1_000_000), OFFSET_END)
    reader.assign([TopicPartition(name, 0, at(FIRST_MS + 50_000))])
    equal(values(some(reader, 1)), ["50"])
    reader.close()


def pause(name: str) -> None:
    reader = grouped(name)
    reader.assign([TopicPartition(name, 0, 0), TopicPartition(name, 1, 0)])
    reader.pause([TopicPartition(name, 0)])
    equal({m.partition() for m in some(reader, 100)}, {1})
    equal(reader.consume(1, 2), [])
    reader.resume([TopicPartition(name, 0)])
    equal({m.partition() for m in some(reader, 100)}, {0})
    reader.close()


def pattern(name: str) -> None:
    reader = grouped(name)
    reader.subscribe([f"^{re.escape(name)}.*"])
    equal({m.topic() for m in some(reader, 100)}, {name, name + "-two"})
    reader.close()
