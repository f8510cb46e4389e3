"""The control plane of a whole local cluster: REST, Kafka clients and operators change the same rows, and the control plane survives failures.

Checks: rows, the metadata image as Kafka clients see it, takeover after kill -9, a locked database, a restored older database. Does not check
records (test_failover.py) or pages (tests/browser).
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from weir_common.history_codes import STEP_S

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        yield devcluster
    finally:
        devcluster.end()


def active_controller(devcluster: DevCluster) -> str:
    """The name of the active controller's process. An earlier test may have killed one."""
    return f"controller-{wait_for(lambda: devcluster.get('overview')['controller_id'], 'an active controller')}"


def is_healthy(devcluster: DevCluster) -> bool:
    found = devcluster.get("overview")
    return bool(found["health"]["word"] == "healthy" and (found["age_s"] or 99) < 5)


def test_operators_and_kafka_clients_change_the_same_rows(devcluster: DevCluster) -> None:
    devcluster.topic("by-rest", partitions=2, replication_factor=3, configs={"retention.ms": "3600000"})
    assert len(wait_for(lambda: devcluster.leaders("by-rest"), "a client to see the topic")) == 2
    devcluster.admin.create_topics([NewTopic("by-client", 3, 2)])["by-client"].result(30)
    devcluster.admin.create_partitions([NewPartitions("by-client", 4)])["by-client"].result(30)
    row = wait_for(lambda: devcluster.active_topic("by-client"), "the row")["row"]
    assert (row["partitions"], row["replication_factor"], row["generation"]) == (4, 2, 2)
    devcluster.admin.delete_topics(["by-rest"])["by-rest"].result(30)
    wait_for(lambda: devcluster.call("GET", "topics/by-rest")[0] == 404, "the deletion")
    changes = devcluster.get("changes?limit=100")["rows"]
    mine = [
        (c["verb"], c["object_name"], c["outcome"]) for c in changes if c["object_name"] in ("by-rest", "by-client")
    ]
    assert mine == [
        ("topic.delete", "by-rest", "confirmed"),
        ("topic.alter", "by-client", "confirmed"),
        ("topic.create", "by-client", "confirmed"),
        ("topic.create", "by-rest", "confirmed"),
    ]


def test_the_zookeeper_ensemble_and_its_sessions_are_reported(devcluster: DevCluster) -> None:
    def complete() -> Any:
        """The page and the overview come from two observers: after an election one of them may be a round behind."""
        found, overview = devcluster.get("zookeeper"), devcluster.get("overview")
        acting = (f"controller-{overview['controller_id']}", overview["controller_epoch"])
        controllers = [(s["owner_id"], s["epoch"]) for s in found["sessions"] or () if s["owner"] == "controller"]
        brokers = {s["owner_id"]: s["epoch"] for s in found["sessions"] or () if s["owner"] == "broker"}
        epochs = {str(b["broker_id"]): b["broker_epoch"] for b in devcluster.get("brokers")["rows"]}
        return found if (controllers, brokers) == ([acting], epochs) else None

    found = wait_for(complete, "the sessions of the active controller and of all brokers", 60)
    (server,) = found["servers"]
    assert (server["mode"], server["problem"], found["quorum"], found["has_leader"]) == ("standalone", "", 1, True)
    assert server["znodes"] > 10 and server["connections"] >= 4 and server["latency_max_ms"] >= 0


def test_connected_clients_are_reported_with_their_software(devcluster: DevCluster) -> None:
    devcluster.topic("inventory", partitions=3, replication_factor=3)
    client = AdminClient({**devcluster.client, "client.id": "inventory", "log_level": 0})

    def active_clients() -> Any:
        client.list_topics(timeout=30)
        return [c for c in devcluster.get("clients?query=inventory")["rows"] if c["requests_per_s"] > 0]

    (found,) = wait_for(active_clients, "the client at a broker")
    assert found["software"].startswith("confluent-kafka-python") and found["host"] == "127.0.0.1"
    assert (found["client_id"], found["is_broker"]) == ("inventory", False) and found["bytes_per_s"] > 0

    def all_brokers() -> Any:
        rows = devcluster.get("clients?with_brokers=true&query=broker-")["rows"]
        ids = {f"broker-{b['broker_id']}" for b in devcluster.get("brokers")["rows"]}
        return {r["client_id"] for r in rows if r["is_broker"]} == ids

    wait_for(all_brokers, "the connections of each broker to others")


