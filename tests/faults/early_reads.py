"""`make early-reads`: what it costs to read old records through the leader of a partition that was handed over early, beside an ordinary leader.

Two partitions of the same bytes, led by the same broker: it has all of one of them, of the other nothing that is old; that lies with others since an
early hand-over. One is read after the other by the same client, from the earliest on, turn by turn. Told are MB/s and the CPU of every broker and of
the client, and what lies between both in each turn. Does not check: more than one machine (there a hop costs a network, and has cores of its own), a disk
(what is read was just written and lies in memory), followers that read so.
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
from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_moves import replicas
from tests.faults.tail_move import RECORD, fill

OLD, NEW, STAYS = 1, 2, 3
WHOLE, APART = "whole", "apart"
CONFIGS = {"min.insync.replicas": "2", "segment.bytes": "104857600"}


@dataclass(frozen=True, slots=True)
class Reading:
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


def prepare(house: House, size: int) -> int:
    """The topics WHOLE and APART; before which offset everything is to be read."""
    house.topic(WHOLE, partitions=1, replication_factor=2, configs=CONFIGS, assignment={"0": [NEW, STAYS]})
    house.topic(APART, partitions=1, replication_factor=2, configs=CONFIGS, assignment={"0": [OLD, STAYS]})
    for topic in (WHOLE, APART):
        fill(house, topic, size)
    scope = {"kind": "partitions", "partitions": [{"topic": APART, "partition": 0, "replicas": [NEW, STAYS]}]}
    body = {"scope": scope, "mode": "tail", "handover": "early", "start": True, "why": "shown"}
    move = house.post("moves", body)["id"]
    done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
    assert done["state"] == "done" and replicas(house, APART) == [NEW, STAYS], done["note"]
    for topic in (WHOLE, APART):
        wait_for(lambda: house.partitions(topic)[0]["leader"] == NEW, f"broker {NEW} to lead", 60)  # noqa: B023
    starts = {t: house.partitions(t)[0]["archive_start"] for t in (WHOLE, APART)}
    assert starts == {WHOLE: None, APART: size // RECORD}, starts
    return size // RECORD


def read(house: House, topic: str, upto: int, pids: dict[int, int]) -> Reading:
    """Offsets 0 to `upto`, each once and in its place; speed is counted from the first record that comes."""
    settings = {"bootstrap.servers": house.bootstrap, "group.id": "reads", "enable.auto.commit": False}
    consumer = Consumer(settings)
    before, mine = {b: cpu_clock([pid]) for b, pid in pids.items()}, time.process_time()
    consumer.assign([TopicPartition(topic, 0, 0)])
    expected, size, began, deadline = 0, 0, 0.0, time.monotonic() + 300
    while expected < upto:
        assert time.monotonic() < deadline, f"{topic}: {expected} of {upto} records"
        for m in consumer.consume(min(100, upto - expected), 1.0):
            assert m.error() is None, m.error()
            assert m.offset() == expected, f"{topic}: offset {m.offset()} in the place of {expected}"
            began = began or time.monotonic()
            expected += 1
            size += len(m.value())
    seconds, gb = time.monotonic() - began, size / 1e9
    brokers = {b: (cpu_clock([pid]) - before[b]) / gb for b, pid in pids.items()}
    mine = (time.process_time() - mine) / gb
    consumer.close()
    return Reading(size / 1e6 / seconds, brokers, mine)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.early_reads", description=__doc__)
    parser.add_argument("--bytes", type=int, default=300_000_000, help="of each partition")
    parser.add_argument("--times", type=int, default=5, help="both read so often, turn by turn, after once unheard")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-early-") as folder:
        house = House(Path(folder))
        try:
            upto = prepare(house, arguments.bytes)
            pids = {b: house.pid(f"broker-{b}") for b in (OLD, NEW, STAYS)}
            turns = []
            for n in range(arguments.times + 1):
                order = (WHOLE, APART) if n % 2 else (APART, WHOLE)
                turn = {topic: read(house, topic, upto, pids) for topic in order}
                if n:
                    turns.append(turn)
                for topic in order:
                    print(
                        f"{'' if n else '(unheard) '}{topic}: {turn[topic]}; load {os.getloadavg()[0]:.1f}", flush=True
                    )
        finally:
            house.down()
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
