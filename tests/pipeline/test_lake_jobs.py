"""The jobs of the lake one after the other on a real cluster, in one Spark session: archive, compact, reconcile, profile, replay.

Does not test drivers as processes (tests/pipeline/test_lake_archive.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from pipeline import session
from pipeline.jobs.base import RunContext
from pipeline.jobs.run import run
from pipeline.lake.archiving import existing_table
from pipeline.lake.maintenance import MergedGroup, replace
from pipeline.lake.writing import write_arrow
from tests.cluster.local import LocalCluster
from tests.pipeline.lake import rows_of
from tests.pipeline.test_archive import create
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_jobs import KINDS, parse
from weir_common.spark_runs import RunDescription

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(560)]

RECORDS = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    running = session.start("jobs", master="local[2]", driver_memory="512m", work=tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()


class Jobs:
    def __init__(self, folder: Path, bootstrap: str, spark: SparkSession) -> None:
        self.folder, self._bootstrap, self._spark = folder, bootstrap, spark
        self.lake = LakeSettings.of_folder(folder / "lake")

    def run(self, name: str, kind: str, **parameters: Any) -> dict[str, Any]:
        """Run a job to its end. Returns its status."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        described = RunDescription(
            name, kind, parse(KINDS[kind], parameters), self._bootstrap, str(self.folder / "lake")
        )
        context = RunContext(folder, described, _spark=self._spark)
        assert run(context) == 0, context.status
        return context.status


def produce_records(cluster: LocalCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for n in range(RECORDS):
        key = "hot" if n % 2 else f"k{n}"
        producer.produce(topic, json.dumps({"n": n, "text": "x" * 50}).encode(), key, headers=[("h", b"1")])
    assert producer.flush(60) == 0


def consume_records(cluster: LocalCluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """(partition, key, value) of all committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "check",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    out, ended = [], set()
    while len(ended) < 2:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            out.append((message.partition(), message.key(), message.value()))
    consumer.close()
    return out


def lose(table: Table, partition: int, offset: int) -> None:
    """Replace the files of the table by files without one row."""
    files = tuple(task.file for task in table.scan().plan_files())
    rows = table.scan().to_arrow()
    is_lost = pc.and_(pc.equal(rows["partition"], partition), pc.equal(rows["offset"], offset))
    kept = tuple(file for _, file in write_arrow(table, rows.filter(pc.invert(is_lost))))
    assert replace(table, [MergedGroup(files, kept)], "lose")


def table_of(status: dict[str, Any], title: str) -> list[list[Any]]:
    return next(t["rows"] for t in status["report"] if t["title"] == title)


def test_the_jobs_of_the_lake(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    create(cluster, "orders", 2)
    create(cluster, "orders.again", 2)
    produce_records(cluster, "orders")
    jobs = Jobs(tmp_path, cluster.bootstrap, spark)
    archive = {"topics": ["orders"], "value_format": "json", "until_end": True, "records_per_batch": 1_000}
    assert jobs.run("a-1", "archive", **archive)["rows"] == RECORDS
    produce_records(cluster, "orders")
    assert jobs.run("a-2", "archive", **archive)["rows"] == RECORDS

    rows = rows_of(jobs.lake, "orders")
    table = existing_table(jobs.lake.open(), "orders")
    assert table is not None
    frame = spark.createDataFrame(table.scan().to_arrow())
    assert frame.selectExpr("count(*)", "max(data.n)").collect()[0][:] == (2 * RECORDS, RECORDS - 1)
    merged = table_of(jobs.run("c", "compact", tables=["orders"]), "Merged")
    assert merged[0][:3] == ["orders", 4, 1]
    assert sorted(rows_of(jobs.lake, "orders"), key=repr) == sorted(rows, key=repr)

    reconciled = jobs.run("r-1", "reconcile", topics=["orders"])
    assert reconciled["differences"] == 0
    assert sum(hour[2] for hour in table_of(reconciled, "Hours")) == 2 * RECORDS
    lose(table.refresh(), 0, 5)
    assert table_of(jobs.run("r-2", "reconcile", topics=["orders"]), "Differences") == [["orders", 0, 5, "missing"]]

    profiled = jobs.run("p", "profile", topics=["orders"])
    assert {row[1] for row in table_of(profiled, "Proposals")} >= {"hot_key", "compress"}
    assert table_of(profiled, "Keys")[0] == ["orders", "hot", RECORDS]

    replay = {"table": "orders", "topics": ["orders.again"], "where": "offset < 50"}
    expected = Counter((r[1], r[3], r[4]) for r in rows_of(jobs.lake, "orders") if r[2] < 50)
    assert jobs.run("replay", "replay", **replay)["rows"] == expected.total()
    assert jobs.run("replay", "replay", **replay)["rows"] == 0
    assert Counter(consume_records(cluster, "orders.again")) == expected
