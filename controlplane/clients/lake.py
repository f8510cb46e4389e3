"""The lake as the control plane sees it: metadata of tables from the catalogue, and queries in a process of their own.

Invariant: no data file is opened here. A query is killed after its time, or above its memory. Does not contain: writes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from controlplane.clients.limited_process import NoOutput, NoOutputReason, output
from controlplane.domain.times import utc_of_ms
from weir_common import lake as names
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_history import HISTORY_SECONDS_MAX, HistoryRequest, HistoryResult
from weir_common.lake_queries import SECONDS_MAX, LakeQuery, QueryError, QueryResult
from weir_common.lake_records import RECORDS_SECONDS_MAX, LakeLookup, LakeRecords

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot, Summary
    from pyiceberg.types import NestedField

TABLES_MAX = 500
"""Maximum number of tables in a list: the metadata of each table is one file."""

FILES_MAX = 200
"""Maximum number of files of a table in one response: a table may have millions, and a query lists them all."""

SNAPSHOTS_MAX = 200
"""Maximum number of newest snapshots in one response."""

PROCESS_BYTES_MAX = 1024 * 1024 * 1024
"""Memory limit of the process of a query: 512 MB of DuckDB (`lake_queries.MEMORY_MB`), about 200 MB of the libraries, and row groups that pyarrow reads from
S3."""

ERRORS = {
    NoOutputReason.TIME: QueryError.TIME,
    NoOutputReason.MEMORY: QueryError.MEMORY,
    NoOutputReason.CRASHED: QueryError.CRASHED,
}


class LakeUnavailable(Exception):
    """The catalogue cannot be read. The text says why."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column; those of a struct have the names of their path."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """A commit. `job`, `offsets`: of the archive that made it; offsets are {partition: [first, next]} as JSON text."""

    id: str
    at: datetime
    operation: str
    added_rows: int
    added_files: int
    deleted_files: int
    total_rows: int
    job: str
    offsets: str


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A data file of the current snapshot of a table."""

    path: str
    partition: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LakePosition:
    """The next offset that the archive writes."""

    partition: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class LakeTable:
    """`committed_at`: the newest snapshot; None for an empty table. `partitioned_by`: transforms of the partition."""

    name: str
    namespace: str
    is_dead_letters: bool
    rows: int
    files: int
    bytes: int
    snapshots: int
    committed_at: datetime | None
    partitioned_by: str
    location: str


@dataclass(frozen=True, slots=True)
class LakeTableDetail:
    """A table of the lake with its columns, archived positions, newest snapshots and first files."""

    table: LakeTable
    columns: list[LakeColumn]
    positions: list[LakePosition]
    newest_snapshots: list[LakeSnapshot]
    first_files: list[LakeFile]


def lake_settings() -> LakeSettings:
    weir = settings.WEIR
    default = LakeSettings.of_folder(weir.lake_dir)
    return LakeSettings(
        weir.lake_catalog or default.url,
        weir.lake_warehouse or default.warehouse,
        LakeSettings.of_environment(weir.lake_dir, {"WEIR_LAKE_OPTIONS": weir.lake_options}).options,
    )


def _is_absent() -> bool:
    """Return whether no archive has created the SQLite catalogue yet. A read creates none."""
    path = lake_settings().url.removeprefix("sqlite:///")
    return path != lake_settings().url and not Path(path).exists()


def _catalog() -> Catalog:
    """The catalogue. Raises LakeUnavailable. The catalogue's library raises errors of the database, the network and its own."""
    try:
        return lake_settings().open()
    except Exception as e:
        raise LakeUnavailable(f"The catalogue of the lake cannot be opened ({type(e).__name__}).") from e


def tables() -> list[LakeTable]:
    """All tables by name. Raises LakeUnavailable."""
    if _is_absent():
        return []
    catalog = _catalog()
    try:
        identifiers = [
            i for namespace in (names.NAMESPACE, names.METRICS_NAMESPACE) for i in catalog.list_tables(namespace)
        ]
        return [_table_row(catalog.load_table(i)) for i in sorted(identifiers)[:TABLES_MAX]]
    except Exception as e:
        raise LakeUnavailable(f"The catalogue of the lake does not respond ({type(e).__name__}).") from e


def table(namespace: str, name: str) -> LakeTableDetail | None:
    """A table; None if there is none. Raises LakeUnavailable."""
    if _is_absent():
        return None
    catalog = _catalog()
    try:
        if not catalog.table_exists((namespace, name)):
            return None
        found = catalog.load_table((namespace, name))
        return LakeTableDetail(
            _table_row(found),
            [LakeColumn(*column) for column in _columns(found.schema().fields, "")],
            [LakePosition(p, o) for p, o in names.parse_positions(found.properties.get(names.POSITIONS)).items()],
            [_snapshot(s) for s in reversed(found.snapshots()[-SNAPSHOTS_MAX:])],
            list(_files(found)),
        )
    except Exception as e:
        raise LakeUnavailable(f"The catalogue of the lake does not respond ({type(e).__name__}).") from e


