"""Transactions when processes die: R14, R15, R16 (docs/safety.md lists them), leaders and coordinators killed during transactions.

The check: a new read_committed consumer reads each committed transaction completely and once, and nothing of aborted ones. R17 (compaction of
markers) is tested on logs in tests/unit/storage: no process reaches it within a test.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC
from brokerd.runtime.coordinator_ports import coordinator_of
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from brokerd.wire.records import Record
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_transactions import producer, read, write
from tests.faults.raw import NOT_YET_KNOWN, RawConnection
from tests.faults.scene import create, heal_cluster, leader, state, wait_until_recovered

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500", "transaction.version": "2"}


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("transactions")
    with LocalCluster(folder, 3, SETTINGS) as c:
        yield c


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> LocalCluster:
    """At rest: every five seconds leadership, and the coordinators with it, moves to the preferred leaders."""
    c = heal_cluster(shared_cluster)
    wait_for(
        lambda: all(p.leader == p.replicas[0] for _, _, p in c.image.each_partition()), "the preferred leaders to lead"
    )
    return c


def coordinator(cluster: LocalCluster, transactional_id: str) -> int:
    return int(
        wait_for(
            lambda: max(0, coordinator_of(cluster.image, TRANSACTION_STATE_TOPIC, transactional_id)), "a coordinator"
        )
    )


def id_coordinated_by(cluster: LocalCluster, broker_id: int, stem: str) -> str:
    """An earlier case may have killed the broker: every five seconds leadership moves to the preferred leaders."""
    names = [f"{stem}-{n}" for n in range(200)]
    found: str = wait_for(
        lambda: next((i for i in names if coordinator(cluster, i) == broker_id), None),
        f"broker {broker_id} to coordinate",
    )
    return found


class TransactionsV2Producer:
    """A raw producer with transactions v2 (KIP-890), one partition, one connection for each purpose."""

    def __init__(self, cluster: LocalCluster, name: str, transactional_id: str) -> None:
        self.name, self.transactional_id = name, transactional_id
        self.coordinator = RawConnection(cluster, coordinator(cluster, transactional_id))
        self.leader = RawConnection(cluster, leader(cluster, name))
        body = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        response = wait_for(lambda: self._init(body), "a producer id")
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch  # type: ignore[attr-defined]

    def _init(self, body: InitProducerIdRequest) -> Any:
        response = self.send_request(self.coordinator, ApiKey.INIT_PRODUCER_ID, 4, body)
        return None if response.error_code else response

    @staticmethod
    def send_request(raw: RawConnection, key: ApiKey, version: int, body: Any) -> Any:
        raw.send(key, version, body)
        return raw.receive(key, version)

    def produce(self, values: list[str], sequence: int, epoch: int, version: int = 12) -> ErrorCode:
        batch = records.build(
            [Record(i, 1_700_000_000_000, None, v.encode()) for i, v in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
        topic = ProduceRequest.TopicProduceData(name=self.name, partition_data=[part])
        body = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[topic])
        return self._when_known(
            lambda: (
                self.send_request(self.leader, ApiKey.PRODUCE, version, body)
                .responses[0]
                .partition_responses[0]
                .error_code
            )
        )

    def _when_known(self, attempt: Callable[[], int]) -> ErrorCode:
        """The error code of an attempt. Retried while the broker has not read the topic in the metadata log."""
        code = ErrorCode.NONE

        def is_known() -> bool:
            nonlocal code
            code = ErrorCode(attempt())
            return code not in NOT_YET_KNOWN

        wait_for(is_known, "the broker to know the topic")
        return code

    def end(self, commit: bool, epoch: int, version: int = 5) -> Any:
        """Retried while the previous transaction is being completed."""
        body = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=epoch, committed=commit
        )

        def end_response() -> Any:
            response = self.send_request(self.coordinator, ApiKey.END_TXN, version, body)
            return None if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS else response

        return wait_for(end_response, "the end of the transaction")

    def add(self, epoch: int) -> ErrorCode:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.name, partitions=[0])
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[topic],
        )

        def attempt() -> int:
            response = self.send_request(self.coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
            return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        return self._when_known(attempt)

    def open_transactions(self) -> list[int]:
        requested = DescribeProducersRequest.TopicRequest(name=self.name, partition_indexes=[0])
        response = self.send_request(
            self.leader, ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[requested])
        )
        part = response.topics[0].partitions[0]
        assert part.error_code == 0
        return [p.producer_id for p in part.active_producers if p.current_txn_start_offset >= 0]

    def state(self) -> str:
        body = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        response = self.send_request(self.coordinator, ApiKey.DESCRIBE_TRANSACTIONS, 0, body).transaction_states[0]
        assert response.error_code == 0
        return str(response.transaction_state)

    def complete(self) -> None:
        wait_for(lambda: self.state().startswith("Complete"), "the transaction to be completed")


def test_r14_a_record_after_its_transactions_end_blocks_no_consumer(cluster: LocalCluster) -> None:
    """KAFKA-12671, KIP-890: late records would start a transaction that nothing ends, and consumers would wait forever."""
    create(cluster, "r14", min_insync=2)
    one = TransactionsV2Producer(cluster, "r14", "r14")
    assert one.add(one.epoch) == ErrorCode.NONE
    assert one.produce(["in time"], 0, one.epoch, version=9) == ErrorCode.NONE
    assert one.open_transactions() == [one.producer_id]
    assert one.end(True, one.epoch, version=3).error_code == ErrorCode.NONE
    one.complete()
    assert one.produce(["late"], 1, one.epoch, version=9) == ErrorCode.INVALID_TXN_STATE
    assert one.produce(["late"], 1, one.epoch, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert one.produce(["in time"], 0, one.epoch, version=9) == ErrorCode.NONE, "a duplicate is not a late record"
    assert one.open_transactions() == []
    write(plain_producer(cluster), "r14", ["after"])
    assert read(cluster, "r14") == ["in time", "after"]


def test_r14_an_abandoned_transaction_is_aborted_after_its_timeout(cluster: LocalCluster) -> None:
    create(cluster, "r14b", min_insync=2)
    silent = producer(cluster, "r14b", transaction_timeout_ms=2_000)
    silent.begin_transaction()
    write(silent, "r14b", ["never"])
    write(plain_producer(cluster), "r14b", ["after"])
    assert read(cluster, "r14b") == [], "not decided"
    wait_for(lambda: read(cluster, "r14b") == ["after"], "consumers to continue")
    with pytest.raises(KafkaException) as e:
        silent.commit_transaction(30)
    assert e.value.args[0].fatal() or e.value.args[0].txn_requires_abort()


def plain_producer(cluster: LocalCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})


def test_r15_a_late_end_request_does_not_end_the_next_transaction(cluster: LocalCluster) -> None:
    """KAFKA-17754: with one epoch per transaction, a late request has an old epoch."""
    create(cluster, "r15", min_insync=2)
    one = TransactionsV2Producer(cluster, "r15", "r15")
    first = one.epoch
    assert one.produce(["first"], 0, first) == ErrorCode.NONE
    ended = one.end(True, first)
    assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, first + 1)
    again = one.end(True, first)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, first + 1), "its retry has the same response"
    assert one.produce(["second"], 0, first + 1) == ErrorCode.NONE
    assert one.end(True, first).error_code == ErrorCode.PRODUCER_FENCED, "late"
    assert one.produce(["late"], 1, first) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert read(cluster, "r15") == ["first"]
    assert one.end(False, first + 1).error_code == ErrorCode.NONE
    one.complete()
    assert read(cluster, "r15") == ["first"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_r16_a_transaction_survives_a_coordinator_that_dies_between_decision_and_markers(
    cluster: LocalCluster, commit: bool
) -> None:
    """The decision is persisted and acknowledged. No marker can be written because a follower is down. Then the coordinator is killed."""
    name = f"r16-{commit}"
    create(cluster, name, min_insync=3)
    mine = leader(cluster, name)
    deciding = next(b for b in cluster.ports if b != mine)
    away = next(b for b in cluster.ports if b not in (mine, deciding))
    made = producer(cluster, id_coordinated_by(cluster, deciding, name))
    made.begin_transaction()
    write(made, name, ["a", "b"])
    cluster.kill(f"broker-{away}")
    wait_for(lambda: len(state(cluster, name).isr) == 2, "the ISR to shrink")
    if commit:
        made.commit_transaction(60)
    else:
        made.abort_transaction(60)
    assert read(cluster, name) == [], "a marker was written"
    cluster.kill(f"broker-{deciding}")
    cluster.start_broker(deciding)
    cluster.start_broker(away)
    wait_until_recovered(cluster)
    expected = ["a", "b"] if commit else []
    write(plain_producer(cluster), name, ["after"])
    wait_for(lambda: read(cluster, name) == [*expected, "after"], "the next coordinator to write the markers")


@pytest.mark.long
def test_kills_during_transactions_leave_each_complete_or_absent(cluster: LocalCluster) -> None:
    """Two partitions per transaction. The brokers are killed and restarted in turn."""
    names = ["kill-a", "kill-b"]
    for name in names:
        create(cluster, name, min_insync=2)
    committed: list[str] = []
    aborted: list[str] = []
    unknown: list[str] = []
    made = producer(cluster, "kills")
    victims = [leader(cluster, "kill-a"), coordinator(cluster, "kills"), leader(cluster, "kill-b")]
    for turn in range(24):
        value = f"{turn}"
        if turn % 8 == 4:
            cluster.kill(f"broker-{victims[turn // 8]}", signal.SIGKILL)
        try:
            made.begin_transaction()
            for name in names:
                made.produce(name, value, partition=0)
            if turn % 5 == 3:
                made.abort_transaction(60)
                aborted.append(value)
            else:
                commit(made)
                committed.append(value)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.txn_requires_abort():
                made.abort_transaction(60)
                aborted.append(value)
            else:
                unknown.append(value)
                made = producer(cluster, "kills")
        if turn % 8 == 7:
            cluster.start_broker(victims[turn // 8])
            wait_until_recovered(cluster)
    wait_for(lambda: "after" in both_after(cluster, names), "the last transaction to be decided")
    shown = [[v for v in read(cluster, name) if v != "after"] for name in names]
    assert shown[0] == shown[1], "a transaction was read in part"
    assert not set(aborted) & set(shown[0]), "aborted, and seen"
    assert [v for v in shown[0] if v not in unknown] == committed
    assert len(committed) > 12, (committed, aborted, unknown)


def commit(made: Producer) -> None:
    """Commits like an application: retries retriable errors."""
    deadline = time.monotonic() + 60
    while True:
        try:
            made.commit_transaction(30)
            return
        except KafkaException as e:
            if not e.args[0].retriable() or time.monotonic() > deadline:
                raise


def both_after(cluster: LocalCluster, names: list[str]) -> set[str]:
    for name in names:
        write(plain_producer(cluster), name, ["after"])
    return set(read(cluster, names[0])) & set(read(cluster, names[1]))
