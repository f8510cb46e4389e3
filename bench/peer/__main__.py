"""`python -m bench.peer`: Weir and Apache Kafka in alternating passes; writes a table, the values and a page of plots to bench/results/.

All systems run on one core, the client on another, and one system is measured at a time: weir, kafka, weir, kafka. A shared machine affects
both sides of a pair. Ratios are therefore reported with their spread, and with the number of cores that other processes used.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from bench.kernel import congestion_control, cpu_clock, pin, rss_mb
from bench.peer import fetch, report
from bench.peer.faults import cold_pass, kill_pass, restart_pass
from bench.peer.report import Row
from bench.peer.rows import LOADS, RATES, Load, Rate
from bench.peer.runs import BACKLOG_READS, Cores, Spent, load_pass, rate_pass
from bench.peer.systems import PEERS, SESSION_MS, System, Weir
from weir_common.java import find_java

ROOT = Path(__file__).resolve().parents[2]
IDLE_SECONDS = 10.0
PARTS = ("cold", "idle", "kill", "restart", "rate", "load", "memory")
Say = Callable[[Row], None]


def _command(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def versions(systems: list[str], absent: dict[str, str], pairs: int) -> dict[str, Any]:
    model = next(
        (x.partition(":")[2].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), "?"
    )
    java = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _command("git", "rev-parse", "--short", "HEAD")
        + ("+changes" if _command("git", "status", "--porcelain", "brokerd") else ""),
        "machine": f"{model}, {os.cpu_count()} cores, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB, Linux {platform.release()}",
        "congestion control of TCP": congestion_control(),
        "load average at the start": " ".join(f"{x:.1f}" for x in os.getloadavg()),
        "compared": ", ".join(systems),
        "absent": "; ".join(f"Kafka ({kind}): {reason}" for kind, reason in absent.items()) or "nothing",
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "?",
        "client": f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
        "pairs": pairs,
        "settings": f"each system's defaults (Kafka: -Xmx1G -Xms1G and the JVM flags of its scripts); sessions {SESSION_MS} ms everywhere; no flush per produce request",
    }


class Run:
    """The compared systems, their order, and the time limit."""

    def __init__(self, systems: list[System], pairs: int, deadline: float, say: Say) -> None:
        self.systems, self.pairs, self.deadline, self.say = systems, pairs, deadline, say
        self.left_out: list[str] = []
        self.failed: list[str] = []
        self._labels = itertools.count(1)

    def label(self) -> str:
        return str(next(self._labels))

    def row(self, run: Callable[[], None]) -> None:
        """Run one row. The failure of a row does not stop the others; it is reported at the end."""
        try:
            run()
        except (SystemExit, KafkaException) as e:
            print(f"a row is missing: {e}", flush=True)
            self.failed.append(str(e))

    def turns(self, what: str, warm: bool) -> Iterator[tuple[System, bool]]:
        """(system, whether the pass counts): the systems in turn, `pairs` times, after a round that does not count if `warm`."""
        if time.monotonic() > self.deadline:
            self.left_out.append(what)
            return
        for i in range(-int(warm), self.pairs):
            for system in self.systems:
                yield system, i >= 0

    def loads(self, load: Load) -> None:
        spent: dict[str, dict[str, list[Spent]]] = {}
        for system, counts in self.turns(f"{load.name}, {load.terms}", warm=True):
            for act, found in load_pass(system, load, self.label(), CORES).items():
                if counts:
                    spent.setdefault(act, {}).setdefault(system.name, []).append(found)
        written = load.count * load.record_bytes / 1e6
        for act, passes in spent.items():
            name, times = (load.name, 1) if act == "produce" else (load.backlog_name, BACKLOG_READS)
            megabytes = times * written
            bound = [n for n, s in passes.items() if sum(x.client_bound for x in s) * 2 > len(s)]
            others = median(x.others for s in passes.values() for x in s)
            rates = {n: [megabytes / x.seconds for x in s] for n, s in passes.items()}
            costs = {n: [x.brokers_cpu / megabytes * 1000 for x in s] for n, s in passes.items()}
            self.say(Row(name, load.terms, "rate", "MB/s", True, rates, bound, others))
            self.say(Row(name, load.terms, "broker CPU", "s/GB", False, costs, [], others))

    def rates(self, rate: Rate) -> None:
        found: dict[str, list[tuple[dict[str, float], Spent]]] = {}
        for system, counts in self.turns(f"{rate.name}, {rate.terms}", warm=True):
            out = rate_pass(system, rate, self.label(), CORES)
            if counts:
                found.setdefault(system.name, []).append(out)
        if not found:
            return
        others = median(s.others for passes in found.values() for _, s in passes)
        for p in ("p50", "p99", "p99.9"):
            values = {n: [x[p] for x, _ in passes] for n, passes in found.items()}
            self.say(Row(rate.name, rate.terms, f"latency {p}", "ms", False, values, [], others))
        values = {n: [s.brokers_cpu / s.seconds * 100 for _, s in passes] for n, passes in found.items()}
        self.say(Row(rate.name, rate.terms, "broker CPU", "% of a core", False, values, [], others))

    def seconds(
        self, act: Callable[[System, str], dict[str, float]], measurements: dict[str, tuple[str, str, str, str]]
    ) -> None:
        """`measurements`: key of the result of `act` -> name, terms, value, unit."""
        found: dict[str, dict[str, list[float]]] = {}
        for system, _ in self.turns(next(iter(measurements.values()))[0], warm=False):
            for key, value in act(system, self.label()).items():
                found.setdefault(key, {}).setdefault(system.name, []).append(value)
        for key, values in found.items():
            name, terms, metric, unit = measurements[key]
            self.say(Row(name, terms, metric, unit, False, values))


CORES = Cores(*((sorted(os.sched_getaffinity(0)) * 2)[:2]))


def _memory(systems: list[System], name: str, field: str, say: Say) -> None:
    say(
        Row(
            name,
            "per broker",
            "RSS",
            "MiB",
            False,
            {s.name: [rss_mb(p, field) for p in s.broker_pids().values()] for s in systems},
        )
    )
    say(
        Row(
            name,
            "brokers and coordinators together",
            "RSS",
            "MiB",
            False,
            {s.name: [sum(rss_mb(p, field) for p in s.pids().values())] for s in systems},
        )
    )


def _idle(systems: list[System], say: Say) -> None:
    time.sleep(IDLE_SECONDS)  # a measurement, not a wait for a condition: the cost of an idle broker
    before = {s.name: [cpu_clock([p]) for p in s.broker_pids().values()] for s in systems}
    time.sleep(IDLE_SECONDS)
    values = {
        s.name: [
            (cpu_clock([p]) - b) / IDLE_SECONDS * 100
            for p, b in zip(s.broker_pids().values(), before[s.name], strict=True)
        ]
        for s in systems
    }
    say(Row("idle", "per broker of three", "CPU", "% of a core", False, values))


def _measure_running(run: Run, parts: list[str], quick: bool, only: str, say: Say) -> None:
    """All parts that need all systems running, with three brokers each."""
    systems = run.systems

    def is_selected(row: Load | Rate, quick: bool) -> bool:
        return (row.quick or not quick) and only in f"{row.name} {row.terms}"

    def pin_all(cores: set[int]) -> None:
        pin([pid for s in systems for pid in s.pids().values()], cores)

    if "idle" in parts:
        _idle(systems, say)
        _memory(systems, "idle", "VmRSS", say)
    if "kill" in parts:
        terms = f"RF 3, acks=all, session {SESSION_MS} ms"
        run.row(
            lambda: run.seconds(
                kill_pass,
                {
                    "failover": ("kill -9 of a leader", terms, "until the next acknowledgement", "s"),
                    "recovery": (
                        "start after kill -9",
                        "RF 1, 200 MB in the active segment",
                        "until the first acknowledgement",
                        "s",
                    ),
                    "whole": ("start after kill -9", "RF 3", "until the ISR is complete", "s"),
                },
            )
        )
    if "restart" in parts:
        measurements = {"restart": ("start after a clean shutdown", "RF 1", "until the first acknowledgement", "s")}
        run.row(lambda: run.seconds(restart_pass, measurements))
    pin_all({CORES.brokers})
    if "rate" in parts:
        for rate in RATES:
            if is_selected(rate, quick):
                run.row(partial(run.rates, replace(rate, seconds=rate.seconds / 2) if quick else rate))
    if "load" in parts:
        for load in LOADS:
            if is_selected(load, quick):
                run.row(partial(run.loads, load))
    if "memory" in parts:
        _memory(systems, "peak after all loads", "VmHWM", say)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peer", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rows, three pairs, the newest Kafka alone, under 8 minutes"
    )
    parser.add_argument("--pairs", type=int, help="default: 5, quick: 3")
    parser.add_argument("--minutes", type=float, help="no row begins later than this (default: 75, quick: 6.5)")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), help="default: all, quick: kraft")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--only",
        default="",
        help="only the loads and rates with this text in their name and terms: TLS, 'RF 3', rate-1000",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    arguments = parser.parse_args()
    quick = arguments.quick
    pairs = arguments.pairs or (3 if quick else 5)
    deadline = time.monotonic() + 60 * (arguments.minutes or (6.5 if quick else 75))
    kinds: dict[str, Callable[[Path, int], System]] = {"weir": Weir}
    absent = {}
    for kind in arguments.peers if arguments.peers is not None else (["kraft"] if quick else list(PEERS)):
        try:
            fetch.jars(PEERS[kind].version)
            kinds[kind] = PEERS[kind]
        except fetch.Absent as e:
            absent[kind] = str(e)
            print(f"no column for Kafka ({kind}): {e}", flush=True)
    rows: list[Row] = []
    conditions = versions([], absent, pairs)
    stem = f"{datetime.now(UTC):%Y-%m-%d}-{conditions['commit']}{'-quick' if quick else ''}"

    def say(row: Row) -> None:
        rows.append(row)
        found = "  ".join(f"{n} {median(v):.4g}" for n, v in row.values.items())
        ratios = "  ".join(f"{report._ratio(row, n)}" for n in row.values if n != report.WEIR)
        note = f"  client-bound: {', '.join(row.client_bound)}" if row.client_bound else ""
        print(f"{row.name} [{row.terms}] {row.metric} {row.unit}: {found} | {ratios}{note}", flush=True)
        report.write(arguments.out, stem, conditions, rows)

    with tempfile.TemporaryDirectory(prefix="weir-bench-peer-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        systems = []
        for kind, make in kinds.items():
            (folder / kind).mkdir()
            systems.append(make(folder / kind, 3))
            stack.callback(systems[-1].close)
        conditions["compared"] = ", ".join(s.name for s in systems)
        run = Run(systems, pairs, deadline, say)
        makers = dict(zip((s.name for s in systems), kinds.values(), strict=True))
        if "cold" in arguments.parts:
            run.seconds(
                lambda system, label: cold_pass(makers[system.name], folder / f"cold-{label}"),
                {
                    "cold": (
                        "start from an empty directory",
                        "one broker and its coordinator",
                        "until the first acknowledgement",
                        "s",
                    ),
                    "cold_rss_mb": ("after the first record", "one broker and its coordinator", "RSS", "MiB"),
                },
            )
        if set(arguments.parts) - {"cold"}:
            for system in systems:
                system.start()
            _measure_running(run, arguments.parts, quick, arguments.only, say)
    conditions["skipped because of the time limit"] = ", ".join(run.left_out) or "nothing"
    conditions["rows that failed"] = "; ".join(run.failed) or "none"
    busy = [r.others for r in rows if r.others is not None]
    if busy:
        conditions["shared machine"] = f"other processes kept {median(busy):.1f} cores busy (median of the rows)"
    for path in report.write(arguments.out, stem, conditions, rows):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
