"""`python -m bench.cold_cache`: how much of the newest records stays in the page cache while one consumer reads old records, for Weir and Apache
Kafka in one run.

The memory of the broker process is limited in the kernel (memory cgroup, v1 or v2, as root), so that the old records do not fit beside the newest
ones. The newest records are written and read once. Then a consumer reads all old records. The pages of both topics in memory are counted before and
after (`fincore`). Times are not measured, so the result does not depend on other load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.client import produce
from bench.cold import drop_pages
from bench.peer.runs import make_topics
from bench.peer.systems import PEERS, System, Weir

RECORD_BYTES = 10 * 1024
MB = 1_000_000
READ_S_MAX = 600
"""Seconds after which a consumer gives up."""
KEPT_MIN = 0.9
"""Minimum fraction of the newest records that stays in memory."""
CGROUP_V1, CGROUP_V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@contextmanager
def limited(pid: int, memory_bytes: int) -> Iterator[None]:
    """Limit the memory of the process, with the pages of the files that it reads and writes."""
    v1 = (CGROUP_V1 / "cgroup.procs").exists()
    group = (CGROUP_V1 if v1 else CGROUP_V2) / f"weir-bench-cache-{pid}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(memory_bytes))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as e:
        raise SystemExit(f"the memory cannot be limited ({e}): this needs root and the memory controller") from e
    try:
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def in_memory(system: System, topic: str) -> float:
    """MB of the topic's segments that are in the page cache."""
    files = [str(p) for p in system.folder.rglob(f"{topic}-0/*.log")]
    listed = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "RES", *files], capture_output=True, text=True, check=True
    )
    return sum(int(line) for line in listed.stdout.split()) / MB


def read(system: System, topic: str, total: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": system.bootstrap,
            "group.id": "cold",
            "enable.auto.commit": False,
            "check.crcs": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got, began = 0, time.monotonic()
    while got < total:
        got += sum(len(m.value() or b"") for m in consumer.consume(1_000, 0.2))
        if time.monotonic() - began > READ_S_MAX:
            raise SystemExit(f"{system.name}: only {got} of {total} bytes of {topic} were read in {READ_S_MAX} s")
    consumer.close()


def measure(kind: type[System], folder: Path | None, old_mb: int, new_mb: int, memory_mb: int) -> dict[str, float]:
    system = kind(Path(tempfile.mkdtemp(prefix="cold-cache-", dir=folder)), 1)
    try:
        system.start()
        make_topics(system, ["old", "new"], 1)
        value = os.urandom(RECORD_BYTES)
        old, new = old_mb * MB // RECORD_BYTES, new_mb * MB // RECORD_BYTES
        produce(system.bootstrap, ["old"], value, old, MB, "1")
        with limited(system.broker_pids()[1], memory_mb * MB):
            drop_pages(system.folder)
            produce(system.bootstrap, ["new"], value, new, MB, "1")
            os.sync()
            read(system, "new", new * RECORD_BYTES)
            before = in_memory(system, "new")
            read(system, "old", old * RECORD_BYTES)
            return {"new_before": before, "new_after": in_memory(system, "new"), "old_after": in_memory(system, "old")}
    finally:
        system.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.cold_cache", description=__doc__)
    systems: dict[str, type[System]] = {"weir": Weir, **PEERS}
    parser.add_argument("--only", choices=list(systems), help="one system alone")
    parser.add_argument("--old-mb", type=int, default=2_000, help="old records")
    parser.add_argument("--new-mb", type=int, default=250, help="newest records")
    parser.add_argument("--memory-mb", type=int, default=600, help="memory of the broker process")
    parser.add_argument("--folder", type=Path, help="on a disk, not in memory (default: a temporary one)")
    given = parser.parse_args()
    failed = False
    for name in ["weir", "kraft"] if given.only is None else [given.only]:
        found = measure(systems[name], given.folder, given.old_mb, given.new_mb, given.memory_mb)
        print(json.dumps({"system": name, **{key: round(mb) for key, mb in found.items()}}), flush=True)
        if name == "weir":
            failed = found["new_after"] < KEPT_MIN * found["new_before"]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
