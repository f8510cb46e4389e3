"""A topic with tiered storage on processes with a real client: copies, local retention, reads of remote records while processes are killed and the store
fails. Does not check single decisions (tests/unit/remote) or rare orders of events (tests/simulation/test_tier.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from brokerd.cluster.model import PartitionState
from brokerd.config.broker import RACK_AWARE
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from controlplane.clients import kafka, key_lookups
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.controller.events import DesiredAssignment
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.tiered_settings import tiered_settings

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
SEGMENT_BYTES, LOCAL_BYTES = 200_000, 400_000
RECORDS, VALUE_BYTES = 3_000, 1_000
TOPIC_CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(LOCAL_BYTES),
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("tier")
    settings = {
        **tiered_settings(folder, copy_ms=200, retention_ms=500),
        "log.cleaner.backoff.ms": "1000",
        "replica.selector.class": RACK_AWARE,
    }
    made = LocalCluster(folder, brokers=3, settings=settings)
    made.own_settings = {i: {"broker.rack": f"rack-{i}"} for i in made.ports}
    with made as cluster:
        yield cluster


def until_all_live(cluster: LocalCluster) -> None:
    """Another test may have killed a broker that is starting again."""
    wait_for(lambda: len(cluster.image.live_brokers()) == cluster.count, "all brokers")


def create(cluster: LocalCluster, topic: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def is_created() -> bool:
        """False if a session has expired on a busy machine between the check and the request: the broker registers again."""
        until_all_live(cluster)
        try:
            admin.create_topics([NewTopic(topic, 1, 3, config={**TOPIC_CONFIGS, **configs})])[topic].result(60)
        except KafkaException as e:
            if e.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_for(is_created, f"the creation of {topic}")
    wait_for(lambda: cluster.image.topic_named(topic), topic)


def value(number: int) -> bytes:
    return (b"%08d" % number) + hashlib.sha256(b"%d" % number).digest() * ((VALUE_BYTES - 8) // 32)


def produce(cluster: LocalCluster, topic: str, first: int, count: int, keys: int = 0) -> None:
    """With `keys` the record `number` has the key `k<number % keys>`."""
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 16_384}
    )
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(
                    topic,
                    value(number),
                    key=f"k{number % keys}" if keys else None,
                    partition=0,
                    on_delivery=lambda e, m: failures.append(e) if e else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    assert not failures


def read_all(cluster: LocalCluster, topic: str, count: int, seconds: float = 150) -> list[tuple[int, bytes]]:
    """(offset, value) of `count` records from the earliest offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{os.urandom(4).hex()}",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    out: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + seconds
    while len(out) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None or message.error().retriable(), message.error()
            if message.error() is None:
                data = message.value()
                assert data is not None
                out.append((message.offset() or 0, data))
    consumer.close()
    return out


def expected_records(count: int) -> list[tuple[int, bytes]]:
    return [(i, value(i)) for i in range(count)]


