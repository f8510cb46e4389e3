"""The job `reconcile`: compares the records of the lake with those of the topics, per topic and hour, with the offsets that differ. It reads both sides completely and
trusts no position: a record is archived if its partition and offset are in a file of the table or of its dead letters.

Invariant: only offsets that both sides can have are compared: from the first retained offset of the topic to the position of the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake.archiving import existing_table
from pipeline.lake.reading import positions_frame
from pipeline.lake.tables import positions
from pipeline.offsets import Offsets, Range, put
from pipeline.source import NAME, Settings, SourceCluster
from weir_common.lake import dead_letters_of

OFFSETS_SHOWN_MAX = 200
"""Maximum number of differing offsets in the report of a topic."""


@dataclass(frozen=True)
class Reconcile(Job):
    name: ClassVar[str] = "reconcile"

    topics: list[str]

    def run(self, context: RunContext) -> None:
        hours: list[Sequence[Any]] = []
        differing: list[Sequence[Any]] = []
        for topic in self.topics:
            if context.stop_requested:
                break
            compared = self._compare(context, topic)
            if compared is None:
                differing.append((topic, None, None, "the topic has no table, or no archived record that is retained"))
                continue
            found, offsets = compared
            hours += [(topic, *row) for row in found]
            differing += [(topic, *row) for row in offsets]
            context.update_status(batches=len(hours), rows=sum(int(h[2]) for h in hours), differences=len(differing))
            context.report(
                ReportTable("Differences", ("topic", "partition", "offset", "difference"), differing),
                ReportTable(
                    "Hours",
                    ("topic", "hour (UTC)", "in the topic", "in the lake", "missing", "extra", "repeated"),
                    hours,
                ),
            )
        context.update_status(differences=len(differing))
        context.report(
            ReportTable("Differences", ("topic", "partition", "offset", "difference"), differing),
            ReportTable(
                "Hours", ("topic", "hour (UTC)", "in the topic", "in the lake", "missing", "extra", "repeated"), hours
            ),
        )

    def _compare(self, context: RunContext, topic: str) -> tuple[list[Sequence[object]], list[Sequence[object]]] | None:
        """Counts per hour, and differing offsets; None if nothing can be compared."""
        table = existing_table(context.lake.open(), topic)
        if table is None:
            return None
        options = {**context.kafka_options(), "subscribe": topic}
        cluster = SourceCluster(Settings.parse(options, streaming=False))
        compared = comparable(topic, cluster.earliest()[topic], cluster.latest()[topic], positions(table))
        if not compared:
            return None
        spark = context.spark()
        starts: Offsets = {}
        ends: Offsets = {}
        for row in compared:
            put(starts, topic, row.partition, row.first)
            put(ends, topic, row.partition, row.next)
        options |= {
            "startingOffsets": json.dumps(complete(starts, cluster)),
            "endingOffsets": json.dumps(complete(ends, cluster)),
        }
        source = spark.read.format(NAME).options(**options).load().select("partition", "offset", "timestamp")
        archived = positions_frame(spark, context.lake, table)
        if (
            dead := existing_table(context.lake.open(), dead_letters_of(topic))
        ) is not None and dead.current_snapshot() is not None:
            archived = archived.unionAll(positions_frame(spark, context.lake, dead))
        limits = spark.createDataFrame(
            [(r.partition, r.first, r.next) for r in compared], "partition int, first long, next long"
        )
        archived = archived.join(f.broadcast(limits), "partition").where("offset >= first AND offset < next")
        return differences(source, archived.select("partition", "offset", "timestamp"))


def comparable(topic: str, earliest: dict[str, int], latest: dict[str, int], archived: dict[int, int]) -> list[Range]:
    """The offsets of each partition that the topic retains and the table has reached."""
    out = []
    for partition, position in sorted(archived.items()):
        first, end = earliest.get(str(partition)), latest.get(str(partition))
        if first is not None and end is not None and min(position, end) > first:
            out.append(Range(topic, partition, first, min(position, end)))
    return out


def complete(offsets: Offsets, cluster: SourceCluster) -> Offsets:
    """Offsets of all partitions: those that are not compared are read from their end to their end."""
    latest = cluster.latest()
    return {t: {p: offsets.get(t, {}).get(p, end) for p, end in ps.items()} for t, ps in latest.items()}


def differences(source: DataFrame, archived: DataFrame) -> tuple[list[Sequence[object]], list[Sequence[object]]]:
    """(hour, in the topic, in the lake, missing, extra, repeated) and (partition, offset, difference)."""
    hour = f.date_format(f.date_trunc("hour", "timestamp"), "yyyy-MM-dd HH:00").alias("hour")
    left = source.select("partition", "offset", hour.alias("hour_topic"), f.lit(1).alias("in_topic"))
    right = archived.groupBy("partition", "offset").agg(
        f.first(f.date_format(f.date_trunc("hour", "timestamp"), "yyyy-MM-dd HH:00")).alias("hour_lake"),
        f.count("*").alias("in_lake"),
    )
    both = (
        left.join(right, ["partition", "offset"], "full_outer")
        .withColumn("hour", f.coalesce("hour_topic", "hour_lake"))
        .fillna(0, ["in_topic", "in_lake"])
        .withColumn("missing", (f.col("in_lake") == 0).cast("int"))
        .withColumn("extra", (f.col("in_topic") == 0).cast("int"))
        .withColumn("repeated", (f.col("in_lake") > 1).cast("int"))
        .cache()
    )
    counted = both.groupBy("hour").agg(*[f.sum(c) for c in ("in_topic", "in_lake", "missing", "extra", "repeated")])
    hours: list[Sequence[object]] = [tuple(row) for row in counted.orderBy("hour").collect()]
    wrong = (
        both.where("missing + extra + repeated > 0").orderBy("partition", "offset").limit(OFFSETS_SHOWN_MAX).collect()
    )
    offsets: list[Sequence[object]] = [
        (r["partition"], r["offset"], "missing" if r["missing"] else "extra" if r["extra"] else "repeated")
        for r in wrong
    ]
    both.unpersist()
    return hours, offsets
