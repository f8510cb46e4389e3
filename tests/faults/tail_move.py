"""`make tail-move`: a partition full of old records leaves a broker under load, first in mode `copy`, then, to where it came from, in mode `tail`; what each
has copied.

Copied is counted on the broker that gets the replica: bytes in the partition's files there when it is in sync, as DescribeLogDirs tells. A writer
goes on all the while, idempotent and acks=all; afterwards every record that it was acknowledged from the new copy's beginning on is read again,
once and in its place. The tail move ends by a cut, not by retention, so that it ends at all. Does not check: kills (tests/cluster/test_moves.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_moves import Ledger, other, part_of, replicas

TOPIC = "leaves"
RECORD = 100_000
"""Bytes of an old record: the point is how much there is, not how many."""


@dataclass(frozen=True, slots=True)
class Shown:
    mode: str
    old_bytes: int
    copied_bytes: int
    written_bytes: int
    """What was written to the partition while the move was under way, as the leader's log tells."""
    seconds: float
    acknowledged: int


def on_disk(house: House, topic: str, broker: int) -> int:
    """Bytes of records in the partition's folder of that broker, 0 where there is none."""
    found = list(house.folder.glob(f"**/broker-{broker}/**/{topic}-0"))
    return sum(f.stat().st_size for folder in found for f in folder.glob("*.log"))


def fill(house: House, topic: str, size: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": house.bootstrap, "acks": "all", "batch.size": 1_000_000, "linger.ms": 20})
    data = os.urandom(RECORD)
    for n in range(size // RECORD):
        while True:
            try:
                producer.produce(topic, data, partition=n % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(600) == 0


def read_since(house: House, topic: str, first: int, count: int) -> dict[int, bytes]:
    """{offset: value} of `count` records from `first` on: what is older is too much to be held."""
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": "shown", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, first)])
    out: dict[int, bytes] = {}
    deadline = time.monotonic() + 60
    while len(out) < count and time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            assert m.error() is None, m.error()
            assert m.offset() not in out, f"offset {m.offset()} twice"
            out[m.offset()] = m.value()
    consumer.close()
    return out


def one(house: House, topic: str, mode: str, size: int) -> Shown:
    leader, wanted = int(house.partitions(topic)[0]["leader"]), other(house, topic)
    target = wanted[0]
    old = wait_for(lambda: (n := on_disk(house, topic, leader)) >= size and n, "the old records on the disk", 60)
    scope = {"kind": "partitions", "partitions": [{"topic": topic, "partition": 0, "replicas": wanted}]}

    began = time.monotonic()
    with Ledger(house, topic) as ledger:
        time.sleep(1)
        before = on_disk(house, topic, leader)
        move = house.post("moves", {"scope": scope, "mode": mode, "start": True, "why": "shown"})["id"]
        begins = 0
        if mode == "tail":
            wait_for(lambda: part_of(house, move)["state"] == "ready", "the new copy to be in step", 600)
            begins = part_of(house, move)["tail_start"]
            time.sleep(5)
            house.by_two("move.cut", str(move), {"confirm": topic})
        else:
            time.sleep(5)
        copied = 0

        def ended() -> Any:
            nonlocal copied
            copied = max(copied, on_disk(house, topic, target))
            m = house.get(f"moves/{move}")
            return m if m["finished_at"] else None

        done = wait_for(ended, "the move's end", 3_600)
        assert done["state"] == "done", done["note"]
    seconds = time.monotonic() - began
    assert replicas(house, topic) == wanted and not ledger.failed
    since = {o: v for o, v in ledger.written.items() if o >= begins}
    found = read_since(house, topic, min(since), len(since))
    assert found == since, f"{len(since)} acknowledged, {len(found)} found"
    whole = on_disk(house, topic, wanted[0])
    return Shown(mode, old, copied, whole if begins else whole - before, seconds, len(since))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.tail_move", description=__doc__)
    parser.add_argument("--bytes", type=int, default=200_000_000, help="of old records")
    parser.add_argument("--modes", nargs="*", default=["copy", "tail"], choices=["copy", "tail"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-tail-") as folder:
        house = House(Path(folder))
        try:
            house.topic(
                TOPIC,
                partitions=1,
                replication_factor=2,
                configs={"min.insync.replicas": "2", "segment.bytes": "104857600"},
            )
            fill(house, TOPIC, arguments.bytes)
            for mode in arguments.modes:
                s = one(house, TOPIC, mode, arguments.bytes)
                print(
                    f"{s.mode}: {s.old_bytes / 1e6:,.1f} MB of old records; the new broker got {s.copied_bytes / 1e6:,.1f} MB, "
                    f"written meanwhile {s.written_bytes / 1e6:,.1f} MB; {s.seconds:.0f} s; {s.acknowledged} acknowledged records since its beginning, all there, once",
                    flush=True,
                )
        finally:
            house.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
