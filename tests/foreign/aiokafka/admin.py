"""Administration and security."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from aiokafka.structs import OffsetAndMetadata

from tests.foreign.aiokafka.kit import (
    PLAIN,
    Member,
    Settings,
    bearer,
    certificate_settings,
    consuming,
    expect_rejection,
    feature,
    numbers,
    read,
    read_records,
    secured_settings,
    send,
    started_producer,
    values,
    wait_until,
)
from tests.foreign.stage import FORGED, equal

TOPIC_ALREADY_EXISTS = 36


@asynccontextmanager
async def admin_client() -> AsyncIterator[AIOKafkaAdminClient]:
    made = AIOKafkaAdminClient(**PLAIN)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@feature
async def topics(name: str) -> None:
    async with admin_client() as client:
        wanted = NewTopic(name, 2, 3, topic_configs={"retention.ms": "3600000"})
        equal((await client.create_topics([wanted])).topic_errors[0][1], 0)
        equal((await client.create_topics([wanted])).topic_errors[0][1], TOPIC_ALREADY_EXISTS)

        async def partitions() -> list[Any]:
            found = await client.describe_topics([name]) if name in await client.list_topics() else []
            return found[0]["partitions"] if found else []

        await wait_until(partitions, "the topic to be listed")
        equal([len(p["replicas"]) for p in await partitions()], [3, 3])
        await client.create_partitions({name: NewPartitions(5)})

        async def has_five_partitions() -> bool:
            return len(await partitions()) == 5

        await wait_until(has_five_partitions, "five partitions")
        await client.delete_topics([name])

        async def is_deleted() -> bool:
            return name not in await client.list_topics()

        await wait_until(is_deleted, "the topic to go")


@feature
async def configs(name: str) -> None:
    async with admin_client() as client:

        async def describe_config(
            kind: ConfigResourceType = ConfigResourceType.TOPIC, what: str = name
        ) -> dict[str, Any]:
            [found] = await client.describe_configs([ConfigResource(kind, what)])
            return {entry[0]: entry[1:] for entry in found.resources[0][4]}

        async def alter(**settings: str) -> None:
            await client.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name, {k.replace("_", "."): v for k, v in settings.items()})]
            )

        async def value(wanted: str) -> bool:
            return (await describe_config())["retention.ms"][0] == wanted

        before = (await describe_config())["retention.ms"][0]
        await alter(retention_ms="1234567")
        await wait_until(lambda: value("1234567"), "the setting")
        await alter(retention_bytes="-1")  # the old call: what is not named goes back to its default
        await wait_until(lambda: value(before), "the default")
        equal("log.dirs" in await describe_config(ConfigResourceType.BROKER, "1"), True)


@feature
async def groups(name: str) -> None:
    async with admin_client() as client:
        member = await Member.join(name, name)

        async def has_joined() -> bool:
            return await member.owned_partitions() == [0]

        await wait_until(has_joined, "the member to own its partition")
        equal(name in {g[0] for g in await client.list_consumer_groups()}, True)
        [found] = await client.describe_consumer_groups([name])
        group = found.groups[0]
        equal((group[1], group[2], len(group[5])), (name, "Stable", 1))
        await member.consumer.stop()


@feature
async def group_offsets(name: str) -> None:
    partition = TopicPartition(name, 0)
    async with admin_client() as client, consuming(group_id=name) as reader:
        reader.assign([partition])
        for wanted in (40, 10):
            await reader.commit({partition: OffsetAndMetadata(wanted, "")})
            equal((await client.list_consumer_group_offsets(name))[partition].offset, wanted)


@feature
async def delete_records(name: str) -> None:
    async with admin_client() as client:
        await client.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=30)})
    equal(values(await read(name, 70, offset=30)), numbers(100)[30:])


@feature
async def cluster(_: str) -> None:
    async with admin_client() as client:
        found = await client.describe_cluster()
        equal(sorted(b["node_id"] for b in found["brokers"]), [1, 2, 3])
        equal(found["controller_id"] in (1, 2, 3) and bool(found["cluster_id"]), True)


async def apply_registrations(name: str, client_options: Settings) -> None:
    async with started_producer(**client_options) as made:
        await send(made, name, numbers(100))
    async with consuming(name, group_id=name, **client_options) as reader:
        equal(values(await read_records(reader, 100)), numbers(100))


async def is_rejected(client_options: Settings, reason: str) -> None:
    """It tries every broker; the reason is in its log alone."""
    reported: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: reported.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("aiokafka").addHandler(handler)

    async def connect() -> None:
        async with started_producer(**client_options):
            pass

    await expect_rejection(KafkaConnectionError, connect())
    equal(any(reason in line for line in reported), True)


@feature
async def scram_tls(name: str) -> None:
    await apply_registrations(name, secured_settings("alice"))


@feature
async def wrong_password(_: str) -> None:
    await is_rejected(secured_settings("alice", "wrong"), "invalid credentials")


@feature
async def oauth(name: str) -> None:
    await apply_registrations(name, bearer())
    await is_rejected(bearer(FORGED), "Unable to request metadata")


@feature
async def mutual_tls(name: str) -> None:
    await apply_registrations(name, certificate_settings("alice"))
    async with started_producer(**certificate_settings("bob")) as bob:
        await expect_rejection(TopicAuthorizationFailedError, send(bob, name, ["no"]))