def test_the_producers_of_a_topic_are_found(devcluster: DevCluster) -> None:
    for name in ("inventory-changes", "inventory-audit"):
        devcluster.topic(name, partitions=3, replication_factor=3)
    producers = {
        name: Producer({**devcluster.client, "client.id": name, "log_level": 0}) for name in ("warehouse", "shop")
    }

    def producers_of(topic: str) -> dict[str, Any]:
        for name, topics in (("warehouse", ["inventory-changes", "inventory-audit"]), ("shop", ["inventory-audit"])):
            for t in topics:
                producers[name].produce(t, bytes(1_000))
            assert producers[name].flush(30) == 0
        return {r["client_id"]: r for r in devcluster.get(f"clients?topic={topic}")["rows"]}

    rows = wait_for(lambda: producers_of("inventory-changes"), "the producer")
    assert set(rows) == {"warehouse"} and rows["warehouse"]["produced_bytes"] > 1_000
    assert rows["warehouse"]["produced_bytes_per_s"] > 0
    assert set(producers_of("inventory-audit")) == {"warehouse", "shop"}
    assert producers_of("no-such-topic") == {}


def test_a_consumer_without_a_group_is_found(devcluster: DevCluster) -> None:
    devcluster.topic("readings", partitions=3, replication_factor=3)
    producer = Producer({**devcluster.client, "client.id": "sensor", "log_level": 0})
    reader = Consumer(
        {
            **devcluster.client,
            "client.id": "dump-tool",
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition("readings", i, 0) for i in range(3)])

    def rows(use: str) -> dict[str, Any]:
        for _ in range(20):
            producer.produce("readings", bytes(1_000))
        assert producer.flush(30) == 0
        reader.consume(20, 1)
        return {r["client_id"]: r for r in devcluster.get(f"clients?topic=readings&topic_use={use}")["rows"]}

    found = wait_for(lambda: rows("fetched"), "the consumer")
    assert set(found) == {"dump-tool"} and found["dump-tool"]["fetched_bytes"] > 1_000
    assert found["dump-tool"]["groups"] == [] and found["dump-tool"]["produced_bytes"] == 0
    assert set(rows("produced")) == {"sensor"}
    reader.close()


def recorded_times(devcluster: DevCluster) -> list[float]:
    """The times of the recorded values of the last hour, in Unix seconds."""
    status, response = devcluster.call("GET", "history?subject=cluster&metric=under_replicated")
    rows = response["rows"] if status == 200 else []
    return [datetime.fromisoformat(r["at"]).timestamp() for r in rows if r["value"] is not None]


def sampled_at(devcluster: DevCluster) -> float:
    """A time before which the last samples of the brokers were not taken, in Unix seconds, also while the console starts.

    The age is subtracted from the time of the request: a response may take seconds."""
    asked = time.time()
    try:
        return asked - float(devcluster.get("overview")["sample_age_s"])
    except OSError:
        return 0.0


def test_the_death_of_web_leaves_no_longer_gap_in_the_history_than_its_absence(devcluster: DevCluster) -> None:
    before = wait_for(lambda: len(found := recorded_times(devcluster)) >= 4 and found, "recorded values", 90)
    killed, old = time.time(), devcluster.pid("web")
    devcluster.kill("web")
    wait_for(lambda: devcluster.pids().get("web", old) != old, "another web process", 60)
    devcluster.wait_for_the_console()
    started = time.time()
    wait_for(lambda: sampled_at(devcluster) > started, "samples of the new process", 60)
    absent = time.time() - killed
    now = wait_for(lambda: (found := recorded_times(devcluster))[-1] > killed + absent and found, "values after it", 60)
    assert set(before) <= set(now), "the values from before are rows"
    (gap,) = [later - earlier for earlier, later in pairwise(now) if earlier <= killed < later]
    # A sampling round of loaded brokers takes 13 s and more: the last value of the old process may be older than some steps.
    round_s = max(later - earlier for earlier, later in pairwise(before))
    assert gap <= absent + max(6 * STEP_S, 2 * round_s), (gap, absent, round_s)


