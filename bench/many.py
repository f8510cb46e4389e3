"""`python -m bench.many`: ten thousand partitions on one broker: made, stopped, started, killed, in memory, and produced to, beside ten.

A start is timed from the moment it is asked for until every partition has a leader and a record is acknowledged, as a client sees it.
Each pass over all partitions has one over ten partitions beside it, in the same run, by two clients: librdkafka, which keeps a queue for each
partition and may be the limit, and one that sends requests made beforehand (`raw`). A row in which the broker was not busy is marked
*client-bound*; what is judged is `raw`, and where even that was the limit the broker's CPU per record.
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
from bench.__main__ import ROOT, house
from bench.kernel import cpu_clock, rss_mb

PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REQUEST = 10
FEW = "few"
FEW_PARTITIONS = 10
RECORD_BYTES, BATCH_BYTES = 1024, 16_384
LIMITS = {"clean_start_s": 10.0, "start_after_kill_s": 30.0, "rss_mb": 300.0, "ratio_min": 0.5}
BUSY = 0.8
"""Of one core: a broker below that waited for its client."""
WAIT_SECONDS = 300


class Broker:
    """The one broker of a house, as `manage.py` shows and moves it."""

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
        """Seconds that stop, start or kill took."""
        began = time.monotonic()
        self._manage("process", verb, "broker-1")
        return time.monotonic() - began

    def create(self, partitions: int) -> list[str]:
        """The topics that hold them; beside them, one of ten partitions."""
        names = [f"many-{i:05d}" for i in range(-(-partitions // PARTITIONS_PER_TOPIC))]
        wanted = [NewTopic(n, PARTITIONS_PER_TOPIC, 1) for n in names] + [NewTopic(FEW, FEW_PARTITIONS, 1)]
        for at in range(0, len(wanted), TOPICS_PER_REQUEST):
            some = wanted[at : at + TOPICS_PER_REQUEST]
            for made in self.admin.create_topics(some, operation_timeout=60, request_timeout=120).values():
                made.result(120)
        return names

    def led(self, topic: str | None = None) -> int:
        """Partitions of ours with a leader, or of one topic; 0 while nobody answers."""
        try:
            topics = self.admin.list_topics(topic, timeout=5).topics.values()
        except KafkaException:
            return 0
        return sum(p.leader >= 0 for t in topics if t.topic.startswith("many-") for p in t.partitions.values())

    def until_led(self, partitions: int, topics: Sequence[str]) -> None:
        """Until every partition has a leader, and one record each in the last partitions made is acknowledged."""
        deadline = time.monotonic() + WAIT_SECONDS
        # One topic is asked for until it is led: to list all of them four times a second would be work for the broker.
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
        """`spawned_after_s` is what the verb took (Django, the supervisor): part of `seconds`, and none of the broker's."""
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
    """`busy` is the broker's share of one core, `broker_us` its CPU microseconds per record."""

    records_per_s: float
    broker_us: float
    busy: float


def load(broker: Broker, pid: int, topics: Sequence[str], records: int) -> Load:
    client.produce(broker.bootstrap, topics, b"x", 10 * len(topics), BATCH_BYTES, "1")  # connections, files, leaders
    before = cpu_clock([pid])
    seconds = client.produce(broker.bootstrap, topics, os.urandom(RECORD_BYTES), records, BATCH_BYTES, "1")
    cpu = cpu_clock([pid]) - before
    return Load(records / seconds, cpu / records * 1e6, cpu / seconds)


