"""`python -m bench.many`: ten thousand partitions on one broker: create, stop, start, kill, memory, and produce; each compared with ten partitions.

The time of a start is from the request until every partition has a leader and a record is acknowledged, as a client sees it. Each pass over
all partitions has a pass over ten partitions beside it, in the same run, with two clients. librdkafka keeps a queue for each partition and may
be the limit. `raw` sends requests that were encoded before. A row in which the broker was not busy is marked *client-bound*. The limits apply
to `raw`, or, if `raw` was client-bound too, to the broker's CPU per record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import client, raw
from bench.__main__ import ROOT, local_cluster
from bench.kernel import cpu_clock, rss_mb

PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REQUEST = 10
FEW = "few"
FEW_PARTITIONS = 10
RECORD_BYTES, BATCH_BYTES = 1024, 16_384
LIMITS = {"clean_start_s": 10.0, "start_after_kill_s": 30.0, "rss_mb": 300.0, "ratio_min": 0.5}
BUSY = 0.8
"""Fraction of one core. A broker below it waited for its client."""
WAIT_SECONDS = 300


class Broker:
    """The only broker of a local cluster, controlled by `manage.py`."""

    def __init__(self, bootstrap: str, folder: str) -> None:
        self.bootstrap, self._folder = bootstrap, folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def _manage(self, *words: str) -> str:
        command = [sys.executable, "manage.py", *words, "--data-dir", self._folder]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    @property
    def pid(self) -> int:
        processes = json.loads(self._manage("status", "--json"))["processes"]
        return next(int(p["pid"]) for p in processes if p["name"] == "broker-1")

    def do(self, verb: str) -> float:
        """Seconds that the verb (stop, start or kill) took."""
        began = time.monotonic()
        self._manage("process", verb, "broker-1")
        return time.monotonic() - began

    def create(self, partitions: int) -> list[str]:
        """Create topics with that many partitions, and one topic of ten partitions; returns the names of the former."""
        names = [f"many-{i:05d}" for i in range(-(-partitions // PARTITIONS_PER_TOPIC))]
        new_topics = [NewTopic(n, PARTITIONS_PER_TOPIC, 1) for n in names] + [NewTopic(FEW, FEW_PARTITIONS, 1)]
        for at in range(0, len(new_topics), TOPICS_PER_REQUEST):
            some = new_topics[at : at + TOPICS_PER_REQUEST]
            for made in self.admin.create_topics(some, operation_timeout=60, request_timeout=120).values():
                made.result(120)
        return names

    def led(self, topic: str | None = None) -> int:
        """Number of partitions of this benchmark, or of one topic, with a leader; 0 while no broker responds."""
        try:
            topics = self.admin.list_topics(topic, timeout=5).topics.values()
        except KafkaException:
            return 0
        return sum(p.leader >= 0 for t in topics if t.topic.startswith("many-") for p in t.partitions.values())

    def until_led(self, partitions: int, topics: Sequence[str]) -> None:
        """Wait until every partition has a leader and one record each in the last created partitions is acknowledged."""
        deadline = time.monotonic() + WAIT_SECONDS
        # One topic is polled until it has a leader. A poll of all topics four times a second would be work for the broker.
        while self.led(topics[-1]) < PARTITIONS_PER_TOPIC or self.led() < partitions:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.led()} of {partitions} partitions have a leader after {WAIT_SECONDS} s")
            time.sleep(0.25)
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "acks": "all"})
        for partition in range(PARTITIONS_PER_TOPIC):
            producer.produce(topics[-1], b"after the start", partition=partition)
        if producer.flush(60):
            raise SystemExit("a record was not acknowledged after the start")

    def started(self, partitions: int, topics: Sequence[str]) -> dict[str, float]:
        """`spawned_after_s`: duration of the verb (Django, the supervisor). It is part of `seconds`, but is not work of the broker."""
        began = time.monotonic()
        spawned = self.do("start")
        self.until_led(partitions, topics)
        seconds, pid = time.monotonic() - began, self.pid
        return {
            "seconds": round(seconds, 1),
            "spawned_after_s": round(spawned, 1),
            "cpu_s": round(cpu_clock([pid]), 1),
            "rss_mb": round(rss_mb(pid), 1),
        }


class Load(NamedTuple):
    """`busy`: fraction of one core that the broker used. `broker_us`: CPU microseconds of the broker per record."""

    records_per_s: float
    broker_us: float
    busy: float


def load(broker: Broker, pid: int, topics: Sequence[str], records: int) -> Load:
    client.produce(broker.bootstrap, topics, b"x", 10 * len(topics), BATCH_BYTES, "1")  # warm-up
    before = cpu_clock([pid])
    seconds = client.produce(broker.bootstrap, topics, os.urandom(RECORD_BYTES), records, BATCH_BYTES, "1")
    cpu = cpu_clock([pid]) - before
    return Load(records / seconds, cpu / records * 1e6, cpu / seconds)


def load_raw(broker: Broker, pid: int, partitions: Sequence[tuple[str, int]], records: int) -> Load:
    """Measure a load of requests that are encoded before the measurement, with one batch per request."""
    host, port = broker.bootstrap.split(",")[0].rsplit(":", 1)
    batch, records_per_batch = raw.batch(os.urandom(RECORD_BYTES), BATCH_BYTES)
    raw.produce(host, int(port), partitions, len(partitions), [batch])  # warm-up: files, leaders
    before = cpu_clock([pid])
    requests = -(-records // records_per_batch)
    seconds = raw.produce(host, int(port), partitions, requests, [batch])
    cpu = cpu_clock([pid]) - before
    return Load(requests * records_per_batch / seconds, cpu / (requests * records_per_batch) * 1e6, cpu / seconds)


def reported(passes: Sequence[Load]) -> dict[str, Any]:
    busy = median(p.busy for p in passes)
    return {
        "records_per_s": round(median(p.records_per_s for p in passes)),
        "records_per_s_of_each_pass": [round(p.records_per_s) for p in passes],
        "broker_us_per_record": round(median(p.broker_us for p in passes), 1),
        "broker_busy": round(busy, 2),
        "client_bound": busy < BUSY,
    }


def exceeded_limits(measurements: dict[str, Any]) -> list[str]:
    """Names of the values over their limits. If the client limits the rate over all partitions, the CPU of the broker per record counts instead
    of the rate. The ratios are added to `measurements`."""
    few, many = measurements["raw_few"], measurements["raw_many"]
    for name, one, other in (("", measurements["few"], measurements["many"]), ("raw_", few, many)):
        measurements[f"{name}ratio_of_rates"] = round(other["records_per_s"] / one["records_per_s"], 2)
        measurements[f"{name}ratio_of_costs"] = round(one["broker_us_per_record"] / other["broker_us_per_record"], 2)
    ratio = max(measurements["raw_ratio_of_rates"], measurements["raw_ratio_of_costs"] if many["client_bound"] else 0.0)
    rss = max(
        measurements["rss_mb_after_load"],
        measurements["clean_start"]["rss_mb"],
        measurements["start_after_kill"]["rss_mb"],
    )
    over = {
        "clean start": measurements["clean_start"]["seconds"] > LIMITS["clean_start_s"],
        "start after kill -9": measurements["start_after_kill"]["seconds"] > LIMITS["start_after_kill_s"],
        "memory": rss > LIMITS["rss_mb"],
        "throughput": ratio < LIMITS["ratio_min"],
    }
    return [what for what, is_over in over.items() if is_over]


def measure(broker: Broker, partitions: int, records: int, passes: int) -> dict[str, Any]:
    measurements: dict[str, Any] = {"partitions": partitions, "cores": os.cpu_count()}
    began = time.monotonic()
    topics = broker.create(partitions)
    broker.until_led(partitions, topics)
    pid = broker.pid
    measurements["create"] = {
        "seconds": round(time.monotonic() - began, 1),
        "broker_cpu_s": round(cpu_clock([pid]), 1),
    }
    of_few = [(FEW, p) for p in range(FEW_PARTITIONS)]
    # The topics take turns, as with librdkafka.
    of_many = [(topic, p) for p in range(PARTITIONS_PER_TOPIC) for topic in topics]
    passed: dict[str, list[Load]] = {name: [] for name in (FEW, "many", "raw_few", "raw_many")}
    for _ in range(passes):
        passed[FEW].append(load(broker, pid, [FEW], records))
        passed["many"].append(load(broker, pid, topics, records))
        passed["raw_few"].append(load_raw(broker, pid, of_few, records))
        passed["raw_many"].append(load_raw(broker, pid, of_many, records))
    measurements.update((name, reported(some)) for name, some in passed.items())
    measurements["rss_mb_after_load"] = round(rss_mb(pid), 1)
    measurements["stop_s"] = round(broker.do("stop"), 1)
    measurements["clean_start"] = broker.started(partitions, topics)
    broker.do("kill")
    measurements["start_after_kill"] = broker.started(partitions, topics)
    return measurements


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    options.add_argument("--partitions", type=int, default=10_000)
    options.add_argument("--records", type=int, default=200_000, help="per pass")
    options.add_argument("--passes", type=int, default=5)
    options.add_argument("--port-base", type=int, default=24290)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "bench-many.json")
    arguments = options.parse_args()
    with local_cluster(arguments.port_base, "--brokers", "1", "--controllers", "1") as (cluster_info, _, _):
        broker = Broker(cluster_info["bootstrap"], cluster_info["folder"])
        measurements = measure(broker, arguments.partitions, arguments.records, arguments.passes)
    over = exceeded_limits(measurements)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(measurements, indent=2))
    print(json.dumps(measurements, indent=2))
    print(f"limits: {LIMITS}; over: {', '.join(over) or 'none'}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
