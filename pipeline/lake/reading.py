"""Rows of tables for Spark and for tasks: a DataFrame of a table's columns, read by Spark's tasks file by file, and windows of offsets in order.

Does not contain: writes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import DataFrame, SparkSession

from pipeline.lake.conditions import at_least, below, equal, every
from weir_common.lake_catalog import LakeSettings

FILES_PER_TASK = 8

WINDOW_OFFSETS = 50_000
"""Offsets of one partition in memory at a time while rows are read in order."""

POSITION_DDL = "partition int, offset long, timestamp timestamp"
"""The columns that say which records a table has."""

POSITION_ARROW = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)


@dataclass(frozen=True, slots=True)
class PositionReader:
    """The function that Spark's tasks run: pickled data files in, the positions of their rows out."""

    lake: LakeSettings
    table: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = self.lake.open().load_table(self.table)
        schema = table.schema().select(*POSITION_ARROW.names)
        for batch in batches:
            for data in batch["file"].to_pylist():
                task = FileScanTask(pickle.loads(data))  # noqa: S301 - written by our own driver.
                rows = ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table([task])
                yield from rows.select(POSITION_ARROW.names).cast(POSITION_ARROW).to_batches(max_chunksize=10_000)


def positions_frame(spark: SparkSession, lake: LakeSettings, table: Table) -> DataFrame:
    """(partition, offset, timestamp) of all rows of the table."""
    files = [(pickle.dumps(task.file),) for task in table.scan().plan_files()]
    reader = PositionReader(lake, tuple(table.name()))
    frame = spark.createDataFrame(files, "file binary").repartition(max(1, len(files) // FILES_PER_TASK))
    return frame.mapInArrow(lambda batches: reader(batches), POSITION_DDL)


def in_order(
    table: Table, partition: int, first: int, end: int, condition: BooleanExpression, columns: tuple[str, ...]
) -> Iterator[pa.Table]:
    """The rows of a partition with offsets in [first, end) that meet the condition, in the order of offsets, a window at a time."""
    for start in range(first, end, WINDOW_OFFSETS):
        window = every(
            equal("partition", partition), at_least("offset", start), below("offset", min(end, start + WINDOW_OFFSETS))
        )
        scan = table.scan(row_filter=every(window, condition), selected_fields=columns)
        rows = scan.to_arrow()
        if rows.num_rows:
            yield rows.sort_by([("offset", "ascending")])
