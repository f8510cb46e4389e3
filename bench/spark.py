"""`python -m bench.spark`: throughput of the Spark source `weir` and of the archive.

The source is compared with Spark's own source `kafka`. The archive writes to Iceberg tables, on a standalone Spark cluster with one and with two
executor cores. One broker, one topic, everything on this machine.

Rounds alternate between the sides. Sources: one Spark with one task at a time reads the topic as a batch; the count of records is compared, and the CPU is
that of the driver, the JVM and the Python workers. Archive: rows after the first commit by the time from the first commit to the last one, so starts
are not part of it; the CPU is that of the executors and their Python workers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peer.fetch import CACHE, copy_dependencies
from bench.peer.systems import ROOT, Weir, wait_for
from bench.spark_cluster import SparkCluster, spark_cluster
from pipeline import session
from pipeline.lake.archiving import existing_table
from weir_common import lake as names
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_jobs import KINDS, parse
from weir_common.spark_runs import RUN_FILE, RunDescription

TOPIC, PARTITIONS = "records", 4
KAFKA_SOURCE = "4.1.2"
"""Version of Spark's kafka source: the newest one on Maven Central. It reads batches in the Spark of the pipeline, and no streams."""
KAFKA_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{KAFKA_SOURCE}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
ARCHIVE_SECONDS_MAX = 600.0
BATCHES = 8
"""Batches of one archive."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Megabytes of record values per second of the clock, and per second of CPU."""

    mb_per_s: float
    mb_per_cpu_s: float


def cpu_s(roots: Iterable[psutil.Process]) -> float:
    """CPU seconds of these processes and of all processes below them so far."""
    found = 0.0
    for root in roots:
        try:
            for process in (root, *root.children(recursive=True)):
                times = process.cpu_times()
                found += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return found


def sources(bootstrap: str, records: int, record_bytes: int, rounds: int, work: Path) -> dict[str, list[Measurement]]:
    """Values of both sources, in the order of the rounds. The first round of each is not counted."""
    jars = copy_dependencies(CACHE / f"spark-kafka-{KAFKA_SOURCE}", KAFKA_JARS, alone=True)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, sorted(jars.glob('*.jar'))))} pyspark-shell"
    spark = session.start("sources", master="local[1]", work=work)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    found: dict[str, list[Measurement]] = {"weir": [], "kafka": []}
    megabytes, me = records * record_bytes / 1e6, psutil.Process()
    try:
        for number in range(rounds + 1):
            for source in sorted(found, reverse=number % 2 == 0):
                began, before = time.monotonic(), cpu_s([me])
                frame = spark.read.format(source).options(**options).load()
                (row,) = frame.selectExpr("count(*)", "sum(length(value))").collect()
                seconds, spent = time.monotonic() - began, cpu_s([me]) - before
                if tuple(row) != (records, records * record_bytes):
                    raise SystemExit(f"{source} read {tuple(row)} instead of {records} records")
                if number:
                    found[source].append(Measurement(megabytes / seconds, megabytes / spent))
    finally:
        spark.stop()
        del os.environ["PYSPARK_SUBMIT_ARGS"]
    return found


