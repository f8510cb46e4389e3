"""`python -m bench.route_latency`: the time from a record in the source of a route to the record in its target, with one and with three replicas.

A producer writes `--rate` records per second to the source. One consumer reads the source and one the target, in the same process, so that each record has
three times: before the call of the producer, at the consumer of the source, and at the consumer of the target. The difference of the last two is what the
route adds to the time until a record is visible. One partition per topic, one binding, three brokers, default settings; the passes take turns.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peer.systems import Weir, wait_for
from bench.routes import Pass, create_topics, declare, end_offsets

BROKERS = 3
REPLICAS = (1, 3)
ARRIVAL_SECONDS_MAX = 60


class Arrivals:
    """Reads one topic in a thread. `at`: the time in seconds at which each record number arrived."""

    def __init__(self, system: Weir, topic: str) -> None:
        self.at: dict[int, float] = {}
        self._consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench", "log_level": 0})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stopped.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and not message.error() and (value := message.value()):
                self.at[struct.unpack_from(">q", value)[0]] = time.monotonic()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._consumer.close()


def one_pass(system: Weir, name: str, replicas: int, rate: int, seconds: int) -> list[tuple[float, float]]:
    """For each record, the milliseconds from the call of the producer to the consumer of the source, and from there to the consumer of the target."""
    target = f"{name}-target"
    create_topics(system, [name, target], replicas)
    declare(system, name, Pass(1, 1), [target])
    producer = Producer({"bootstrap.servers": system.bootstrap, "log_level": 0, "acks": "all", "linger.ms": 0})
    readers = Arrivals(system, name), Arrivals(system, target)
    probe = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench", "log_level": 0})
    producer.produce(name, struct.pack(">q", -1), "orders.0.eu", partition=0)
    producer.flush(60)
    wait_for(lambda: end_offsets(probe, [target]) == 1, "the first routed record", pause=0.1)
    probe.close()
    called: list[float] = []
    began = time.monotonic()
    for number in range(rate * seconds):
        while (early := began + number / rate - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(early, 0.002))
        called.append(time.monotonic())
        producer.produce(name, struct.pack(">q", number) + bytes(92), "orders.0.eu", partition=0)
    producer.flush(60)
    numbers = range(len(called))
    wait_for(
        lambda: all(len(r.at) > len(called) for r in readers), "all records", seconds=ARRIVAL_SECONDS_MAX, pause=0.1
    )
    for reader in readers:
        reader.close()
    source, routed = (r.at for r in readers)
    return [((source[n] - called[n]) * 1e3, (routed[n] - source[n]) * 1e3) for n in numbers]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.route_latency", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500, help="records per second")
    parser.add_argument("--seconds", type=int, default=15, help="of one pass")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    with tempfile.TemporaryDirectory(prefix="weir-bench-route-latency-") as folder:
        system = Weir(Path(folder), BROKERS)
        try:
            system.start()
            print(f"{given.rate} records/s for {given.seconds} s, load of the machine {os.getloadavg()[0]:.1f}")
            for number in range(given.rounds):  # the first one warms up
                for replicas in REPLICAS if number % 2 else REPLICAS[::-1]:
                    found = one_pass(system, f"latency-{number}-{replicas}", replicas, given.rate, given.seconds)
                    parts = []
                    for name, times in zip(
                        ("produce to source", "source to target"), zip(*found, strict=True), strict=True
                    ):
                        parts.append(f"{name} p50 {median(times):.1f} p99 {quantiles(times, n=100)[98]:.1f} ms")
                    print(f"round {number}, replicas {replicas}: {', '.join(parts)}", flush=True)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
