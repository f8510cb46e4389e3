"""How the programs of aiokafka write and read."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.helpers
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.foreign.stage import BOOTSTRAP, CA, MUTUAL, PASSWORD, PEM, SECONDS_MAX, SECURED, TOKEN, equal

Settings = dict[str, Any]
PLAIN: Settings = {"bootstrap_servers": BOOTSTRAP}


def secured_settings(user: str, password: str = PASSWORD) -> Settings:
    return {
        "bootstrap_servers": SECURED,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_context": ssl.create_default_context(cafile=CA),
    }


class FixedTokenProvider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def bearer(token: str = TOKEN) -> Settings:
    return {
        "bootstrap_servers": SECURED,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": FixedTokenProvider(token),
        "ssl_context": ssl.create_default_context(cafile=CA),
    }


def certificate_settings(user: str) -> Settings:
    context = aiokafka.helpers.create_ssl_context(cafile=CA, certfile=PEM[user])
    return {"bootstrap_servers": MUTUAL, "security_protocol": "SSL", "ssl_context": context}


def feature(written: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    @wraps(written)
    def run(name: str) -> None:
        asyncio.run(written(name))

    return run


async def wait_until(condition: Callable[[], Awaitable[Any]], what: str) -> Any:
    deadline = time.monotonic() + SECONDS_MAX
    while not (value := await condition()):
        assert time.monotonic() < deadline, f"waited {SECONDS_MAX:.0f} s for {what}"
        await asyncio.sleep(0.02)
    return value


@asynccontextmanager
async def started_producer(**settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    made = AIOKafkaProducer(**{**PLAIN, **settings})
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def consuming(*topics: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    made = AIOKafkaConsumer(
        *topics, **{**PLAIN, "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def send(made: AIOKafkaProducer, name: str, values: Iterable[str]) -> None:
    sent = [await made.send(name, value.encode(), partition=0) for value in values]
    for one in sent:
        await asyncio.wait_for(one, SECONDS_MAX)


async def poll_records(reader: AIOKafkaConsumer, ms: int = 200, most: int | None = None) -> list[Any]:
    return [m for part in (await reader.getmany(timeout_ms=ms, max_records=most)).values() for m in part]


async def read_records(reader: AIOKafkaConsumer, count: int) -> list[Any]:
    out: list[Any] = []

    async def has_enough() -> bool:
        out.extend(await poll_records(reader, most=count - len(out)))
        return len(out) == count

    await wait_until(has_enough, f"{count} records")
    return out


async def read(name: str, count: int, isolation: str = "read_uncommitted", offset: int = 0) -> list[Any]:
    """`count` messages of partition 0 from an offset on, and no more than that."""
    partition = TopicPartition(name, 0)
    async with consuming(isolation_level=isolation) as reader:
        reader.assign([partition])
        reader.seek(partition, offset)
        out = await read_records(reader, count)
        out += await poll_records(reader, 1000)
    equal(len(out), count)
    return out


def values(messages: Iterable[Any]) -> list[str]:
    return [m.value.decode() for m in messages]


def numbers(n: int) -> list[str]:
    return [str(i) for i in range(n)]


async def expect_rejection(how: type[Exception] | tuple[type[Exception], ...], call: Awaitable[Any]) -> None:
    try:
        await asyncio.wait_for(call, SECONDS_MAX)
    except how:
        return
    raise AssertionError("not rejected")


class Member(aiokafka.ConsumerRebalanceListener):
    """A member of a group; `seen` are the values it was brought, `lost` the partitions it gave up."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.lost: list[int] = []
        self.consumer: AIOKafkaConsumer

    @staticmethod
    async def join(group: str, name: str, **settings: Any) -> Member:
        self = Member()
        self.consumer = AIOKafkaConsumer(**{**PLAIN, "auto_offset_reset": "earliest", "group_id": group, **settings})
        self.consumer.subscribe([name], listener=self)
        await self.consumer.start()
        return self

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.lost.extend(p.partition for p in revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        pass

    async def owned_partitions(self) -> list[int]:
        self.seen += values(await poll_records(self.consumer, 100))
        return sorted(p.partition for p in self.consumer.assignment())
