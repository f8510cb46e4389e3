"""Reading, alone and in groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import NoOffsetForPartitionError
from aiokafka.structs import OffsetAndMetadata

from tests.foreign.aiokafka.kit import (
    Member,
    consuming,
    feature,
    numbers,
    polled,
    producing,
    read,
    rejected,
    send,
    some,
    until,
    values,
)
from tests.foreign.stage import FIRST_MS, equal

ALL = [0, 1, 2, 3]


@feature
async def from_start(name: str) -> None:
    equal([v.rstrip(".") for v in values(await read(name, 3000))], numbers(3000))


async def shared(one: Member, two: Member) -> None:
    async def halves() -> bool:
        return (len(await one.owned()), len(await two.owned())) == (2, 2)

    await until(halves, "two members to share")
    equal(sorted(await one.owned() + await two.owned()), ALL)


def owns_all(one: Member) -> Callable[[], Any]:
    async def all_of_them() -> bool:
        return await one.owned() == ALL

    return all_of_them


def members(**settings: Any) -> Callable[[str], None]:
    @feature
    async def run(name: str) -> None:
        one = await Member.join(name, name, **settings)
        await until(owns_all(one), "one member to own all")
        two = await Member.join(name, name, **settings)
        await shared(one, two)

        async def all_seen() -> bool:
            await one.owned()
            await two.owned()
            return len({*one.seen, *two.seen}) == 400

        await until(all_seen, "all records")
        await two.consumer.stop()
        await until(owns_all(one), "the one that stayed to own all again")
        await one.consumer.stop()

    return run


group = members()
assignor_range = members(partition_assignment_strategy=[RangePartitionAssignor])
assignor_roundrobin = members(partition_assignment_strategy=[RoundRobinPartitionAssignor])
assignor_sticky = members(partition_assignment_strategy=[StickyPartitionAssignor])


@feature
async def static(name: str) -> None:
    one = await Member.join(name, name, group_instance_id="one", session_timeout_ms=30_000)
    await until(owns_all(one), "one member to own all")
    two = await Member.join(name, name, group_instance_id="two", session_timeout_ms=30_000)
    await shared(one, two)
    had, one.lost = await two.owned(), []
    await two.consumer.stop()
    two = await Member.join(name, name, group_instance_id="two", session_timeout_ms=30_000)

    async def again() -> bool:
        return bool(await one.owned()) and await two.owned() == had

    await until(again, "the second member to have its partitions again")
    equal(one.lost, [])
    await one.consumer.stop()
    await two.consumer.stop()


@feature
async def commits(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with consuming(name, group_id=name) as first:
        await some(first, 40)
        await first.commit({partition: OffsetAndMetadata(40, "a note")})
    async with consuming(name, group_id=name) as second:
        equal(await second.committed(partition), 40)
        equal(values(await some(second, 1)), ["40"])


@feature
async def resets(name: str) -> None:
    async with consuming(name, group_id=name + "-e") as earliest:
        equal(values(await some(earliest, 1)), ["0"])
        earliest.seek(TopicPartition(name, 0), 10_000)
        equal(values(await some(earliest, 1)), ["0"])
    async with consuming(name, group_id=name + "-n", auto_offset_reset="none") as none:
        await rejected(NoOffsetForPartitionError, none.getone())
    async with consuming(name, group_id=name + "-l", auto_offset_reset="latest") as latest, producing() as made:

        async def brought() -> list[Any]:
            await send(made, name, ["new"])
            return await polled(latest, 1000)

        equal(values(await until(brought, "a record that is new"))[0], "new")


@feature
async def timestamps(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with consuming() as reader:
        reader.assign([partition])
        equal((await reader.offsets_for_times({partition: FIRST_MS + 49_500}))[partition].offset, 50)
        equal((await reader.offsets_for_times({partition: FIRST_MS + 1_000_000}))[partition], None)
        reader.seek(partition, (await reader.offsets_for_times({partition: FIRST_MS + 50_000}))[partition].offset)
        equal(values(await some(reader, 1)), ["50"])


@feature
async def pause(name: str) -> None:
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    async with consuming() as reader:
        reader.assign([zero, one])
        reader.pause(zero)
        equal({m.partition for m in await some(reader, 100)}, {1})
        equal(await polled(reader, 2000), [])
        reader.resume(zero)
        equal({m.partition for m in await some(reader, 100)}, {0})


@feature
async def pattern(name: str) -> None:
    async with consuming(group_id=name) as reader:
        reader.subscribe(pattern=f"^{re.escape(name)}.*")
        equal({m.topic for m in await some(reader, 100)}, {name, name + "-two"})
