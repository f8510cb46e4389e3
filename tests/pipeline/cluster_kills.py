"""`make cluster-kills`: an archive to the lake on a standalone Spark master with two workers, submitted by REST to a local cluster, while executors, the
driver and the worker of the control plane are killed with kill -9 at random times. The worker starts the driver again. The values are JSON with new fields
all the time, so that batches add columns to the table, and some values do not fit their column. At the end each record of the topic must be in the table
or in its dead letters exactly once, and no driver may be left.

A round produces records, waits until executors run, kills, and waits for progress. Does not test each step of a commit (tests/pipeline/lake_kills.py).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.spark_cluster import SparkCluster, spark_cluster
from tests.cluster.devcluster import DevCluster
from tests.pipeline.submitted_job import SubmittedJob

TOPIC, PARTITIONS = "orders", 4
RECORDS_PER_ROUND = 6_000
RECORDS_PER_BATCH = 1_000
RECORDS_PER_COLUMN = 2_000
"""A new field begins after this many records: several in each round."""
MISFIT_EVERY = 100
"""One value in this many has text in a column of numbers."""
PAUSE_S = 6.0
"""A kill comes up to this many seconds after the records of its round: some batches long."""


@dataclass
class Tally:
    """`at_work`: kills while the table lacked records. `restarts`: starts of the driver after the first one. `columns`: of the values in the table."""

    kills: Counter[str] = field(default_factory=Counter)
    at_work: int = 0
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    columns: int = 0
    restarts: int = 0
    wrong: list[str] = field(default_factory=list)


def value_of(number: int) -> bytes:
    value = {
        "id": number,
        "n": "no number" if is_misfit(number) else number,
        f"column_{number // RECORDS_PER_COLUMN}": number * 1.5,
    }
    return json.dumps(value).encode()


def numbers(values: Iterable[bytes]) -> list[int]:
    """Return the ids of the records with these values."""
    return [json.loads(value)["id"] for value in values]


def is_misfit(number: int) -> bool:
    return number % MISFIT_EVERY == MISFIT_EVERY - 1


def produce(cluster: DevCluster, first: int, count: int) -> None:
    producer = Producer({**cluster.client, "enable.idempotence": True})
    for n in range(first, first + count):
        producer.produce(TOPIC, value_of(n), f"k{n}")
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("records were not acknowledged")


def differences(rows: Iterable[int], dead_letters: Iterable[int], records: int) -> list[str]:
    """The faults of the rows, which are the numbers 0 to `records` - 1; empty if each is there once, and those that do not fit are dead letters."""
    dead = Counter(dead_letters)
    found = Counter(rows) + dead
    wrong = [f"record {n} is {found[n]} times in the lake" for n in range(records) if found[n] != 1]
    wrong += [f"{n} is no record of the topic" for n in sorted(found) if not 0 <= n < records]
    return wrong + [f"record {n} is a dead letter, but its value fits" for n in sorted(dead) if not is_misfit(n)]


class Rounds:
    def __init__(self, cluster: DevCluster, spark: SparkCluster, seed: int) -> None:
        self._cluster, self._spark, self._draw = cluster, spark, random.Random(seed)
        self._worker = 0
        self.tally = Tally()
        parameters = {
            "topics": [TOPIC],
            "value_format": "json",
            "records_per_batch": RECORDS_PER_BATCH,
            "trigger_seconds": 0,
        }
        self.job = SubmittedJob(cluster, "orders", "archive", parameters)

    def run(self, rounds: int, seconds_max: float) -> None:
        deadline = time.monotonic() + seconds_max
        for number in range(rounds):
            if time.monotonic() > deadline:
                break
            self._round()
            print(f"round {number + 1}: {dict(sorted(self.tally.kills.items()))}", flush=True)
        self._catch_up()
        self.tally.restarts = self.job.run_row()["restarts"]
        self.job.post("stop")
        self.job.wait_until(lambda: self.job.job()["state"] == "stopped", "the stop")
        rows, dead = (numbers(self.job.values(TOPIC, dead_letters=which)) for which in (False, True))
        self.tally.rows, self.tally.dead_letters = len(rows), len(dead)
        self.tally.columns = self.job.typed_columns(TOPIC)
        self.tally.wrong = differences(rows, dead, self.tally.records)
        self.tally.wrong += [f"driver {pid} was left" for pid in self.job.drivers()]

    def _catch_up(self) -> None:
        """Wait until the job has committed all records, however many the kills have left, as long as it makes progress."""
        while (before := self.job.committed_rows(TOPIC)) < self.tally.records:
            self.job.wait_until(lambda before=before: self.job.committed_rows(TOPIC) > before, "the last records")  # type: ignore[misc]

    def _round(self) -> None:
        produce(self._cluster, self.tally.records, RECORDS_PER_ROUND)
        self.tally.records += RECORDS_PER_ROUND
        self.job.wait_until(self.job.drivers, "a driver")
        self.job.wait_until(self._spark.executors, "executors")
        time.sleep(self._draw.uniform(0, PAUSE_S))
        before = self.job.committed_rows(TOPIC)
        kinds: dict[str, Callable[[], None]] = {
            "executor": self._kill_executor,
            "driver": self._kill_driver,
            "driver with its JVM": self._kill_driver_group,
            "worker": self._kill_worker,
            "worker and driver": self._kill_worker_and_driver,
        }
        name = self._draw.choice(["executor", *kinds])
        kinds[name]()
        self.tally.kills[name] += 1
        self.tally.at_work += before < self.tally.records
        self.job.wait_until(
            lambda: self.job.committed_rows(TOPIC) > before or before >= self.tally.records, f"progress after {name}"
        )

    def _kill_executor(self) -> None:
        with suppress(psutil.NoSuchProcess):
            self._draw.choice(self._spark.executors()).kill()

    def _kill_driver(self) -> None:
        """The JVM notices that its Python process has ended."""
        for pid in self.job.drivers():
            os.kill(pid, signal.SIGKILL)

    def _kill_driver_group(self) -> None:
        for pid in self.job.drivers():
            os.killpg(pid, signal.SIGKILL)

    def _kill_worker(self) -> None:
        self._cluster.kill("worker")

    def _kill_worker_and_driver(self) -> None:
        self._kill_worker()
        self._kill_driver_group()


def run(folder: Path, rounds: int, seed: int, seconds_max: float) -> Tally:
    """The rounds that begin within `seconds_max`. Raises AssertionError if the job makes no progress after a kill."""
    with spark_cluster(folder / "spark") as spark:
        settings = {**spark.environment, "WEIR_SPARK_MASTER": spark.url, "WEIR_SPARK_NICE": "0"}
        cluster = DevCluster(folder / "cluster", "--brokers", "1", **settings, WEIR_SPARK_DRIVER_MEMORY="700m")
        try:
            cluster.topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
            running = Rounds(cluster, spark, seed)
            running.run(rounds, seconds_max)
        finally:
            cluster.down()
    return running.tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120, help="no round begins after this time")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the processes
    folder, began = Path(tempfile.mkdtemp(prefix="cluster-kills-")), time.monotonic()
    try:
        tally = run(folder, arguments.rounds, arguments.seed, 60 * arguments.minutes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{tally.kills.total()} kills in {time.monotonic() - began:.0f} s: {dict(sorted(tally.kills.items()))}; "
        f"{tally.at_work} of them while records were missing in the table; {tally.restarts} restarts of the driver"
    )
    print(
        f"{tally.records} records, {tally.rows} rows with {tally.columns} columns of the values, {tally.dead_letters} dead letters"
    )
    print("\n".join(tally.wrong[:50]) or "each record is in the lake exactly once, and no driver was left")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
