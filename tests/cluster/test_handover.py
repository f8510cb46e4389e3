"""A partition handed over before its old records have gone, on processes with a real client (docs/safety.md section 8, the second stage).

All of it is read from the earliest offset through the new leader, whose own log begins later: after the hand-over, after the old leader was killed
and is back, and after the new one was and leads again; with transactions across it, read committed and not. Does not check: faults in between
(tests/simulation/test_handovers.py).
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

from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_moves import Ledger, part_of, replicas

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
TOPIC = "handed"
PAID = "paid"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    try:
        yield house
    finally:
        house.down()


def read_from_earliest(house: House, group: str, count: int) -> list[Message]:
    """By a member of a group that has committed nothing; at least `count` records, in the order in which they come."""
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    out: list[Message] = []
    deadline = time.monotonic() + 90
    while len(out) < count and time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            assert m.error() is None, m.error()
            out.append(m)
    consumer.close()
    return out


def logs_begin_at(house: House, broker: int) -> int:
    """The first offset in a broker's folder of the partition, as its files are named."""
    return min(int(f.stem) for f in house.folder.glob(f"**/broker-{broker}/**/{TOPIC}-0/*.log"))


def leader(house: House, topic: str = TOPIC) -> Any:
    return house.partitions(topic)[0]["leader"]


def killed_and_back(house: House, broker: int, topic: str, preferred: int) -> None:
    """Back in the ISR of a partition with two replicas, one of which is to lead."""
    before = house.pids()[f"broker-{broker}"]
    house.kill(f"broker-{broker}")
    wait_for(lambda: house.pids().get(f"broker-{broker}", before) != before, f"broker {broker} to be back", 60)
    wait_for(lambda: len(house.partitions(topic)[0]["isr"]) == 2, "both to be in sync", 90)
    # The other one, which led meanwhile, holds all that is old: nothing of it would be asked for.
    house.admin.list_topics(timeout=30)
    house.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(60)
    wait_for(lambda: leader(house, topic) == preferred, f"broker {preferred} to lead", 60)


def test_a_consumer_reads_all_from_the_earliest_through_a_leader_that_has_but_the_tail(house: House) -> None:
    house.topic(TOPIC, partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    old, stays = replicas(house, TOPIC)
    (new,) = {1, 2, 3} - {old, stays}
    wanted = [new, stays]
    scope = {"kind": "partitions", "partitions": [{"topic": TOPIC, "partition": 0, "replicas": wanted}]}
    with Ledger(house, TOPIC) as ledger:
        time.sleep(3)
        body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "why": "test"}
        move = house.post("moves", body)["id"]
        done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
        assert done["state"] == "done", done["note"]
        wait_for(lambda: leader(house) == new, "the new one to lead", 60)
        time.sleep(1)
    assert replicas(house, TOPIC) == wanted and not ledger.failed
    begins = part_of(house, move)["tail_start"]
    assert begins > 100 and logs_begin_at(house, new) == begins, "of the old records nothing came"

    def all_is_read(group: str) -> list[Message]:
        found = read_from_earliest(house, group, len(ledger.written))
        assert [m.offset() for m in found] == sorted(ledger.written), "no gap, none twice, none out of its order"
        assert {m.offset(): m.value() for m in found} == ledger.written
        return found

    found = all_is_read("first")
    asked = found[begins // 2].timestamp()[1]
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": "times"})
    (told,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, asked)], timeout=30)
    consumer.close()
    assert told.offset == next(m.offset() for m in found if m.timestamp()[1] >= asked) < begins
    for killed in (old, new):
        killed_and_back(house, killed, TOPIC, new)
        all_is_read(f"after-{killed}")
    assert logs_begin_at(house, new) == begins


class Payer:
    """Transactions of one transactional.id into partition 0 of PAID: what became of each record."""

    def __init__(self, house: House, name: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": house.bootstrap, "transactional.id": name, "transaction.timeout.ms": 240_000,
             "linger.ms": 1, "log_level": 0}
        )  # fmt: skip
        self._name, self._number = name, 0
        self.open: dict[int, bytes] = {}
        """{offset: value} of the transaction that is not decided, as far as it was acknowledged."""
        self.committed: dict[int, bytes] = {}
        self.aborted: dict[int, bytes] = {}
        self.failed: list[str] = []
        self._until_done(self._producer.init_transactions)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, count: int, *, flushed: bool = True) -> None:
        for _ in range(count):
            self._producer.produce(PAID, f"{self._name} {self._number}", partition=0, on_delivery=self._delivered)
            self._number += 1
        assert not flushed or self._producer.flush(120) == 0

    def end(self, *, commit: bool) -> None:
        self._until_done(self._producer.commit_transaction if commit else self._producer.abort_transaction)
        (self.committed if commit else self.aborted).update(self.open)
        self.open = {}

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.open[message.offset()] = message.value()
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):  # an abort waits for nobody
            self.failed.append(str(error))

    def _until_done(self, act: Callable[[float], None]) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                return act(30)
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() > deadline:
                    raise


