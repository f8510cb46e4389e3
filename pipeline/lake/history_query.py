"""`python -m pipeline.lake.history_query`: points of metrics from the table of the job `history`, for charts. Reads a
`weir_common.lake_history.HistoryRequest` from standard input and writes the result to standard output. The control plane kills it when its time is over.

Invariants: only files whose bounds may match are opened. Memory is limited and nothing is spilled. A step without a value has no point.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipeline.lake.conditions import at_least, below, every, one_of
from pipeline.lake.duckdb_files import FilesUnreadable, create_view
from weir_common.lake import METRICS_NAMESPACE, POINTS
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_history import HISTORY_FILES_MAX, HistoryPoint, HistoryRequest, HistoryResult
from weir_common.lake_queries import QueryError


def query_history(request: HistoryRequest, lake: LakeSettings) -> HistoryResult:
    """The points, or the error as a value."""
    try:
        table = lake.open().load_table((METRICS_NAMESPACE, POINTS))
    except NoSuchTableError:
        return HistoryResult(error=QueryError.NO_TABLE, detail="No job `history` has run yet.")
    since, until = (datetime.fromtimestamp(s, UTC) for s in (request.since_s, request.until_s))
    needed = every(
        at_least("timestamp", since), below("timestamp", until), one_of("subject", {s for s, _ in request.keys})
    )
    paths = [task.file.file_path for task in table.scan(row_filter=needed).plan_files()]
    if len(paths) > HISTORY_FILES_MAX:
        return HistoryResult(
            error=QueryError.FAILED,
            detail=f"The range has {len(paths)} files; the maximum is {HISTORY_FILES_MAX}. Choose a shorter range.",
        )
    if not paths:
        return HistoryResult()
    try:
        return HistoryResult(points_of(request, table, paths))
    except FilesUnreadable as e:
        return HistoryResult(error=QueryError.NOT_READABLE, detail=str(e))
    except duckdb.Error as e:
        return HistoryResult(error=QueryError.FAILED, detail=str(e).strip()[:500])


def points_of(request: HistoryRequest, table: Table, paths: list[str]) -> list[HistoryPoint]:
    """The points of all keys from files of the table. Raises duckdb.Error and FilesUnreadable."""
    with duckdb.connect(config={"threads": "2", "memory_limit": f"{request.memory_mb}MB"}) as connection:
        connection.execute("SET temp_directory = ''")
        connection.execute("CREATE TABLE requested (subject VARCHAR, metric VARCHAR)")
        connection.executemany("INSERT INTO requested VALUES (?, ?)", [list(key) for key in request.keys])
        create_view(connection, "points", table, paths)
        found = connection.execute(
            "SELECT subject, metric, (epoch(timestamp)::BIGINT // $step) * $step AS point, avg(value), max(value)"
            " FROM points SEMI JOIN requested USING (subject, metric)"
            " WHERE timestamp >= to_timestamp($since) AND timestamp < to_timestamp($until) GROUP BY ALL ORDER BY ALL",
            {"step": request.step_s, "since": request.since_s, "until": request.until_s},
        ).fetchall()
    return [HistoryPoint(s, f, int(at), round(value, 3), peak) for s, f, at, value, peak in found]


def main() -> int:
    request = HistoryRequest.parse(sys.stdin.read())
    sys.stdout.write(query_history(request, LakeSettings.of_environment(Path(request.lake_folder))).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
