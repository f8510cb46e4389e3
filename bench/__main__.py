"""`python -m bench`: produce and consume on a separate local cluster; prints a table and writes build/bench.json.

Rates depend on the machine and on the Python client that shares it. Broker CPU seconds per GB of record values are more stable, but they also
vary with the current cost of the machine's kernel. Each value is the median of several passes. Before and after each pass the bare loop of
`control` runs. The limit (1.5 times the value of a prototype, LIMITS) grows with it if this machine is slower than the prototype's. It never
shrinks.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench import control
from bench.client import consume, produce
from bench.kernel import cpu_clock, cpu_seconds, rss_mb

ROOT = Path(__file__).resolve().parents[1]
IDLE_SECONDS = 5.0
RSS_MB_MAX = 60
READY_SECONDS_MAX = 20
LIMITS = {
    ("produce", 100, 1_000_000): 0.96 * 1.5,
    ("produce", 1024, 1_000_000): 0.61 * 1.5,
    ("produce", 1024, 16_384): 2.9 * 1.5,
    ("consume", 100, 1_000_000): 0.36 * 1.5,
    ("consume", 1024, 1_000_000): 0.20 * 1.5,
}
"""Broker CPU s/GB by (act, record bytes, batch bytes), one replica, acks=1, no compression."""


@dataclass(frozen=True, slots=True)
class Result:
    act: str
    record_bytes: int
    batch_bytes: int
    replicas: int
    records: int
    seconds: float
    mb_per_s: float
    records_per_s: int
    broker_cpu_s_per_gb: float
    broker_cpu_passes: list[float]
    user_s_per_gb: float
    machine: float
    limit: float | None


@dataclass(frozen=True, slots=True)
class Case:
    record_bytes: int
    batch_bytes: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Pass:
    """`user`, `system`: CPU seconds of the brokers per GB, counted in clock ticks. `cpu`: their sum, counted in nanoseconds. `machine`: its cost factor."""

    seconds: float
    user: float
    system: float
    cpu: float
    machine: float


@contextmanager
def local_cluster(
    port_base: int, *options: str, tree: Path = ROOT
) -> Iterator[tuple[dict[str, Any], dict[int, int], float]]:
    """The output of `up` (and its `folder`), the pids of the brokers by id, the seconds until ready. `tree`: the checkout whose program runs."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        manage = [sys.executable, "manage.py"]
        began = time.monotonic()
        up = subprocess.run(
            [
                *manage,
                "up",
                "--data-dir",
                folder,
                "--port-base",
                str(port_base),
                "--brokers",
                "3",
                "--no-demo",
                "--detach",
                "--json",
                *options,
            ],
            cwd=tree,
            capture_output=True,
            text=True,
            check=False,
        )
        if up.returncode:
            raise SystemExit(up.stderr)
        seconds = time.monotonic() - began
        try:
            status = subprocess.run(
                [*manage, "status", "--json", "--data-dir", folder],
                cwd=tree,
                capture_output=True,
                text=True,
                check=True,
            )
            processes = json.loads(status.stdout)["processes"]
            brokers = {int(p["name"][7:]): p["pid"] for p in processes if p["name"].startswith("broker-")}
            yield {**json.loads(up.stdout), "folder": folder}, brokers, seconds
        finally:
            subprocess.run([*manage, "down", "--data-dir", folder], cwd=tree, capture_output=True, check=False)


