"""A whole house without a port in the clear but the console's: `up --secure`. Brokers among themselves, console, observer and worker come in by
SASL_SSL, and all of them to ZooKeeper by TLS and SASL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from pipeline.jobs.archive import secured
from pipeline.offsets import Range
from pipeline.source import Cluster, Settings, read_range
from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.pki import Authority

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("secured-house"), "--secure", "--brokers", "2", "--controllers", "1")
    house.topic("seen", partitions=2, replication_factor=2, configs={"min.insync.replicas": "2"})
    house.fill("seen", 400)
    yield house
    house.down()


def test_what_the_console_shows_it_reads_through_tls_and_a_password(house: House) -> None:
    def figures() -> Any:
        rows = house.partitions("seen")
        return all(r["size_bytes"] for r in rows) and sum(r["end_offset"] for r in rows) == 400

    wait_for(figures, "sizes and end offsets, which only a broker can tell")
    found = house.get("topics/seen/partitions/0/messages?start=oldest&limit=5")
    assert found["complete"] and [m["offset"] for m in found["rows"]] == [0, 1, 2, 3, 4]

    reader = Consumer({**house.client, "group.id": "readers", "auto.offset.reset": "earliest"})
    reader.subscribe(["seen"])
    wait_for(lambda: (m := reader.poll(0.5)) is not None and not m.error(), "a record")
    reader.commit(asynchronous=False)
    reader.close()
    wait_for(lambda: house.call("GET", "groups/readers")[0] == 200, "the group in the console")
    wait_for(
        lambda: house.call("DELETE", "groups/readers", {"why": "test"})[0] < 300, "its deletion, asked of a broker"
    )


def test_the_pipelines_source_reads_by_the_same_file(house: House) -> None:
    options = {
        **secured(house.folder / "client.properties"), "kafka.bootstrap.servers": house.bootstrap, "subscribe": "seen",
    }  # fmt: skip
    settings = Settings.parse(options, streaming=True)
    ends = Cluster(settings).latest()["seen"]
    assert sum(ends.values()) == 400
    rows = [b.num_rows for p, end in ends.items() for b in read_range(settings, Range("seen", int(p), 0, end))]
    assert sum(rows) == 400


@pytest.mark.parametrize("wrong", ["security.protocol", "sasl.password", "ssl.ca.location"])
def test_nobody_else_gets_in(house: House, wrong: str, tmp_path: Path) -> None:
    values = {
        "security.protocol": "plaintext",
        "sasl.password": "guess",
        "ssl.ca.location": str(Authority(tmp_path).ca),
    }
    heard: list[int] = []
    settings = {**house.client, wrong: values[wrong], "log_level": 0, "error_cb": lambda e: heard.append(e.code())}
    stranger = Producer(settings)
    wait_for(lambda: stranger.poll(0.1) or KafkaError._ALL_BROKERS_DOWN in heard, "all brokers to refuse it")
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=2)


def test_the_house_stays_secured_and_its_passwords_stay_where_they_belong(house: House) -> None:
    house.down()
    house.up("--brokers", "2")
    wait_for(lambda: house.call("GET", "topics/seen")[0] == 200, "the console")
    house.topic("afterwards", replication_factor=2, configs={"min.insync.replicas": "2"})
    house.fill("afterwards", 10)
    facts = json.loads((house.folder / "house.json").read_text())
    secrets = [facts[name].encode() for name in ("kafka_password", "broker_password", "zookeeper_password")]
    keys = [line for path in (house.folder / "pki").glob("*.[kp]e*") if b"PRIVATE" in (text := path.read_bytes()) for line in text.split(b"-----")[2].split()]  # fmt: skip
    assert len(keys) >= 8
    kept = {
        "house.json",
        "client.properties",
        "zookeeper.properties",
        "jaas.conf",
        "zookeeper.pem",
        "broker.properties",
        "ca.key",
        "broker-1.pem",
        "broker-2.pem",
    }
    files = [p for p in house.folder.rglob("*") if p.is_file() and p.name not in kept]
    assert any(p.suffix == ".log" for p in files)
    found = [(str(p), s) for p in files for s in (*secrets, *keys) if s in p.read_bytes()]
    assert found == []
