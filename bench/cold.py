"""`python -m bench.cold`: latency of producers while one consumer reads old records from a disk limited to 50 MB/s, for Weir and Apache Kafka in
one run.

The limit is set in the kernel: the blkio controller (cgroup v1) or io (v2) of the broker process, which needs root. In each round the pages
of all logs are dropped from memory. Producers send 1,000 records/s of 1 KiB with acks=1, first alone ("quiet"), then beside the reader
("cold"). Values are ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.client import latencies, percentile, produce
from bench.kernel import cpu_clock, on_cores, pin
from bench.peer import fetch
from bench.peer.runs import make_topics
from bench.peer.systems import PEERS, System, Weir

RATE, RECORD_BYTES = 1_000, 1024
COLD_RECORD_BYTES = 10 * 1024
"""Size of the old records: large, so that they are few and the work of the reader does not matter."""
SKIP_SECONDS = 1.0
"""Start of the reader that is not measured: it connects and sends its first fetch."""
LIMITS = {"p50": 1.2, "p99": 2.0, "share": 0.9}
"""Maximum ratio of cold to quiet, and minimum fraction of the disk's rate that the reader gets."""
CGROUP_V1, CGROUP_V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")


def device_of(folder: Path) -> str:
    """MAJOR:MINOR of the whole disk that contains `folder`."""
    number = os.stat(folder).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    disk = Path(f"/sys/dev/block/{name}").resolve()
    return (disk.parent / "dev").read_text().strip() if (disk / "partition").exists() else name


@contextmanager
def limited(pid: int, folder: Path, read_bytes_per_s: int = 0, write_bytes_per_s: int = 0) -> Iterator[None]:
    """Limit the process to these rates from and to the disk of `folder`. 0: no limit."""
    device, name = device_of(folder), f"weir-bench-cold-{pid}"
    v1 = (CGROUP_V1 / "blkio.throttle.read_bps_device").exists()
    group = (CGROUP_V1 if v1 else CGROUP_V2) / name
    rates = {"read": read_bytes_per_s, "write": write_bytes_per_s}
    try:
        group.mkdir()
        for way, rate in rates.items():
            if rate:
                limit, text = (f"blkio.throttle.{way}_bps_device", "") if v1 else ("io.max", f"{way[0]}bps=")
                (group / limit).write_text(f"{device} {text}{rate}\n")
        (group / "cgroup.procs").write_text(f"{pid}\n")
    except OSError as e:
        raise SystemExit(f"the disk cannot be limited ({e}): this needs root, and the blkio or io controller") from e
    try:
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(f"{pid}\n")
        group.rmdir()


def drop_pages(folder: Path) -> int:
    """Drop the pages of all log files under `folder` from memory; returns the bytes of the files."""
    os.sync()
    total = 0
    for path in folder.rglob("*"):
        if path.suffix in (".log", ".index", ".timeindex") and path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            total += os.fstat(fd).st_size
            os.close(fd)
    return total


