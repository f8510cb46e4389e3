"""Tables of topics: their columns, partitions and positions, and the one commit that adds the rows of a batch.

Invariants: the rows of offsets [position, next) and the new position are one commit, so each record is in the table exactly once, also after
kill -9 at any step. Dead letters are listed in that commit, and their table receives the listed files after it (`publish_dead_letters`, repeated at each
start), so none is lost or added twice.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from pipeline.lake import columns
from pipeline.offsets import Range
from pipeline.tables import Contradiction
from weir_common import lake as names
from weir_common.lake import COLUMN_MEANINGS, DeadLetterFiles

COMMITS_MAX = 20
"""Maximum number of attempts of a commit while other processes (compaction, new columns) commit to the same table."""

RETRY_SECONDS = 0.1
"""Pause before a commit is repeated."""

DATA = "data"
"""The column of typed values. It is a struct, so that a field of a value never has the name of a raw column."""

TIMESTAMP_ID, KEY_ID = 3, 5

RAW_FIELDS = (
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(TIMESTAMP_ID, "timestamp", TimestamptzType()),
    NestedField(4, "timestamp_type", IntegerType(), doc=COLUMN_MEANINGS["timestamp_type"]),
    NestedField(KEY_ID, "key", BinaryType()),
    NestedField(6, "value", BinaryType()),
    NestedField(
        7,
        "headers",
        ListType(
            8,
            StructType(NestedField(9, "key", StringType()), NestedField(10, "value", BinaryType())),
            element_required=False,
        ),
    ),
)
TOPIC_SCHEMA = Schema(*RAW_FIELDS, NestedField(11, "schema_id", IntegerType(), doc=COLUMN_MEANINGS["schema_id"]))
DEAD_LETTER_SCHEMA = Schema(
    *RAW_FIELDS, NestedField(11, "reason", StringType()), NestedField(12, "detail", StringType())
)

DAY = PartitionField(TIMESTAMP_ID, 1000, DayTransform(), "timestamp_day")

PROPERTIES = {
    # A commit is repeated here and not by pyiceberg, because the position is compared before each attempt.
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Bounds of keys and values would repeat the payload in each manifest.
    "write.metadata.metrics.column.value": "counts",
    "write.metadata.metrics.column.key": "truncate(32)",
}


Step = Callable[[str], None]
"""Called with the name of each step that was finished. Tests end the process there."""


def no_step(_: str) -> None:
    """The `Step` of production."""


def identifier(name: str, namespace: str = names.NAMESPACE) -> tuple[str, str]:
    return (namespace, name)


def topic_table(catalog: Catalog, topic: str, key_buckets: int = 0) -> Table:
    """The table of a topic, created if it is absent. `key_buckets` above 0: also partitioned by that many buckets of the key. Raises ValueError."""
    if names.is_dead_letters(topic):
        raise ValueError(f"topic {topic} has the name of a table of dead letters ({names.DEAD_LETTERS_SUFFIX})")
    bucket = (PartitionField(KEY_ID, 1001, BucketTransform(key_buckets), "key_bucket"),) if key_buckets else ()
    return _create(catalog, topic, TOPIC_SCHEMA, PartitionSpec(DAY, *bucket))


def dead_letter_table(catalog: Catalog, topic: str) -> Table:
    return _create(catalog, names.dead_letters_of(topic), DEAD_LETTER_SCHEMA, PartitionSpec(DAY))


def _create(catalog: Catalog, name: str, schema: Schema, spec: PartitionSpec) -> Table:
    try:
        return catalog.load_table(identifier(name))
    except NoSuchTableError:
        try:
            return catalog.create_table(identifier(name), schema, partition_spec=spec, properties=PROPERTIES)
        except TableAlreadyExistsError:  # another process was faster
            return catalog.load_table(identifier(name))


def positions(table: Table) -> dict[int, int]:
    """The next offset of each partition, from the last loaded metadata."""
    return names.parse_positions(table.properties.get(names.POSITIONS))


def typed_columns(table: Table) -> StructType | None:
    """The type of the column `data`; None before the first typed value."""
    field = next((f for f in table.schema().fields if f.name == DATA), None)
    return field.field_type if field is not None and isinstance(field.field_type, StructType) else None


def add_columns(table: Table, needed: StructType, *, only_new_names: bool = False) -> None:
    """Add the typed columns that the table lacks. Any process may do it at any time: rows of earlier files have null there. `only_new_names`: a present
    column keeps its type, also if another type is needed. Raises what `columns.missing_fields` raises, and TooManyColumns."""
    for attempt in range(COMMITS_MAX):
        present = typed_columns(table)
        if only_new_names and present is not None:
            there = {f.name for f in present.fields}
            needed = StructType(*(f for f in needed.fields if f.name not in there))
        new = columns.missing_fields(present, needed)
        if new is None:
            return
        count = sum(1 for _ in columns.leaves(present)) if present is not None else 0
        if count + sum(1 for _ in columns.leaves(new)) > columns.COLUMNS_MAX:
            raise TooManyColumns(f"The table has {count} typed columns; the maximum is {columns.COLUMNS_MAX}.")
        try:
            with table.update_schema() as update:
                update.union_by_name(Schema(NestedField(1, DATA, _with_new_ids(new), required=False)))
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)
        table.refresh()


class TooManyColumns(Exception):
    """The typed columns of a table have a limit."""


def _with_new_ids(kind: StructType) -> StructType:
    """Return the type with new field IDs, which a separate schema needs."""
    from pyiceberg.schema import assign_fresh_schema_ids

    fresh = assign_fresh_schema_ids(Schema(*kind.fields))
    return StructType(*fresh.fields)


@dataclass(frozen=True, slots=True)
class Batch:
    """One commit to the table of a topic: the offset ranges of its partitions, and the files with their rows."""

    job: str
    ranges: Sequence[Range]
    rows: int
    files: Sequence[DataFile]
    dead_letter_files: Sequence[str]


def commit(table: Table, batch: Batch, assumed: Mapping[int, int], step: Step = no_step) -> None:
    """Add the files and advance the positions, in one commit. `assumed`: the positions that the files continue. Idempotent. Raises Contradiction."""
    after = {**assumed, **{r.partition: r.next for r in batch.ranges}}
    letters = DeadLetterFiles(str(uuid.uuid4()), tuple(batch.dead_letter_files)) if batch.dead_letter_files else None
    for attempt in range(COMMITS_MAX):
        table.refresh()
        present = positions(table)
        if all(present.get(r.partition) == r.next for r in batch.ranges):
            return
        if present != dict(assumed):
            raise Contradiction(
                f"table {'.'.join(table.name())} continues at {present}, the batch assumes {dict(assumed)}: another job archives this topic"
            )
        properties = {names.POSITIONS: names.positions_text(after)}
        if letters is not None:
            properties[names.DEAD_LETTERS] = letters.text()
        try:
            with table.transaction() as transaction:
                transaction.set_properties(properties)
                # A snapshot also without files: the catalogue rejects it if another one came first, but accepts properties alone in any order.
                with transaction.update_snapshot(snapshot_properties=_summary(batch)).fast_append() as append:
                    for file in batch.files:
                        append.append_data_file(file)
                step("prepared")
            step("committed")
            return
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)


def _summary(batch: Batch) -> dict[str, str]:
    return {
        names.JOB: batch.job,
        names.OFFSETS: json.dumps({str(r.partition): [r.first, r.next] for r in batch.ranges}),
        names.ROWS: str(batch.rows),
    }


def publish_dead_letters(catalog: Catalog, topic: str, table: Table, step: Step = no_step) -> int:
    """Add the files that the last commit of the topic's table lists to the table of dead letters, unless they are there. Returns the number of files
    added. Each start and each commit calls it before the next commit, which may list other files."""
    letters = DeadLetterFiles.parse(table.properties.get(names.DEAD_LETTERS))
    if letters is None:
        return 0
    dead = dead_letter_table(catalog, topic)
    for attempt in range(COMMITS_MAX):
        dead.refresh()
        if dead.properties.get(names.DEAD_LETTERS_PUBLISHED) == letters.id:
            return 0
        files = [parquet_file_to_data_file(dead.io, dead.metadata, path) for path in letters.files]
        try:
            with dead.transaction() as transaction:
                transaction.set_properties({names.DEAD_LETTERS_PUBLISHED: letters.id})
                with transaction.update_snapshot(
                    snapshot_properties={names.ROWS: str(sum(f.record_count for f in files))}
                ).fast_append() as append:
                    for file in files:
                        append.append_data_file(file)
            step("dead-letters-published")
            return len(files)
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)
    return 0
