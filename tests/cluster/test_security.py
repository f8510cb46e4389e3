"""Listeners that are secured, with clients nobody here wrote; brokers that talk to each other over TLS."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.helpers
import kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.cluster.local import LocalCluster, free_port, wait_for
from tests.pki import Authority

RECORDS = [f"record {i}".encode() * (i % 50 + 1) for i in range(400)]


class Secured(LocalCluster):
    """Two brokers. PLAINTEXT for what is not the matter here, BROKERS between them (mutual TLS), SSL for clients."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, brokers=2)
        self.authority = Authority(folder / "pki")
        self.pem = self.authority.issue("broker", "/O=Weir/CN=broker")
        self.client = self.authority.issue("alice", "/O=Weir/CN=alice")
        self.ssl = {i: free_port() for i in self.ports}
        for i, plain in self.ports.items():
            self.own_settings[i] = {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},BROKERS://127.0.0.1:0,SSL://127.0.0.1:{self.ssl[i]}",
                "listener.security.protocol.map": "BROKERS:SSL",
                "inter.broker.listener.name": "BROKERS",
                "listener.name.brokers.ssl.client.auth": "required",
                "ssl.client.auth": "requested",
                "ssl.keystore.location": str(self.pem),
                "ssl.truststore.location": str(self.authority.ca),
                "min.insync.replicas": "2",
            }

    def reached(self, ports: dict[int, int]) -> str:
        return ",".join(f"127.0.0.1:{p}" for p in ports.values())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


def settings_of_librdkafka(secured: Secured, how: str) -> dict[str, Any]:
    assert how == "SSL"
    return {
        "bootstrap.servers": secured.reached(secured.ssl), "security.protocol": "ssl", "ssl.ca.location": str(secured.authority.ca),
        "ssl.certificate.location": str(secured.client), "ssl.key.location": str(secured.client), "log_level": 0,
    }  # fmt: skip


def settings_of_python(secured: Secured, how: str) -> dict[str, Any]:
    assert how == "SSL"
    return {"bootstrap_servers": secured.reached(secured.ssl).split(","), "security_protocol": how}


WAYS = ("SSL",)


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_confluent_kafka(secured: Secured, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    settings = settings_of_librdkafka(secured, how)
    producer = Producer({**settings, "acks": "all", "enable.idempotence": True})
    for record in RECORDS:
        producer.produce(topic, record, key=b"k")
    assert producer.flush(60) == 0
    reader = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    seen: list[bytes] = []
    wait_for(lambda: seen.extend(m.value() for m in reader.consume(500, 0.5)) or len(seen) >= len(RECORDS), "records")
    assert seen == RECORDS
    reader.close()
    told = AdminClient(settings).list_topics(timeout=30).brokers
    assert {b.port for b in told.values()} == set(secured.ssl.values()), "a client is told the listener it came by"


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_kafka_python(secured: Secured, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    settings = {**settings_of_python(secured, how)}
    if how.endswith("SSL"):
        settings |= {"ssl_cafile": str(secured.authority.ca), "ssl_certfile": str(secured.client)}
    producer = kafka.KafkaProducer(**settings, acks="all")
    for record in RECORDS:
        producer.send(topic, record, key=b"k")
    producer.flush(60)
    producer.close()
    reader = kafka.KafkaConsumer(
        topic, **settings, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    seen = [next(reader).value for _ in RECORDS]
    assert seen == RECORDS
    reader.close()


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_aiokafka(secured: Secured, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    settings = settings_of_python(secured, how)
    if how.endswith("SSL"):
        settings["ssl_context"] = aiokafka.helpers.create_ssl_context(
            cafile=str(secured.authority.ca), certfile=str(secured.client)
        )

    async def walk() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings, acks="all")
        await producer.start()
        for record in RECORDS:
            await producer.send(topic, record, key=b"k")
        await producer.stop()
        reader = aiokafka.AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        await reader.start()
        seen = [(await asyncio.wait_for(reader.getone(), 60)).value for _ in RECORDS]
        await reader.stop()
        return seen

    assert asyncio.run(walk()) == RECORDS


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_kcat(secured: Secured, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    options = [x for k, v in settings_of_librdkafka(secured, how).items() for x in ("-X", f"{k}={v}")]
    text = b"\n".join(RECORDS)
    subprocess.run(["kcat", *options, "-P", "-t", topic, "-k", "k"], input=text, check=True, timeout=60)
    read = subprocess.run(
        ["kcat", *options, "-C", "-t", topic, "-o", "beginning", "-e", "-q"],
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert read.stdout.rstrip(b"\n") == text


@pytest.mark.cluster
def test_brokers_replicate_over_tls(secured: Secured) -> None:
    topic = f"t{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": secured.bootstrap, "acks": "all", "log_level": 0})
    errors: list[object] = []
    for record in RECORDS:
        producer.produce(topic, record, on_delivery=lambda e, m: errors.append(e) if e else None)
    assert producer.flush(60) == 0
    assert not errors
    state = secured.image.topic_named(topic)
    assert state is not None
    assert all(len(p.isr) == 2 for p in state.partitions.values()), "with min.insync.replicas=2 a follower has them"
    told = {e.listener: e.protocol for e in secured.image.brokers[1].endpoints}
    assert told == {"PLAINTEXT": "PLAINTEXT", "BROKERS": "SSL", "SSL": "SSL"}
