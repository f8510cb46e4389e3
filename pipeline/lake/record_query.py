"""`python -m pipeline.lake.record_query`: records of a topic by key from its table and its table of dead letters. Reads a
`weir_common.lake_records.LakeLookup` from standard input and writes the result to standard output. The control plane kills it when its time is over.

Invariants: only files whose bounds and partitions may contain a match are opened. Memory is limited and nothing is spilled. Each match is a record below the
requested offset of its partition.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from pipeline.lake.conditions import at_least, below, equal, every, one_of
from pipeline.lake.duckdb_files import FilesUnreadable, create_view
from weir_common.lake import NAMESPACE, dead_letters_of
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_queries import QueryError
from weir_common.lake_records import FIELD_BYTES_MAX, RECORDS_FILES_MAX, LakeLookup, LakeRecord, LakeRecords

COLUMNS = 'partition, "offset", timestamp, key, value, headers'
MATCHES = {
    "": "key = $key",
    "header": "len(list_filter(headers, lambda h: h.key = $header AND h.value = $key)) > 0",
}


def query_records(request: LakeLookup, lake: LakeSettings) -> LakeRecords:
    """The records, or the error as a value."""
    catalog = lake.open()
    tables: list[tuple[Table, list[str]]] = []
    for name in (request.topic, dead_letters_of(request.topic)):
        try:
            table = catalog.load_table((NAMESPACE, name))
        except NoSuchTableError:
            continue
        paths = [task.file.file_path for task in table.scan(row_filter=needed(request)).plan_files()]
        tables.append((table, paths))
    if not tables:
        return LakeRecords(error=QueryError.NO_TABLE, detail=f"The lake has no table of topic {request.topic}.")
    files = sum(len(paths) for _, paths in tables)
    if files > RECORDS_FILES_MAX:
        return LakeRecords(
            error=QueryError.FAILED,
            detail=f"{files} files may contain the key; the maximum is {RECORDS_FILES_MAX}. Choose a shorter range, or compact the table.",
        )
    if not files:
        return LakeRecords()
    try:
        return records_of(request, [(table, paths) for table, paths in tables if paths])
    except FilesUnreadable as e:
        return LakeRecords(error=QueryError.NOT_READABLE, detail=str(e))
    except duckdb.Error as e:
        return LakeRecords(error=QueryError.FAILED, detail=str(e).strip()[:500])


def needed(request: LakeLookup) -> BooleanExpression:
    """A condition that each match meets, for the choice of files."""
    conditions = [one_of("partition", request.before), below("offset", max(request.before.values(), default=0))]
    if not request.header:
        conditions.append(equal("key", request.key))
    if request.from_ms is not None:
        conditions.append(at_least("timestamp", _time(request.from_ms)))
    if request.to_ms is not None:
        conditions.append(below("timestamp", _time(request.to_ms + 1)))
    return every(*conditions)


def records_of(request: LakeLookup, tables: list[tuple[Table, list[str]]]) -> LakeRecords:
    """The records from files of the tables. Raises duckdb.Error and FilesUnreadable."""
    with duckdb.connect(config={"threads": "2", "memory_limit": f"{request.memory_mb}MB"}) as connection:
        connection.execute("SET temp_directory = ''")
        connection.execute("CREATE TABLE searched (partition INTEGER, before BIGINT)")
        connection.executemany("INSERT INTO searched VALUES (?, ?)", [list(item) for item in request.before.items()])
        for i, (table, paths) in enumerate(tables):
            create_view(connection, f"records_{i}", table, paths)
        union = " UNION ALL ".join(f"SELECT {COLUMNS} FROM records_{i}" for i in range(len(tables)))  # noqa: S608 - constant text.
        found = connection.execute(
            f"SELECT r.partition, r.offset, epoch_ms(timestamp), key[1:{FIELD_BYTES_MAX}], octet_length(key),"  # noqa: S608 - constant text.
            f" value[1:{FIELD_BYTES_MAX}], octet_length(value), headers"
            f" FROM ({union}) r SEMI JOIN searched s ON r.partition = s.partition AND r.offset < s.before"
            f" WHERE {MATCHES['header' if request.header else '']}"
            " AND ($from IS NULL OR epoch_ms(timestamp) >= $from) AND ($to IS NULL OR epoch_ms(timestamp) <= $to)"
            " ORDER BY max(timestamp) OVER (PARTITION BY r.partition ORDER BY r.offset) DESC, r.offset DESC LIMIT $rows",
            {
                "key": request.key,
                **({"header": request.header} if request.header else {}),
                "from": request.from_ms,
                "to": request.to_ms,
                "rows": request.rows_max + 1,
            },
        ).fetchall()
    files = sum(len(paths) for _, paths in tables)
    return LakeRecords([_record(*row) for row in found[: request.rows_max]], len(found) > request.rows_max, files)


def _record(
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    key_size: int | None,
    value: bytes | None,
    value_size: int | None,
    headers: list[dict[str, str | bytes | None]] | None,
) -> LakeRecord:
    named = tuple((str(h["key"]), h["value"] if isinstance(h["value"], bytes) else None) for h in headers or ())
    sizes = tuple(-1 if size is None else size for size in (key_size, value_size))
    return LakeRecord(partition, offset, timestamp_ms, key, sizes[0], value, sizes[1], named)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def main() -> int:
    request = LakeLookup.parse(sys.stdin.read())
    sys.stdout.write(query_records(request, LakeSettings.of_environment(Path(request.lake_folder))).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
