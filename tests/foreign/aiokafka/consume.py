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
    expect_rejection,
    feature,
    numbers,
    poll_records,
    read,
    read_records,
    send,
    started_producer,
    values,
    wait_until,
)
from tests.foreign.stage import FIRST_MS, equal

ALL = [0, 1, 2, 3]


@feature
async def from_start(name: str) -> None:
    equal([v.rstrip(".") for v in values(await read(name, 3000))], numbers(3000))


async def check_shared_partitions(one: Member, two: Member) -> None:
    async def have_halves() -> bool:
        return (len(await one.owned_partitions()), len(await two.owned_partitions())) == (2, 2)

    await wait_until(have_halves, "two members to share")
    equal(sorted(await one.owned_partitions() + await two.owned_partitions()), ALL)


def owns_all(one: Member) -> Callable[[], Any]:
    async def all_of_them() -> bool:
        return await one.owned_partitions() == ALL

    return all_of_them


def members(**settings: Any) -> Callable[[str], None]:
    @feature
    async def run(name: str) -> None:
        one = await Member.join(name, name, **settings)
        await wait_until(owns_all(one), "one member to own all")
        two = await Member.join(name, name, **settings)
        await check_shared_partitions(one, two)

        async def all_seen() -> bool:
            await one.owned_partitions()
            await two.owned_partitions()
            return len({*one.seen, *two.seen}) == 400

        await wait_until(all_seen, "all records")
        await two.consumer.stop()
        await wait_until(owns_all(one), "the one that stayed to own all again")
        await one.consumer.stop()

    return run


group = members()
assignor_range = members(partition_assignment_strategy=[RangePartitionAssignor])
assignor_roundrobin = members(partition_assignment_strategy=[RoundRobinPartitionAssignor])
assignor_sticky = members(partition_assignment_strategy=[StickyPartitionAssignor])


@feature
async def static(name: str) -> None:
    one = await Member.join(name, name, group_instance_id="one", session_timeout_ms=30_000)
    await wait_until(owns_all(one), "one member to own all")
    two = await Member.join(name, name, group_instance_id="two", session_timeout_ms=30_000)
    await check_shared_partitions(one, two)
    had, one.lost = await two.owned_partitions(), []
    await two.consumer.stop()
    two = await Member.join(name, name, group_instance_id="two", session_timeout_ms=30_000)

    async def has_same_partitions() -> bool:
        return bool(await one.owned_partitions()) and await two.owned_partitions() == had

    await wait_until(has_same_partitions, "the second member to have its partitions again")
    equal(one.lost, [])
    await one.consumer.stop()
    await two.consumer.stop()


@feature
async def commits(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with consuming(name, group_id=name) as first:
        await read_records(first, 40)
        await first.commit({partition: OffsetAndMetadata(40, "a note")})
    async with consuming(name, group_id=name) as second:
        equal(await second.committed(partition), 40)
        equal(values(await read_records(second, 1)), ["40"])


@feature
async def resets(name: str) -> None:
    async with consuming(name, group_id=name + "-e") as earliest:
        equal(values(await read_records(earliest, 1)), ["0"])
        earliest.seek(TopicPartition(name, 0), 10_000)
        equal(values(await read_records(earliest, 1)), ["0"])
    async with consuming(name, group_id=name + "-n", auto_offset_reset="none") as none:
        await expect_rejection(NoOffsetForPartitionError, none.getone())
    async with consuming(name, group_id=name + "-l", auto_offset_reset="latest") as latest, started_producer() as made:

        async def read_new_records() -> list[Any]:
            await send(made, name, ["new"])
            return await poll_records(latest, 1000)

        equal(values(await wait_until(read_new_records, "a record that is new"))[0], "new")


@feature
async def timestamps(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with consuming() as reader:
        reader.assign([partition])
        equal((await reader.offsets_for_times({partition: FIRST_MS + 49_500}))[partition].offset, 50)
        equal((await reader.offsets_for_times({partition: FIRST_MS + 1_000_000}))[partition], None)
        reader.seek(partition, (await reader.offsets_for_times({partition: FIRST_MS + 50_000}))[partition].offset)
        equal(values(await read_records(reader, 1)), ["50"])


@feature
async def pause(name: str) -> None:
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    async with consuming() as reader:
        reader.assign([zero, one])
        reader.pause(zero)
        equal({m.partition for m in await read_records(reader, 100)}, {1})
        equal(await poll_records(reader, 2000), [])
        reader.resume(zero)
        equal({m.partition for m in await read_records(reader, 100)}, {0})


@feature
async def pattern(name: str) -> None:
    async with consuming(group_id=name) as reader:
        reader.subscribe(pattern=f"^{re.escape(name)}.*")
        equal({m.topic for m in await read_records(reader, 100)}, {name, name + "-two"})
