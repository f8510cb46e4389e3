"""The example consumer on real processes: failed records come again after their delays, and are dead letters after the last attempt. And the
transactions that send dead letters again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import IncrementalAlterConfigsRequest
from controlplane.clients import transactional_producer
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.transactional_producer import TransactionEnd, TransactionMarker, TransactionResult
from controlplane.domain.produce import NewRecord
from examples import retrying_share_consumer
from examples.retrying_share_consumer import RetryingShareConsumer
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_half_messages import consumer

GROUP_CONFIG = 32
"""Resource type of the configs of a group."""
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("retries"), 1) as running:
        yield running


def test_failed_records_come_again_and_are_dead_letters_after_the_last_attempt(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    name = f"t{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    delayed = {"weir.delay.topic": f"{name}.retry"}
    topics = [NewTopic(n, 2, 1) for n in (name, f"{name}.retry", f"{name}.dead")]
    for future in admin.create_topics([*topics, NewTopic(f"{name}.retry.delay", 2, 1, config=delayed)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for i in range(6):
        producer.produce(
            name, f"bad {i}" if i % 3 == 0 else f"good {i}", key=str(i), partition=i % 2, headers={"h": "1"}
        )
    assert producer.flush(60) == 0
    arguments = [cluster.bootstrap, name, "g", "--steps-ms", "300,600", "--fail", "bad", "--seconds", "120"]
    output = tmp_path / "output"
    with (
        output.open("w") as written,
        subprocess.Popen([sys.executable, "-m", "examples.retrying_consumer", *arguments], stdout=written) as program,
    ):
        dead = consumer(cluster, f"{name}.dead")
        found: dict[str, dict[str, bytes]] = {}

        def has_both() -> bool:
            message = dead.poll(0.2)
            if message is not None and not message.error():
                found[(message.value() or b"").decode()] = {n: v or b"" for n, v in message.headers() or []}
            return len(found) == 2

        wait_for(has_both, "two dead letters", 100)
        dead.close()
        program.terminate()
    processed = Counter(output.read_text().splitlines())
    assert processed == {"bad 0": 3, "bad 3": 3, "good 1": 1, "good 2": 1, "good 4": 1, "good 5": 1}
    assert found["bad 0"] == {
        "h": b"1",
        "x-retry-count": b"3",
        "x-retry-group": b"g",
        "x-retry-source": f"{name}-0@0".encode(),
        "x-retry-error": b"cannot process 'bad 0'",
    }


def test_a_share_group_processes_failed_records_again(cluster: LocalCluster, tmp_path: Path) -> None:
    """With the share consumer of librdkafka."""
    urgent, normal = (f"{kind}{uuid4().hex[:8]}" for kind in ("urgent", "normal"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name in (urgent, normal):
        delayed = {"weir.delay.topic": f"{name}.retry"}
        topics = [NewTopic(n, 1, 1) for n in (name, f"{name}.retry", f"{name}.dead")]
        for future in admin.create_topics([*topics, NewTopic(f"{name}.retry.delay", 1, 1, config=delayed)]).values():
            future.result(60)
    set_group_config(cluster, "shared", "share.auto.offset.reset", "earliest")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for i in range(30):
        producer.produce(normal, f"normal {i}")
        producer.produce(urgent, f"urgent {i}")
    producer.produce(urgent, "urgent bad")
    assert producer.flush(60) == 0
    arguments = [cluster.bootstrap, "shared", f"{urgent},{normal}", "--steps-ms", "300,600", "--fail", "bad"]
    output = tmp_path / "output"
    with (
        output.open("w") as written,
        subprocess.Popen(
            [sys.executable, "-m", "examples.retrying_share_consumer", *arguments, "--seconds", "120"], stdout=written
        ) as program,
    ):
        dead = consumer(cluster, f"{urgent}.dead")
        letters: list[Message] = []

        def complete() -> bool:
            message = dead.poll(0.2)
            if message is not None and not message.error():
                letters.append(message)
            return bool(letters) and len(output.read_text().splitlines()) >= 63

        wait_for(complete, "all records and the dead letter", 100)
        dead.close()
        program.terminate()
    found = output.read_text().splitlines()
    expected = {**{f"{kind} {i}": 1 for i in range(30) for kind in ("normal", "urgent")}, "urgent bad": 3}
    assert Counter(found) == expected
    headers = dict(letters[0].headers() or [])
    assert (headers["x-retry-count"], headers["x-retry-group"]) == (b"3", b"shared")
    assert headers["x-retry-source"] == f"{urgent}-0@30".encode()


def test_a_share_consumer_asks_for_urgent_records_after_each_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the polls, with members whose responses are given: which broker answers first would decide it otherwise."""
    waiting = {"urgent": [["u1"], [], ["u2", "u3"], []], "normal": [["n1", "n2"], ["n3"]]}
    polled: list[str] = []
    processed: list[str] = []

    class Member:
        def __init__(self, settings: dict[str, object]) -> None:
            self.topic = ""

        def __enter__(self) -> Member:
            return self

        def __exit__(self, *more: object) -> None: ...

        def subscribe(self, topics: list[str]) -> None:
            self.topic = topics[0]

        def poll(self, wait_s: float) -> list[Record]:
            polled.append(self.topic)
            left = waiting[self.topic]
            return [Record(v) for v in (left.pop(0) if left else ())]

        def acknowledge(self, message: Record, how: object) -> None:
            processed.append(message.text)

        def commit_sync(self, seconds: float) -> None: ...

    monkeypatch.setattr(retrying_share_consumer, "ShareConsumer", Member)
    consuming = RetryingShareConsumer("127.0.0.1:1", "g", ["urgent", "normal"], [])
    consuming.run(lambda message: None, lambda: len(processed) == 6)
    assert processed == ["u1", "n1", "n2", "u2", "u3", "n3"]
    assert polled == ["urgent", "urgent", "normal", "urgent", "urgent", "normal"]


