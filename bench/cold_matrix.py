"""`python -m bench.cold_matrix`: latency of producers while old records are read from a disk, for Weir and Apache Kafka in one run.

Producers send 1,000 records/s of 1 KiB, or 20 MB/s in records of 10 KB, with acks=1 and acks=all, first alone ("quiet") and then beside a load:
one reader, ten readers, or a replica that copies a partition from its start. The disk of the leader has no limit, a limit of its reads or a limit
of its writes (blkio controller, which needs root). The pages of the old records are dropped from memory before each load. A ratio belongs to one round.

The replica that copies is one whose directory was deleted while its broker was down: on both systems it reads all records from the leader, as the
new replica of a move does. All brokers share one core, and all clients another one; readers have a lower priority there than the producer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

from bench.client import latencies, percentile, produce
from bench.cold import COLD_RECORD_BYTES, LIMITS, drop_pages, limited
from bench.kernel import congestion_control, cpu_clock, on_cores, pin
from bench.peer import fetch
from bench.peer.runs import isr_size, make_topics, place_topics
from bench.peer.systems import PEERS, System, Weir, wait_for
from bench.readers import Reader

MB = 1_000_000
LIMIT_MB_PER_S = 50
LEADER, COPIER = 1, 4
"""The broker that leads every partition, and the one whose replica copies."""
BROKERS = 4
COLD_TOPICS = 10
"""Number of topics with old records, of one partition each. Ten readers read one topic each, and one reader reads all of them, one after another."""
WARM_SECONDS = 10
"""Time until the JVM has compiled its hot methods."""
BEGIN_SECONDS = 1.0
"""Time between the start of a load and that of the producer."""
READER_NICENESS = 10


class Disk(StrEnum):
    """The limit of the leader's disk."""

    PLAIN = "plain"
    READS = "reads 50 MB/s"
    WRITES = "writes 50 MB/s"


class Load(StrEnum):
    ONE = "1 reader"
    TEN = "10 readers"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Rate:
    """`records` per second of `record_bytes`."""

    name: str
    records: int
    record_bytes: int


RATES = (Rate("1,000/s", 1_000, 1024), Rate("20 MB/s", 2_000, 10_000))
ACKS = {"1": "live-1", "all": "live-all"}
"""{acks: the topic of the producer}: RF 1, and RF 3 on brokers that do not copy."""
COPIER_TOPIC = "live-copier"
"""The topic of the producer with acks=all during a copy: RF 3, with COPIER."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In ms, of one pass. `load_mb_per_s`: bytes that the leader read from its disk. `cpu`: cores of the leader."""

    p50: float
    p99: float
    p999: float
    max: float
    load_mb_per_s: float
    cpu: float