def archive(bootstrap: str, spark: SparkCluster, folder: Path, records: int, record_bytes: int) -> Measurement:
    """One archive of the whole topic with all executors of the cluster."""
    folder.mkdir(parents=True)
    values = {"topics": [TOPIC], "records_per_batch": records // BATCHES, "trigger_seconds": 0, "until_end": True}
    lake = folder / "lake"
    run = RunDescription(
        folder.name, "archive", parse(KINDS["archive"], values), bootstrap, str(lake), master=spark.url
    )
    (folder / RUN_FILE).write_text(run.text())
    cpu_at_first = cpu = 0.0
    with open(folder / "log", "ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "pipeline.jobs.run", str(folder)],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, **spark.environment},
        )
    deadline = time.monotonic() + ARCHIVE_SECONDS_MAX
    while driver.poll() is None:
        if time.monotonic() > deadline:
            driver.kill()
        cpu = max(cpu, cpu_s(spark.executors()))
        if not cpu_at_first and commits(lake):
            cpu_at_first = cpu
        time.sleep(0.2)
    done = commits(lake)
    if driver.returncode or sum(rows for _, rows in done) != records:
        raise SystemExit(f"the archive failed: {(folder / 'log').read_text(errors='replace')[-2_000:]}")
    megabytes = sum(rows for _, rows in done[1:]) * record_bytes / 1e6
    return Measurement(megabytes / (done[-1][0] - done[0][0]), megabytes / (cpu - cpu_at_first))


def commits(folder: Path) -> list[tuple[float, int]]:
    """(time in seconds, rows) of each commit to the table."""
    if not (folder / "catalog.db").exists():
        return []
    table = existing_table(LakeSettings.of_folder(folder).open(), TOPIC)
    if table is None:
        return []
    return [
        (s.timestamp_ms / 1000, int(s.summary.additional_properties.get(names.ROWS) or 0))
        for s in table.snapshots()
        if s.summary is not None
    ]


def archives(bootstrap: str, records: int, record_bytes: int, rounds: int, work: Path) -> dict[str, list[Measurement]]:
    """Values with one and with two workers of one core each, in the order of the rounds."""
    found: dict[str, list[Measurement]] = {"1 core": [], "2 cores": []}
    for number in range(rounds):
        for workers in (1, 2) if number % 2 == 0 else (2, 1):
            place = work / f"round-{number}-{workers}"
            with spark_cluster(place / "spark", workers=workers) as spark:
                metric = archive(bootstrap, spark, place / "run", records, record_bytes)
            found["1 core" if workers == 1 else "2 cores"].append(metric)
    return found


def report(title: str, found: dict[str, list[Measurement]]) -> None:
    print(f"\n{title}\n\n| side | MB/s | of each round | MB per CPU s | of each round |\n|---|--:|---|--:|---|")
    for side, measurements in found.items():
        cells = []
        for of in MEASURES.values():
            values = [of(f) for f in measurements]
            cells += [f"{median(values):.1f}", ", ".join(f"{v:.1f}" for v in values)]
        print(f"| {side} | {' | '.join(cells)} |", flush=True)
    (first, second) = found.values()
    for name, of in MEASURES.items():
        ratios = [of(a) / of(b) for a, b in zip(first, second, strict=True)]
        print(f"{name}, {' : '.join(found)}: median {median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)})")


MEASURES: dict[str, Callable[[Measurement], float]] = {
    "MB/s": lambda f: f.mb_per_s,
    "MB per CPU s": lambda f: f.mb_per_cpu_s,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--record-bytes", type=int, default=1_024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("sources", "archive"))
    arguments = parser.parse_args()
    size, rounds = (arguments.records, arguments.record_bytes), arguments.rounds
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        place = Path(name) / "weir"
        place.mkdir()
        system = Weir(place, 1)
        try:
            system.start()
            make_topic(system.bootstrap)
            produce(system.bootstrap, *size)
            if arguments.only != "archive":
                report("Spark sources, local[1]", sources(system.bootstrap, *size, rounds, Path(name) / "work"))
            if arguments.only != "sources":
                report("Archive, standalone cluster", archives(system.bootstrap, *size, rounds, Path(name)))
        finally:
            system.close()
    return 0


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(60)
    wait_for(lambda: len(admin.list_topics(timeout=20).topics[TOPIC].partitions) == PARTITIONS, "the topic", pause=0.1)


def produce(bootstrap: str, records: int, record_bytes: int) -> None:
    """Different records of hexadecimal digits, which compress to about half. Raises SystemExit if one is not acknowledged."""
    digits = os.urandom(1_000_000 + record_bytes).hex().encode()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "batch.size": 131_072, "linger.ms": 20})
    for number in range(records):
        first = number * 7_919 % 1_000_000
        while True:
            try:
                producer.produce(TOPIC, digits[first : first + record_bytes], b"key-%d" % (number % 10_000))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(300):
        raise SystemExit(f"{left} records were not acknowledged")


if __name__ == "__main__":
    sys.exit(main())
