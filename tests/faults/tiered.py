"""`python -m tests.faults.tiered`: a topic whose records are mostly in the remote store, on three brokers as processes.

First the speed of cold reads: one consumer of remote records that are in no cache of the broker, beside plain range requests to the same store. Then
several consumers read everything and compare every byte, while leaders and helpers are killed and the store is away. The page cache of the machine may have
the store's files in both measurements.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.remote.chunk_cache import CHUNK_BYTES
from brokerd.remote.stores import FolderStore
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_tiered_storage import helpers, leader_of, local_starts
from tests.cluster.tiered_settings import tiered_settings

MIB = 1024 * 1024
TOPIC = "tiered"
FAULT_SECONDS = 8.0
"""Time between two faults."""
STALLED_SECONDS = 600.0
"""A reader without a record for this time ends, and the run fails."""
PIECE_MIB = 1024
"""After so much of the topic the producer waits for local retention: three replicas of a large topic may not fit on the disk."""


def value(number: int, size: int) -> bytes:
    """The value of a record: `size` bytes that depend on its offset in every part."""
    return (b"%08d" % number) + hashlib.sha256(b"%d" % number).digest() * ((size - 8) // 32)


def produce(bootstrap: str, first: int, count: int, size: int) -> None:
    """Raises AssertionError when a record was not acknowledged."""
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 262_144}
    )
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(
                    TOPIC, value(number, size), partition=0, on_delivery=lambda e, m: failures.append(e) if e else None
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(300) == 0 and not failures, failures[:3]


class Reader(threading.Thread):
    """Reads all records from the first one and compares them."""

    def __init__(self, bootstrap: str, count: int, size: int) -> None:
        super().__init__()
        self.bootstrap, self.count, self.size = bootstrap, count, size
        self.read = self.wrong = 0
        self.first_wrong = ""

    def run(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": f"r-{os.urandom(4).hex()}", "log_level": 0}
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + STALLED_SECONDS
        while self.read < self.count and time.monotonic() < deadline:
            for message in consumer.consume(1_000, 1.0):
                if message.error() is None:
                    deadline = time.monotonic() + STALLED_SECONDS
                    if message.offset() != self.read or message.value() != value(self.read, self.size):
                        self.wrong += 1
                        self.first_wrong = self.first_wrong or f"offset {message.offset()}, expected {self.read}"
                    self.read += 1
        consumer.close()


def store_seconds(folder: Path, upto: int) -> tuple[int, float]:
    """(bytes, seconds) of range requests to the store for the segments below offset `upto`."""
    store, total, begin = FolderStore(folder), 0, time.monotonic()
    for name in sorted(n for n in store.names("") if n.endswith(".log")):
        if int(name.rpartition("/")[2][:20]) < upto:
            at = 0
            while data := store.get(name, at, CHUNK_BYTES):
                at += len(data)
            total += at
    return total, time.monotonic() - begin


def read_seconds(bootstrap: str, upto: int) -> float:
    """Seconds in which a consumer reads the records below offset `upto`."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "cold", "check.crcs": False, "fetch.message.max.bytes": 8 * MIB}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen, begin = 0, time.monotonic()
    while seen < upto:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                seen = (message.offset() or 0) + 1
    seconds = time.monotonic() - begin
    consumer.close()
    return seconds


def faults(cluster: LocalCluster, readers: list[Reader]) -> list[str]:
    """Kills and store failures until all readers have ended."""
    done, step, store = [], 0, cluster.folder / "store"
    while any(r.is_alive() for r in readers):
        step += 1
        if step % 3 == 1:
            for pid in helpers(cluster).values():
                os.kill(pid, signal.SIGKILL)
            done.append("helpers killed")
        elif step % 3 == 2:
            store.rename(cluster.folder / "away")
            time.sleep(FAULT_SECONDS / 2)
            (cluster.folder / "away").rename(store)
            done.append("store away")
        else:
            leader = leader_of(cluster, TOPIC)
            if leader > 0:
                cluster.kill(f"broker-{leader}")
                wait_for(lambda leader=leader: leader_of(cluster, TOPIC) not in (leader, -1), "a leader")  # type: ignore[misc]
                cluster.start_broker(leader)
                done.append(f"broker {leader} killed")
        deadline = time.monotonic() + FAULT_SECONDS
        while time.monotonic() < deadline and any(r.is_alive() for r in readers):
            time.sleep(0.2)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tiered", description="A tiered topic with faults, and the speed of cold reads."
    )
    parser.add_argument("--mib", type=int, default=200, help="size of the topic")
    parser.add_argument("--local-mib", type=int, default=20, help="local retention")
    parser.add_argument("--readers", type=int, default=5)
    parser.add_argument("--record-bytes", type=int, default=1_000, help="about the size of a record's value")
    arguments = parser.parse_args()
    size = len(value(0, arguments.record_bytes))
    records, local_records = arguments.mib * MIB // size, arguments.local_mib * MIB // size
    folder = Path(tempfile.mkdtemp(prefix="tiered-"))
    settings = tiered_settings(folder, copy_ms=500, retention_ms=1000)
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": str(max(MIB, arguments.local_mib * MIB // 4)),
        "local.retention.bytes": str(arguments.local_mib * MIB),
        "min.insync.replicas": "2",
    }
    try:
        with LocalCluster(folder, brokers=3, settings=settings) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1, 3, config=configs)])[TOPIC].result(60)
            begin = time.monotonic()
            piece = PIECE_MIB * MIB // size
            for first in range(0, records, piece):
                count = min(piece, records - first)
                produce(cluster.bootstrap, first, count, size)
                least = first + count - 2 * local_records
                wait_for(
                    lambda least=least: min(local_starts(cluster, TOPIC).values()) > least,  # type: ignore[misc]
                    "copies and local retention",
                    1_800,
                )
                print(f"{first + count} of {records} records after {time.monotonic() - begin:.0f} s", flush=True)
            remote = min(local_starts(cluster, TOPIC).values())
            print(f"local from offset {remote} of {records}", flush=True)
            cold = read_seconds(cluster.bootstrap, remote)
            stored, own = store_seconds(folder / "store", remote)
            print(
                f"cold read of {stored / MIB:.0f} MiB: {stored / MIB / cold:.0f} MiB/s through a broker, "
                f"{stored / MIB / own:.0f} MiB/s from the store",
                flush=True,
            )
            readers = [Reader(cluster.bootstrap, records, size) for _ in range(arguments.readers)]
            begin = time.monotonic()
            for reader in readers:
                reader.start()
            done = faults(cluster, readers)
            counts = ", ".join(f"{done.count(fault)} x {fault}" for fault in dict.fromkeys(done))
            print(f"faults in {time.monotonic() - begin:.0f} s: {counts}")
            wrong = [r for r in readers if r.wrong or r.read != records]
            for reader in wrong:
                print(f"read {reader.read} of {records}, wrong {reader.wrong}: {reader.first_wrong}")
            print(f"{len(readers) - len(wrong)} of {len(readers)} readers have read every byte")
            return 1 if wrong else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
