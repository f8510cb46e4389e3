"""Look-ups by key on a whole local cluster: a broker is killed while it builds indexes, all index files are damaged, and old records are in the lake only. Every
response stays exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.devcluster import DevCluster, manage
from tests.cluster.local import wait_for
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
TOPIC, RECORDS = "orders", 4_000
SAMPLE = (0, 1, 777, 1_234, 2_500, RECORDS - 1)
Places = dict[int, tuple[int, int]]
"""(partition, offset) of each record by its number"""


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1")
    try:
        yield devcluster
    finally:
        devcluster.end()


def write(devcluster: DevCluster) -> Places:
    """Record `i` has the key `order-i` and the header `customer` with the value `i % 100`."""
    places: Places = {}
    # Small batches, since a segment contains at least one whole batch.
    producer = Producer({**devcluster.client, "acks": "all", "enable.idempotence": True, "batch.size": 20_000})

    def on_delivery(i: int, message: Message) -> None:
        places[i] = (message.partition(), message.offset())

    for i in range(RECORDS):
        producer.produce(
            TOPIC,
            b"x" * 500,
            key=f"order-{i}",
            headers={"customer": str(i % 100)},
            on_delivery=lambda error, message, i=i: None if error else on_delivery(i, message),
        )
        producer.poll(0)
    assert producer.flush(90) == 0 and len(places) == RECORDS
    return places


def look_up(devcluster: DevCluster, query: str) -> dict[str, Any]:
    """The first complete response. A partition whose leader was killed reports a problem until there is a new leader."""

    def complete() -> Any:
        status, response = devcluster.call("GET", f"topics/{TOPIC}/records?{query}")
        return response if status == 200 and response["complete"] else None

    return dict(wait_for(complete, f"a complete look-up of {query}"))


def check(devcluster: DevCluster, places: Places) -> None:
    for i in SAMPLE:
        rows = look_up(devcluster, f"key=order-{i}")["rows"]
        assert [(r["partition"], r["offset"]) for r in rows] == [places[i]], i
    rows = look_up(devcluster, "key=77&header=customer&limit=100")["rows"]
    expected = {places[i] for i in range(77, RECORDS, 100)}
    assert {(r["partition"], r["offset"]) for r in rows} == expected and len(rows) == len(expected)
    assert look_up(devcluster, "key=order-none")["rows"] == []


def indexes(devcluster: DevCluster, broker: int) -> list[Path]:
    return sorted(devcluster.folder.glob(f"broker-{broker}/**/{TOPIC}-*/*.keyindex"))


def all_indexed(devcluster: DevCluster) -> bool:
    """Each closed segment of each replica has an index file, and the leaders search with them."""
    for broker in (1, 2, 3):
        closed = len(list(devcluster.folder.glob(f"broker-{broker}/**/{TOPIC}-*/*.log"))) - 2
        if len(indexes(devcluster, broker)) < closed:
            return False
    partitions = look_up(devcluster, "key=order-none")["partitions"]
    return all(p["segments_indexed"] >= 3 and p["segments_scanned"] == 1 for p in partitions)


def test_lookups_are_exact_after_a_kill_and_with_damaged_indexes(devcluster: DevCluster) -> None:
    configs = {"weir.index.keys": "true", "weir.index.header": "customer", "segment.bytes": "200000"}
    devcluster.topic(TOPIC, partitions=2, replication_factor=3, configs=configs)
    places = write(devcluster)
    devcluster.manage("process", "kill", "broker-1")  # while it builds
    check(devcluster, places)
    devcluster.manage("process", "start", "broker-1")
    wait_for(lambda: all_indexed(devcluster), "an index of each closed segment on each broker")
    check(devcluster, places)

    devcluster.down()
    for broker in (1, 2, 3):
        for file in indexes(devcluster, broker):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data)
    devcluster.up()
    check(devcluster, places)
    wait_for(lambda: all_indexed(devcluster), "the damaged indexes to be built again")
    check(devcluster, places)


def test_records_that_the_brokers_have_deleted_are_found_in_the_lake(devcluster: DevCluster) -> None:
    topic, last = "archived", 9
    devcluster.topic(topic, partitions=1, replication_factor=3, configs={"weir.index.keys": "true"})
    producer = Producer({**devcluster.client, "acks": "all", "enable.idempotence": True})
    for offset in range(last + 1):
        producer.produce(topic, f"of the broker {offset}", key=f"k{offset % 2}")
    assert producer.flush(60) == 0
    archive = archive_of(devcluster.folder / "lake", topics=[topic])
    rows = [record(o, f"of the lake {o}".encode(), topic=topic) for o in range(7)]
    write_and_commit(archive, [{**row, "key": f"k{o % 2}".encode()} for o, row in enumerate(rows)])
    admin = AdminClient(devcluster.client)
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert [f.result(30).low_watermark for f in deleted.values()] == [4]

    status, found = devcluster.call("GET", f"topics/{topic}/records?key=k1&lake=true")
    assert status == 200 and found["complete"] and found["lake"]["state"] == "searched", found
    assert [(r["offset"], r["value"]) for r in found["rows"]] == [
        (9, "of the broker 9"),
        (7, "of the broker 7"),
        (5, "of the broker 5"),
        (3, "of the lake 3"),
        (1, "of the lake 1"),
    ]
    done = manage("lookup", topic, "k0", "--lake", **{**devcluster.settings, "WEIR_DATA_DIR": str(devcluster.folder)})
    assert done.returncode == 0 and "lake: 2 records found" in done.stderr, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["8", "6", "4", "2", "0"]
