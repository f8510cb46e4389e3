"""`make tail-move`: a partition full of old records moves to another broker under load, first in mode `copy`, then back in mode `tail`. Measures the bytes
that each move copies.

Counted on the broker that gets the replica: bytes of the partition's files when the replica is in sync, by DescribeLogDirs. An idempotent acks=all writer
runs all the time. Afterwards every record acknowledged since the new replica's start is read again, once and in order. The tail move ends by a
deletion of the old records, not by retention, so that it ends within the run. Does not check kills (tests/cluster/test_moves.py).
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

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import Ledger, other_placement, part_of, replicas

TOPIC = "leaves"
RECORD = 100_000
"""Size of an old record: large, because only the total number of bytes matters."""


@dataclass(frozen=True, slots=True)
class MoveResult:
    mode: str
    old_bytes: int
    copied_bytes: int
    written_bytes: int
    """Bytes written to the partition during the move, from the leader's log end."""
    seconds: float
    acknowledged: int


def on_disk(devcluster: DevCluster, topic: str, broker: int) -> int:
    """Bytes of records of the partition on that broker, 0 without a replica."""
    found = list(devcluster.folder.glob(f"**/broker-{broker}/**/{topic}-0"))
    return sum(f.stat().st_size for folder in found for f in folder.glob("*.log"))


def fill(devcluster: DevCluster, topic: str, size: int, partitions: int = 1) -> None:
    producer = Producer(
        {"bootstrap.servers": devcluster.bootstrap, "acks": "all", "batch.size": 1_000_000, "linger.ms": 20}
    )
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


def read_since(devcluster: DevCluster, topic: str, first: int, count: int) -> dict[int, bytes]:
    """{offset: value} of `count` records from `first` on. Older records are too many for memory."""
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": "shown", "enable.auto.commit": False})
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


def measure_move(devcluster: DevCluster, topic: str, mode: str, size: int) -> MoveResult:
    leader, wanted = int(devcluster.partitions(topic)[0]["leader"]), other_placement(devcluster, topic)
    target = wanted[0]
    old = wait_for(lambda: (n := on_disk(devcluster, topic, leader)) >= size and n, "the old records on the disk", 60)
    scope = {"kind": "partitions", "partitions": [{"topic": topic, "partition": 0, "replicas": wanted}]}

    began = time.monotonic()
    with Ledger(devcluster, topic) as ledger:
        time.sleep(1)
        before = on_disk(devcluster, topic, leader)
        move = devcluster.post("moves", {"scope": scope, "mode": mode, "start": True, "comment": "shown"})["id"]
        begins = 0
        if mode == "tail":
            wait_for(lambda: part_of(devcluster, move)["state"] == "ready", "the new replica to be in sync", 600)
            begins = part_of(devcluster, move)["tail_start"]
            time.sleep(5)
            devcluster.propose_and_approve("move.delete_records", str(move), {"confirm": topic})
        else:
            time.sleep(5)
        copied = 0

        def finished_move() -> Any:
            nonlocal copied
            copied = max(copied, on_disk(devcluster, topic, target))
            m = devcluster.get(f"moves/{move}")
            return m if m["finished_at"] else None

        done = wait_for(finished_move, "the move's end", 3_600)
        assert done["state"] == "done", done["note"]
    seconds = time.monotonic() - began
    assert replicas(devcluster, topic) == wanted and not ledger.failed
    since = {o: v for o, v in ledger.written.items() if o >= begins}
    found = read_since(devcluster, topic, min(since), len(since))
    assert found == since, f"{len(since)} acknowledged, {len(found)} found"
    whole = on_disk(devcluster, topic, wanted[0])
    return MoveResult(mode, old, copied, whole if begins else whole - before, seconds, len(since))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.tail_move", description=__doc__)
    parser.add_argument("--bytes", type=int, default=200_000_000, help="bytes of old records")
    parser.add_argument("--modes", nargs="*", default=["copy", "tail"], choices=["copy", "tail"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-tail-") as folder:
        devcluster = DevCluster(Path(folder))
        try:
            devcluster.topic(
                TOPIC,
                partitions=1,
                replication_factor=2,
                configs={"min.insync.replicas": "2", "segment.bytes": "104857600"},
            )
            fill(devcluster, TOPIC, arguments.bytes)
            for mode in arguments.modes:
                s = measure_move(devcluster, TOPIC, mode, arguments.bytes)
                print(
                    f"{s.mode}: {s.old_bytes / 1e6:,.1f} MB of old records; the new broker got {s.copied_bytes / 1e6:,.1f} MB, "
                    f"written meanwhile {s.written_bytes / 1e6:,.1f} MB; {s.seconds:.0f} s; {s.acknowledged} records acknowledged since its start, each found exactly one time",
                    flush=True,
                )
        finally:
            devcluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
