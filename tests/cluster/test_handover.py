"""An early hand-over of a partition, before its old records are deleted, on processes with a real client (docs/safety.md section 8, second stage).

A consumer reads everything from the earliest offset through the new leader, whose local log starts later: after the hand-over, after a restart of the
killed old leader, and after a restart of the killed new leader. Transactions span the hand-over, read committed and uncommitted. Does not check
faults during the hand-over (tests/simulation/test_handovers.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import Ledger, part_of, replicas

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
TOPIC = "handed"
PAID = "paid"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        yield devcluster
    finally:
        devcluster.end()


def read_from_earliest(devcluster: DevCluster, group: str, count: int) -> list[Message]:
    """Read by a group without commits. Returns at least `count` records in the order of delivery."""
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    out: list[Message] = []
    deadline = time.monotonic() + 90
    while len(out) < count and time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            assert m.error() is None, m.error()
            out.append(m)
    consumer.close()
    return out


def log_start(devcluster: DevCluster, broker: int) -> int:
    """The first offset in the partition's directory on a broker, from the names of its segments."""
    return min(int(f.stem) for f in devcluster.folder.glob(f"**/broker-{broker}/**/{TOPIC}-0/*.log"))


def leader(devcluster: DevCluster, topic: str = TOPIC) -> Any:
    return devcluster.partitions(topic)[0]["leader"]


def killed_and_back(devcluster: DevCluster, broker: int, topic: str, preferred: int) -> None:
    """Kills a broker and waits until it is back in the ISR of a partition with two replicas and `preferred` leads."""
    before = devcluster.pids()[f"broker-{broker}"]
    devcluster.kill(f"broker-{broker}")
    wait_for(
        lambda: devcluster.pids().get(f"broker-{broker}", before) != before, f"broker {broker} to be restarted", 60
    )
    wait_for(lambda: len(devcluster.partitions(topic)[0]["isr"]) == 2, "both to be in sync", 90)
    # The other broker has become the leader and has all old records, so no history read would be needed.
    devcluster.admin.list_topics(timeout=30)
    devcluster.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(60)
    wait_for(lambda: leader(devcluster, topic) == preferred, f"broker {preferred} to lead", 60)


def test_a_consumer_reads_all_records_through_a_leader_that_has_only_the_tail(devcluster: DevCluster) -> None:
    devcluster.topic(TOPIC, partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    old, stays = replicas(devcluster, TOPIC)
    (new,) = {1, 2, 3} - {old, stays}
    wanted = [new, stays]
    scope = {"kind": "partitions", "partitions": [{"topic": TOPIC, "partition": 0, "replicas": wanted}]}
    with Ledger(devcluster, TOPIC) as ledger:
        time.sleep(3)
        body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "comment": "test"}
        move = devcluster.post("moves", body)["id"]
        done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
        assert done["state"] == "done", done["note"]
        wait_for(lambda: leader(devcluster) == new, "the new broker to be leader", 60)
        time.sleep(1)
    assert replicas(devcluster, TOPIC) == wanted and not ledger.failed
    begins = part_of(devcluster, move)["tail_start"]
    assert begins > 100 and log_start(devcluster, new) == begins, "old records were copied"

    def all_is_read(group: str) -> list[Message]:
        found = read_from_earliest(devcluster, group, len(ledger.written))
        assert [m.offset() for m in found] == sorted(ledger.written), "a gap, a duplicate or a record out of order"
        assert {m.offset(): m.value() for m in found} == ledger.written
        return found

    found = all_is_read("first")
    requested = found[begins // 2].timestamp()[1]
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": "times"})
    (visible,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, requested)], timeout=30)
    consumer.close()
    assert visible.offset == next(m.offset() for m in found if m.timestamp()[1] >= requested) < begins
    for killed in (old, new):
        killed_and_back(devcluster, killed, TOPIC, new)
        all_is_read(f"after-{killed}")
    assert log_start(devcluster, new) == begins


class TransactionalWriter:
    """Transactions of one transactional.id into partition 0 of PAID, and the outcome of each record."""

    def __init__(self, devcluster: DevCluster, name: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": devcluster.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 240_000,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        self._name, self._number = name, 0
        self.open: dict[int, bytes] = {}
        """{offset: value} of the acknowledged records of the open transaction."""
        self.committed: dict[int, bytes] = {}
        self.aborted: dict[int, bytes] = {}
        self.failed: list[str] = []
        self._until_done(self._producer.init_transactions)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, count: int, *, flushed: bool = True) -> None:
        for _ in range(count):
            self._producer.produce(PAID, f"{self._name} {self._number}", partition=0, on_delivery=self._on_delivery)
            self._number += 1
        assert not flushed or self._producer.flush(120) == 0

    def end(self, *, commit: bool) -> None:
        self._until_done(self._producer.commit_transaction if commit else self._producer.abort_transaction)
        (self.committed if commit else self.aborted).update(self.open)
        self.open = {}

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.open[message.offset()] = message.value()
        elif error.code() not in (
            KafkaError._PURGE_QUEUE,
            KafkaError._PURGE_INFLIGHT,
        ):  # an abort does not wait for acknowledgements
            self.failed.append(str(error))

    def _until_done(self, act: Callable[[float], None]) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                return act(30)
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() > deadline:
                    raise