def one_pass(
    bootstrap: str, brokers: dict[int, int], topic: str, case: Case, count: int, folder: Path, reads: int = 1
) -> dict[str, Pass]:
    """Produce `count` records to a new topic, consume them `reads` times, and run the control loop beside each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, case.replicas, config={"min.insync.replicas": "1"})])[topic].result(30)
    value = os.urandom(case.record_bytes)
    # With one replica the other brokers have no work in this pass. Their idle cost is reported separately.
    leader = admin.list_topics(topic, timeout=20).topics[topic].partitions[0].leader
    pids = [brokers[leader]] if case.replicas == 1 else list(brokers.values())
    out = {}
    for act in ("produce", "consume"):
        machine = control.factor(act, case.batch_bytes, folder)
        user, system = cpu_seconds(pids)
        cpu = cpu_clock(pids)
        if act == "produce":
            seconds = produce(bootstrap, [topic], value, count, case.batch_bytes, "1" if case.replicas == 1 else "all")
        else:
            seconds = sum(consume(bootstrap, [topic], count) for _ in range(reads))
        cpu = cpu_clock(pids) - cpu
        user_after, system_after = cpu_seconds(pids)
        machine = (machine + control.factor(act, case.batch_bytes, folder)) / 2
        gb = count * case.record_bytes / 1e9 * (reads if act == "consume" else 1)
        out[act] = Pass(seconds, (user_after - user) / gb, (system_after - system) / gb, cpu / gb, machine)
    admin.delete_topics([topic])[topic].result(30)
    return out


def runs(bootstrap: str, brokers: dict[int, int], share: float, passes: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="weir-bench-control-") as folder:
        for replicas, (record_bytes, megabytes), batch_bytes in itertools.product(
            (1, 3), ((100, 300), (1024, 400)), (16_384, 1_000_000)
        ):
            case = Case(record_bytes, batch_bytes, replicas)
            count = int(megabytes * share * 1e6 / record_bytes)
            done = [
                one_pass(
                    bootstrap, brokers, f"bench-{replicas}-{record_bytes}-{batch_bytes}-{i}", case, count, Path(folder)
                )
                for i in range(passes)
            ]
            for act in ("produce", "consume"):
                mine = [d[act] for d in done]
                seconds, machine = median(p.seconds for p in mine), median(p.machine for p in mine)
                limit = LIMITS.get((act, record_bytes, batch_bytes)) if replicas == 1 else None
                yield Result(
                    act,
                    record_bytes,
                    batch_bytes,
                    replicas,
                    count,
                    round(seconds, 2),
                    round(count * record_bytes / seconds / 1e6, 1),
                    round(count / seconds),
                    round(median(p.user + p.system for p in mine), 2),
                    [round(p.user + p.system, 2) for p in mine],
                    round(median(p.user for p in mine), 2),
                    round(machine, 2),
                    None if limit is None else round(limit * max(1.0, machine), 2),
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--passes", type=int, default=3, help="runs per metric, of which the median is printed")
    parser.add_argument("--port-base", type=int, default=24090)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json")
    arguments = parser.parse_args()
    bad = 0
    with local_cluster(arguments.port_base) as (cluster_info, brokers, ready_seconds):
        pids = list(brokers.values())
        time.sleep(IDLE_SECONDS)  # a measurement, not a wait for a condition: the cost of an idle broker
        before = cpu_clock(pids)
        time.sleep(IDLE_SECONDS)
        idle: dict[str, Any] = {
            "ready_seconds": round(ready_seconds, 1),
            "broker_rss_mb": [round(rss_mb(p), 1) for p in pids],
            "broker_cpu_percent": round((cpu_clock(pids) - before) / IDLE_SECONDS / len(pids) * 100, 2),
        }
        print(
            f"up ready in {idle['ready_seconds']} s (limit {READY_SECONDS_MAX}); idle broker: "
            f"{max(idle['broker_rss_mb'])} MB RSS (limit {RSS_MB_MAX}), {idle['broker_cpu_percent']} % of a core"
        )
        bad += ready_seconds > READY_SECONDS_MAX
        bad += max(idle["broker_rss_mb"]) > RSS_MB_MAX
        print(
            f"\n{'act':<8} {'record':>7} {'batch':>9} {'RF':>3} {'MB/s':>8} {'records/s':>10} {'CPU s/GB':>9} {'user':>6} "
            f"{'machine':>8} {'limit':>6}"
        )
        results = []
        for r in runs(cluster_info["bootstrap"], brokers, 0.1 if arguments.quick else 1.0, arguments.passes):
            results.append(r)
            over = r.limit is not None and r.broker_cpu_s_per_gb > r.limit
            bad += over
            print(
                f"{r.act:<8} {r.record_bytes:>7} {r.batch_bytes:>9} {r.replicas:>3} {r.mb_per_s:>8} {r.records_per_s:>10} "
                f"{r.broker_cpu_s_per_gb:>9} {r.user_s_per_gb:>6} {r.machine:>7}x {f'{r.limit:.2f}' if r.limit else '-':>6}"
                f"{'  over' if over else ''}",
                flush=True,
            )
        loaded = [round(rss_mb(p), 1) for p in pids]
    conditions = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "client": "confluent-kafka, on the same machine",
        "cpu": "user and system seconds per 1e9 bytes of values, of the leader (one replica) or of all brokers",
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps(
            {"conditions": conditions, "idle": idle, "rss_mb_after": loaded, "results": [asdict(r) for r in results]},
            indent=2,
        )
    )
    print(f"\nRSS afterwards: {loaded} MB; written to {arguments.out}; {bad} measurements over their limit")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