def query(sql: str) -> QueryResult:
    """Run a query in a separate process, for at most SECONDS_MAX, with at most PROCESS_BYTES_MAX of memory."""
    requested = LakeQuery(sql, str(settings.WEIR.lake_dir))
    try:
        return QueryResult.parse(_output("pipeline.lake.query", requested.text(), SECONDS_MAX))
    except NoOutput as e:
        return QueryResult(error=ERRORS[e.reason], detail=f"The query {e}")


def history(keys: Sequence[tuple[str, str]], since_s: int, until_s: int, step_s: int) -> HistoryResult:
    """Points of metrics from the lake, read in a separate process, for at most HISTORY_SECONDS_MAX. Keys are (subject, metric)."""
    if _is_absent():
        return HistoryResult(error=QueryError.NO_TABLE, detail="There is no lake yet.")
    requested = HistoryRequest(tuple(keys), since_s, until_s, step_s, str(settings.WEIR.lake_dir))
    try:
        return HistoryResult.parse(_output("pipeline.lake.history_query", requested.text(), HISTORY_SECONDS_MAX))
    except NoOutput as e:
        return HistoryResult(error=ERRORS[e.reason], detail=f"The read of the lake {e}")


def records(lookup: LakeLookup) -> LakeRecords:
    """Records by key from the lake, read in a separate process, for at most RECORDS_SECONDS_MAX."""
    if _is_absent():
        return LakeRecords(error=QueryError.NO_TABLE, detail="There is no lake yet.")
    try:
        return LakeRecords.parse(_output("pipeline.lake.record_query", lookup.text(), RECORDS_SECONDS_MAX))
    except NoOutput as e:
        return LakeRecords(error=ERRORS[e.reason], detail=f"The read of the lake {e}")


def _output(module: str, request: str, seconds: float) -> str:
    """The standard output of a module of the pipeline. Raises NoOutput."""
    command = [sys.executable, "-m", module]
    return output(command, request, seconds=seconds, memory_bytes=PROCESS_BYTES_MAX, folder=settings.BASE_DIR)


def _table_row(table: Table) -> LakeTable:
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot is not None else None
    namespace, name = table.name()
    fields = [f"{f.transform}({table.schema().find_column_name(f.source_id)})" for f in table.spec().fields]
    return LakeTable(
        name=name,
        namespace=namespace,
        is_dead_letters=names.is_dead_letters(name),
        rows=_number(summary, "total-records"),
        files=_number(summary, "total-data-files"),
        bytes=_number(summary, "total-files-size"),
        snapshots=len(table.snapshots()),
        committed_at=utc_of_ms(snapshot.timestamp_ms) if snapshot is not None else None,
        partitioned_by=", ".join(fields),
        location=table.location(),
    )


def _snapshot(snapshot: Snapshot) -> LakeSnapshot:
    return LakeSnapshot(
        id=str(snapshot.snapshot_id),
        at=utc_of_ms(snapshot.timestamp_ms),
        operation=str(snapshot.summary.operation.value) if snapshot.summary is not None else "",
        added_rows=_number(snapshot.summary, "added-records"),
        added_files=_number(snapshot.summary, "added-data-files"),
        deleted_files=_number(snapshot.summary, "deleted-data-files"),
        total_rows=_number(snapshot.summary, "total-records"),
        job=(snapshot.summary.additional_properties.get(names.JOB) or "") if snapshot.summary is not None else "",
        offsets=(snapshot.summary.additional_properties.get(names.OFFSETS) or "")
        if snapshot.summary is not None
        else "",
    )


def _columns(fields: Iterable[NestedField], prefix: str) -> Iterator[tuple[str, str, str]]:
    for field in fields:
        inner = getattr(field.field_type, "fields", None)
        yield f"{prefix}{field.name}", "struct" if inner else str(field.field_type), field.doc or ""
        if inner:
            yield from _columns(inner, f"{prefix}{field.name}.")


def _files(table: Table) -> Iterator[LakeFile]:
    """The first files of the current snapshot. The rest is in `<table>.files` of any engine."""
    snapshot, count = table.current_snapshot(), 0
    fields, schema = table.spec().fields, table.schema()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            values = ", ".join(
                f"{f.name}={f.transform.to_human_string(schema.find_type(f.source_id), file.partition[i])}"
                for i, f in enumerate(fields)
            )
            yield LakeFile(file.file_path, values, int(file.record_count), int(file.file_size_in_bytes))
            count += 1
            if count == FILES_MAX:
                return


def _number(summary: Summary | None, name: str) -> int:
    return int(summary.additional_properties.get(name) or 0) if summary is not None else 0
