"""A house that loses its memory, a part at a time, as processes: backup and restore, rebuild, import. Nothing acknowledged may be lost.

After the backup the ISR shrinks and one broker stays behind: whoever believed the older image would elect it, and cut the others' logs to its own.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from brokerd.cluster.levels import LEVEL_MAX
from tests.cluster.house import House, manage
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house") / "data", "--controllers", "1")
    try:
        yield house
    finally:
        house.manage("down")


def write(house: House, topic: str, numbers: range) -> list[int]:
    """Each acknowledged by all in sync before this returns."""
    producer = Producer({"bootstrap.servers": house.bootstrap, "acks": "all", "enable.idempotence": True})
    errors: list[object] = []
    for n in numbers:
        producer.produce(topic, str(n), on_delivery=lambda e, m: errors.append(e) if e else None)
        producer.poll(0)
    assert producer.flush(60) == 0 and not errors, errors[:3]
    return list(numbers)


def commit(house: House, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(house: House, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)
    finally:
        consumer.close()


def all_in_sync(house: House) -> bool:
    o = house.get("overview")
    return bool(
        o["brokers_alive"] == 3
        and not o["under_replicated"] + o["offline"]
        and o["partitions"]
        and (o["age_s"] or 99) < 5
    )


def refused(house: House, *arguments: str) -> str:
    done = manage(*arguments, "--data-dir", str(house.folder))
    assert done.returncode != 0, done.stdout
    return done.stderr


def seen_group(house: House, group_id: str) -> Any:
    """As its page has it, once its lag is known."""
    status, answer = house.call("GET", f"groups/{group_id}")
    return answer if status == 200 and answer["row"]["lag_records"] is not None else None


def holds(house: House, written: dict[str, list[int]]) -> None:
    for topic, numbers in written.items():
        assert sorted(house.everything(topic)) == numbers, topic


def database(house: House, sql: str) -> list[Any]:
    with sqlite3.connect(house.folder / "db.sqlite3") as rows:
        return rows.execute(sql).fetchall()


def test_a_house_is_restored_then_rebuilt_then_imported_and_nothing_acknowledged_is_lost(
    house: House, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    written: dict[str, list[int]] = {}
    configs = {"retention.ms": "86400000"}
    house.topic("kept", partitions=1, replication_factor=3, configs=configs, assignment={"0": [1, 2, 3]})
    written["kept"] = write(house, "kept", range(1000))
    commit(house, "kept", 600)
    wait_for(lambda: all_in_sync(house), "a healthy house")

    said = house.manage("backup", "--to", str(backup))
    assert "read back and verified" in said
    manifest = json.loads((backup / "manifest.json").read_text())

    zookeeper = f"127.0.0.1:{house.base + 1}"
    live = manage(
        "restore", "--from", str(backup), "--force", "--zookeeper", zookeeper, "--data-dir", str(tmp_path / "no-house")
    )
    assert live.returncode != 0 and "broker 1, broker 2, broker 3, a controller still at work" in live.stderr, (
        live.stderr
    )

    # One broker falls behind, the others go on: the backup's ISR is not true any more, nor are its topics.
    house.manage("process", "kill", "broker-1")
    written["kept"] += write(house, "kept", range(1000, 2000))
    commit(house, "kept", 1500)
    house.topic("later", partitions=2, replication_factor=2)
    written["later"] = write(house, "later", range(500))
    assert "runs" in refused(house, "restore", "--from", str(backup), "--force")
    house.down()

    restored(house, backup, manifest, written)
    rebuilt_and_imported(house, written)


def restored(house: House, backup: Path, manifest: dict[str, Any], written: dict[str, list[int]]) -> None:
    assert "--force" in refused(house, "restore", "--from", str(backup)), (
        "over a metadata log and a database that are there"
    )
    shutil.rmtree(house.folder / "zookeeper")
    for file in house.folder.glob("db.sqlite3*"):
        file.unlink()
    said = house.manage("restore", "--from", str(backup))
    assert "later: only the disks know it" in said, said
    (house.folder / "held" / "broker-1").unlink()
    house.up()
    wait_for(lambda: all_in_sync(house), "full ISR after the restore")
    holds(house, written)
    assert committed(house, "kept") == 1500
    overview = house.get("overview")
    assert overview["cluster_id"] == manifest["cluster_id"], overview
    assert overview["metadata_seq"] > manifest["metadata"]["seq"] + 500_000

    # What the database does not know is drift: adopted, it lives on under its old id, and nothing was thrown away.
    later = next(d for d in house.get("drift") if d["name"] == "later")
    house.post(f"drift/{later['topic_id']}/adopt", {})
    status, answer = house.call(
        "PATCH", "topics/later", {"configs": {"retention.ms": "3600000", "retention.bytes": None}}
    )
    assert status < 300, answer
    written["later"] += write(house, "later", range(500, 600))
    house.topic("after", partitions=1, replication_factor=3)
    written["after"] = write(house, "after", range(100))


def rebuilt_and_imported(house: House, written: dict[str, list[int]]) -> None:
    wait_for(lambda: all_in_sync(house), "a healthy house")
    cluster_id = house.get("overview")["cluster_id"]
    configs = wait_for(lambda: house.settled("later"), "the change")["configs"]
    assert configs == {"retention.ms": "3600000"}
    house.down()
    shutil.rmtree(house.folder / "zookeeper")
    said = house.manage("rebuild")
    assert cluster_id in said and "note:" not in said, said
    assert "--force" in refused(house, "rebuild")

    # As after an `up` over an empty ZooKeeper: the mirror was emptied by the new cluster's observer. Wishes and disks are left.
    database(house, "DELETE FROM controlplane_replica")
    database(house, "DELETE FROM controlplane_partition")
    database(house, "DELETE FROM controlplane_observedtopic")
    database(house, "UPDATE controlplane_cluster SET cluster_id = 'begun-by-mistake', metadata_seq = 3")
    said = house.manage("rebuild", "--force")
    assert cluster_id in said and "only the disks" not in said, said

    for file in house.folder.glob("db.sqlite3*"):
        file.unlink()
    said = house.manage("import_metadata")
    assert "Imported 5 topics" in said, said
    house.up()
    wait_for(lambda: all_in_sync(house), "full ISR after the rebuild")
    group = wait_for(lambda: seen_group(house, "readers"), "the console to show a group it has no row of")
    assert [(p["topic"], p["index"], p["committed"], p["lag_records"]) for p in group["partitions"]] == [
        ("kept", 0, 1500, 500)
    ]
    assert "readers" in [g["group_id"] for g in house.get("groups")["rows"]]
    assert house.manage("upgrade_metadata", "--show").startswith(f"level {LEVEL_MAX}\n")
    holds(house, written)
    assert committed(house, "kept") == 1500
    assert house.get("topics/later")["configs"] == configs
    assert house.get("drift") == []
    status, answer = house.call("PATCH", "topics/kept", {"partitions": 2})
    assert status < 300, answer
    wait_for(lambda: len(house.leaders("kept")) == 2, "the imported row to be obeyed")
    written["later"] += write(house, "later", range(600, 700))
    holds(house, {"later": written["later"]})
