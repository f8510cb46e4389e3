"""A lake whose tables are on an S3 server: written, compared, queried as in the console, compacted. Without Spark.

Does not test catalogues and Spark (tests/pipeline/test_lake_catalogues.py), and kills (`make lake-kills ARGS=--s3`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.lake import maintenance, tables
from pipeline.lake.query import run
from tests.pipeline import lake_kills
from tests.pipeline.s3 import s3_warehouse
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_queries import LakeQuery, QueryError

END = 60
"""Offsets of each of the two partitions."""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeSettings]:
    with s3_warehouse(tmp_path / "s3.log") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield LakeSettings.of_environment(tmp_path / "lake")


def test_tables_on_s3_are_written_queried_and_compacted(lake: LakeSettings, tmp_path: Path) -> None:
    lake_kills.archive(lake, END, 25, tables.no_step)
    assert lake_kills.differences(lake, END) == []
    lake_kills.archive(LakeSettings.of_folder(tmp_path), END, 25, tables.no_step)

    def rows(settings: LakeSettings, sql: str) -> list[list[object]]:
        found = run(LakeQuery(sql, ""), settings)
        assert found.error is None, found.detail
        return found.rows

    for sql in (
        'SELECT partition, "offset", key, value, data.n, data.c0, data.c1 FROM log ORDER BY 1, 2',
        'SELECT data.c1, count(*) FROM log WHERE partition = 1 AND "offset" >= 20 GROUP BY 1 ORDER BY 1',
        "SELECT reason, count(*) FROM log__dead_letters GROUP BY 1 ORDER BY 1",
        'SELECT count(*) FROM log JOIN log__dead_letters USING (partition, "offset")',
    ):
        assert rows(lake, sql) == rows(LakeSettings.of_folder(tmp_path), sql), sql
    bucket = lake.warehouse.removeprefix("s3://")
    for sql in (f"SELECT * FROM read_parquet('s3://{bucket}/**')", "SELECT * FROM read_text('/etc/passwd')"):
        assert run(LakeQuery(sql, ""), lake).error is QueryError.FAILED

    table = lake.open().load_table(("topics", "log"))
    dead = lake.open().load_table(("topics", "log__dead_letters"))
    merged = [maintenance.merge(table, group) for group in maintenance.groups(table, 1_000_000)]
    assert merged and maintenance.replace(table, merged, "compact")
    assert maintenance.expire(table, 0) > 0
    later = datetime.now(UTC) + timedelta(days=4)
    deleted, deleted_bytes = maintenance.delete_unused([table.refresh(), dead], 3, later)
    assert deleted > 0 and deleted_bytes > 0
    assert lake_kills.differences(lake, END) == []
