"""`make early-reads`: the cost of reading old records through the leader of a partition that was handed over early, compared with an ordinary leader.

Two partitions with the same bytes have the same leader. It has all records of one; the old records of the other are on the history replicas since an
early hand-over. The same client reads both from the earliest offset, alternately. The output has MB/s, the CPU of every broker and of the client, and
the ratio of both partitions in each pair. Does not check: several machines (there a hop costs a network and has its own cores), a disk (the records
were just written and are in the page cache), followers that read history.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.kernel import cpu_clock
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import replicas
from tests.faults.tail_move import RECORD, fill

OLD, NEW, STAYS = 1, 2, 3
WHOLE, APART = "whole", "apart"
CONFIGS = {"min.insync.replicas": "2", "segment.bytes": "104857600"}


@dataclass(frozen=True, slots=True)
class ReadMeasurement:
    mb_per_s: float
    brokers: dict[int, float]
    """CPU seconds per GB."""
    client: float

    @property
    def cpu(self) -> float:
        return sum(self.brokers.values())

    def __str__(self) -> str:
        each = " ".join(f"{b}: {s:.2f}" for b, s in sorted(self.brokers.items()))
        return f"{self.mb_per_s:6.1f} MB/s, CPU s per GB: brokers {self.cpu:.2f} ({each}), client {self.client:.2f}"


def prepare(devcluster: DevCluster, size: int) -> int:
    """Creates the topics WHOLE and APART. Returns the offset up to which they are read."""
    devcluster.topic(WHOLE, partitions=1, replication_factor=2, configs=CONFIGS, assignment={"0": [NEW, STAYS]})
    devcluster.topic(APART, partitions=1, replication_factor=2, configs=CONFIGS, assignment={"0": [OLD, STAYS]})
    for topic in (WHOLE, APART):
        fill(devcluster, topic, size)
    scope = {"kind": "partitions", "partitions": [{"topic": APART, "partition": 0, "replicas": [NEW, STAYS]}]}
    body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "comment": "shown"}
    move = devcluster.post("moves", body)["id"]
    done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
    assert done["state"] == "done" and replicas(devcluster, APART) == [NEW, STAYS], done["note"]
    for topic in (WHOLE, APART):
        wait_for(lambda: devcluster.partitions(topic)[0]["leader"] == NEW, f"broker {NEW} to lead", 60)  # noqa: B023
    starts = {t: devcluster.partitions(t)[0]["archive_start"] for t in (WHOLE, APART)}
    assert starts == {WHOLE: None, APART: size // RECORD}, starts
    return size // RECORD


def read(devcluster: DevCluster, topic: str, upto: int, pids: dict[int, int]) -> ReadMeasurement:
    """Reads offsets 0 to `upto`, each once and in order. The rate counts from the first record that arrives."""
    settings = {"bootstrap.servers": devcluster.bootstrap, "group.id": "reads", "enable.auto.commit": False}
    consumer = Consumer(settings)
    before, mine = {b: cpu_clock([pid]) for b, pid in pids.items()}, time.process_time()
    consumer.assign([TopicPartition(topic, 0, 0)])
    expected, size, began, deadline = 0, 0, 0.0, time.monotonic() + 300
    while expected < upto:
        assert time.monotonic() < deadline, f"{topic}: {expected} of {upto} records"
        for m in consumer.consume(min(100, upto - expected), 1.0):
            assert m.error() is None, m.error()
            assert m.offset() == expected, f"{topic}: offset {m.offset()} instead of {expected}"
            began = began or time.monotonic()
            expected += 1
            size += len(m.value())
    seconds, gb = time.monotonic() - began, size / 1e9
    brokers = {b: (cpu_clock([pid]) - before[b]) / gb for b, pid in pids.items()}
    mine = (time.process_time() - mine) / gb
    consumer.close()
    return ReadMeasurement(size / 1e6 / seconds, brokers, mine)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.early_reads", description=__doc__)
    parser.add_argument("--bytes", type=int, default=300_000_000, help="bytes per partition")
    parser.add_argument("--times", type=int, default=5, help="measured pairs of reads, after one warm-up pair")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-early-") as folder:
        devcluster = DevCluster(Path(folder))
        try:
            upto = prepare(devcluster, arguments.bytes)
            pids = {b: devcluster.pid(f"broker-{b}") for b in (OLD, NEW, STAYS)}
            turns = []
            for n in range(arguments.times + 1):
                order = (WHOLE, APART) if n % 2 else (APART, WHOLE)
                turn = {topic: read(devcluster, topic, upto, pids) for topic in order}
                if n:
                    turns.append(turn)
                for topic in order:
                    print(
                        f"{'' if n else '(warm-up) '}{topic}: {turn[topic]}; load {os.getloadavg()[0]:.1f}", flush=True
                    )
        finally:
            devcluster.down()
    for what, ratios in (
        ("speed", [t[APART].mb_per_s / t[WHOLE].mb_per_s for t in turns]),
        ("brokers' CPU", [t[APART].cpu / t[WHOLE].cpu for t in turns]),
    ):
        print(
            f"{what}, {APART} / {WHOLE}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) in {len(ratios)} turns"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
