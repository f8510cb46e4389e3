"""Reads of the Spark source from brokers: filters that are pushed down, `minPartitions`, and the progress of a stream. Each test counts records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan

from pipeline import session
from pipeline.source import BatchReader, Settings, SourceSlice, StreamReader
from tests.cluster.local import LocalCluster
from tests.pipeline.test_archive import create

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(560)]

PARTITIONS, RECORDS = 3, 100
BEGIN_MS = 1_772_323_200_000
"""Timestamp of the record with offset 0; the next ones follow every second."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        create(running, "orders", PARTITIONS)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for partition in range(PARTITIONS):
            for n in range(RECORDS):
                producer.produce("orders", b"v", partition=partition, timestamp=BEGIN_MS + 1000 * n)
        assert producer.flush(60) == 0
        yield running


def options(cluster: LocalCluster, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "orders", **more}


def read(reader: BatchReader) -> list[tuple[int, int]]:
    """(partition, offset) of all records that the tasks read."""
    found = []
    for part in reader.partitions():
        assert isinstance(part, SourceSlice)
        for batch in reader.read(part):
            found += list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
    return found


AT_90 = datetime.fromtimestamp(BEGIN_MS / 1000 + 90, UTC)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ([], 300),
        ([EqualTo(("partition",), 1)], 100),
        ([GreaterThanOrEqual(("offset",), 40), LessThan(("offset",), 50)], 30),
        ([GreaterThanOrEqual(("timestamp",), AT_90)], 30),
        ([EqualTo(("partition",), 2), GreaterThanOrEqual(("timestamp",), AT_90), LessThan(("offset",), 95)], 5),
        ([GreaterThanOrEqual(("timestamp",), AT_90.replace(year=2030))], 0),
    ],
)
def test_only_what_the_filters_can_match_is_read(cluster: LocalCluster, filters: list[Filter], count: int) -> None:
    reader = BatchReader(Settings.parse(options(cluster), streaming=False))
    reader.pushFilters(filters)
    found = read(reader)
    assert len(found) == len(set(found)) == count


def test_min_partitions_splits_the_work_and_reads_each_record_once(cluster: LocalCluster) -> None:
    reader = BatchReader(Settings.parse(options(cluster, minPartitions="12"), streaming=False))
    assert len(reader.partitions()) == 12
    found = read(reader)
    assert len(found) == len(set(found)) == 300


def test_a_stream_has_limits_parts_and_the_latest_offset(cluster: LocalCluster) -> None:
    stream = StreamReader(
        Settings.parse(
            options(cluster, minPartitions="6", maxOffsetsPerTrigger="60", startingOffsets="earliest"), streaming=True
        )
    )
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert sum(end["orders"].values()) == 60 and len(stream.partitions(start, end)) == 6
    assert stream.reportLatestOffset() == {"orders": {str(p): RECORDS for p in range(PARTITIONS)}}


def test_spark_pushes_the_filters_of_a_query(cluster: LocalCluster, tmp_path: Path) -> None:
    spark = session.start("source", master="local[1]", driver_memory="512m", work=tmp_path)
    try:
        frame = spark.read.format("weir").options(**options(cluster)).load()
        chosen = frame.where(f"partition = 1 AND offset >= 20 AND timestamp >= timestamp '{AT_90.isoformat()}'")
        assert (frame.rdd.getNumPartitions(), chosen.rdd.getNumPartitions()) == (3, 1)
        assert chosen.count() == 10
    finally:
        spark.stop()