def test_another_controller_takes_over_and_no_request_is_lost(devcluster: DevCluster) -> None:
    victim = active_controller(devcluster)
    before = devcluster.get("overview")
    devcluster.kill(victim)
    devcluster.post("topics", {"name": "meanwhile", "partitions": 2})
    killed = time.monotonic()
    wait_for(lambda: devcluster.active_topic("meanwhile"), "the other controller", 30)
    assert time.monotonic() - killed < 30
    now = wait_for(
        lambda: (o := devcluster.get("overview"))["controller_epoch"] > before["controller_epoch"] and o,
        "the new epoch",
    )
    assert now["controller_epoch"] == before["controller_epoch"] + 1


def test_a_move_survives_the_death_of_worker_web_and_controller_and_rolls_back_exactly(devcluster: DevCluster) -> None:
    devcluster.topic("moved", partitions=6, replication_factor=2)
    devcluster.fill("moved")
    before = [p["replicas"] for p in devcluster.partitions("moved")]
    wanted = [
        {"topic": "moved", "partition": i, "replicas": [next(b for b in (1, 2, 3) if b not in r), r[0]]}
        for i, r in enumerate(before)
    ]
    scope = {"kind": "partitions", "partitions": wanted}
    move = devcluster.post("moves", {"scope": scope, "start": True, "parts_in_flight_max": 2, "comment": "test"})["id"]
    for victim in ("worker", active_controller(devcluster), "web"):
        devcluster.kill(victim)
    wait_for(lambda: _responds(devcluster), "the console")
    done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 90)
    assert (done["state"], done["parts_ended"]) == ("done", 6)
    assert [p["replicas"] for p in devcluster.partitions("moved")] == [w["replicas"] for w in wanted]
    assert all(sorted(p["isr"]) == sorted(p["replicas"]) for p in devcluster.partitions("moved"))
    devcluster.post(f"moves/{move}/roll_back", {"comment": "test"})
    wait_for(lambda: devcluster.get(f"moves/{move}")["state"] == "rolled_back", "the rollback", 90)
    assert [p["replicas"] for p in devcluster.partitions("moved")] == before


def _responds(devcluster: DevCluster) -> bool:
    try:
        return devcluster.call("GET", "overview")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_deleted_replica_is_rebuilt(devcluster: DevCluster) -> None:
    devcluster.topic("rebuilt", partitions=1, replication_factor=3)
    devcluster.fill("rebuilt")
    wait_for(lambda: (devcluster.partitions("rebuilt")[0]["size_bytes"] or 0) > 500_000, "sizes")
    leader = devcluster.partitions("rebuilt")[0]["leader"]
    victim = next(b for b in (1, 2, 3) if b != leader)
    requested = devcluster.post(
        "recoveries", {"topic": "rebuilt", "partition": 0, "broker_id": victim, "comment": "test"}
    )
    done = wait_for(
        lambda: (r := devcluster.get(f"recoveries/{requested['id']}"))["finished_at"] and r, "the recovery", 60
    )
    assert done["state"] == "done", done

    def is_rebuilt() -> bool:
        row = devcluster.partitions("rebuilt")[0]
        return {r["broker_id"]: r["size_bytes"] for r in row["replica_rows"]}[victim] == row["size_bytes"]

    wait_for(is_rebuilt, "the replica to be as large as the leader's")


class Load:
    """An idempotent acks=all producer that never stops, and its acknowledgements."""

    def __init__(self, devcluster: DevCluster, topic: str) -> None:
        self.devcluster, self.topic = devcluster, topic
        self.acknowledged: set[int] = set()
        self.failed: list[object] = []
        self.latest = time.monotonic()
        self.longest_wait = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self.acknowledged.add(int(message.value()))
        now = time.monotonic()
        self.longest_wait, self.latest = max(self.longest_wait, now - self.latest), now

    def _run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.devcluster.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        number = 0
        while not self._stop.is_set():
            for _ in range(50):
                producer.produce(self.topic, str(number), key=str(number), on_delivery=self._on_delivery)
                number += 1
            producer.poll(0.05)
        assert producer.flush(60) == 0

    def finish(self) -> None:
        """Every acknowledged record is in the log exactly once."""
        self._stop.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        assert not self.failed
        found = self.devcluster.numbers_of(self.topic)
        assert len(found) == len(set(found))
        assert self.acknowledged <= set(found)


