"""How the programs of confluent-kafka write and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.foreign.stage import BOOTSTRAP, CA, ISSUER, MUTUAL, PASSWORD, PEM, SECURED, equal, wait_until

Settings = dict[str, Any]
PLAIN: Settings = {"bootstrap.servers": BOOTSTRAP, "log_level": 0}


def secured_settings(user: str, password: str = PASSWORD) -> Settings:
    return {
        "bootstrap.servers": SECURED,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "log_level": 0,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": CA,
    }


def bearer(path: str = "/token") -> Settings:
    """A token that librdkafka fetches itself, as from an identity provider (OIDC)."""
    return {
        "bootstrap.servers": SECURED,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "ssl.ca.location": CA,
        "log_level": 0,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": ISSUER + path,
    }


def certificate_settings(user: str) -> Settings:
    return {
        "bootstrap.servers": MUTUAL,
        "security.protocol": "SSL",
        "ssl.ca.location": CA,
        "log_level": 0,
        "ssl.certificate.location": PEM[user],
        "ssl.key.location": PEM[user],
    }


def send(
    producer: Producer, name: str, values: Iterable[bytes | str], reported: Callable[[str], None] | None = None
) -> None:
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error:
            errors.append(error)
        elif reported:
            reported(message.value().decode())

    for value in values:
        producer.produce(name, value, partition=0, on_delivery=on_delivery)
        producer.poll(0)
    equal(producer.flush(60), 0)
    if errors:
        raise KafkaException(errors[0])


def read(name: str, count: int, isolation: str = "read_uncommitted", offset: int = 0, **more: Any) -> list[Any]:
    """`count` messages of partition 0 from an offset on, and no more than that."""
    reader = Consumer(
        {
            **PLAIN,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **more,
        }
    )
    reader.assign([TopicPartition(name, 0, offset)])
    out: list[Any] = []
    ended: list[int] = []

    def all_read() -> bool:
        for m in reader.consume(500, 0.5):
            if not m.error():
                out.append(m)
            elif m.error().code() == KafkaError._PARTITION_EOF:
                ended.append(len(out))
            else:
                raise KafkaException(m.error())
        return len(out) >= count and bool(ended) and ended[-1] >= count

    wait_until(all_read, f"{count} records of {name}, has {len(out)}")
    reader.close()
    equal(len(out), count)
    return out


def values(messages: Iterable[Any]) -> list[str]:
    return [m.value().decode() for m in messages]


def numbers(n: int) -> list[str]:
    return [str(i) for i in range(n)]


def group_consumer(group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            **PLAIN,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )


def read_records(consumer: Consumer, count: int) -> list[Any]:
    out: list[Any] = []

    def has_enough() -> bool:
        for m in consumer.consume(count - len(out), 0.5):
            if m.error():
                raise KafkaException(m.error())
            out.append(m)
        return len(out) == count

    wait_until(has_enough, f"{count} records, has {len(out)}")
    return out


def rejection(call: Callable[[], Any]) -> int:
    """The code of the error that it ends with."""
    try:
        call()
    except KafkaException as e:
        return int(e.args[0].code())
    raise AssertionError("not rejected")


def result_of(futures: dict[Any, Any]) -> Any:
    """The result of a question about one thing."""
    return next(iter(futures.values())).result(60)


class Member:
    """A member of a group; `seen` are the values it was brought, `lost` the partitions it gave up."""

    def __init__(self, group: str, name: str, **settings: Any) -> None:
        self.seen: list[str] = []
        self.lost: list[int] = []
        self.consumer = Consumer(
            {
                **PLAIN,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **{k.replace("_", "."): v for k, v in settings.items()},
            }
        )
        self.consumer.subscribe([name], on_revoke=lambda _, parts: self.lost.extend(p.partition for p in parts))

    def owned_partitions(self) -> list[int]:
        self.seen += values(m for m in self.consumer.consume(100, 0.1) if not m.error())
        return sorted(p.partition for p in self.consumer.assignment())
