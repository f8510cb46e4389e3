"""Queries of the console: results, limits, and files and networks that DuckDB must not reach."""

from __future__ import annotations

import pytest

from pipeline.lake import duckdb_files
from pipeline.lake.query import run
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.lake import ValueFormat
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_queries import LakeQuery, QueryError, QueryResult


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeSettings:
    folder = tmp_path_factory.mktemp("lake")
    archive = archive_of(folder, ValueFormat.JSON, topics=["a.b", "empty"])
    write_and_commit(archive, [record(0, b'{"n": 1}', topic="a.b"), record(1, b'{"n": 2, "s": "x"}', topic="a.b")])
    write_and_commit(archive, [record(2, b'{"n": 3, "t": true}', topic="a.b", day=1)])
    return archive.lake


@pytest.fixture(autouse=True, params=["duckdb", "pyarrow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the files: pyarrow does if they are not on a file system."""
    if request.param == "pyarrow":
        monkeypatch.setattr(duckdb_files, "LOCAL", "of no file")


def result(lake: LakeSettings, sql: str, **more: int) -> QueryResult:
    return run(LakeQuery(sql, "", **more), lake)


def test_typed_columns_of_files_with_different_columns(lake: LakeSettings) -> None:
    found = result(lake, 'SELECT "offset", data.n, data.s, data.t FROM "a.b" ORDER BY 1')
    assert found.error is None
    assert found.columns == ["offset", "n", "s", "t"]
    assert found.rows == [[0, 1, None, None], [1, 2, "x", None], [2, 3, None, True]]
    assert QueryResult.parse(found.text()) == found


def test_bytes_and_structs_are_readable(lake: LakeSettings) -> None:
    found = result(lake, 'SELECT key, data FROM topics."a.b" WHERE "offset" = 1')
    assert found.rows == [["k1", {"n": 2, "s": "x", "t": None}]]


def test_an_empty_table_has_columns(lake: LakeSettings) -> None:
    assert result(lake, "SELECT key FROM empty").rows == []


def test_rows_are_limited(lake: LakeSettings) -> None:
    found = result(lake, "SELECT * FROM range(10)", rows_max=3)
    assert len(found.rows) == 3 and found.truncated


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1; SELECT 2", "CREATE TABLE x (a INT)", "COPY (SELECT 1) TO '/tmp/x.csv'", "SET memory_limit = '9GB'", ""],
)
def test_only_one_select_is_run(lake: LakeSettings, sql: str) -> None:
    assert result(lake, sql).error is QueryError.NOT_A_QUERY


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
        "SELECT * FROM absent",
        "SELEC",
    ],
)
def test_nothing_but_the_tables_can_be_read(lake: LakeSettings, sql: str) -> None:
    found = result(lake, sql)
    assert found.error is QueryError.FAILED and found.detail and found.rows == []


def test_memory_is_limited(lake: LakeSettings) -> None:
    found = result(
        lake, "SELECT count(*) FROM (SELECT DISTINCT i, i::VARCHAR || 'x' FROM range(20000000) t(i))", memory_mb=32
    )
    assert found.error is QueryError.FAILED and "emory" in found.detail
