"""Data files of a batch, written by Spark's tasks: records are decoded, split by table, day and bucket, and written as Parquet. The driver commits
the files (`pipeline.lake.archiving`). A file that no commit adds is an orphan, which `pipeline.lake.maintenance` deletes.

Invariant: each record of the input below `next` and at or above the table's position is in exactly one file of the result.
"""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table, WriteTask
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, StructType

from pipeline.lake import columns
from pipeline.lake.conversion import Converter, Mismatch, converter
from pipeline.lake.tables import (
    DATA,
    TooManyColumns,
    add_columns,
    dead_letter_table,
    topic_table,
    typed_columns,
)
from pipeline.lake.typed import Decoder, DoesNotFitTable, TypedValue
from weir_common.lake import DeadLetterReason, ValueFormat
from weir_common.lake_catalog import LakeSettings
from weir_common.schema_registry import SchemaRegistryClient

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Keys and values in the memory of a task before they are written. A larger file needs more memory; smaller files are compacted later."""

DAY_MICROSECONDS = 86_400_000_000

WRITTEN = pa.schema(
    [
        ("topic", pa.string()),
        ("is_dead_letters", pa.bool_()),
        ("file", pa.binary()),
        ("path", pa.string()),
        ("offsets", pa.string()),
        ("rows", pa.int64()),
    ]
)
"""One written file. `file`: the pickled DataFile. `offsets`: "partition:first:last:rows" of each partition in the file, separated by spaces."""

WRITTEN_DDL = "topic string, is_dead_letters boolean, file binary, path string, offsets string, rows long"


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """Parameters with which a task writes the records of one topic. `positions`: records below them are in the table."""

    topic: str
    value_format: ValueFormat = ValueFormat.RAW
    key_buckets: int = 0
    positions: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileWriter:
    """The function that Spark's tasks run on their records. Picklable."""

    lake: LakeSettings
    targets: Mapping[str, TopicTarget]
    registry_url: str = field(default="", repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the records, which have the columns of the Kafka source with headers. Yields rows of WRITTEN."""
        catalog = self.lake.open()
        open_tables: dict[str, _TopicWriter] = {}
        for batch in batches:
            for topic in pc.unique(batch["topic"]).to_pylist():
                writer = open_tables.get(topic)
                if writer is None:
                    writer = open_tables[topic] = _TopicWriter(catalog, self.targets[topic], self.registry_url)
                writer.add(batch.filter(pc.equal(batch["topic"], topic)))
                if writer.bytes >= FILE_BYTES_MAX:
                    yield from writer.flush()
        for writer in open_tables.values():
            yield from writer.flush()


class _TopicWriter:
    """Rows of one topic that are not written yet."""

    def __init__(self, catalog: Catalog, target: TopicTarget, registry_url: str) -> None:
        self._catalog, self._target = catalog, target
        self._table = topic_table(catalog, target.topic, target.key_buckets)
        registry = SchemaRegistryClient(registry_url) if registry_url else None
        self._decoder = Decoder(target.value_format, registry)
        self._converter: Converter | None = None
        self._fitting: dict[tuple[object, ...], DoesNotFitTable | None] = {}
        self._rows: list[dict[str, Any]] = []
        self._dead: list[dict[str, Any]] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            if row["offset"] < self._target.positions.get(row["partition"], 0):
                continue
            record = {
                "partition": row["partition"],
                "offset": row["offset"],
                "timestamp": row["timestamp"],
                "timestamp_type": row["timestampType"],
                "key": row["key"],
                "value": row["value"],
                "headers": row.get("headers"),
            }
            self.bytes += len(row["key"] or b"") + len(row["value"] or b"")
            try:
                self._rows.append(record | self._typed_values(row["value"]))
            except DoesNotFitTable as e:
                self._dead.append({**record, "reason": str(e.reason), "detail": e.detail})

    def _typed_values(self, value: bytes | None) -> dict[str, Any]:
        decoded = self._decoder.decode(value)
        if decoded is None:
            return {"schema_id": None, DATA: None}
        if decoded.types not in self._fitting:
            self._fitting[decoded.types] = self._fit(decoded)
        if (misfit := self._fitting[decoded.types]) is not None:
            raise misfit
        if self._converter is None:
            self._converter = converter(typed_columns(self._table) or StructType())
        try:
            return {"schema_id": decoded.schema_id, DATA: self._converter(decoded.value)}
        except Mismatch as e:
            raise DoesNotFitTable(DeadLetterReason.TYPE_MISMATCH, str(e)) from None

    def _fit(self, decoded: TypedValue) -> DoesNotFitTable | None:
        """Add the columns that this type of value needs. The result is the reason if the table cannot have them."""
        needed = self._decoder.type_of(decoded)
        try:
            add_columns(self._table, needed, only_new_names=self._target.value_format is ValueFormat.JSON)
        except columns.TypeConflict as e:
            return DoesNotFitTable(DeadLetterReason.SCHEMA_CONFLICT, str(e))
        except columns.ColumnNameConflict as e:
            return DoesNotFitTable(DeadLetterReason.COLUMN_NAME, str(e))
        except TooManyColumns as e:
            return DoesNotFitTable(DeadLetterReason.TOO_MANY_COLUMNS, str(e))
        self._converter = None
        return None

    def flush(self) -> Iterator[pa.RecordBatch]:
        rows, dead = self._rows, self._dead
        self._rows, self._dead, self.bytes = [], [], 0
        if rows:
            yield from self._batches_to_write(self._table, rows, False)
        if dead:
            yield from self._batches_to_write(dead_letter_table(self._catalog, self._target.topic), dead, True)

    def _batches_to_write(self, table: Table, rows: list[dict[str, Any]], is_dead: bool) -> Iterator[pa.RecordBatch]:
        arrow = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
        for part, file in write_arrow(table, arrow):
            yield pa.RecordBatch.from_pylist(
                [
                    {
                        "topic": self._target.topic,
                        "is_dead_letters": is_dead,
                        "file": pickle.dumps(file),
                        "path": file.file_path,
                        "offsets": _offsets_text(part),
                        "rows": part.num_rows,
                    }
                ],
                schema=WRITTEN,
            )


def write_arrow(table: Table, rows: pa.Table) -> Iterator[tuple[pa.Table, DataFile]]:
    """Write rows as data files of the table, one per day and bucket. The files are not in the table until a commit adds them."""
    spec, schema = table.spec(), table.schema()
    numbers = itertools.count()
    for values, part in _split(table, rows):
        key = PartitionKey(
            field_values=[PartitionFieldValue(f, v) for f, v in zip(spec.fields, values, strict=True)],
            partition_spec=spec,
            schema=schema,
        )
        task = WriteTask(
            write_uuid=uuid.uuid4(),
            task_id=next(numbers),
            schema=schema,
            record_batches=part.combine_chunks().to_batches(),
            partition_key=key,
        )
        for file in write_file(table.io, table.metadata, iter([task])):
            yield part, file


def _split(table: Table, rows: pa.Table) -> Iterator[tuple[Sequence[int | None], pa.Table]]:
    """Rows by the values of the partition fields."""
    values: list[list[int | None]] = []
    for partition_field in table.spec().fields:
        name = table.schema().find_column_name(partition_field.source_id)
        transform = partition_field.transform
        if isinstance(transform, BucketTransform):
            bucket = transform.transform(BinaryType())
            values.append([bucket(v) for v in rows[name].to_pylist()])
        else:
            micros = rows[name].cast(pa.int64())
            values.append([None if v is None else v // DAY_MICROSECONDS for v in micros.to_pylist()])
    grouped: dict[tuple[int | None, ...], list[int]] = defaultdict(list)
    for index, key in enumerate(zip(*values, strict=True)):
        grouped[key].append(index)
    if len(grouped) == 1:
        yield next(iter(grouped)), rows
        return
    for key, indices in grouped.items():
        yield key, rows.take(indices)


def _offsets_text(rows: pa.Table) -> str:
    parts = []
    for partition in pc.unique(rows["partition"]).to_pylist():
        offsets = rows["offset"].filter(pc.equal(rows["partition"], partition))
        parts.append(f"{partition}:{pc.min(offsets).as_py()}:{pc.max(offsets).as_py()}:{len(offsets)}")
    return " ".join(parts)
