"""`python -m pipeline.lake.query`: one SQL query on the lake with DuckDB. Reads a `weir_common.lake_queries.LakeQuery` from standard input and writes the
result to standard output. The control plane starts it and kills it when its time is over.

Invariants: DuckDB can open the data files of the queried tables and no other file or address, and its settings are locked. One SELECT. Memory is
limited and nothing is spilled. Memory of pyarrow, which reads files that are not on a file system, is not part of that limit, but of the limit of the
process (`controlplane.clients.limited_process`).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from pipeline.lake.duckdb_files import FilesUnreadable, create_view, quote, sql_list
from weir_common.lake import METRICS_NAMESPACE, NAMESPACE
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_queries import LakeQuery, QueryError, QueryResult

FILES_MAX = 20_000
"""Maximum number of data files of one query. Compaction reduces them."""

TEXT_LENGTH_MAX = 2_000
"""Maximum number of characters of a value in the result."""


class QueryRejected(Exception):
    """The query is not run."""

    def __init__(self, error: QueryError, detail: str) -> None:
        super().__init__(detail)
        self.error, self.detail = error, detail


def run(query: LakeQuery, lake: LakeSettings) -> QueryResult:
    """The result, or the error as a value."""
    began = time.monotonic()
    try:
        with duckdb.connect(config={"threads": "2", "memory_limit": f"{query.memory_mb}MB"}) as connection:
            statements = connection.extract_statements(query.sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise QueryRejected(QueryError.NOT_A_QUERY, "Enter one SELECT statement.")
            prepare(connection, lake.open(), query.sql)
            found = connection.execute(statements[0])
            rows = found.fetchmany(query.rows_max + 1)
            names = [d[0] for d in found.description or []]
            types = [str(d[1]) for d in found.description or []]
    except QueryRejected as e:
        return QueryResult(error=e.error, detail=e.detail)
    except duckdb.Error as e:
        return QueryResult(error=QueryError.FAILED, detail=str(e).strip()[:TEXT_LENGTH_MAX])
    return QueryResult(
        columns=names,
        types=types,
        rows=[[plain(v) for v in row] for row in rows[: query.rows_max]],
        truncated=len(rows) > query.rows_max,
        seconds=round(time.monotonic() - began, 3),
    )


def prepare(connection: duckdb.DuckDBPyConnection, catalog: Catalog, sql: str) -> None:
    """A view for each table whose name is in the text of the query, and then no access to anything else."""
    connection.execute("SET temp_directory = ''")
    allowed: list[str] = []
    for namespace in (NAMESPACE, METRICS_NAMESPACE):
        connection.execute(f"CREATE SCHEMA {quote(namespace)}")
        for identifier in catalog.list_tables(namespace):
            name = identifier[-1]
            if name.lower() in sql.lower():
                allowed += view(connection, namespace, name, catalog.load_table(identifier))
    connection.execute(f"SET search_path = '{NAMESPACE},{METRICS_NAMESPACE}'")
    connection.execute("SET allowed_paths = " + sql_list(allowed))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def view(connection: duckdb.DuckDBPyConnection, namespace: str, name: str, table: Table) -> list[str]:
    """Create the view of the current snapshot of a table. Returns its files. Raises QueryRejected."""
    paths = [task.file.file_path for task in table.scan().plan_files()]
    target = f"{quote(namespace)}.{quote(name)}"
    if not paths:
        columns = ", ".join(f"NULL AS {quote(f.name)}" for f in table.schema().fields)
        connection.execute(f"CREATE VIEW {target} AS SELECT {columns} WHERE false")
        return []
    if len(paths) > FILES_MAX:
        raise QueryRejected(
            QueryError.FAILED,
            f"Table {name} has {len(paths)} files; the maximum of a query is {FILES_MAX}. Compact it.",
        )
    try:
        return create_view(connection, target, table, paths)
    except FilesUnreadable as e:
        raise QueryRejected(QueryError.NOT_READABLE, str(e)) from None


def plain(value: object) -> object:
    """A value of a result as JSON: bytes as text where they are UTF-8."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")[:TEXT_LENGTH_MAX]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return str(value)[:TEXT_LENGTH_MAX]


def main() -> int:
    query = LakeQuery.parse(sys.stdin.read())
    result = run(query, LakeSettings.of_environment(Path(query.lake_folder)))
    sys.stdout.write(result.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