def load_raw(broker: Broker, pid: int, partitions: Sequence[tuple[str, int]], records: int) -> Load:
    """The same with requests that were made before, a batch each."""
    host, port = broker.bootstrap.split(",")[0].rsplit(":", 1)
    batch, holds = raw.batch(os.urandom(RECORD_BYTES), BATCH_BYTES)
    raw.produce(host, int(port), partitions, len(partitions), batch)  # files, leaders
    before = cpu_clock([pid])
    requests = -(-records // holds)
    seconds = raw.produce(host, int(port), partitions, requests, batch)
    cpu = cpu_clock([pid]) - before
    return Load(requests * holds / seconds, cpu / (requests * holds) * 1e6, cpu / seconds)


def told(passes: Sequence[Load]) -> dict[str, Any]:
    busy = median(p.busy for p in passes)
    return {
        "records_per_s": round(median(p.records_per_s for p in passes)),
        "records_per_s_of_each_pass": [round(p.records_per_s) for p in passes],
        "broker_us_per_record": round(median(p.broker_us for p in passes), 1),
        "broker_busy": round(busy, 2),
        "client_bound": busy < BUSY,
    }


def judged(said: dict[str, Any]) -> list[str]:
    """What is over its limit. Where the client was the limit over all partitions, the broker's CPU per record stands for the rates."""
    few, many = said["raw_few"], said["raw_many"]
    for name, one, other in (("", said["few"], said["many"]), ("raw_", few, many)):
        said[f"{name}ratio_of_rates"] = round(other["records_per_s"] / one["records_per_s"], 2)
        said[f"{name}ratio_of_costs"] = round(one["broker_us_per_record"] / other["broker_us_per_record"], 2)
    ratio = max(said["raw_ratio_of_rates"], said["raw_ratio_of_costs"] if many["client_bound"] else 0.0)
    rss = max(said["rss_mb_after_load"], said["clean_start"]["rss_mb"], said["start_after_kill"]["rss_mb"])
    over = {
        "clean start": said["clean_start"]["seconds"] > LIMITS["clean_start_s"],
        "start after kill -9": said["start_after_kill"]["seconds"] > LIMITS["start_after_kill_s"],
        "memory": rss > LIMITS["rss_mb"],
        "throughput": ratio < LIMITS["ratio_min"],
    }
    return [what for what, is_over in over.items() if is_over]


def measure(broker: Broker, partitions: int, records: int, passes: int) -> dict[str, Any]:
    said: dict[str, Any] = {"partitions": partitions, "cores": os.cpu_count()}
    began = time.monotonic()
    topics = broker.create(partitions)
    broker.until_led(partitions, topics)
    pid = broker.pid
    said["create"] = {
        "seconds": round(time.monotonic() - began, 1),
        "broker_cpu_s": round(cpu_clock([pid]), 1),
    }
    of_few = [(FEW, p) for p in range(FEW_PARTITIONS)]
    # Topics take turns, as librdkafka is asked to.
    of_many = [(topic, p) for p in range(PARTITIONS_PER_TOPIC) for topic in topics]
    passed: dict[str, list[Load]] = {name: [] for name in (FEW, "many", "raw_few", "raw_many")}
    for _ in range(passes):
        passed[FEW].append(load(broker, pid, [FEW], records))
        passed["many"].append(load(broker, pid, topics, records))
        passed["raw_few"].append(load_raw(broker, pid, of_few, records))
        passed["raw_many"].append(load_raw(broker, pid, of_many, records))
    said.update((name, told(some)) for name, some in passed.items())
    said["rss_mb_after_load"] = round(rss_mb(pid), 1)
    said["stop_s"] = round(broker.do("stop"), 1)
    said["clean_start"] = broker.started(partitions, topics)
    broker.do("kill")
    said["start_after_kill"] = broker.started(partitions, topics)
    return said


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    options.add_argument("--partitions", type=int, default=10_000)
    options.add_argument("--records", type=int, default=200_000, help="per pass")
    options.add_argument("--passes", type=int, default=5)
    options.add_argument("--port-base", type=int, default=24290)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "bench-many.json")
    asked = options.parse_args()
    with house(asked.port_base, "--brokers", "1", "--controllers", "1") as (answer, _, _):
        broker = Broker(answer["bootstrap"], answer["folder"])
        said = measure(broker, asked.partitions, asked.records, asked.passes)
    over = judged(said)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(said, indent=2))
    print(json.dumps(said, indent=2))
    print(f"limits: {LIMITS}; over: {', '.join(over) or 'none'}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
