"""Routes on real processes: each committed record is in its targets exactly once and in order, while leaders are killed with kill -9."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.metadata import AccessKind
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("routes"), 3) as running:
        yield running


def create(cluster: LocalCluster, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(60)


def declare(
    cluster: LocalCluster,
    name: str,
    source: str,
    *bindings: dict[str, Any],
    start: str = "earliest",
    principal: str = "",
) -> None:
    value = {
        "route_id": f"{name}-id",
        "source": source,
        "start": start,
        "enabled": True,
        "partitions_at_start": PARTITIONS,
        "bindings": list(bindings),
        "principal": principal,
    }
    cluster.rows.declare(AccessKind.ROUTE, name, value)


class Target:
    """Reads a topic with read_uncommitted: a duplicate would be seen."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": uuid4().hex,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self.consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
        self.values: list[str] = []
        self.by_key: defaultdict[str, list[int]] = defaultdict(list)

    def poll(self) -> None:
        message = self.consumer.poll(0.2)
        if message is not None and not message.error():
            value = message.value().decode()
            self.values.append(value)
            self.by_key[message.key().decode()].append(int(value))

    def check(self, expected: set[str]) -> None:
        def all_here() -> bool:
            self.poll()
            return expected <= set(self.values)

        wait_for(all_here, f"{len(expected)} routed records", 200)
        until = time.monotonic() + 3  # none may follow
        while time.monotonic() < until:
            self.poll()
        assert Counter(self.values) == Counter(expected)
        for key, numbers in self.by_key.items():
            assert numbers == sorted(numbers), key


def producer(cluster: LocalCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0})


def test_a_direct_binding_copies_the_records_with_its_key(cluster: LocalCluster) -> None:
    create(cluster, "orders", "paid")
    declare(cluster, "r1", "orders", {"target": "paid", "match": {"kind": "key", "value": "paid"}})
    writer = producer(cluster)
    for i in range(100):
        writer.produce("orders", str(i), key="paid" if i % 2 else "open")
    assert writer.flush(60) == 0
    Target(cluster, "paid").check({str(i) for i in range(1, 100, 2)})


def test_only_committed_records_are_routed_and_a_missing_target_is_waited_for(cluster: LocalCluster) -> None:
    create(cluster, "payments", "booked")
    declare(
        cluster,
        "r3",
        "payments",
        {"target": "booked", "match": {"kind": "all"}},
        {"target": "later", "match": {"kind": "headers_all", "headers": [{"name": "check", "value": None}]}},
    )
    writer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": uuid4().hex, "log_level": 0})
    writer.init_transactions(60)
    committed, checked = set[str](), set[str]()
    for number in range(120):
        if number % 10 == 0:
            writer.begin_transaction()
        headers = [("check", b"yes")] if number % 3 == 0 else []
        writer.produce("payments", str(number), key=f"k{number % 5}", headers=headers)
        commits = number // 10 % 3 != 1
        if commits:
            committed.add(str(number))
            checked |= {str(number)} if headers else set()
        if number % 10 == 9:
            (writer.commit_transaction if commits else writer.abort_transaction)(60)
    Target(cluster, "booked").check(committed)
    create(cluster, "later")
    Target(cluster, "later").check(checked)


def test_records_are_routed_once_while_leaders_are_killed(cluster: LocalCluster) -> None:
    create(cluster, "events", "errors", "copies")
    declare(
        cluster,
        "r2",
        "events",
        {"target": "errors", "match": {"kind": "pattern", "value": "*.error.#"}},
        {"target": "copies", "match": {"kind": "all"}},
    )
    writer, expected = producer(cluster), (set[str](), set[str]())
    number = 0
    for victim in (1, 3):
        for _ in range(400):
            key = f"host{number % 7}.{('error', 'info')[number % 2]}.disk"
            writer.produce("events", str(number), key=key)
            expected[1].add(str(number))
            if number % 2 == 0:
                expected[0].add(str(number))
            number += 1
            writer.poll(0.005)
        cluster.kill(f"broker-{victim}")
        for _ in range(200):
            writer.produce("events", str(number), key="host.info")
            expected[1].add(str(number))
            number += 1
            writer.poll(0.005)
        cluster.start_broker(victim)
    assert writer.flush(120) == 0
    Target(cluster, "errors").check(expected[0])
    Target(cluster, "copies").check(expected[1])