@dataclass
class Record:
    """The parts of a message that the consumer reads."""

    text: str

    def error(self) -> None: ...

    def headers(self) -> None: ...


def set_group_config(cluster: LocalCluster, group: str, name: str, value: str) -> None:
    """librdkafka's admin client cannot set configs of groups."""
    host, _, port = cluster.bootstrap.partition(",")[0].partition(":")
    connection = KafkaConnection(host, int(port))
    r = IncrementalAlterConfigsRequest
    altered = [r.AlterableConfig(name=name, config_operation=0, value=value)]
    resource = r.AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=group, configs=altered)
    response = connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, r(resources=[resource]), 30.0)
    connection.close()
    assert [a.error_code for a in response.responses] == [0]


def test_a_marker_says_whether_the_dead_letters_were_sent(cluster: LocalCluster) -> None:
    """A client that is stuck before its commit is fenced by the query for its marker."""
    name = f"t{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(n, 1, 1) for n in (name, f"{name}.dead")]).values():
        future.result(60)
    brokers, transactional_id = {"bootstrap.servers": cluster.bootstrap}, f"weir-dead-letters-{name}-0"

    def marker(batch: int) -> TransactionMarker:
        return TransactionMarker("weir-dead-letters", f"{name}.dead", 0, batch, f"{name}:{batch}")

    def send(batch: int) -> TransactionResult:
        copies = [NewRecord(b"k", b"batch %d, %d" % (batch, i), partition=0) for i in range(3)]
        return transactional_producer.send_once(transactional_id, name, copies, marker(batch), **brokers)

    first = wait_for(lambda: r if (r := send(1)).end is TransactionEnd.COMMITTED else None, "the first batch")
    assert [r.offset for r in first.records] == sorted(r.offset for r in first.records if r.offset is not None)
    assert transactional_producer.find_marker(transactional_id, marker(1), **brokers)
    stuck = Producer({**brokers, "transactional.id": transactional_id, "log_level": 0})
    stuck.init_transactions(60)
    stuck.begin_transaction()
    stuck.produce(name, b"batch 2, 0", partition=0)
    reader = Consumer({**brokers, "group.id": "weir-dead-letters"})
    place = TopicPartition(f"{name}.dead", 0, 2, marker(2).metadata)
    stuck.send_offsets_to_transaction([place], reader.consumer_group_metadata(), 60)
    assert not transactional_producer.find_marker(transactional_id, marker(2), **brokers)
    with pytest.raises(KafkaException):
        stuck.commit_transaction(60)
    assert send(3).end is TransactionEnd.COMMITTED
    assert transactional_producer.find_marker(transactional_id, marker(3), **brokers)
    reader.close()
    values: list[bytes] = []
    committed = Consumer({**brokers, "group.id": uuid4().hex, "isolation.level": "read_committed"})
    committed.assign([TopicPartition(name, 0, 0)])

    def all_read() -> bool:
        message = committed.poll(0.2)
        if message is not None and not message.error():
            values.append(message.value() or b"")
        return len(values) == 6

    wait_for(all_read, "six records")
    committed.close()
    assert values == [b"batch %d, %d" % (batch, i) for batch in (1, 3) for i in range(3)]
