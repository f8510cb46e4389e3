"""The job `profile`: reads the newest records of topics and reports skew, sizes, the gain of compression, and proposals (`pipeline.profiling`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import functions as f

from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.offsets import Offsets, put
from pipeline.profiling import CODECS, Profile, compressed_size, proposals
from pipeline.source import NAME, Settings, SourceCluster

TOP_KEYS = 10
KEY_TEXT_MAX = 80

SAMPLE_BYTES_MAX = 4_000_000
"""Maximum number of bytes of values that a task compresses with each codec."""

BATCH_BYTES = 100_000
"""Bytes of values that are compressed together, as a producer's batch."""

SIZES_DDL = "codec string, bytes long, compressed long"


@dataclass(frozen=True)
class ProfileTopics(Job):
    name: ClassVar[str] = "profile"

    topics: list[str]
    records_per_partition: int

    def run(self, context: RunContext) -> None:
        profiles: list[Profile] = []
        for topic in self.topics:
            if context.stop_requested:
                break
            profiles.append(self._profile(context, topic))
            context.update_status(batches=len(profiles), rows=sum(p.records for p in profiles))
            context.report(*tables(profiles))

    def _profile(self, context: RunContext, topic: str) -> Profile:
        spark = context.spark()  # first: without a session pyspark makes no column
        options = {**context.kafka_options(), "subscribe": topic}
        cluster = SourceCluster(Settings.parse(options, streaming=False))
        earliest, latest = cluster.earliest(), cluster.latest()
        start: Offsets = {}
        for partition, end in latest[topic].items():
            put(start, topic, int(partition), max(earliest[topic][partition], end - self.records_per_partition))
        options |= {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(latest)}
        size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
        records = spark.read.format(NAME).options(**options).load().withColumn("size", size).cache()
        try:
            by_partition = records.groupBy("partition").agg(
                f.count("*").alias("n"),
                f.sum("size").alias("bytes"),
                f.max("size").alias("largest"),
                f.sum(f.isnull("key").cast("int")).alias("without_key"),
            )
            rows = by_partition.collect()
            keys = (
                records.where("key IS NOT NULL")
                .groupBy("key")
                .count()
                .orderBy(f.desc("count"))
                .limit(TOP_KEYS)
                .collect()
            )
            sizes = (
                records.select("value")
                .mapInArrow(compress_batches, SIZES_DDL)
                .groupBy("codec")
                .sum("bytes", "compressed")
                .collect()
            )
        finally:
            records.unpersist()
        return Profile(
            topic,
            {int(p): 0 for p in latest[topic]} | {r["partition"]: r["n"] for r in rows},
            sum(r["bytes"] for r in rows),
            max((r["largest"] for r in rows), default=0),
            sum(r["without_key"] for r in rows),
            [(bytes(r["key"]).decode(errors="backslashreplace")[:KEY_TEXT_MAX], r["count"]) for r in keys],
            max((r["sum(bytes)"] for r in sizes), default=0),
            {r["codec"]: r["sum(compressed)"] for r in sizes},
        )


def compress_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of Spark's tasks: values in, bytes before and after each codec out."""
    taken, before, after = 0, 0, dict.fromkeys(CODECS, 0)
    block = bytearray()

    def flush() -> None:
        nonlocal before
        before += len(block)
        for codec in CODECS:
            after[codec] += compressed_size(codec, bytes(block))
        block.clear()

    for batch in batches:
        for value in batch["value"].to_pylist() if taken < SAMPLE_BYTES_MAX else ():
            block += value or b""
            taken += len(value or b"")
            if len(block) >= BATCH_BYTES:
                flush()
    if block:
        flush()
    yield pa.RecordBatch.from_pydict(
        {
            "codec": pa.array(CODECS, pa.string()),
            "bytes": pa.array([before] * len(CODECS), pa.int64()),
            "compressed": pa.array([after[c] for c in CODECS], pa.int64()),
        }
    )


def tables(profiles: list[Profile]) -> list[ReportTable]:
    """The report of the job."""
    return [
        ReportTable(
            "Proposals",
            ("topic", "proposal", "reason"),
            [(p.topic, x.kind, x.text) for p in profiles for x in proposals(p)],
        ),
        ReportTable(
            "Topics",
            ("topic", "records", "bytes", "average bytes", "largest bytes", "without key"),
            [
                (
                    p.topic,
                    p.records,
                    p.bytes_total,
                    round(p.bytes_total / p.records) if p.records else 0,
                    p.largest_bytes,
                    p.without_key,
                )
                for p in profiles
            ],
        ),
        ReportTable(
            "Partitions",
            ("topic", "partition", "records"),
            [(p.topic, n, c) for p in profiles for n, c in sorted(p.records_by_partition.items())],
        ),
        ReportTable("Keys", ("topic", "key", "records"), [(p.topic, k, c) for p in profiles for k, c in p.top_keys]),
        ReportTable(
            "Compression",
            ("topic", "codec", "bytes", "compressed bytes"),
            [(p.topic, c, p.sampled_bytes, n) for p in profiles for c, n in sorted(p.compressed_bytes.items())],
        ),
    ]
