"""`python -m bench.majority`: the latency of acks=all with and without majority acknowledgements, while one follower pauses again and again.

Two topics have one partition, the same three replicas in the same order, and the same load at the same time. In half of the passes one of their followers
is stopped (SIGSTOP) for `--pause-ms` in each second, as by a slow disk or a busy machine. The latency of a record is the time from the call of the producer
to its acknowledgement. Each topic has its own producer, and a ratio belongs to one pass.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peer.systems import Weir
from brokerd.cluster.majority_config import MAJORITY_ACKS

BROKERS = 3
TOPICS = ("majority", "all")
VALUE = bytes(1024)
WARM_UP = 200
"""Records of each topic before the first measured record."""


class Pauses:
    """Stops a process for `pause_ms` in each second."""

    def __init__(self, pid: int, pause_ms: int) -> None:
        self._pid, self._pause_s = pid, pause_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(1 - self._pause_s):
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(self._pause_s)
            os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()


def create(system: Weir) -> int:
    """Create the topics. Returns the id of a follower of both."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    leader, one, other = 1, 2, 3
    configs = {"majority": {MAJORITY_ACKS: "true"}, "all": {}}
    topics = [NewTopic(t, 1, replica_assignment=[[leader, one, other]], config=configs[t]) for t in TOPICS]
    for created in admin.create_topics(topics).values():
        created.result(60)
    return other


def one_pass(producers: dict[str, Producer], rate: int, seconds: int) -> dict[str, list[float]]:
    """The latencies of each topic in milliseconds."""
    found: dict[str, list[float]] = {t: [] for t in TOPICS}
    failed: list[str] = []

    def send(topic: str, sent: float) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(str(error))
            found[topic].append((time.monotonic() - sent) * 1e3)

        producers[topic].produce(topic, VALUE, partition=0, on_delivery=delivered)

    began = time.monotonic()
    for number in range(rate * seconds):
        while (early := began + number / rate - time.monotonic()) > 0:
            for producer in producers.values():
                producer.poll(0)
            time.sleep(min(early, 0.001))
        for topic in TOPICS if number % 2 else TOPICS[::-1]:
            send(topic, time.monotonic())
    for producer in producers.values():
        producer.flush(60)
    if failed:
        raise SystemExit(f"{len(failed)} records failed: {failed[0]}")
    return found


def p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.majority", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rate", type=int, default=100, help="records per second and topic")
    parser.add_argument("--seconds", type=int, default=15, help="of one pass")
    parser.add_argument("--pause-ms", type=int, default=200, help="pause of a follower in each second")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    with tempfile.TemporaryDirectory(prefix="weir-bench-majority-") as folder:
        system = Weir(Path(folder), BROKERS)
        try:
            system.start()
            follower = create(system)
            settings = {"bootstrap.servers": system.bootstrap, "log_level": 0, "acks": "all", "linger.ms": 0}
            producers = {t: Producer(settings) for t in TOPICS}
            one_pass(producers, WARM_UP, 1)
            print(
                f"{given.rate} records/s per topic for {given.seconds} s, load of the machine {os.getloadavg()[0]:.1f}"
            )
            for number in range(given.rounds):
                for paused in (False, True) if number % 2 else (True, False):
                    pauses = Pauses(system.running[f"broker-{follower}"].pid, given.pause_ms) if paused else None
                    try:
                        found = one_pass(producers, given.rate, given.seconds)
                    finally:
                        if pauses is not None:
                            pauses.close()
                    what = f"a follower pauses {given.pause_ms} ms in each second" if paused else "no pauses"
                    parts = [f"{t} p50 {median(found[t]):.1f} p99 {p99(found[t]):.1f} ms" for t in TOPICS]
                    ratio = p99(found["majority"]) / p99(found["all"])
                    print(f"round {number}, {what}: {', '.join(parts)}, p99 ratio {ratio:.2f}", flush=True)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
