"""`python -m bench.routes`: CPU of a broker for a record that is produced and routed, as a ratio to a record that is only produced.

Each round produces the same records to a plain topic, and to sources of routes with 1, 100 and 1,000 bindings, in an order that changes. Every record
matches one binding: bindings are exact keys, patterns and headers in equal parts (one key with 1 binding), with ten target topics. The same 100
bindings with one target and with 100 show what a Produce request for each target partition costs. Further passes have several routes on one source, of
which each record matches one, and records that match every binding and have a copy in each target. CPU is counted
from the first record until the last one is in its target, and the CPU of the idle broker is subtracted. One broker, one partition per topic.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.kernel import cpu_clock
from bench.peer.systems import ROOT, Weir, wait_for


class Pass(NamedTuple):
    """`bindings` and `targets`: of each route. `routes`: routes on the source. `all_match`: every record matches every binding."""

    bindings: int
    targets: int
    routes: int = 1
    all_match: bool = False

    @property
    def copies(self) -> int:
        """Copies of each record."""
        return self.targets if self.all_match else 1

    def text(self) -> str:
        more = f", {self.routes} routes" if self.routes > 1 else ", all match" if self.all_match else ""
        return f"{self.bindings:,}/{self.targets}{more}"


PLAIN = Pass(0, 0, 0)
PASSES = (
    PLAIN,
    Pass(1, 1),
    Pass(100, 1),
    Pass(100, 10),
    Pass(100, 100),
    Pass(1_000, 10),
    Pass(1, 1, routes=10),
    Pass(1, 1, routes=50),
    Pass(10, 10, all_match=True),
    Pass(100, 10, all_match=True),
)
IDLE_SECONDS = 5.0
DECLARE = """
import json, sys
from controlplane.services.routes import create_route
for name, definition in json.loads(sys.stdin.read()):
    create_route(name, definition, actor="bench")
"""
Headers = list[tuple[str, str | bytes | None]]


def create_topics(system: Weir, names: list[str], replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(n, 1, replicas) for n in names]).values():
        future.result(60)

    def ready() -> bool:
        found = admin.list_topics(timeout=20).topics
        return all(n in found and found[n].partitions and len(found[n].partitions[0].isrs) == replicas for n in names)

    wait_for(ready, "topics", pause=0.1)


def match_of(number: int, count: int, all_match: bool) -> dict[str, Any]:
    kind = ("key", "pattern", "headers_any")[number % 3] if count > 1 else "key"
    if all_match:
        number = 0
    if kind == "key":
        return {"kind": kind, "value": f"orders.{number}.eu"}
    if kind == "pattern":
        return {"kind": kind, "value": f"*.{number}.#"}
    return {"kind": kind, "headers": [{"name": "route", "value": str(number)}]}


def record_of(number: int, count: int, all_match: bool) -> tuple[str, Headers]:
    """Key and headers of a record that matches binding `number` only, or all bindings."""
    if all_match:
        return "orders.0.eu", [("route", b"0")]
    if count > 1 and number % 3 == 2:
        return "other", [("route", str(number).encode())]
    return f"orders.{number}.eu", []


def declare(system: Weir, source: str, of: Pass, targets: list[str]) -> None:
    routes: list[tuple[str, dict[str, Any]]] = []
    for route in range(of.routes):
        own = targets[route * of.targets : (route + 1) * of.targets]
        first = route * of.bindings
        bindings = [
            {"target": own[i % len(own)], "match": match_of(first + i, of.bindings, of.all_match)}
            for i in range(of.bindings)
        ]
        definition = {"source": source, "start": "earliest", "enabled": True, "bindings": bindings}
        routes.append((f"r-{route}-{source}", definition))
    environment = {**os.environ, **system.plan["controller-1"].environment}
    subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "shell", "-v", "0", "-c", DECLARE],
        cwd=ROOT,
        env=environment,
        input=json.dumps(routes).encode(),
        check=True,
    )


def produce(system: Weir, topic: str, value: bytes, records: int, of: Pass) -> None:
    producer = Producer(
        {"bootstrap.servers": system.bootstrap, "log_level": 0, "acks": "1", "batch.size": 16_384, "linger.ms": 5}
    )
    kinds = [record_of(i, of.bindings, of.all_match) for i in range(max(1, of.bindings * of.routes))]
    for number in range(records):
        key, headers = kinds[number * 7_919 % len(kinds)]
        while True:
            try:
                producer.produce(topic, value, key, partition=0, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise SystemExit(f"{left} records of {topic} were not acknowledged")


def end_offsets(consumer: Consumer, topics: list[str]) -> int:
    return sum(consumer.get_watermark_offsets(TopicPartition(t, 0), timeout=20)[1] for t in topics)


def cpu_of_pass(system: Weir, name: str, of: Pass, value: bytes, records: int) -> tuple[float, float]:
    """(CPU seconds of the broker, seconds) until every record is in its targets."""
    targets = [f"{name}-target-{i}" for i in range(of.targets * of.routes)]
    create_topics(system, [name, *targets])
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench", "log_level": 0})
    written = 0
    if of.routes:
        declare(system, name, of, targets)
        kinds = of.bindings * of.routes if of.routes > 1 else 1
        produce(system, name, b"", kinds, of)  # a record for each route, so that every route runs
        written = kinds * of.copies
        wait_for(lambda: end_offsets(consumer, targets) == written, "the first routed records", pause=0.1)
    pid = system.broker_pids()[1]
    began, before = time.monotonic(), cpu_clock([pid])
    produce(system, name, value, records, of)
    if of.routes:
        expected = written + records * of.copies
        wait_for(lambda: end_offsets(consumer, targets) == expected, "the routed records", seconds=300, pause=0.2)
    spent, took = cpu_clock([pid]) - before, time.monotonic() - began
    consumer.close()
    return spent, took


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.routes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--bytes", type=int, default=1_024, help="of a record value")
    parser.add_argument(
        "--only", default="", help="passes whose text contains this, for example 'routes' or 'all match'"
    )
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    value = os.urandom(given.bytes)
    passes = [p for p in PASSES if p is PLAIN or given.only in p.text()]
    ratios: dict[Pass, list[float]] = {p: [] for p in passes if p is not PLAIN}
    with tempfile.TemporaryDirectory(prefix="weir-bench-routes-") as folder:
        system = Weir(Path(folder), 1)
        try:
            system.start()
            cpu_of_pass(system, "warm-up", PLAIN, value, 5_000)
            pids = [system.broker_pids()[1]]
            before = cpu_clock(pids)
            time.sleep(IDLE_SECONDS)
            idle = (cpu_clock(pids) - before) / IDLE_SECONDS
            print(f"{given.records:,} records of {given.bytes} bytes, load of the machine {os.getloadavg()[0]:.1f}")
            for number in range(1, given.rounds + 1):
                order = passes if number % 2 else passes[::-1]
                micros: dict[Pass, float] = {}
                for of in order:
                    name = f"source-{number}-{passes.index(of)}"
                    spent, took = cpu_of_pass(system, name, of, value, given.records)
                    micros[of] = (spent - idle * took) / given.records * 1e6
                for measured, found in ratios.items():
                    found.append(micros[measured] / micros[PLAIN])
                text = "; ".join(f"{of.text()}: {micros[of]:.1f} µs" for of in passes if of is not PLAIN)
                print(f"round {number}: plain {micros[PLAIN]:.1f} µs, bindings/targets {text}", flush=True)
            for of, found in ratios.items():
                print(f"{of.text():20} median ratio {median(found):.2f} ({min(found):.2f} to {max(found):.2f})")
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
