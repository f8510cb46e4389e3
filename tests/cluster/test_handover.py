"""A partition handed over before its old records have gone, on processes with a real client (docs/safety.md section 8, the second stage).

All of it is read from the earliest offset through the new leader, whose own log begins later: after the hand-over, after the old leader was killed
and is back, and after the new one was. Does not check: faults in between (tests/simulation/test_handovers.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_moves import Ledger, part_of, replicas

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
TOPIC = "handed"


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


def leader(house: House) -> Any:
    return house.partitions(TOPIC)[0]["leader"]


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
        before = house.pids()[f"broker-{killed}"]
        house.kill(f"broker-{killed}")
        wait_for(lambda: house.pids().get(f"broker-{killed}", before) != before, f"broker {killed} to be back", 60)  # noqa: B023
        wait_for(lambda: len(house.partitions(TOPIC)[0]["isr"]) == 2, "both to be in sync", 90)
        all_is_read(f"after-{killed}")
    assert logs_begin_at(house, new) == begins
