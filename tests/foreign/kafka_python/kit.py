"""How the programs of kafka-python write and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import TopicPartition

from tests.foreign.stage import BOOTSTRAP, CA, MUTUAL, PASSWORD, PEM, SECURED, TOKEN, equal, wait_until

Settings = dict[str, Any]
PLAIN: Settings = {"bootstrap_servers": BOOTSTRAP.split(",")}


def secured_settings(user: str, password: str = PASSWORD) -> Settings:
    return {
        "bootstrap_servers": SECURED.split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_cafile": CA,
    }


class FixedTokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def bearer(token: str = TOKEN) -> Settings:
    return {
        "bootstrap_servers": SECURED.split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": FixedTokenProvider(token),
        "ssl_cafile": CA,
    }


def certificate_settings(user: str) -> Settings:
    return {
        "bootstrap_servers": MUTUAL.split(","),
        "security_protocol": "SSL",
        "ssl_cafile": CA,
        "ssl_certfile": PEM[user],
    }


def producer(**settings: Any) -> KafkaProducer:
    return KafkaProducer(**{**PLAIN, **settings})


def send(made: KafkaProducer, name: str, values: Iterable[str]) -> None:
    sent = [made.send(name, value.encode(), partition=0) for value in values]
    made.flush(60)
    for one in sent:
        one.get(60)


def consumer(*topics: str, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(*topics, **{**PLAIN, "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings})


def poll_records(reader: KafkaConsumer, ms: int = 200, most: int | None = None) -> list[Any]:
    return [m for part in reader.poll(ms, max_records=most).values() for m in part]


def read_records(reader: KafkaConsumer, count: int) -> list[Any]:
    out: list[Any] = []
    wait_until(
        lambda: out.extend(poll_records(reader, most=count - len(out))) or len(out) == count,
        f"{count} records, has {len(out)}",
    )
    return out


def read(name: str, count: int, isolation: str = "read_uncommitted", offset: int = 0) -> list[Any]:
    """`count` messages of partition 0 from an offset on, and no more than that."""
    reader = consumer(isolation_level=isolation, group_id=None)
    partition = TopicPartition(name, 0)
    reader.assign([partition])
    reader.seek(partition, offset)
    end = reader.end_offsets([partition])[partition]
    out: list[Any] = []
    wait_until(
        lambda: out.extend(poll_records(reader)) or (len(out) >= count and reader.position(partition) >= end),
        f"{count} records, has {len(out)}",
    )
    reader.close()
    equal(len(out), count)
    return out


def values(messages: Iterable[Any]) -> list[str]:
    return [m.value.decode() for m in messages]


def numbers(n: int) -> list[str]:
    return [str(i) for i in range(n)]


def expect_rejection(how: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any]) -> None:
    try:
        call()
    except how:
        return
    raise AssertionError("not rejected")


class Member(kafka.ConsumerRebalanceListener):
    """A member of a group; `seen` are the values it was brought, `lost` the partitions it gave up."""

    def __init__(self, group: str, name: str, **settings: Any) -> None:
        self.seen: list[str] = []
        self.lost: list[int] = []
        self.consumer = consumer(group_id=group, **settings)
        self.consumer.partitions_for_topic(name)  # known before it joins: the notes say what may become of it otherwise
        self.consumer.subscribe([name], listener=self)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.lost.extend(p.partition for p in revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        pass

    def owned_partitions(self) -> list[int]:
        self.seen += values(poll_records(self.consumer, 100))
        return sorted(p.partition for p in self.consumer.assignment())
