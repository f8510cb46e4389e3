"""A local cluster whose only plaintext listener is the console's: `up --secure`. Brokers, console, cluster monitor and worker connect to brokers by
SASL_SSL, and to ZooKeeper by TLS and SASL.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from pipeline.jobs.archive import security_options
from pipeline.offsets import Range
from pipeline.source import Settings, SourceCluster, read_range
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.pki import Authority

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(
        tmp_path_factory.mktemp("secured-cluster"), "--secure", "--brokers", "2", "--controllers", "1"
    )
    devcluster.topic("seen", partitions=2, replication_factor=2, configs={"min.insync.replicas": "2"})
    devcluster.fill("seen", 400)
    yield devcluster
    devcluster.end()


def test_the_console_reads_through_tls_and_a_password(devcluster: DevCluster) -> None:
    def metrics() -> Any:
        rows = devcluster.partitions("seen")
        return all(r["size_bytes"] for r in rows) and sum(r["end_offset"] for r in rows) == 400

    wait_for(metrics, "sizes and end offsets, which only a broker knows")
    found = devcluster.get("topics/seen/partitions/0/messages?start=earliest&limit=5")
    assert found["stopped"] == "limit" and [m["offset"] for m in found["rows"]] == [0, 1, 2, 3, 4]

    reader = Consumer({**devcluster.client, "group.id": "readers", "auto.offset.reset": "earliest"})
    reader.subscribe(["seen"])
    wait_for(lambda: (m := reader.poll(0.5)) is not None and not m.error(), "a record")
    reader.commit(asynchronous=False)
    reader.close()
    wait_for(lambda: devcluster.call("GET", "groups/readers")[0] == 200, "the group in the console")
    wait_for(
        lambda: devcluster.call("DELETE", "groups/readers", {"comment": "test"})[0] < 300, "its deletion by a broker"
    )


def test_the_pipelines_source_uses_the_same_client_properties(devcluster: DevCluster) -> None:
    options = {
        **security_options(devcluster.folder / "client.properties"),
        "kafka.bootstrap.servers": devcluster.bootstrap,
        "subscribe": "seen",
    }
    settings = Settings.parse(options, streaming=True)
    ends = SourceCluster(settings).latest()["seen"]
    assert sum(ends.values()) == 400
    rows = [b.num_rows for p, end in ends.items() for b in read_range(settings, Range("seen", int(p), 0, end))]
    assert sum(rows) == 400


@pytest.mark.parametrize("wrong", ["security.protocol", "sasl.password", "ssl.ca.location"])
def test_clients_with_wrong_credentials_are_rejected(devcluster: DevCluster, wrong: str, tmp_path: Path) -> None:
    values = {
        "security.protocol": "plaintext",
        "sasl.password": "guess",
        "ssl.ca.location": str(Authority(tmp_path).ca),
    }
    errors: list[int] = []
    settings = {
        **devcluster.client,
        wrong: values[wrong],
        "log_level": 0,
        "error_cb": lambda e: errors.append(e.code()),
    }
    unauthenticated = Producer(settings)
    wait_for(lambda: unauthenticated.poll(0.1) or KafkaError._ALL_BROKERS_DOWN in errors, "all brokers to reject it")
    with pytest.raises(KafkaException):
        unauthenticated.list_topics(timeout=2)


def test_a_user_of_the_rest_api_logs_in_until_it_is_deleted(devcluster: DevCluster) -> None:
    devcluster.topic("visits", partitions=1, replication_factor=2)  # other tests count the records of `seen`
    made = devcluster.post("users", {"name": "visitor", "mechanisms": ["SCRAM-SHA-512"], "comment": "test"})
    visitor = {**devcluster.client, "sasl.username": "visitor", "sasl.password": made["password"], "log_level": 0}
    wait_for(lambda: logs_in(visitor), "the new user to log in")
    acl = {"resource_type": "topic", "resource_name": "visits", "principal": "User:visitor"}
    devcluster.post("acls", {**acl, "operation": "write", "permission": "allow"})
    wait_for(lambda: produce_record(visitor, "visits") is None, "the ACL of the new user to apply")

    changed = devcluster.call("PATCH", "users/visitor", {"password": "a second password", "comment": "test"})
    assert changed == (200, {"name": "visitor", "password": None})
    wait_for(lambda: not logs_in(visitor), "the old password to be rejected")
    visitor["sasl.password"] = "a second password"
    wait_for(lambda: logs_in(visitor), "the new password to be accepted")

    assert devcluster.call("DELETE", "users/visitor", {"comment": "test"})[0] == 204
    wait_for(lambda: not logs_in(visitor), "the deleted user to be rejected")
    assert logs_in(devcluster.client), "other users stay"


def logs_in(settings: dict[str, Any]) -> bool:
    """Whether a broker accepts the login of a new connection. Raises an error for a broker that does not respond."""
    errors: list[int] = []
    client = Producer({**settings, "log_level": 0, "error_cb": lambda e: errors.append(e.code())})
    for _ in range(100):
        try:
            return bool(client.list_topics(timeout=0.2).brokers)
        except KafkaException:
            client.poll(0)
            if KafkaError._AUTHENTICATION in errors:
                return False
    raise AssertionError(f"neither accepted nor rejected: {errors}")


def produce_record(settings: dict[str, Any], topic: str) -> KafkaError | None:
    """The error of one record."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({**settings, "acks": "all", "message.timeout.ms": 5000})
    producer.produce(topic, b"x", on_delivery=lambda error, message: outcomes.append(error))
    assert producer.flush(20) == 0
    return outcomes[0]


def test_the_cluster_stays_secured_and_its_passwords_are_in_private_files_only(devcluster: DevCluster) -> None:
    devcluster.down()
    devcluster.up("--brokers", "2")
    wait_for(lambda: devcluster.call("GET", "topics/seen")[0] == 200, "the console")
    devcluster.topic("afterwards", replication_factor=2, configs={"min.insync.replicas": "2"})
    devcluster.fill("afterwards", 10)
    facts = json.loads((devcluster.folder / "local-cluster.json").read_text())
    secrets = [facts[name].encode() for name in ("kafka_password", "broker_password", "zookeeper_password")]
    keys = [
        line
        for path in (devcluster.folder / "pki").glob("*.[kp]e*")
        if b"PRIVATE" in (text := path.read_bytes())
        for line in text.split(b"-----")[2].split()
    ]
    assert len(keys) >= 8
    kept = {
        "local-cluster.json",
        "client.properties",
        "zookeeper.properties",
        "jaas.conf",
        "zookeeper.pem",
        "broker.properties",
        "ca.key",
        "broker-1.pem",
        "broker-2.pem",
    }
    files = [p for p in devcluster.folder.rglob("*") if p.is_file() and p.name not in kept]
    assert any(p.suffix == ".log" for p in files)
    found = [(str(p), s) for p in files for s in (*secrets, *keys) if s in content(p)]
    assert found == []


def content(path: Path) -> bytes:
    """Empty if the file is gone: a worker removes each task file of the queue that it takes."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