@pytest.mark.parametrize("seconds", [20, pytest.param(60, marks=pytest.mark.long)])
def test_elections_and_produce_requests_continue_while_the_database_is_locked(
    devcluster: DevCluster, seconds: float
) -> None:
    topic = f"elected-{seconds:g}"
    devcluster.topic(topic, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
    load = Load(devcluster, topic)
    lock = sqlite3.connect(devcluster.folder / "db.sqlite3", isolation_level=None, timeout=30)
    lock.execute("BEGIN EXCLUSIVE")
    locked = time.monotonic()
    try:
        victim = devcluster.leaders(topic)[0]
        devcluster.manage(
            "process", "kill", f"broker-{victim}"
        )  # The broker stays down: if it returned before its session expired, it would remain the leader.
        killed = time.monotonic()
        wait_for(
            lambda: (now := devcluster.leaders(topic)) and all(x not in (-1, victim) for x in now.values()),
            "other leaders",
            30,
        )
        assert time.monotonic() - killed < 30
        assert devcluster.get("overview")["brokers_total"] == 3  # pages still read the database
        before = len(load.acknowledged)
        time.sleep(max(0.0, seconds - (time.monotonic() - locked)))
        assert len(load.acknowledged) > before + 100
    finally:
        lock.execute("ROLLBACK")
        lock.close()
        devcluster.manage("process", "start", f"broker-{victim}")
    devcluster.topic(f"after-the-lock-{seconds:g}")
    wait_for(lambda: is_healthy(devcluster), "the broker's return")
    load.finish()
    assert load.longest_wait < 30, "the leader change delayed the producer"


def test_a_restored_older_database_deletes_nothing_and_shows_the_drift(devcluster: DevCluster) -> None:
    devcluster.topic("old", configs={"retention.ms": "1000000"})
    wait_for(lambda: is_healthy(devcluster), "all brokers in sync: a backup of the first seconds is not the subject")
    devcluster.down()
    backup = devcluster.folder / "yesterday.sqlite3"
    _copy(devcluster.folder / "db.sqlite3", backup)
    devcluster.up()
    wait_for(lambda: _responds(devcluster), "the console")
    devcluster.topic("young")
    status, _ = devcluster.call("PATCH", "topics/old", {"configs": {"retention.ms": "2000000"}})
    assert status == 202
    wait_for(
        lambda: (t := devcluster.active_topic("old")) and t["configs"]["retention.ms"] == "2000000",
        "the change in the log",
    )
    load = Load(devcluster, "young")
    wait_for(lambda: load.acknowledged, "the load")
    devcluster.down()
    for suffix in ("-wal", "-shm"):
        (devcluster.folder / f"db.sqlite3{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, devcluster.folder / "db.sqlite3")
    devcluster.up()
    wait_for(lambda: _responds(devcluster), "the console")
    expected = {("old", "behind"), ("young", "no_row")}
    drift: list[dict[str, Any]] = []
    with contextlib.suppress(AssertionError):
        drift = wait_for(lambda: len(d := devcluster.get("drift")["rows"]) == 2 and d, "the drift to be shown", 120)
    assert {(d["name"], d["kind"]) for d in drift or devcluster.get("drift")["rows"]} == expected
    wait_for(lambda: devcluster.get("overview")["drift"] == 2, "the cluster monitor to have counted it")
    before = len(load.acknowledged)
    wait_for(
        lambda: len(load.acknowledged) > before + 1000, "the producer to continue writing to a topic without a row"
    )
    load.finish()
    assert devcluster.leaders("young")
    assert "young" in devcluster.admin.list_topics(timeout=10).topics
    status, rejected = devcluster.call("DELETE", "topics/young", {"comment": "test"})
    assert (status, "adopt" in rejected["detail"]) == (400, True)
    for row in drift:
        devcluster.post(f"drift/{row['topic_id']}/adopt", {"comment": "test"})
    assert devcluster.get("drift")["rows"] == []
    assert devcluster.active_topic("old")["configs"]["retention.ms"] == "2000000"
    wait_for(lambda: is_healthy(devcluster), "health")


def _copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
        a.backup(b)