def read_bytes(pid: int) -> int:
    """Bytes that the process has caused to be read from disks so far (/proc/PID/io)."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes:")).split()[1])


def topics_of(number: int, readers: int) -> Iterator[str]:
    """The topics of reader `number` of `readers`, again and again."""
    return cycle([f"cold-{n}" for n in range(number, COLD_TOPICS, readers)])


def read_forever(port: int, readers: int, end: int) -> None:
    """The process of the readers, which is ended by a signal. `end`: end offset of each topic."""
    os.nice(READER_NICENESS)
    address = ("127.0.0.1", port)
    with selectors.DefaultSelector() as selector:
        for number in range(readers):
            topics = topics_of(number, readers)
            reader = Reader(address, next(topics), end)
            selector.register(reader.socket, selectors.EVENT_READ, (reader, topics))
            reader.fetch()
        while True:
            for key, _ in selector.select():
                reader, topics = key.data
                if reader.receive():
                    reader.begin(next(topics))


@contextmanager
def readers(system: System, count: int, end: int) -> Iterator[None]:
    numbers = {"--read-port": system.ports[LEADER], "--readers": count, "--end": end}
    arguments = [str(word) for pair in numbers.items() for word in pair]
    process = subprocess.Popen([sys.executable, "-m", "bench.cold_matrix", *arguments], cwd=fetch.ROOT)
    try:
        yield
        if process.poll() is not None:
            raise SystemExit("the readers ended too early")
    finally:
        process.kill()
        process.wait(60)


@contextmanager
def copying(system: System) -> Iterator[None]:
    """The replica of `copied` on COPIER has lost its records and reads them from the leader. Otherwise COPIER does not run. With acks=all the producer waits
    for COPIER too, which follows COPIER_TOPIC and has joined its ISR."""
    for folder in system.folder.glob(f"{system.log_dirs.replace('*', str(COPIER))}/copied-0"):
        shutil.rmtree(folder)
    before = read_bytes(system.broker_pids()[LEADER])
    system.start_broker(COPIER)
    pin([system.broker_pids()[COPIER]], {0})
    try:
        wait_for(lambda: read_bytes(system.broker_pids()[LEADER]) > before + 2 * MB, "the replica to copy", pause=0.05)
        wait_for(lambda: isr_size(system, COPIER_TOPIC) == 3, "the ISR of the producer's topic", pause=0.05)
        yield
    finally:
        system.end_broker(COPIER, signal.SIGKILL)


def loaded(system: System, load: Load, end: int) -> AbstractContextManager[None]:
    """`end`: end offset of each topic with old records."""
    return copying(system) if load is Load.COPY else readers(system, 1 if load is Load.ONE else COLD_TOPICS, end)


def cold_end(gigabytes: int) -> int:
    """The end offset of each topic with old records. The producer writes to the topics in turn."""
    return gigabytes * 1_000 * MB // COLD_RECORD_BYTES // COLD_TOPICS


def topic_of(acks: str, load: Load | None) -> str:
    """The topic of the producer. `load` None: quiet."""
    return COPIER_TOPIC if load is Load.COPY and acks == "all" else ACKS[acks]


def measure(system: System, rate: Rate, acks: str, load: Load | None, seconds: float) -> Latency:
    pid = system.broker_pids()[LEADER]
    cpu, read, began = cpu_clock([pid]), read_bytes(pid), time.monotonic()
    try:
        found = latencies(
            system.bootstrap, topic_of(acks, load), os.urandom(rate.record_bytes), rate.records, seconds, acks
        )
    except SystemExit as e:
        print(f"{system.name}: {e}", flush=True)
        found = [math.inf]  # a result too: the records were not delivered in a minute
    took = time.monotonic() - began
    return Latency(
        percentile(found, 50),
        percentile(found, 99),
        percentile(found, 99.9),
        found[-1],
        (read_bytes(pid) - read) / MB / took,
        (cpu_clock([pid]) - cpu) / took,
    )


def drop_old_pages(system: System) -> None:
    """Drop the pages of the old records. The newest page of a live log stays in memory, as on a machine with enough of it: an append to a page that was
    dropped waits for a read of the page."""
    for folder in system.folder.glob(f"{system.log_dirs}/*"):
        if folder.name.startswith(("cold-", "copied-")):
            drop_pages(folder)


def cells(disk: Disk, loads: Sequence[Load]) -> list[Load]:
    """The loads of a disk. With limited writes the readers of a plain disk are enough: reads are not limited there."""
    return [load for load in loads if disk is not Disk.WRITES or load is not Load.TEN]


def one_round(system: System, number: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    pid, limit = system.broker_pids()[LEADER], LIMIT_MB_PER_S * MB
    for disk in given.disks:
        with limited(pid, system.folder, limit * (disk is Disk.READS), limit * (disk is Disk.WRITES)):
            for rate in RATES:
                for acks in ACKS:
                    drop_old_pages(system)
                    time.sleep(BEGIN_SECONDS)
                    quiet = measure(system, rate, acks, None, given.seconds)
                    for load in cells(disk, given.loads):
                        drop_old_pages(system)
                        with loaded(system, load, cold_end(given.gigabytes)):
                            time.sleep(BEGIN_SECONDS)
                            cold = measure(system, rate, acks, load, given.seconds)
                        yield {
                            "system": system.name,
                            "round": number,
                            "disk": disk,
                            "rate": rate.name,
                            "acks": acks,
                            "load": load,
                            "quiet": asdict(quiet),
                            "cold": asdict(cold),
                        }


def prepare(system: System, given: argparse.Namespace) -> None:
    """Create the topics and write the old records."""
    cold = [f"cold-{n}" for n in range(COLD_TOPICS)]
    make_topics(system, [*cold, ACKS["1"]], 1)
    make_topics(system, [ACKS["all"]], 3)
    place_topics(system, ["copied"], [LEADER, COPIER])
    place_topics(system, [COPIER_TOPIC], [LEADER, 2, COPIER])
    value = os.urandom(COLD_RECORD_BYTES)
    produce(system.bootstrap, cold, value, cold_end(given.gigabytes) * COLD_TOPICS, 1_000_000, "1")
    produce(system.bootstrap, ["copied"], value, given.copied_megabytes * MB // COLD_RECORD_BYTES, 1_000_000, "all")
    for acks, topic in [*ACKS.items(), ("all", COPIER_TOPIC)]:
        latencies(system.bootstrap, topic, os.urandom(1024), 1_000, WARM_SECONDS, acks)
    system.end_broker(COPIER, signal.SIGKILL)


def cell_of(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["disk"], row["rate"], row["acks"], row["load"]


def table(found: Sequence[dict[str, Any]]) -> str:
    """Medians over the rounds. `ratio`: cold to quiet in the same round."""
    lines = [
        "| disk | producer | load | system | p50, ms | p99, ms | p99.9, ms | ratio p50 | ratio p99 | read, MB/s | leader CPU, cores |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = list(dict.fromkeys(r["system"] for r in found))
    for cell in dict.fromkeys(map(cell_of, found)):
        for name in names:
            rows = [r for r in found if r["system"] == name and cell_of(r) == cell]
            if not rows:
                continue
            moves = [
                f"{median(r['quiet'][key] for r in rows):.3g} -> {median(r['cold'][key] for r in rows):.3g}"
                for key in ("p50", "p99", "p999")
            ]
            ratios = [f"{median(r['cold'][k] / r['quiet'][k] for r in rows):.2f}" for k in ("p50", "p99")]
            rest = [f"{median(r['cold'][k] for r in rows):.3g}" for k in ("load_mb_per_s", "cpu")]
            disk, rate, acks, load = cell
            lines.append(f"| {disk} | {rate}, acks={acks} | {load} | {name} | {' | '.join([*moves, *ratios, *rest])} |")
    return "\n".join(lines)


def missed(found: Sequence[dict[str, Any]]) -> list[str]:
    """The cells in which Weir is above a limit, or behind a peer of the same run."""
    out = []
    for cell in dict.fromkeys(map(cell_of, found)):
        rows = [r for r in found if cell_of(r) == cell]
        for key in ("p50", "p99"):
            own = [r for r in rows if r["system"] == Weir.name]
            if own and (ratio := median(r["cold"][key] / r["quiet"][key] for r in own)) > LIMITS[key]:
                out.append(f"{', '.join(cell)}: {key} is {ratio:.2f} times the quiet one")
            for name in dict.fromkeys(r["system"] for r in rows if r["system"] != Weir.name):
                other = median(r["cold"][key] for r in rows if r["system"] == name)
                if own and (mine := median(r["cold"][key] for r in own)) > other:
                    out.append(f"{', '.join(cell)}: {key} {mine:.3g} ms, {name} {other:.3g} ms")
    return out


def run(kind: type[System], given: argparse.Namespace) -> list[dict[str, Any]]:
    system = kind(Path(tempfile.mkdtemp(prefix="cold-", dir=given.folder)), BROKERS)
    found = []
    try:
        system.start()
        pin(system.pids().values(), {0})
        with on_cores({1} if (os.cpu_count() or 1) > 1 else {0}):
            prepare(system, given)
            for number in range(1, given.rounds + 1):
                for row in one_round(system, number, given):
                    found.append(row)
                    quiet, cold = row["quiet"], row["cold"]
                    print(
                        f"{row['system']:12} {number} {row['disk']:14} {row['rate']:8} acks={row['acks']:3} {row['load']:10} "
                        f"p50 {quiet['p50']:6.2f} -> {cold['p50']:6.2f}   p99 {quiet['p99']:6.2f} -> {cold['p99']:7.2f}   "
                        f"p99.9 {quiet['p999']:6.2f} -> {cold['p999']:7.2f} ms   read {cold['load_mb_per_s']:6.1f} MB/s",
                        flush=True,
                    )
    finally:
        system.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.cold_matrix", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="length of each pass")
    parser.add_argument("--gigabytes", type=int, default=10, help="old records that the readers read")
    parser.add_argument("--copied-megabytes", type=int, default=4_000, help="old records that the replica copies")
    parser.add_argument("--disks", type=Disk, nargs="+", default=list(Disk), choices=list(Disk))
    parser.add_argument("--loads", type=Load, nargs="+", default=list(Load), choices=list(Load))
    parser.add_argument("--only", choices=["weir", *PEERS], help="one system alone")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be limited (default: a temporary one)")
    parser.add_argument("--json", type=Path, help="all values go here")
    parser.add_argument("--read-port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--readers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read_port:
        read_forever(given.read_port, given.readers, given.end)
    systems: dict[str, type[System]] = {"weir": Weir, **PEERS}
    kinds = [systems["weir"], systems["kraft"]] if given.only is None else [systems[given.only]]
    found = [row for kind in kinds for row in run(kind, given)]
    print(table(found))
    print(f"congestion control: {congestion_control()}")
    for text in missed(found):
        print(f"missed: {text}")
    if given.json is not None:
        given.json.write_text(json.dumps({"seconds": given.seconds, "rounds": found}, indent=1))
    return int(bool(missed(found)))


if __name__ == "__main__":
    sys.exit(main())
