"""The job `archive`: a streaming query that copies topics to Iceberg tables. The position of the tables is the start of each query; the query's
checkpoint is temporary.

Does not contain: files and commits (`pipeline.lake`), the archive of Parquet files (`pipeline.jobs.archive`).
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import ClassVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import session
from pipeline.jobs.archive import HEARTBEAT_SECONDS, STOP_SECONDS_MAX, behind, offsets_of, run_with_retries
from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake.archiving import LakeArchive, WrittenFile
from pipeline.lake.writing import WRITTEN_DDL
from pipeline.offsets import Offsets, offset_of, put, ranges
from pipeline.source import Settings, SourceCluster
from pipeline.tables import Contradiction
from weir_common.lake import ValueFormat

REGISTRY_VARIABLE = "WEIR_SCHEMA_REGISTRY_URL"


@dataclass(frozen=True)
class ArchiveToLake(Job):
    name: ClassVar[str] = "archive"

    topics: list[str]
    value_format: str
    key_buckets: int
    records_per_batch: int
    trigger_seconds: int
    until_end: bool

    def run(self, context: RunContext) -> None:
        value_format = ValueFormat(self.value_format)
        registry = os.environ.get(REGISTRY_VARIABLE, "")
        if value_format is ValueFormat.REGISTRY and not registry:
            raise ValueError(f"the value format registry needs a schema registry; set {REGISTRY_VARIABLE}")
        archive = LakeArchive(context.lake, context.run.name, self.topics, value_format, self.key_buckets, registry)
        number = 0

        def once() -> None:
            nonlocal number
            number += 1
            Query(self, context, archive, number).run()

        run_with_retries(once, lambda: context.stop_requested)


class Query:
    """One streaming query. It starts at the positions of the tables and has a separate checkpoint."""

    def __init__(self, job: ArchiveToLake, context: RunContext, archive: LakeArchive, number: int) -> None:
        self._job, self._context, self._archive = job, context, archive
        self._checkpoint = context.work / f"checkpoint-{number}"
        self._start: Offsets = {}
        self._error: Exception | None = None

    def run(self) -> None:
        context, job = self._context, self._job
        options = {
            **context.kafka_options(),
            "subscribe": ",".join(job.topics),
            "maxOffsetsPerTrigger": str(job.records_per_batch),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        cluster = SourceCluster(Settings.parse(options, streaming=True))
        self._start = start_of(self._archive.open(), cluster.earliest())
        options["startingOffsets"] = json.dumps(self._start)
        stream = session.kafka_stream(context.spark(), options)
        writer = stream.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(self._checkpoint))
        if job.until_end:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{job.trigger_seconds} seconds")
        try:
            self._watch(writer.start())
        except StreamingQueryException as e:
            # Spark repeats the error of a batch as text.
            raise self._error or e from e

    def _batch(self, records: DataFrame, batch: int) -> None:
        try:
            self._write_batch(records, batch)
        except Contradiction as e:
            self._error = e
            raise

    def _write_batch(self, records: DataFrame, batch: int) -> None:
        began = time.monotonic()
        before = offsets_of(self._checkpoint, batch - 1) if batch else self._start
        planned = ranges(before, offsets_of(self._checkpoint, batch), {})
        write = self._archive.writer()
        files = records.mapInArrow(lambda batches: write(batches), WRITTEN_DDL).collect()
        rows = self._archive.commit(planned, [WrittenFile.of_row(f.asDict()) for f in files])
        seconds = time.monotonic() - began
        self._context.update_status(
            batches=int(self._context.status.get("batches", 0)) + 1,
            rows=self._archive.rows,
            dead_letters=self._archive.dead_letters,
            rows_last_batch=rows,
            batch_seconds=round(seconds, 2),
            rows_per_second=round(rows / seconds),
        )
        self._context.report(
            ReportTable(
                "Archived offsets",
                ("topic", "partition", "next offset"),
                [(r.topic, r.partition, r.next) for r in planned],
            )
        )

    def _watch(self, query: StreamingQuery) -> None:
        """Wait until the query ends or a stop is requested. Raises the error of a failed query."""
        heartbeat, deadline = time.monotonic(), 0.0
        while not query.awaitTermination(1):
            now = time.monotonic()
            if now - heartbeat > HEARTBEAT_SECONDS:
                heartbeat = now
                self._context.update_status(behind_records=behind(query))
            if self._context.stop_requested:
                deadline = deadline or now + STOP_SECONDS_MAX
                if not query.status["isTriggerActive"] or now > deadline:
                    query.stop()
                    return


def start_of(present: Offsets, earliest: Offsets) -> Offsets:
    """The positions of the tables; the earliest offset for partitions without one."""
    out: Offsets = {}
    for topic, partitions in earliest.items():
        for partition, offset in partitions.items():
            position = offset_of(present, topic, int(partition))
            put(out, topic, int(partition), offset if position is None else position)
    return out