class Paying(threading.Thread):
    """One transaction after the other, every third aborted (half of those with records on their way), until it is left."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.payer, self._left = Payer(house, "steady"), threading.Event()
        self.ended, self.problem = 0, ""

    def run(self) -> None:
        try:
            while not self._left.wait(0.01):
                self.payer.begin()
                self.payer.write(4, flushed=self.ended % 6 != 5)
                self.payer.end(commit=self.ended % 3 != 2)
                self.ended += 1
        except Exception as e:  # told by whoever leaves it
            self.problem = repr(e)

    def more(self, what: str, count: int = 30) -> None:
        begun = self.ended
        wait_for(lambda: self.ended >= begun + count or self.problem, f"{count} transactions {what}", 90)
        assert not self.problem, self.problem

    def __enter__(self) -> Paying:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._left.set()
        self.join(150)
        assert not self.problem and not self.is_alive(), self.problem


def told(house: House, isolation: str) -> dict[int, bytes]:
    """{offset: value} of PAID from the earliest on, up to the end that a reader of this isolation is told."""
    consumer = Consumer(
        {"bootstrap.servers": house.bootstrap, "group.id": "told", "enable.auto.commit": False, "log_level": 0,
         "isolation.level": isolation, "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(PAID, 0, OFFSET_BEGINNING)])
    out: dict[int, bytes] = {}
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            if m.error() is not None:
                assert m.error().code() == KafkaError._PARTITION_EOF, m.error()
                consumer.close()
                return out
            assert m.offset() > max(out, default=-1), f"offset {m.offset()} twice, or out of its order"
            out[m.offset()] = m.value()
    raise AssertionError(f"no end within 90 s; {len(out)} records")


def test_transactions_across_an_early_hand_over_are_read_whole_or_not_at_all(house: House) -> None:
    """Some end on the old leader, some on the new one, two are open all the while: begun below the tail, decided after the new leader was killed, too."""
    house.topic(PAID, partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    old, stays = replicas(house, PAID)
    (new,) = {1, 2, 3} - {old, stays}
    scope = {"kind": "partitions", "partitions": [{"topic": PAID, "partition": 0, "replicas": [new, stays]}]}
    kept, dropped = Payer(house, "kept"), Payer(house, "dropped")
    with Paying(house) as paying:
        paying.more("before anything happens")
        for slow in (kept, dropped):
            slow.begin()
            slow.write(5)
        paying.more("behind two that are open")
        body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "why": "test"}
        move = house.post("moves", body)["id"]
        done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
        assert done["state"] == "done", done["note"]
        wait_for(lambda: leader(house, PAID) == new, "the new one to lead", 60)
        for slow in (kept, dropped):
            slow.write(5)
        paying.more("through the new leader")
        first = min(kept.open)
        below = {o: v for o, v in paying.payer.committed.items() if o < first}
        assert told(house, "read_committed") == below, "nobody reads past a transaction that is open"
        killed_and_back(house, new, PAID, new)
        paying.more("after the new leader was killed")
        kept.end(commit=True)
        dropped.end(commit=False)
        paying.more("when those were decided")
    begins = part_of(house, move)["tail_start"]
    payers = (paying.payer, kept, dropped)
    committed = {o: v for p in payers for o, v in p.committed.items()}
    aborted = {o: v for p in payers for o, v in p.aborted.items()}
    for slow in (kept.committed, dropped.aborted):
        assert len(slow) == 10 and min(slow) < begins <= max(slow), "open across the hand-over"
    for some in (committed, aborted):
        assert sum(o < begins for o in some) > 20 < sum(o >= begins for o in some), "on both sides of it"
    assert not any(p.failed or p.open for p in payers)
    assert leader(house, PAID) == new and told(house, "read_committed") == committed
    everything = told(house, "read_uncommitted")
    assert committed.items() | aborted.items() <= everything.items(), "what was aborted is there to be hidden"
