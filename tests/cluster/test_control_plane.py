"""The control plane with the whole house as processes: REST, Kafka clients and the operator meet in the same rows, and it survives.

Checks: rows, the log's image as Kafka clients see it, takeover after kill -9, a locked database, yesterday's database. Does not check:
records (test_failover.py does), pages (tests/browser).
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
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions, NewTopic

from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    try:
        yield house
    finally:
        house.down()


def acting(house: House) -> str:
    """The name of the process that acts as controller; an earlier test may just have killed one."""
    return f"controller-{wait_for(lambda: house.get('overview')['controller_id'], 'an acting controller')}"


def healthy(house: House) -> bool:
    found = house.get("overview")
    return bool(found["health"]["word"] == "healthy" and (found["age_s"] or 99) < 5)


def test_operators_and_kafka_clients_end_in_the_same_rows(house: House) -> None:
    house.topic("by-rest", partitions=2, replication_factor=3, configs={"retention.ms": "3600000"})
    assert len(wait_for(lambda: house.leaders("by-rest"), "a client to see it")) == 2
    house.admin.create_topics([NewTopic("by-client", 3, 2)])["by-client"].result(30)
    house.admin.create_partitions([NewPartitions("by-client", 4)])["by-client"].result(30)
    row = wait_for(lambda: house.settled("by-client"), "the row")["row"]
    assert (row["partitions"], row["replication_factor"], row["generation"]) == (4, 2, 2)
    house.admin.delete_topics(["by-rest"])["by-rest"].result(30)
    wait_for(lambda: house.call("GET", "topics/by-rest")[0] == 404, "the deletion")
    changes = house.get("changes?per_page=100")["rows"]
    mine = [
        (c["verb"], c["object_name"], c["outcome"]) for c in changes if c["object_name"] in ("by-rest", "by-client")
    ]
    assert mine == [
        ("topic.delete", "by-rest", "confirmed"),
        ("topic.alter", "by-client", "confirmed"),
        ("topic.create", "by-client", "confirmed"),
        ("topic.create", "by-rest", "confirmed"),
    ]


def test_another_controller_takes_over_and_nothing_asked_for_is_lost(house: House) -> None:
    victim = acting(house)
    before = house.get("overview")
    house.kill(victim)
    house.post("topics", {"name": "meanwhile", "partitions": 2})
    killed = time.monotonic()
    wait_for(lambda: house.settled("meanwhile"), "the other controller", 30)
    assert time.monotonic() - killed < 30
    now = wait_for(
        lambda: (o := house.get("overview"))["controller_epoch"] > before["controller_epoch"] and o, "the new epoch"
    )
    assert now["controller_epoch"] == before["controller_epoch"] + 1


def test_a_move_survives_the_death_of_worker_web_and_controller_and_rolls_back_exactly(house: House) -> None:
    house.topic("moved", partitions=6, replication_factor=2)
    house.fill("moved")
    before = [p["replicas"] for p in house.partitions("moved")]
    wanted = [
        {"topic": "moved", "partition": i, "replicas": [next(b for b in (1, 2, 3) if b not in r), r[0]]}
        for i, r in enumerate(before)
    ]
    scope = {"kind": "partitions", "partitions": wanted}
    move = house.post("moves", {"scope": scope, "start": True, "parts_in_flight_max": 2, "why": "test"})["id"]
    for victim in ("worker", acting(house), "web"):
        house.kill(victim)
    wait_for(lambda: _answers(house), "the console")
    done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 90)
    assert (done["state"], done["parts_ended"]) == ("done", 6)
    assert [p["replicas"] for p in house.partitions("moved")] == [w["replicas"] for w in wanted]
    assert all(sorted(p["isr"]) == sorted(p["replicas"]) for p in house.partitions("moved"))
    house.post(f"moves/{move}/roll_back", {"why": "test"})
    wait_for(lambda: house.get(f"moves/{move}")["state"] == "rolled_back", "the way back", 90)
    assert [p["replicas"] for p in house.partitions("moved")] == before


def _answers(house: House) -> bool:
    try:
        return house.call("GET", "overview")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_replica_thrown_away_is_rebuilt(house: House) -> None:
    house.topic("rebuilt", partitions=1, replication_factor=3)
    house.fill("rebuilt")
    wait_for(lambda: (house.partitions("rebuilt")[0]["size_bytes"] or 0) > 500_000, "sizes")
    leader = house.partitions("rebuilt")[0]["leader"]
    victim = next(b for b in (1, 2, 3) if b != leader)
    asked = house.post("recoveries", {"topic": "rebuilt", "partition": 0, "broker_id": victim, "why": "test"})
    done = wait_for(lambda: (r := house.get(f"recoveries/{asked['id']}"))["finished_at"] and r, "the recovery", 60)
    assert done["state"] == "done", done

    def whole() -> bool:
        row = house.partitions("rebuilt")[0]
        return {r["broker_id"]: r["size_bytes"] for r in row["replica_rows"]}[victim] == row["size_bytes"]

    wait_for(whole, "the copy to be as large as the leader's")


class Load:
    """An idempotent acks=all producer that never stops, and what it was told."""

    def __init__(self, house: House, topic: str) -> None:
        self.house, self.topic = house, topic
        self.acknowledged: set[int] = set()
        self.failed: list[object] = []
        self.latest = time.monotonic()
        self.longest_wait = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _told(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self.acknowledged.add(int(message.value()))
        now = time.monotonic()
        self.longest_wait, self.latest = max(self.longest_wait, now - self.latest), now

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self.house.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        number = 0
        while not self._stop.is_set():
            for _ in range(50):
                producer.produce(self.topic, str(number), key=str(number), on_delivery=self._told)
                number += 1
            producer.poll(0.05)
        assert producer.flush(60) == 0

    def finish(self) -> None:
        """Every acknowledged record is there exactly once."""
        self._stop.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        assert not self.failed
        found = self.house.everything(self.topic)
        assert len(found) == len(set(found))
        assert self.acknowledged <= set(found)


@pytest.mark.parametrize("seconds", [20, pytest.param(60, marks=pytest.mark.long)])
def test_elections_and_records_go_on_while_the_database_is_locked(house: House, seconds: float) -> None:
    house.topic("elected", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
    load = Load(house, "elected")
    lock = sqlite3.connect(house.folder / "db.sqlite3", isolation_level=None, timeout=30)
    lock.execute("BEGIN EXCLUSIVE")
    locked = time.monotonic()
    try:
        victim = house.leaders("elected")[0]
        house.manage("process", "kill", f"broker-{victim}")  # and kept down: back within its session it would lead on
        killed = time.monotonic()
        wait_for(
            lambda: (now := house.leaders("elected")) and all(x not in (-1, victim) for x in now.values()),
            "other leaders", 30,
        )  # fmt: skip
        assert time.monotonic() - killed < 30
        assert house.get("overview")["brokers_total"] == 3  # pages read on
        before = len(load.acknowledged)
        time.sleep(max(0.0, seconds - (time.monotonic() - locked)))
        assert len(load.acknowledged) > before + 100
    finally:
        lock.execute("ROLLBACK")
        lock.close()
        house.manage("process", "start", f"broker-{victim}")
    house.topic("after-the-lock")
    wait_for(lambda: healthy(house), "the broker's return")
    load.finish()
    assert load.longest_wait < 30, "the leaders' move kept the producer waiting"


def test_yesterdays_database_deletes_nothing_and_shows_the_drift(house: House) -> None:
    house.topic("old", configs={"retention.ms": "1000000"})
    wait_for(lambda: healthy(house), "a house at rest: what a backup in its first seconds lacks is not asked here")
    house.down()
    backup = house.folder / "yesterday.sqlite3"
    _copy(house.folder / "db.sqlite3", backup)
    house.up()
    wait_for(lambda: _answers(house), "the console")
    house.topic("young")
    status, _ = house.call("PATCH", "topics/old", {"configs": {"retention.ms": "2000000"}})
    assert status == 202
    wait_for(lambda: (t := house.settled("old")) and t["configs"]["retention.ms"] == "2000000", "the change in the log")
    load = Load(house, "young")
    wait_for(lambda: load.acknowledged, "the load")
    house.down()
    for suffix in ("-wal", "-shm"):
        (house.folder / f"db.sqlite3{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, house.folder / "db.sqlite3")
    house.up()
    wait_for(lambda: _answers(house), "the console")
    expected = {("old", "behind"), ("young", "no_row")}
    drift: list[dict[str, Any]] = []
    with contextlib.suppress(AssertionError):
        drift = wait_for(lambda: len(d := house.get("drift")) == 2 and d, "the drift to be shown", 120)
    assert {(d["name"], d["kind"]) for d in drift or house.get("drift")} == expected
    wait_for(lambda: house.get("overview")["drift"] == 2, "the observer to have counted it")
    before = len(load.acknowledged)
    wait_for(
        lambda: len(load.acknowledged) > before + 1000, "the producer to go on writing into a topic that has no row"
    )
    load.finish()
    assert house.leaders("young")
    assert "young" in house.admin.list_topics(timeout=10).topics
    status, refused = house.call("DELETE", "topics/young", {"why": "test"})
    assert (status, "adopt" in refused["reason"]) == (400, True)
    for row in drift:
        house.post(f"drift/{row['topic_id']}/adopt", {"why": "test"})
    assert house.get("drift") == []
    assert house.settled("old")["configs"]["retention.ms"] == "2000000"
    wait_for(lambda: healthy(house), "health")


def _copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
        a.backup(b)