class TransactionLoop(threading.Thread):
    """One transaction after another, every third aborted (half of those with records in flight), until the context ends."""

    def __init__(self, devcluster: DevCluster) -> None:
        super().__init__()
        self.payer, self._left = TransactionalWriter(devcluster, "steady"), threading.Event()
        self.ended, self.problem = 0, ""

    def run(self) -> None:
        try:
            while not self._left.wait(0.01):
                self.payer.begin()
                self.payer.write(4, flushed=self.ended % 6 != 5)
                self.payer.end(commit=self.ended % 3 != 2)
                self.ended += 1
        except Exception as e:  # raised again by __exit__
            self.problem = repr(e)

    def run_more_transactions(self, what: str, count: int = 30) -> None:
        begun = self.ended
        wait_for(lambda: self.ended >= begun + count or self.problem, f"{count} transactions {what}", 90)
        assert not self.problem, self.problem

    def __enter__(self) -> TransactionLoop:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._left.set()
        self.join(150)
        assert not self.problem and not self.is_alive(), self.problem


def visible(devcluster: DevCluster, isolation: str) -> dict[int, bytes]:
    """{offset: value} of PAID from the earliest offset to the end offset of this isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": devcluster.bootstrap,
            "group.id": "records",
            "enable.auto.commit": False,
            "log_level": 0,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(PAID, 0, OFFSET_BEGINNING)])
    out: dict[int, bytes] = {}
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            if m.error() is not None:
                assert m.error().code() == KafkaError._PARTITION_EOF, m.error()
                consumer.close()
                return out
            assert m.offset() > max(out, default=-1), f"offset {m.offset()} is a duplicate or out of order"
            out[m.offset()] = m.value()
    raise AssertionError(f"no end within 90 s; {len(out)} records")


def test_transactions_across_an_early_hand_over_are_read_completely_or_not_at_all(devcluster: DevCluster) -> None:
    """Some transactions end on the old leader, some on the new one. Two stay open: begun below the tail, decided after the new leader was killed."""
    devcluster.topic(PAID, partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    old, stays = replicas(devcluster, PAID)
    (new,) = {1, 2, 3} - {old, stays}
    scope = {"kind": "partitions", "partitions": [{"topic": PAID, "partition": 0, "replicas": [new, stays]}]}
    kept, dropped = TransactionalWriter(devcluster, "kept"), TransactionalWriter(devcluster, "dropped")
    with TransactionLoop(devcluster) as paying:
        paying.run_more_transactions("before the hand-over")
        for slow in (kept, dropped):
            slow.begin()
            slow.write(5)
        paying.run_more_transactions("after two open transactions")
        body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "comment": "test"}
        move = devcluster.post("moves", body)["id"]
        done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
        assert done["state"] == "done", done["note"]
        wait_for(lambda: leader(devcluster, PAID) == new, "the new broker to be leader", 60)
        for slow in (kept, dropped):
            slow.write(5)
        paying.run_more_transactions("through the new leader")
        first = min(kept.open)
        below = {o: v for o, v in paying.payer.committed.items() if o < first}
        assert visible(devcluster, "read_committed") == below, "a consumer read past an open transaction"
        killed_and_back(devcluster, new, PAID, new)
        paying.run_more_transactions("after the new leader was killed")
        kept.end(commit=True)
        dropped.end(commit=False)
        paying.run_more_transactions("after the open transactions were decided")
    begins = part_of(devcluster, move)["tail_start"]
    payers = (paying.payer, kept, dropped)
    committed = {o: v for p in payers for o, v in p.committed.items()}
    aborted = {o: v for p in payers for o, v in p.aborted.items()}
    for slow in (kept.committed, dropped.aborted):
        assert len(slow) == 10 and min(slow) < begins <= max(slow), (
            "the transactions were not open across the hand-over"
        )
    for some in (committed, aborted):
        assert sum(o < begins for o in some) > 20 < sum(o >= begins for o in some), (
            "too few records on one side of the hand-over"
        )
    assert not any(p.failed or p.open for p in payers)
    assert leader(devcluster, PAID) == new and visible(devcluster, "read_committed") == committed
    everything = visible(devcluster, "read_uncommitted")
    assert committed.items() | aborted.items() <= everything.items(), "no aborted records to hide"
