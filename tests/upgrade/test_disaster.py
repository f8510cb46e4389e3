"""A cluster that loses its metadata and database step by step, on processes: backup and restore, rebuild, import. No acknowledged record may be lost.

After the backup the ISR shrinks and one broker falls behind: the older metadata alone would elect it and truncate the other logs.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from brokerd.cluster.levels import LEVEL_MAX
from tests.cluster.devcluster import DevCluster, manage
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster") / "data", "--controllers", "1")
    try:
        yield devcluster
    finally:
        devcluster.manage("down")


def write(devcluster: DevCluster, topic: str, numbers: range) -> list[int]:
    """Each record is acknowledged by all in-sync replicas before the return."""
    producer = Producer({"bootstrap.servers": devcluster.bootstrap, "acks": "all", "enable.idempotence": True})
    errors: list[object] = []
    for n in numbers:
        producer.produce(topic, str(n), on_delivery=lambda e, m: errors.append(e) if e else None)
        producer.poll(0)
    assert producer.flush(60) == 0 and not errors, errors[:3]
    return list(numbers)


def commit(devcluster: DevCluster, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": "readers", "enable.auto.commit": False})

    def is_accepted() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as e:  # the coordinator has just been killed
            if (
                e.args[0].retriable() or e.args[0].code() < 0
            ):  # negative: found by the client, such as a lost connection
                return False
            raise
        return True

    wait_for(is_accepted, "the commit")
    consumer.close()


def committed_offset(devcluster: DevCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)
    finally:
        consumer.close()


def all_in_sync(devcluster: DevCluster) -> bool:
    o = devcluster.get("overview")
    return bool(
        o["brokers_alive"] == 3
        and not o["under_replicated"] + o["offline"]
        and o["partitions"]
        and (o["age_s"] or 99) < 5
    )


def rejection_of(devcluster: DevCluster, *arguments: str) -> str:
    done = manage(*arguments, "--data-dir", str(devcluster.folder))
    assert done.returncode != 0, done.stdout
    return done.stderr


def seen_group(devcluster: DevCluster, group_id: str) -> Any:
    """The group as the console shows it, as soon as its lag is known."""
    status, response = devcluster.call("GET", f"groups/{group_id}")
    return response if status == 200 and response["row"]["lag_records"] is not None else None


def check_records(devcluster: DevCluster, written: dict[str, list[int]]) -> None:
    for topic, numbers in written.items():
        assert sorted(devcluster.numbers_of(topic)) == numbers, topic


def database(devcluster: DevCluster, sql: str) -> list[Any]:
    with sqlite3.connect(devcluster.folder / "db.sqlite3") as rows:
        return rows.execute(sql).fetchall()


def test_a_cluster_is_restored_rebuilt_and_imported_without_losing_acknowledged_records(
    devcluster: DevCluster, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    written: dict[str, list[int]] = {}
    configs = {"retention.ms": "86400000"}
    devcluster.topic("kept", partitions=1, replication_factor=3, configs=configs, assignment={"0": [1, 2, 3]})
    written["kept"] = write(devcluster, "kept", range(1000))
    commit(devcluster, "kept", 600)
    wait_for(lambda: all_in_sync(devcluster), "a healthy cluster")

    output = devcluster.manage("backup", "--to", str(backup))
    assert "read back and verified" in output
    manifest = json.loads((backup / "manifest.json").read_text())

    zookeeper = f"127.0.0.1:{devcluster.base + 1}"
    live = manage(
        "restore",
        "--from",
        str(backup),
        "--force",
        "--zookeeper",
        zookeeper,
        "--data-dir",
        str(tmp_path / "no-cluster"),
    )
    assert live.returncode != 0 and "still running: broker 1, broker 2, broker 3, a controller" in live.stderr, (
        live.stderr
    )

    # One broker falls behind, the others continue: the ISR and the topics of the backup are outdated.
    devcluster.manage("process", "kill", "broker-1")
    written["kept"] += write(devcluster, "kept", range(1000, 2000))
    commit(devcluster, "kept", 1500)
    devcluster.topic("later", partitions=2, replication_factor=2)
    written["later"] = write(devcluster, "later", range(500))
    assert "is running" in rejection_of(devcluster, "restore", "--from", str(backup), "--force")
    devcluster.manage("process", "kill", "broker-2")
    devcluster.down()

    restore_backup(devcluster, backup, manifest, written)
    rebuilt_and_imported(devcluster, written)


def restore_backup(
    devcluster: DevCluster, backup: Path, manifest: dict[str, Any], written: dict[str, list[int]]
) -> None:
    # ZooKeeper was stopped before the session of the killed broker 2 expired. `restore` starts ZooKeeper and waits for the expiry.
    message = rejection_of(devcluster, "restore", "--from", str(backup))
    assert "--force" in message, message
    shutil.rmtree(devcluster.folder / "zookeeper")
    for file in devcluster.folder.glob("db.sqlite3*"):
        file.unlink()
    output = devcluster.manage("restore", "--from", str(backup))
    assert "later: only the disks contain it" in output, output
    for killed in ("broker-1", "broker-2"):
        (devcluster.folder / "stopped" / killed).unlink()
    devcluster.up()
    wait_for(lambda: all_in_sync(devcluster), "full ISR after the restore")
    check_records(devcluster, written)
    assert committed_offset(devcluster, "kept") == 1500
    overview = devcluster.get("overview")
    assert overview["cluster_id"] == manifest["cluster_id"], overview
    assert overview["metadata_seq"] > manifest["metadata"]["seq"] + 500_000

    # Topics that the database does not contain are drift: adopted topics keep their id, and no data is deleted.
    later = next(d for d in devcluster.get("drift")["rows"] if d["name"] == "later")
    devcluster.post(f"drift/{later['topic_id']}/adopt", {})
    status, response = devcluster.call(
        "PATCH", "topics/later", {"configs": {"retention.ms": "3600000", "retention.bytes": None}}
    )
    assert status < 300, response
    written["later"] += write(devcluster, "later", range(500, 600))
    devcluster.topic("after", partitions=1, replication_factor=3)
    written["after"] = write(devcluster, "after", range(100))


def rebuilt_and_imported(devcluster: DevCluster, written: dict[str, list[int]]) -> None:
    wait_for(lambda: all_in_sync(devcluster), "a healthy cluster")
    cluster_id = devcluster.get("overview")["cluster_id"]
    configs = wait_for(lambda: devcluster.active_topic("later"), "the change")["configs"]
    assert configs == {"retention.ms": "3600000"}
    devcluster.down()
    shutil.rmtree(devcluster.folder / "zookeeper")
    output = devcluster.manage("rebuild")
    assert cluster_id in output and "note:" not in output, output
    assert "--force" in rejection_of(devcluster, "rebuild")

    # As after an `up` over an empty ZooKeeper: the mirror was emptied by the new cluster's monitor. Desired rows and disks are left.
    database(devcluster, "DELETE FROM controlplane_observedreplica")
    database(devcluster, "DELETE FROM controlplane_observedpartition")
    database(devcluster, "DELETE FROM controlplane_observedtopic")
    database(devcluster, "UPDATE controlplane_cluster SET cluster_id = 'begun-by-mistake', metadata_seq = 3")
    output = devcluster.manage("rebuild", "--force")
    assert cluster_id in output and "only the disks" not in output, output

    for file in devcluster.folder.glob("db.sqlite3*"):
        file.unlink()
    output = devcluster.manage("import_metadata")
    assert "Imported 6 topics" in output, output
    devcluster.up()
    wait_for(lambda: all_in_sync(devcluster), "full ISR after the rebuild")
    group = wait_for(lambda: seen_group(devcluster, "readers"), "the console to show a group without a row")
    assert [(p["topic"], p["index"], p["committed"], p["lag_records"]) for p in group["partitions"]] == [
        ("kept", 0, 1500, 500)
    ]
    assert "readers" in [g["group_id"] for g in devcluster.get("groups")["rows"]]
    assert devcluster.manage("upgrade_metadata", "--show").startswith(f"level {LEVEL_MAX}\n")
    check_records(devcluster, written)
    assert committed_offset(devcluster, "kept") == 1500
    assert devcluster.get("topics/later")["configs"] == configs
    assert devcluster.get("drift")["rows"] == []
    status, response = devcluster.call("PATCH", "topics/kept", {"partitions": 2})
    assert status < 300, response
    wait_for(lambda: len(devcluster.leaders("kept")) == 2, "the imported row to take effect")
    written["later"] += write(devcluster, "later", range(600, 700))
    check_records(devcluster, {"later": written["later"]})
