"""Transactions on a whole local cluster: the list, a hanging transaction that two operators abort, an open one whose producer two operators fence, and
the partial response while a broker is stopped. Consumers of Kafka's own client verify the effect."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from brokerd.wire import messages as m
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.records import Record
from controlplane.clients.connection import KafkaConnection
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
TOPIC = "payments"
PRODUCER, EPOCH = 4_711_000_000, 3
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1")
    try:
        devcluster.topic(TOPIC, partitions=1, replication_factor=3)
        wait_for(lambda: all_respond(devcluster), "the coordinators")
        yield devcluster
    finally:
        devcluster.end()


def transactional(devcluster: DevCluster, name: str, **settings: object) -> Producer:
    producer = Producer({**devcluster.client, "transactional.id": name, "linger.ms": 0, "log_level": 0, **settings})
    producer.init_transactions(60)
    return producer


def read_committed(devcluster: DevCluster) -> list[str]:
    """The records that a read_committed consumer can read now."""
    consumer = Consumer({**devcluster.client, "group.id": "reader", "isolation.level": "read_committed"})
    try:
        partition = TopicPartition(TOPIC, 0, 0)
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1]
        consumer.assign([partition])
        found: list[Message] = []
        wait_for(
            lambda: found.extend(consumer.consume(100, 0.5)) or consumer.position([partition])[0].offset >= end,
            "the last stable offset",
        )
        return [message.value().decode() for message in found if not message.error()]
    finally:
        consumer.close()


def stable_end(devcluster: DevCluster) -> int:
    consumer = Consumer({**devcluster.client, "group.id": "reader", "isolation.level": "read_committed"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1])
    finally:
        consumer.close()


def append_late_batch(devcluster: DevCluster) -> int:
    """A batch of a producer that no coordinator knows, as a late batch of a producer of another time. Returns its offset."""
    batch = records.build(
        [Record(0, 1_700_000_000_000, None, b"late")],
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        base_sequence=0,
        transactional=True,
    )
    part = m.ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    topic = m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
    body = m.ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=10_000, topic_data=[topic])

    def attempt() -> Any:
        leader = devcluster.leaders(TOPIC)[0]
        connection = KafkaConnection("127.0.0.1", devcluster.base + 1 + leader)
        try:
            response = connection.call(ApiKey.PRODUCE, 9, body, 30)
        finally:
            connection.close()
        found = response.responses[0].partition_responses[0]
        return found if not found.error_code else None

    return int(wait_for(attempt, "the late batch to be appended").base_offset)


def set_verification(devcluster: DevCluster, value: str | None) -> None:
    body = {"configs": {VERIFICATION: value}, "cluster_wide": True, "comment": "test"}
    assert devcluster.call("PATCH", "brokers/1/configs", body)[0] == 204
    shown = "true" if value is None else value

    def is_applied() -> bool:
        found = [devcluster.get(f"brokers/{b}/configs?query={VERIFICATION}")["rows"] for b in (1, 2, 3)]
        return all(rows and rows[0]["value"] == shown for rows in found)

    wait_for(is_applied, "the brokers to apply the setting")


def recorded_changes(devcluster: DevCluster, verb: str) -> list[tuple[str, str]]:
    changes = devcluster.get("changes?object_kind=transaction")["rows"]
    return [(c["outcome"], c["object_name"]) for c in changes if c["verb"] == verb]


def hanging_alerts(devcluster: DevCluster) -> list[dict[str, Any]]:
    return [a for a in devcluster.get("alerts")["rows"] if a["kind"] == "transaction_hanging"]


def all_respond(devcluster: DevCluster) -> bool:
    """Every broker answers, and every coordinator is on its preferred broker, so none moves soon."""
    listed = devcluster.get("transactions")
    if listed["brokers_asked"] != 3 or listed["brokers_silent"]:
        return False
    return all(p["leader"] == p["replicas"][0] for p in devcluster.partitions("__transaction_state"))


def test_a_hanging_transaction_is_found_and_aborted_by_two_operators(devcluster: DevCluster) -> None:
    producer = transactional(devcluster, "billing")
    producer.begin_transaction()
    producer.produce(TOPIC, b"first", partition=0)
    producer.commit_transaction(60)
    listed = devcluster.get("transactions?query=bill")
    assert (listed["total"], listed["brokers_asked"], listed["brokers_silent"]) == (1, 3, [])
    assert listed["rows"][0]["transactional_id"] == "billing" and listed["rows"][0]["open_s"] is None
    assert devcluster.get(f"hanging-transactions?topic={TOPIC}")["rows"] == []

    set_verification(devcluster, "false")
    offset = append_late_batch(devcluster)
    set_verification(devcluster, None)
    producer.begin_transaction()
    producer.produce(TOPIC, b"second", partition=0)
    producer.commit_transaction(60)
    assert stable_end(devcluster) == offset and read_committed(devcluster) == ["first"], (
        "the late batch blocks consumers"
    )

    scan = devcluster.get(f"hanging-transactions?topic={TOPIC}")
    (row,) = scan["rows"]
    assert (row["producer_id"], row["producer_epoch"], row["start_offset"]) == (PRODUCER, EPOCH, offset)
    assert (row["verdict"], row["transactional_id"]) == ("unknown_producer", None)
    assert scan["partitions_described"] == scan["partitions"] == 1
    assert [r["target"] for r in devcluster.get("hanging-transactions")["rows"]] == [row["target"]]

    path = "alert-thresholds/transaction_hanging"
    assert devcluster.call("PATCH", path, {"value": 0, "comment": "test"})[0] == 200
    (alert,) = wait_for(lambda: hanging_alerts(devcluster), "the alert")
    assert f"{TOPIC}-0" in alert["text"]
    steps = devcluster.get(f"alerts/{alert['id']}")["next_steps"]
    assert (steps[0]["kind"], steps[0]["target"]) == ("propose_abort", [row["target"]])

    assert devcluster.propose_and_approve("transaction.abort", row["target"], {})["state"] == "done"
    assert devcluster.get(f"hanging-transactions?topic={TOPIC}")["rows"] == []
    wait_for(lambda: not hanging_alerts(devcluster), "the end of the alert")
    assert read_committed(devcluster) == ["first", "second"]
    assert recorded_changes(devcluster, "transaction.abort") == [("confirmed", row["target"])]
    again = {"kind": "transaction.abort", "target": row["target"], "comment": "again"}
    status, problem = devcluster.call("POST", "proposals", again)
    assert status == 409 and "it has ended" in problem["detail"]


def test_the_producer_of_an_open_transaction_is_fenced_by_two_operators(devcluster: DevCluster) -> None:
    producer = transactional(devcluster, "stuck/app", **{"transaction.timeout.ms": 600_000})
    producer.begin_transaction()
    producer.produce(TOPIC, b"never", partition=0)
    assert producer.flush(60) == 0
    (row,) = devcluster.get("transactions?state=open&query=stuck")["rows"]
    assert (row["transactional_id"], row["state"], row["timeout_ms"]) == ("stuck/app", "Ongoing", 600_000)
    assert row["partitions"] == [f"{TOPIC}-0"] and row["open_s"] is not None
    assert devcluster.get("transactions?open_longer_minutes=5&query=stuck")["rows"] == []
    detail = devcluster.get("transactions/stuck/app")
    assert detail["partitions"][0]["start_offset"] == stable_end(devcluster)
    rejected = {"kind": "transaction.abort", "target": f"{TOPIC}-0@{stable_end(devcluster)}", "comment": "x"}
    status, problem = devcluster.call("POST", "proposals", rejected)
    assert status == 409 and "does not hang" in problem["detail"], "an open transaction is not taken for a hanging one"

    assert devcluster.propose_and_approve("transaction.fence", "stuck/app", {})["state"] == "done"
    assert devcluster.get("transactions/stuck/app")["row"]["state"] in ("Empty", "CompleteAbort")
    assert "never" not in read_committed(devcluster)
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    assert recorded_changes(devcluster, "transaction.fence") == [("confirmed", "stuck/app")]


def test_a_stopped_broker_is_named_and_nothing_is_taken_for_hanging(devcluster: DevCluster) -> None:
    leader = devcluster.leaders(TOPIC)[0]
    stopped = next(b for b in (1, 2, 3) if b != leader)
    producer = transactional(devcluster, "waiting", **{"transaction.timeout.ms": 600_000})
    producer.begin_transaction()
    producer.produce(TOPIC, b"open", partition=0)
    assert producer.flush(60) == 0
    pid = devcluster.pid(f"broker-{stopped}")
    os.kill(pid, signal.SIGSTOP)
    try:
        listed = devcluster.get("transactions")
        scan = devcluster.get(f"hanging-transactions?topic={TOPIC}")
    finally:
        os.kill(pid, signal.SIGCONT)
    # The controller may remove the broker meanwhile. Then it is not asked, and its coordinators have moved.
    for response in (listed, scan):
        silent = {s["broker_id"] for s in response["brokers_silent"]}
        assert (response["brokers_asked"] == 3 and stopped in silent) or response["brokers_asked"] == 2
    assert [r["verdict"] for r in scan["rows"]] in ([], ["undetermined"])
    producer.abort_transaction(60)
    wait_for(lambda: all_respond(devcluster), "the broker to be back")
