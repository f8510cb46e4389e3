"""The archive to Iceberg tables on a real cluster, compared with the producer's acknowledgements. The tables are read with pyiceberg and DuckDB.

Does not test each step of a commit (tests/pipeline/test_lake_kills.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pipeline.lake.archiving import existing_table
from tests.cluster.local import LocalCluster, wait_for
from tests.pipeline.lake import LakeJob, commits_of, rows_of
from tests.pipeline.test_archive import AcknowledgedRecords, create

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


def test_a_killed_archive_with_new_columns_in_flight_has_each_record_exactly_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "clicks", 3)
    truth = AcknowledgedRecords(cluster)

    def produce(first: int, end: int) -> None:
        for number in range(first, end):
            truth.producer.produce("clicks", value_of(number), key=f"k{number % 50}", on_delivery=truth._on_delivery)
            truth.producer.poll(0)
        assert truth.producer.flush(60) == 0

    job = LakeJob(
        tmp_path / "run-1",
        cluster.bootstrap,
        "archive",
        {"topics": ["clicks"], "value_format": "json", "records_per_batch": 1_000, "trigger_seconds": 0},
    )
    produce(0, 5_000)
    job.start()
    try:
        # Killed while batches run without a pause.
        wait_for(lambda: commits_of(job.settings(), "clicks") >= 2, "two commits", 240)
    finally:
        job.kill()
    produce(5_000, 6_000)
    last = LakeJob(
        tmp_path / "run-2",
        cluster.bootstrap,
        "archive",
        {"topics": ["clicks"], "value_format": "json", "until_end": True},
    )
    last.run()

    rows, dead = rows_of(last.settings(), "clicks"), rows_of(last.settings(), "clicks", dead_letters=True)
    assert Counter(rows + dead).most_common(1)[0][1] == 1
    assert sorted(rows + dead, key=repr) == sorted(truth.records, key=repr)
    assert {r[4] for r in dead} == {r[4] for r in truth.records if b"no number" in (r[4] or b"")}
    read_by_duckdb(last, len(rows))


def value_of(number: int) -> bytes:
    """A new column every 500 records, and one value in 100 that does not fit."""
    value: dict[str, object] = {
        "n": "no number" if number % 100 == 99 else number,
        f"column_{number // 500}": number * 1.5,
    }
    return json.dumps(value).encode()


def read_by_duckdb(job: LakeJob, rows: int) -> None:
    table = existing_table(job.settings().open(), "clicks")
    assert table is not None
    clicks = table.scan().to_arrow()
    found = duckdb.sql('SELECT count(*), count(DISTINCT (partition, "offset")), min(data.n) FROM clicks').fetchall()
    assert found == [(rows, rows, 0)]
    assert clicks.num_rows == rows