def local_starts(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """{broker: base offset of the first local segment}."""
    found = {}
    for broker in cluster.ports:
        bases = [int(f.stem) for f in (cluster.folder / f"data-{broker}" / f"{topic}-0").glob("*.log")]
        if bases:
            found[broker] = min(bases)
    return found


def helpers(cluster: LocalCluster) -> dict[int, int]:
    """{broker: process id of its helper}."""
    out = {}
    for broker in cluster.ports:
        process = cluster.processes.get(f"broker-{broker}")
        if process is not None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            out.update({broker: int(children[0])} if children else {})
    return out


def test_old_records_are_copied_deleted_locally_and_read_from_the_store(cluster: LocalCluster) -> None:
    create(cluster, "walk")
    produce(cluster, "walk", 0, RECORDS)
    wait_for(lambda: all(s > 0 for s in local_starts(cluster, "walk").values()), "local retention on all replicas")
    wait_for(lambda: len(set(local_starts(cluster, "walk").values())) == 1, "followers to follow the local log start")
    assert read_all(cluster, "walk", RECORDS) == expected_records(RECORDS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    part = TopicPartition("walk", 0)
    assert admin.list_offsets({part: OffsetSpec.earliest()})[part].result(30).offset == 0
    assert list((cluster.folder / "store").rglob("*.log"))


def test_a_consumer_reads_remote_records_from_the_follower_in_its_rack(cluster: LocalCluster) -> None:
    """librdkafka's statistics name the broker that it reads from, and the helper of that broker fetches the segments."""
    create(cluster, "near")
    produce(cluster, "near", 0, RECORDS)
    wait_for(lambda: all(s > RECORDS // 2 for s in local_starts(cluster, "near").values()), "local retention")
    leader = leader_of(cluster, "near")
    near = next(i for i in cluster.ports if i != leader)
    reads_from: dict[int, int] = {}
    read: list[tuple[int, bytes]] = []

    def on_statistics(text: str) -> None:
        partitions = json.loads(text)["topics"].get("near", {}).get("partitions", {})
        if read:
            reads_from[partitions.get("0", {}).get("broker", -1)] = len(read)

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "client.rack": f"rack-{near}",
            "stats_cb": on_statistics,
            "statistics.interval.ms": 20,
            "fetch.max.bytes": 100_000,
            "message.max.bytes": 100_000,
            "queued.max.messages.kbytes": 100,
        }
    )
    consumer.assign([TopicPartition("near", 0, 0)])

    def all_read() -> bool:
        for message in consumer.consume(50, 0.2):
            assert message.error() is None or message.error().retriable(), message.error()
            data = message.value()
            if message.error() is None and data is not None:
                read.append((message.offset() or 0, data))
        return len(read) >= RECORDS

    try:
        wait_for(all_read, "all records", 120)
    finally:
        consumer.close()
    assert read == expected_records(RECORDS)
    chunks = list((cluster.folder / f"data-{near}-remote-cache").rglob("*"))
    assert chunks, "the helper of the follower has fetched nothing"
    assert near in reads_from, reads_from


def leader_of(cluster: LocalCluster, topic: str) -> int:
    state = cluster.image.topic_named(topic)
    return state.partitions[0].leader if state is not None else -1


def objects(cluster: LocalCluster, topic: str) -> list[Path]:
    state = cluster.image.topic_named(topic)
    assert state is not None
    return list((cluster.folder / "store").rglob(f"{state.topic_id}/**/*.log"))


def test_a_reader_gets_every_byte_while_leader_and_helper_are_killed_and_the_store_is_away(
    cluster: LocalCluster,
) -> None:
    create(cluster, "faults")
    produce(cluster, "faults", 0, RECORDS)
    wait_for(lambda: all(s > 0 for s in local_starts(cluster, "faults").values()), "local retention")
    found: list[list[tuple[int, bytes]]] = []
    reader = threading.Thread(target=lambda: found.append(read_all(cluster, "faults", 2 * RECORDS, 240)))
    reader.start()
    store, away = cluster.folder / "store", cluster.folder / "store-away"
    store.rename(away)
    for pid in helpers(cluster).values():
        os.kill(pid, signal.SIGKILL)
    produce(cluster, "faults", RECORDS, RECORDS // 2)  # producers need no store
    away.rename(store)
    killed = leader_of(cluster, "faults")
    cluster.kill(f"broker-{killed}")
    wait_for(lambda: leader_of(cluster, "faults") not in (killed, -1), "another leader")
    produce(cluster, "faults", RECORDS + RECORDS // 2, RECORDS // 2)
    cluster.start_broker(killed)
    reader.join(250)
    assert found
    assert found[0] == expected_records(2 * RECORDS)
    wait_for(
        lambda: len(set(local_starts(cluster, "faults").values())) == 1, "the replicas to have one local log start"
    )
    assert read_all(cluster, "faults", 2 * RECORDS) == expected_records(2 * RECORDS)


def test_a_new_replica_begins_at_the_local_log_start(cluster: LocalCluster) -> None:
    until_all_live(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("moved", 1, replica_assignment=[[1, 2]], config=TOPIC_CONFIGS)])["moved"].result(60)
    wait_for(lambda: cluster.image.topic_named("moved"), "the topic")
    produce(cluster, "moved", 0, RECORDS)
    wait_for(lambda: min(local_starts(cluster, "moved").values()) > RECORDS * 2 // 3, "local retention")
    topic = cluster.image.topic_named("moved")
    assert topic is not None
    state = topic.partitions[0]
    cluster.rows.move(DesiredAssignment(topic.topic_id, 0, (3, 1), state.assignment_generation, "moved", "request"))

    def is_moved() -> bool:
        now = cluster.image.topic_named("moved")
        return now is not None and now.partitions[0].replicas == (3, 1) and 3 in now.partitions[0].isr_ids

    wait_for(is_moved, "the reassignment")
    log_3 = cluster.folder / "data-3" / "moved-0"
    copied = sum(f.stat().st_size for f in log_3.glob("*.log"))
    total = RECORDS * VALUE_BYTES
    print(f"bytes of the partition: {total}, bytes on the new replica: {copied}")
    assert 0 < copied < total / 2 and local_starts(cluster, "moved")[3] > 0
    wait_for(lambda: leader_of(cluster, "moved") in (1, 3), "a leader")
    cluster.kill("broker-1")
    wait_for(lambda: leader_of(cluster, "moved") == 3, "the new replica to lead")
    try:
        assert read_all(cluster, "moved", RECORDS) == expected_records(RECORDS)
    finally:
        cluster.start_broker(1)


def test_a_tail_move_copies_no_old_record_while_leader_and_helpers_are_killed(cluster: LocalCluster) -> None:
    """Local retention would keep everything. The leader copies what is below the start of the new replica, and then its local log starts there."""
    until_all_live(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    configs = {**TOPIC_CONFIGS, "local.retention.bytes": "-2", "min.insync.replicas": "1"}
    admin.create_topics([NewTopic("tail", 1, replica_assignment=[[1, 2]], config=configs)])["tail"].result(60)
    wait_for(lambda: cluster.image.topic_named("tail"), "the topic")
    produce(cluster, "tail", 0, RECORDS)

    def state() -> PartitionState:
        topic = cluster.image.topic_named("tail")
        assert topic is not None
        return topic.partitions[0]

    def order(move: str, replicas: tuple[int, ...], observers: tuple[int, ...] = ()) -> None:
        topic = cluster.image.topic_named("tail")
        assert topic is not None
        cluster.rows.move(
            DesiredAssignment(
                topic.topic_id, 0, replicas, state().assignment_generation, move, "request", observers=observers
            )
        )

    order("observe", (1, 2), observers=(3,))
    wait_for(lambda: state().tail_start > 0, "the start offset of the new replica")
    start = state().tail_start
    wait_for(lambda: local_starts(cluster, "tail").get(3) == start, "the start of its log")
    for pid in helpers(cluster).values():
        os.kill(pid, signal.SIGKILL)
    killed = leader_of(cluster, "tail")
    cluster.kill(f"broker-{killed}")
    wait_for(lambda: leader_of(cluster, "tail") not in (killed, -1), "another leader")
    produce(cluster, "tail", RECORDS, RECORDS // 4)
    cluster.start_broker(killed)
    wait_for(lambda: {1, 2} <= set(state().isr_ids), "both old replicas to be in sync")

    def copied_below_start() -> bool:
        leader = leader_of(cluster, "tail")
        try:
            return (
                leader > 0 and kafka.bounds("127.0.0.1", cluster.ports[leader], "tail", 0)[0] >= state().tail_start > 0
            )
        except (NoResponse, Declined):
            return False  # another broker became the leader after `leader_of`

    wait_for(copied_below_start, "the copies and the local log start")
    order("join", (1, 2, 3))
    wait_for(lambda: state().target == (1, 2, 3) and 3 in state().isr_ids, "the new replica to be in sync")
    order("switch", (3, 2))
    wait_for(lambda: state().replicas == (3, 2) and 3 in state().isr_ids, "the reassignment")
    copied = sum(f.stat().st_size for f in (cluster.folder / "data-3" / "tail-0").glob("*.log"))
    print(f"bytes of old records: {start * VALUE_BYTES}, bytes on the new replica: {copied}")
    assert local_starts(cluster, "tail")[3] >= start and copied < 1.3 * (RECORDS // 4) * VALUE_BYTES
    cluster.kill("broker-2")
    wait_for(lambda: leader_of(cluster, "tail") == 3, "the new replica to lead")
    try:
        count = RECORDS + RECORDS // 4
        assert read_all(cluster, "tail", count) == expected_records(count)
    finally:
        cluster.start_broker(2)


def test_deleted_records_and_deleted_topics_leave_no_objects(cluster: LocalCluster) -> None:
    create(cluster, "deleted")
    produce(cluster, "deleted", 0, RECORDS)
    wait_for(lambda: all(s > 0 for s in local_starts(cluster, "deleted").values()), "local retention")
    wait_for(lambda: len(objects(cluster, "deleted")) >= 10, "copies")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    part, upto = TopicPartition("deleted", 0), 1_000
    response = admin.delete_records([TopicPartition("deleted", 0, upto)], request_timeout=60)
    assert next(iter(response.values())).result(60).low_watermark == upto
    assert admin.list_offsets({part: OffsetSpec.earliest()})[part].result(30).offset == upto
    wait_for(lambda: min(int(f.name[:20]) for f in objects(cluster, "deleted")) > 0, "the deletion of old objects")
    state = cluster.image.topic_named("deleted")
    assert state is not None
    admin.delete_topics(["deleted"])["deleted"].result(60)
    wait_for(
        lambda: not list((cluster.folder / "store").rglob(f"{state.topic_id}/**/*")), "the deletion of all objects"
    )


def look_up(cluster: LocalCluster, topic: str, key: str, before: int = -1) -> KeyLookupResponse:
    """The response of the leader. While it is elected, or its helper starts, it has none."""
    query = KeyLookupRequest(
        key=key.encode(), before_offset=before, matches_max=100, bytes_max=1 << 30, duration_ms_max=5_000
    )

    def found_key() -> KeyLookupResponse | None:
        connection = KafkaConnection("127.0.0.1", cluster.ports[leader_of(cluster, topic)])
        try:
            return key_lookups.look_up(connection, topic, 0, query)
        except (NoResponse, Declined, KeyError):
            return None
        finally:
            connection.close()

    response: KeyLookupResponse = wait_for(found_key, f"a response about {key}")
    return response


def test_a_look_up_by_key_continues_in_the_store_and_says_when_the_store_does_not_respond(
    cluster: LocalCluster,
) -> None:
    keys = 500
    create(cluster, "keyed", **{"weir.index.keys": "true"})
    produce(cluster, "keyed", 0, RECORDS, keys)
    wait_for(lambda: all(s > RECORDS // 2 for s in local_starts(cluster, "keyed").values()), "local retention")
    wait_for(lambda: look_up(cluster, "keyed", "absent").segments_scanned <= 2, "the indexes of the local segments")
    for number in (0, 77, keys - 1):
        response = look_up(cluster, "keyed", f"k{number}")
        assert [m.offset for m in response.matches] == list(range(number, RECORDS, keys))[::-1]
        assert [m.value for m in response.matches] == [value(m.offset) for m in response.matches]
        assert (response.stop, response.start_offset) == (LookupStop.LOG_START, 0)
        assert response.segments_scanned <= 2 < response.segments_indexed, (
            "remote segments are searched with their indexes"
        )
        assert response.log_bytes < RECORDS * VALUE_BYTES // 2
    store, away = cluster.folder / "store", cluster.folder / "store-away"
    store.rename(away)
    try:
        response = look_up(cluster, "keyed", "k3")
        local_start = response.next_before_offset
        assert response.stop == LookupStop.REMOTE and 0 < local_start < RECORDS
        assert [m.offset for m in response.matches] == [o for o in range(3, RECORDS, keys) if o >= local_start][::-1]
    finally:
        away.rename(store)
    rest = look_up(cluster, "keyed", "k3", before=local_start)
    assert [m.offset for m in (*response.matches, *rest.matches)] == list(range(3, RECORDS, keys))[::-1]
