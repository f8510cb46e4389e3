"""The archive and other jobs of the lake with the catalogues and stores of production: PostgreSQL with tables on S3 (moto), and Iceberg's REST catalogue. A
driver is killed in between. The tables are read by Spark's tasks, by DuckDB as in the console, and compared with the producer's acknowledgements.

Does not test each step of a commit (`make lake-kills ARGS='--s3 --postgres'`, `ARGS=--rest`), and an S3 service.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from tests.cluster.local import ROOT, LocalCluster, wait_for
from tests.pipeline.lake import LakeJob, commits_of, rows_of
from tests.pipeline.rest_catalogue import rest_catalogue
from tests.pipeline.s3 import s3_warehouse
from tests.pipeline.test_archive import AcknowledgedRecords, create
from tests.pipeline.test_lake_archive import value_of
from weir_common.lake_catalog import URL_VARIABLE
from weir_common.lake_queries import LakeQuery, QueryResult

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(560)]

RECORDS = 4_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


@pytest.fixture(params=["postgres-s3", "rest"])
def environment(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The variables of the worker's environment."""
    with ExitStack() as stack:
        if request.param == "rest":
            found = stack.enter_context(rest_catalogue(tmp_path / "rest"))
        else:
            found = stack.enter_context(s3_warehouse(tmp_path / "s3.log"))
            found |= {URL_VARIABLE: stack.enter_context(postgres.server())}
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        yield


def query(job: LakeJob, sql: str) -> QueryResult:
    """As the console: in a process of its own."""
    asked = LakeQuery(sql, str(job.lake))
    command = [sys.executable, "-m", "pipeline.lake.query"]
    done = subprocess.run(command, input=asked.text(), capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return QueryResult.parse(done.stdout)


def status(job: LakeJob) -> dict[str, Any]:
    return dict(json.loads((job.folder / "status.json").read_text()))


def test_an_archive_and_its_readers(
    cluster: LocalCluster, environment: None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = f"clicks-{len(request.node.name)}"
    create(cluster, topic, 3)
    truth = AcknowledgedRecords(cluster)
    for number in range(RECORDS):
        truth.producer.produce(topic, value_of(number), key=f"k{number % 50}", on_delivery=truth._on_delivery)
        truth.producer.poll(0)
    assert truth.producer.flush(60) == 0

    def job(name: str, kind: str, **parameters: Any) -> LakeJob:
        return LakeJob(tmp_path / name, cluster.bootstrap, kind, parameters, lake=tmp_path / "lake")

    archive = {"topics": [topic], "value_format": "json", "records_per_batch": 1_000, "trigger_seconds": 0}
    killed = job("archive-1", "archive", **archive)
    killed.start()
    try:
        wait_for(lambda: commits_of(killed.settings(), topic) >= 1, "a commit", 240)
    finally:
        killed.kill()
    last = job("archive-2", "archive", **archive, until_end=True)
    last.run()

    rows, dead = rows_of(last.settings(), topic), rows_of(last.settings(), topic, dead_letters=True)
    assert Counter(rows + dead).most_common(1)[0][1] == 1
    assert sorted(rows + dead, key=repr) == sorted(truth.records, key=repr)
    found = query(last, f'SELECT count(*), count(DISTINCT (partition, "offset")), max(data.n) FROM "{topic}"')
    assert found.error is None and found.rows == [[len(rows), len(rows), RECORDS - 2]], found.detail

    # Spark's tasks merge the files and read all positions.
    job("compact", "compact", tables=[topic]).run()
    reconcile = job("reconcile", "reconcile", topics=[topic])
    reconcile.run()
    assert status(reconcile)["differences"] == 0
    assert sum(h[2] for t in status(reconcile)["report"] if t["title"] == "Hours" for h in t["rows"]) == RECORDS
    assert sorted(rows_of(last.settings(), topic), key=repr) == sorted(rows, key=repr)
