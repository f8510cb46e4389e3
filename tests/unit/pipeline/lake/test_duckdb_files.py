"""Files of a table as a view of DuckDB. The queries themselves: test_query.py, test_history_query.py."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyiceberg.table import Table

from pipeline.lake import duckdb_files
from pipeline.lake.duckdb_files import FilesUnreadable, create_view, dataset, quote, sql_list
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.lake import ValueFormat


@pytest.fixture
def table(tmp_path: Path) -> Table:
    archive = archive_of(tmp_path / "lake", ValueFormat.JSON)
    write_and_commit(archive, [record(0, b'{"n": 1}')])
    write_and_commit(archive, [record(1, b'{"n": 2, "s": "x"}', day=1)])
    return archive.lake.open().load_table(("topics", "t"))


def paths(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


def test_names_and_paths_are_quoted() -> None:
    assert quote('a"b') == '"a""b"'
    assert sql_list(["/a'b", "/c"]) == "['/a''b', '/c']"


def test_files_of_a_file_system_are_opened_by_duckdb(table: Table) -> None:
    with duckdb.connect() as connection:
        opened = create_view(connection, "rows_of_t", table, paths(table))
        assert connection.execute("SELECT count(*) FROM rows_of_t").fetchall() == [(2,)]
    assert [Path(p).exists() for p in opened] == [True, True]


def test_other_files_are_a_dataset_with_the_columns_of_the_table(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_files, "LOCAL", "of no file")
    with duckdb.connect() as connection:
        assert create_view(connection, "rows_of_t", table, paths(table)) == []
        found = connection.execute('SELECT "offset", data.n, data.s FROM rows_of_t ORDER BY 1').fetchall()
    assert found == [(0, 1, None), (1, 2, "x")]


def test_another_reader_of_files_is_rejected(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_files, "PyArrowFileIO", str)
    with pytest.raises(FilesUnreadable, match="py-io-impl"):
        dataset(table, paths(table))
