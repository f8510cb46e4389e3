"""Log directories of a broker on a whole local cluster, by REST: a replica moves to a second directory while it is written to, a move is cancelled, and
rejections have reasons. Kafka's client verifies where the replica is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
TOPIC, BROKER = "orders", 1
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Broker 1 has two log directories. The second one is added before its second start."""
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1", "--brokers", "2")
    try:
        file = devcluster.folder / f"broker-{BROKER}" / "broker.properties"
        lines = [
            f"{line},{file.parent / 'second'}" if line.startswith("log.dirs=") else line
            for line in file.read_text().splitlines()
        ]
        devcluster.manage("process", "stop", f"broker-{BROKER}")
        file.write_text("\n".join(lines) + "\n")
        devcluster.manage("process", "start", f"broker-{BROKER}")
        wait_for(lambda: len(directories(devcluster)["directories"]) == 2, "two log directories")
        devcluster.topic(TOPIC, partitions=1, replication_factor=2)
        devcluster.fill(TOPIC, 20_000)
        yield devcluster
    finally:
        devcluster.end()


def directories(devcluster: DevCluster) -> Any:
    return devcluster.get(f"brokers/{BROKER}/log-directories?query={TOPIC}")


def post(devcluster: DevCluster, verb: str, **body: object) -> tuple[int, Any]:
    given = {"topic": TOPIC, "partition": 0, "comment": "test", **body}
    return devcluster.call("POST", f"brokers/{BROKER}/log-directories/{verb}", given)


def location(devcluster: DevCluster) -> set[tuple[str, bool]]:
    """{(directory, whether it has the future replica)} by Kafka's own client."""
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{devcluster.base + 1 + BROKER}")
    try:
        return {
            (Path(d["log_dir"]).name, p["is_future_key"])
            for response in admin.describe_log_dirs()
            for d in response["log_dirs"]
            if Path(d["log_dir"]).parent.name == f"broker-{BROKER}"
            for t in d["topics"]
            if t["name"] == TOPIC
            for p in t["partitions"]
        }
    finally:
        admin.close()


def throttle(devcluster: DevCluster, value: str | None) -> None:
    body = {"configs": {LIMIT: value}, "comment": "test"}
    assert devcluster.call("PATCH", f"brokers/{BROKER}/configs", body)[0] == 204

    def is_applied() -> bool:
        (row,) = devcluster.get(f"brokers/{BROKER}/configs?query={LIMIT}")["rows"]
        return (row["value"] == value) if value is not None else row["source"] == "default"

    wait_for(is_applied, "the broker to apply the limit")


def test_a_replica_moves_to_another_directory_with_progress(devcluster: DevCluster) -> None:
    found = directories(devcluster)
    (row,) = found["rows"]
    source = row["directory"]
    (target,) = [d["path"] for d in found["directories"] if d["path"] != source]
    assert [d["state"] for d in found["directories"]] == ["healthy", "healthy"] and found["moves"] == []
    assert all(d["total_bytes"] >= d["free_bytes"] > 0 for d in found["directories"]) and row["size_bytes"] > 1_000_000

    for directory, status, reason in (("/nowhere", 400, "no log directory"), (source, 409, "already")):
        code, problem = post(devcluster, "move", directory=directory)
        assert code == status and reason in problem["detail"]
    status, preview = post(devcluster, "move", directory=target, dry=True)
    assert (status, preview["source"], preview["target"]) == (200, source, target)
    assert location(devcluster) == {(Path(source).name, False)}, "a review changes nothing"

    throttle(devcluster, "100000")
    assert post(devcluster, "move", directory=target)[0] == 200
    moves = wait_for(lambda: directories(devcluster)["moves"], "the move to be reported")
    assert (moves[0]["source"], moves[0]["target"]) == (source, target) and moves[0]["percent"] < 100
    assert location(devcluster) == {(Path(source).name, False), (Path(target).name, True)}
    assert post(devcluster, "move", directory=target)[0] == 409, "it is moving already"

    assert post(devcluster, "cancel")[0] == 204
    wait_for(lambda: location(devcluster) == {(Path(source).name, False)}, "the copy to be gone")
    assert post(devcluster, "cancel")[0] == 409

    throttle(devcluster, None)
    producer = Producer({**devcluster.client, "acks": "all"})
    assert post(devcluster, "move", directory=target)[0] == 200

    def is_moved() -> bool:
        producer.produce(TOPIC, b"while it moves")
        assert producer.flush(60) == 0
        return location(devcluster) == {(Path(target).name, False)}

    wait_for(is_moved, "the replica in the other directory")
    found = directories(devcluster)
    assert found["rows"][0]["directory"] == target and found["moves"] == []
    changes = [(c["verb"], c["outcome"]) for c in devcluster.get("changes?object_kind=replica")["rows"]]
    assert changes[:4] == [
        ("replica.log_dir", "confirmed"),
        ("replica.log_dir_cancel", "refused"),
        ("replica.log_dir_cancel", "confirmed"),
        ("replica.log_dir", "refused"),
    ]
