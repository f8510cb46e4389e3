"""Producing and transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiokafka import TopicPartition
from aiokafka.errors import InvalidProducerEpoch, MessageSizeTooLargeError, ProducerFenced

from tests.foreign.aiokafka.kit import (
    consuming,
    expect_rejection,
    feature,
    numbers,
    read,
    read_records,
    send,
    started_producer,
    values,
    wait_until,
)
from tests.foreign.stage import (
    DECIDED,
    DELAYED,
    ROUTED,
    delayed_records,
    equal,
    half_records,
    print_acked,
    routed_records,
)


def acks(wanted: int | str) -> Callable[[str], None]:
    @feature
    async def run(name: str) -> None:
        async with started_producer(acks=wanted) as made:
            await send(made, name, numbers(100))
        equal(values(await read(name, 100)), numbers(100))

    return run


def codec(kind: str) -> Callable[[str], None]:
    @feature
    async def run(name: str) -> None:
        wanted = [str(i) * 20 for i in range(500)]
        async with started_producer(compression_type=kind, linger_ms=50) as made:
            await send(made, name, wanted)
        equal(values(await read(name, 500)), wanted)

    return run


acks_0, acks_1, acks_all = acks(0), acks(1), acks("all")
gzip, snappy, lz4, zstd = codec("gzip"), codec("snappy"), codec("lz4"), codec("zstd")


@feature
async def headers(name: str) -> None:
    wanted = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    async with started_producer() as made:
        await made.send_and_wait(name, b"v", headers=wanted)
    equal(list((await read(name, 1))[0].headers), wanted)


async def send_one_by_one(front: str, written: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]) -> None:
    """Each record is acknowledged before the next one is sent: a decision needs a message that is stored."""
    async with started_producer() as made:
        for key, value, headers in written:
            await made.send_and_wait(front, value, key, partition=0, headers=headers)


@feature
async def delayed(name: str) -> None:
    began = time.time()
    await send_one_by_one(f"{name}.delay", delayed_records(int(began * 1000)))
    equal(values(await read(name, 3)), DELAYED)
    equal(time.time() - began >= 6, True)


@feature
async def half(name: str) -> None:
    await send_one_by_one(f"{name}.half", half_records())
    equal(values(await read(name, 2)), DECIDED)


@feature
async def routes(name: str) -> None:
    written = routed_records()
    await send_one_by_one(name, written)
    for suffix, matching in ROUTED.items():
        found = [(m.key, m.value, list(m.headers)) for m in await read(name + suffix, len(matching))]
        equal(found, [written[n] for n in matching])


@feature
async def nulls(name: str) -> None:
    wanted = [(None, b"v"), (b"k", None), (b"", b"")]
    async with started_producer() as made:
        for key, value in wanted:
            await made.send_and_wait(name, value, key)
    equal([(m.key, m.value) for m in await read(name, 3)], wanted)


@feature
async def big(name: str) -> None:
    wanted = bytes(i % 251 for i in range(1_000_000))
    async with started_producer() as made:
        await made.send_and_wait(name, wanted)
    equal((await read(name, 1))[0].value == wanted, True)


@feature
async def too_large(name: str) -> None:
    async with started_producer() as made:
        await expect_rejection(MessageSizeTooLargeError, made.send_and_wait(name, b"x" * 500_000))
        await send(made, name, ["small"])
    equal(values(await read(name, 1)), ["small"])


@feature
async def idempotent(name: str) -> None:
    async with started_producer(enable_idempotence=True, max_batch_size=300) as made:
        await send(made, name, numbers(500))


async def write_while_the_leader_dies(name: str) -> None:
    async with started_producer(acks="all", enable_idempotence=True) as made:
        sent = []
        for value in numbers(600):
            one = await made.send(name, value.encode(), partition=0)
            one.add_done_callback(lambda f, value=value: print_acked(value) if not f.exception() else None)
            sent.append(one)
            await asyncio.sleep(0.005)
        await asyncio.wait_for(asyncio.gather(*sent), 90)


@feature
async def leader_killed(name: str) -> None:
    await write_while_the_leader_dies(name)


@feature
async def majority_acks(name: str) -> None:
    await write_while_the_leader_dies(name)
    equal(values(await read(name, 600)), numbers(600))


@feature
async def transactions(name: str) -> None:
    async with started_producer(transactional_id=name) as made:
        for sent, commit in ((["a1", "a2"], True), (["b1"], False), (["c1"], True)):
            await made.begin_transaction()
            await send(made, name, sent)
            await (made.commit_transaction() if commit else made.abort_transaction())
    equal(values(await read(name, 3, "read_committed")), ["a1", "a2", "c1"])
    equal(values(await read(name, 4)), ["a1", "a2", "b1", "c1"])


@feature
async def transaction_offsets(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with consuming(name, group_id=name) as reader, started_producer(transactional_id=name) as made:
        got = values(await read_records(reader, 100))

        async def run_transaction(sent: list[str], offset: int) -> None:
            await made.begin_transaction()
            await send(made, name + "-out", sent)
            await made.send_offsets_to_transaction({partition: offset}, name)

        await run_transaction(["no"] * 50, 50)
        await made.abort_transaction()
        equal(await reader.committed(partition), None)
        await run_transaction([f"<{v}>" for v in got], 100)
        await made.commit_transaction()

        async def is_committed() -> bool:
            return await reader.committed(partition) == 100

        await wait_until(is_committed, "the offset")  # it does not ask for stable offsets
    equal(values(await read(name + "-out", 100, "read_committed")), [f"<{i}>" for i in range(100)])


@feature
async def fencing(name: str) -> None:
    async with started_producer(transactional_id=name) as old:
        await old.begin_transaction()
        await send(old, name, ["old"])
        async with started_producer(transactional_id=name) as new:
            await expect_rejection((ProducerFenced, InvalidProducerEpoch), old.commit_transaction())
            await new.begin_transaction()
            await send(new, name, ["new"])
            await new.commit_transaction()
    equal(values(await read(name, 1, "read_committed")), ["new"])
