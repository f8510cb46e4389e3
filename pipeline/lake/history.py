"""Tables of the job `history`: averages of a minute of all metrics, and changes. Their rows and the position after them are one commit, so each
row of the database is in the table exactly once, also after kill -9 at any step.

Does not contain: reads of the database (`pipeline.history_rows`), reads for charts (`pipeline.lake.history_query`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from pipeline.history_rows import MinuteChunk, RecordedChange, Series
from pipeline.lake.tables import COMMITS_MAX, PROPERTIES, RETRY_SECONDS, Step, no_step
from weir_common import lake as names
from weir_common.history_codes import MINUTE_S, unpack, value_of
from weir_common.lake import COLUMN_MEANINGS

TIMESTAMP_ID = 3

POINTS_SCHEMA = Schema(
    NestedField(
        1,
        "subject",
        StringType(),
        required=True,
        doc=COLUMN_MEANINGS["metric_subject"],
    ),
    NestedField(2, "metric", StringType(), required=True),
    NestedField(TIMESTAMP_ID, "timestamp", TimestamptzType(), required=True, doc=COLUMN_MEANINGS["minute"]),
    NestedField(4, "value", DoubleType(), required=True, doc=COLUMN_MEANINGS["average"]),
)
CHANGES_SCHEMA = Schema(
    NestedField(1, "source", StringType(), required=True, doc=COLUMN_MEANINGS["change_source"]),
    NestedField(2, "id", LongType(), required=True, doc=COLUMN_MEANINGS["change_id"]),
    NestedField(TIMESTAMP_ID, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "actor", StringType()),
    NestedField(5, "kind", StringType()),
    NestedField(6, "subject_kind", StringType()),
    NestedField(7, "subject", StringType()),
    NestedField(8, "outcome", StringType()),
    NestedField(9, "text", StringType()),
)
POINTS_ARROW = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
CHANGES_ARROW = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        *(pa.field(name, pa.string()) for name in ("actor", "kind", "subject_kind", "subject", "outcome", "text")),
    ]
)
_SPEC = PartitionSpec(PartitionField(TIMESTAMP_ID, 1000, DayTransform(), "timestamp_day"))
_PROPERTIES = {k: v for k, v in PROPERTIES.items() if "metrics.column" not in k} | {
    # A chart reads only the files whose subjects may match.
    "write.metadata.metrics.column.subject": "full"
}


def points_table(catalog: Catalog) -> Table:
    return ensure_table(catalog, names.POINTS, POINTS_SCHEMA)


def changes_table(catalog: Catalog) -> Table:
    return ensure_table(catalog, names.CHANGES, CHANGES_SCHEMA)


def ensure_table(catalog: Catalog, name: str, schema: Schema) -> Table:
    place = (names.METRICS_NAMESPACE, name)
    try:
        return catalog.load_table(place)
    except NoSuchTableError:
        try:
            return catalog.create_table(place, schema, partition_spec=_SPEC, properties=_PROPERTIES)
        except TableAlreadyExistsError:  # another process was faster
            return catalog.load_table(place)


def position_text(table: Table) -> str | None:
    """The position, from the last loaded metadata; None before the first commit."""
    text = table.properties.get(names.HISTORY_POSITION)
    return None if text is None else str(text)


def next_day(table: Table) -> date | None:
    text = position_text(table)
    return None if text is None else date.fromisoformat(text)


def last_ids(table: Table) -> dict[str, int]:
    """The last copied id of each source."""
    return {str(source): int(i) for source, i in json.loads(position_text(table) or "{}").items()}


def ids_text(ids: dict[str, int]) -> str:
    return json.dumps(ids, sort_keys=True)


def points_rows(series: Sequence[Series], chunks: Sequence[MinuteChunk]) -> pa.Table:
    """The rows of chunks in the order of series and time. A minute without a value has no row."""
    of_series: dict[int, list[MinuteChunk]] = {}
    for chunk in chunks:
        of_series.setdefault(chunk.series_id, []).append(chunk)
    subjects: list[str] = []
    metrics: list[str] = []
    at: list[int] = []
    values: list[float] = []
    for one in series:
        before = len(at)
        for chunk in sorted(of_series.get(one.id, ()), key=lambda c: c.begins):
            for i, code in enumerate(unpack(chunk.codes)):
                if (value := value_of(code)) is not None:
                    at.append((chunk.begins + i * MINUTE_S) * 1_000_000)
                    values.append(value)
        subjects += [one.subject] * (len(at) - before)
        metrics += [one.metric] * (len(at) - before)
    times = pa.array(at, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    columns = {"subject": subjects, "metric": metrics, "timestamp": times, "value": values}
    return pa.Table.from_pydict(columns, schema=POINTS_ARROW)


def changes_rows(rows: Sequence[RecordedChange]) -> pa.Table:
    values = [{**asdict(row), "timestamp": row.at} for row in rows]
    return pa.Table.from_pylist(values, schema=CHANGES_ARROW)


def commit(
    table: Table, assumed: str | None, position: str, files: Sequence[DataFile], job: str, step: Step = no_step
) -> bool:
    """Add the files and change the position, in one commit. False if the position is no longer the assumed one: another run has copied the rows, and the
    files are unused."""
    for attempt in range(COMMITS_MAX):
        table.refresh()
        if (present := position_text(table)) != assumed:
            return present == position and attempt > 0
        try:
            with table.transaction() as transaction:
                transaction.set_properties({names.HISTORY_POSITION: position})
                summary = {names.JOB: job, names.ROWS: str(sum(int(f.record_count) for f in files))}
                # A snapshot also without files, because properties alone are accepted in any order.
                with transaction.update_snapshot(snapshot_properties=summary).fast_append() as append:
                    for file in files:
                        append.append_data_file(file)
                step("prepared")
            step("committed")
            return True
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)
    return False