def read(bootstrap: str, topic: str, seconds: float) -> None:
    """The process of the reader: prints its bytes per second."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "cold",
            "enable.auto.commit": False,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got, counted, began, last = 0, 0, time.monotonic(), 0.0
    while (now := time.monotonic() - began) < seconds:
        count = sum(len(m.value() or b"") for m in consumer.consume(1_000, 0.1))
        if now >= SKIP_SECONDS:
            got += count
            counted, last = counted + 1, time.monotonic() - began
    print(json.dumps({"bytes_per_s": got / max(last - SKIP_SECONDS, 0.001)}))


def measure(system: System, seconds: float, cold: bool) -> dict[str, float]:
    """One pass: the producers, and the reader beside them if `cold`."""
    reader = None
    cpu = cpu_clock(system.broker_pids().values())
    if cold:
        command = [
            sys.executable,
            "-m",
            "bench.cold",
            "--read",
            system.bootstrap,
            "--seconds",
            str(seconds + SKIP_SECONDS),
        ]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=fetch.ROOT)
        time.sleep(SKIP_SECONDS)
    found = latencies(system.bootstrap, "live", os.urandom(RECORD_BYTES), RATE, seconds, "1")
    out = {"p50": percentile(found, 50), "p99": percentile(found, 99), "max": found[-1]}
    if reader is not None:
        text, _ = reader.communicate(timeout=60)
        out["mb_per_s"] = json.loads(text)["bytes_per_s"] / 1e6
    out["cpu"] = (cpu_clock(system.broker_pids().values()) - cpu) / seconds
    return out


def rounds(system: System, count: int, seconds: float, mb_per_s: int) -> list[dict[str, Any]]:
    out = []
    pid = system.broker_pids()[1]
    with limited(pid, system.folder, mb_per_s * 1_000_000):
        for number in range(count):
            total = drop_pages(system.folder)
            if total < (seconds + 3) * mb_per_s * 1_000_000:
                raise SystemExit(f"{total} bytes of old records are too few for {seconds} s of {mb_per_s} MB/s")
            quiet = measure(system, seconds, cold=False)
            drop_pages(system.folder)
            cold = measure(system, seconds, cold=True)
            out.append({"system": system.name, "round": number + 1, "quiet": quiet, "cold": cold})
            print(
                f"{system.name:12} p50 {quiet['p50']:6.2f} -> {cold['p50']:6.2f} ms   p99 {quiet['p99']:6.2f} -> {cold['p99']:6.2f} ms   "
                f"max {quiet['max']:6.1f} -> {cold['max']:6.1f} ms   reader {cold['mb_per_s']:5.1f} MB/s   "
                f"CPU {quiet['cpu']:.2f} -> {cold['cpu']:.2f}",
                flush=True,
            )
    return out


def judge(found: Sequence[dict[str, Any]], mb_per_s: int) -> dict[str, float]:
    """Medians over the rounds: ratios of cold to quiet, and the reader's fraction of the disk's rate."""
    return {
        "p50": median(r["cold"]["p50"] / r["quiet"]["p50"] for r in found),
        "p99": median(r["cold"]["p99"] / r["quiet"]["p99"] for r in found),
        "share": median(r["cold"]["mb_per_s"] / mb_per_s for r in found),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.cold", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--mb-per-s", type=int, default=50)
    parser.add_argument("--only", choices=["weir", *PEERS], help="one system alone")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be limited (default: a temporary one)")
    parser.add_argument("--json", type=Path, help="all values go here")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read, "cold", given.seconds)
        return 0
    systems: dict[str, type[System]] = {"weir": Weir, **PEERS}
    kinds = [systems["weir"], systems["kraft"]] if given.only is None else [systems[given.only]]
    old_bytes = int((given.seconds + 5) * given.mb_per_s * 1_000_000 * 1.2)
    found: list[dict[str, Any]] = []
    for kind in kinds:
        folder = Path(tempfile.mkdtemp(prefix="cold-", dir=given.folder))
        system = kind(folder, 1)
        try:
            system.start()
            pin(system.pids().values(), {0})
            with on_cores({1} if (os.cpu_count() or 1) > 1 else {0}):
                make_topics(system, ["cold", "live"], 1)
                produce(
                    system.bootstrap,
                    ["cold"],
                    os.urandom(COLD_RECORD_BYTES),
                    old_bytes // COLD_RECORD_BYTES,
                    1_000_000,
                    "1",
                )
                latencies(
                    system.bootstrap, "live", os.urandom(RECORD_BYTES), RATE, 10, "1"
                )  # until the JVM has compiled its hot methods
                found += rounds(system, given.rounds, given.seconds, given.mb_per_s)
        finally:
            system.close()
    failed = False
    for name in dict.fromkeys(r["system"] for r in found):
        ratios = judge([r for r in found if r["system"] == name], given.mb_per_s)
        print(
            f"{name}: cold/quiet p50 {ratios['p50']:.2f}, p99 {ratios['p99']:.2f}; the reader got {ratios['share']:.0%} of the disk"
        )
        if name == Weir.name:
            failed = ratios["p50"] > LIMITS["p50"] or ratios["p99"] > LIMITS["p99"] or ratios["share"] < LIMITS["share"]
    if given.json is not None:
        given.json.write_text(
            json.dumps({"mb_per_s": given.mb_per_s, "seconds": given.seconds, "rounds": found}, indent=1)
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
