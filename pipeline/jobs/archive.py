"""`python -m pipeline.jobs.archive`: archives topics to Parquet, each record exactly once, also after kill -9 and a restart.

The checkpoint defines the offsets of a batch, the lake whether it is published; no other state is stored. Started by the worker
(`controlplane.clients.spark`) or manually. SIGTERM: ends after the current micro-batch.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from brokerd.config.kafka_client import ClientSettings, ClientSettingsError
from pipeline import session
from pipeline.offsets import Offsets, Range, each, offset_of, ranges
from pipeline.source import Settings, SourceCluster
from pipeline.tables import Contradiction, JobFolder
from weir_common.files import replace_text
from weir_common.java import JavaMissing

HEARTBEAT_SECONDS = 5.0
STOP_SECONDS_MAX = 60.0
"""Time limit of a micro-batch after SIGTERM. Then it is cancelled, and the next start repeats it."""
RECORDS_PER_BATCH_MAX = 500_000
"""Default of --records-per-batch: limits the disk space of a micro-batch, which is stored twice (staging and lake)."""


SLOW_WORKER = "Python worker failed to connect back"
STARTS_MAX = 6
"""Spark gives its Python worker ten seconds to connect, in any configuration, and a busy machine needs more. A restart of the query in this driver
takes seconds; a new driver takes more than a minute on such a machine."""


@dataclass
class Archive:
    """The foreachBatch callback of the streaming query, and the status that it reports."""

    job: JobFolder
    start: Offsets
    status: dict[str, Any] = field(default_factory=dict)

    def planned_ranges(self, batch: int) -> list[Range]:
        """The ranges of the batch according to the checkpoint: from the end of the previous batch to the end of this one."""
        end = offsets_of(self.job.checkpoint, batch)
        before = offsets_of(self.job.checkpoint, batch - 1) if batch else self.start
        # A partition that was added after the previous batch is read from offset 0, its first record.
        return ranges(before, end, {})

    def __call__(self, records: DataFrame, batch: int) -> None:
        began = time.monotonic()
        planned = self.planned_ranges(batch)
        if not self.job.already_published(batch, planned):
            records.select(
                "topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"
            ).write.mode("overwrite").partitionBy("topic").parquet(str(self.job.staging_path(batch)))
        lines = self.job.publish(batch, planned)
        rows, seconds = sum(line.rows for line in lines), time.monotonic() - began
        self.update_status(
            batch=batch, rows_last_batch=rows, batch_seconds=round(seconds, 2), rows_per_second=round(rows / seconds)
        )

    def update_status(self, **changes: object) -> None:
        self.status |= changes
        self.job.write_status(
            {**self.status, "rows": self.job.rows, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        )


def offsets_of(checkpoint: Path, batch: int) -> Offsets:
    """The end offsets of a batch from Spark's own log: a version line, a line of metadata, one line per source."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    found = json.loads(lines[2])
    # Some versions of Spark store the offsets of Python sources as JSON text inside JSON.
    offsets: Offsets = json.loads(found) if isinstance(found, str) else found
    return offsets


def started_at(job: JobFolder, settings: Settings, requested: str) -> Offsets:
    """Start offsets of the job. They are resolved once and stored, because a repeated first batch must start at the same offsets."""
    path = job.folder / "_start.json"
    if path.exists():
        found: Offsets = json.loads(path.read_text())
        return found
    start = SourceCluster(settings).resolve(requested)
    replace_text(path, json.dumps(start))
    return start


def complete(start: Offsets, partitions: dict[str, list[int]]) -> Offsets:
    """`start` extended to all current partitions. A partition that was created after `start` starts at offset 0."""
    return {t: {str(p): offset_of(start, t, p) or 0 for p in numbers} for t, numbers in partitions.items()}


def security_options(config: Path | None) -> dict[str, str]:
    """The settings of a client.properties file as options of the Spark source (`kafka` or `weir`); empty without a file. Raises ValueError."""
    if config is None:
        return {}
    try:
        return {f"kafka.{name}": value for name, value in ClientSettings.load(config).texts.items()}
    except ClientSettingsError as e:
        raise ValueError(str(e)) from e


def run(arguments: argparse.Namespace) -> None:
    topics = sorted({t.strip() for t in arguments.topics.split(",") if t.strip()})
    options = {
        **security_options(arguments.kafka_config),
        "kafka.bootstrap.servers": arguments.bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.client.id": f"archive-{arguments.job_id}",
        "subscribe": ",".join(topics),
        "maxOffsetsPerTrigger": str(arguments.records_per_batch),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with JobFolder(Path(arguments.lake).resolve(), arguments.job_id) as job:
        archive = Archive(job, {})
        archive.update_status(phase="starting", topics=topics)
        settings = Settings.parse(options, streaming=True)
        archive.start = started_at(job, settings, arguments.starting_offsets)
        options["startingOffsets"] = json.dumps(complete(archive.start, SourceCluster(settings).partitions()))
        spark = session.start(
            f"archive {arguments.job_id}",
            master=arguments.master,
            driver_memory=arguments.driver_memory,
            work=job.work,
        )
        try:
            stream = session.kafka_stream(spark, options, native=arguments.native_source)
            writer = stream.writeStream.foreachBatch(archive).option("checkpointLocation", str(job.checkpoint))
            if arguments.once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{arguments.trigger_seconds} seconds")

            def once() -> None:
                query = writer.start()
                archive.update_status(phase="running")
                watch(query, archive, lambda: stopping)

            run_with_retries(once, lambda: stopping)
            archive.update_status(phase="ended")
        except Exception as e:
            archive.update_status(phase="failed", error=reason(e))
            raise
        finally:
            spark.stop()


def run_with_retries(once: Callable[[], None], stopping: Callable[[], bool]) -> None:
    """Run the query. If Spark's Python worker was too slow to connect, run the query again, at most STARTS_MAX times in total. Each run continues from
    the checkpoint."""
    for left in reversed(range(STARTS_MAX)):
        try:
            once()
            return
        except StreamingQueryException as e:
            if SLOW_WORKER not in str(e) or not left or stopping():
                raise


def watch(query: StreamingQuery, archive: Archive, stop_requested: Any) -> None:
    """Wait until the query ends or is requested to stop. Raises the error of a failed query."""
    heartbeat, deadline = time.monotonic(), 0.0
    while not query.awaitTermination(1):
        now = time.monotonic()
        if now - heartbeat > HEARTBEAT_SECONDS:
            heartbeat = now
            archive.update_status(behind_records=behind(query))
        if stop_requested():
            deadline = deadline or now + STOP_SECONDS_MAX
            if not query.status["isTriggerActive"] or now > deadline:
                query.stop()
                return


def behind(query: StreamingQuery) -> int | None:
    """Number of offsets between the last batch and the ends of the topics, from Spark's last progress report. None without a report."""
    progress = query.lastProgress
    if not progress or not progress["sources"]:
        return None
    source = progress["sources"][0]
    try:
        end, latest = json.loads(source["endOffset"]), json.loads(source["latestOffset"])
        return sum(o - (offset_of(end, t, p) or 0) for t, p, o in each(latest))
    except (KeyError, TypeError, ValueError):
        return None


def reason(e: BaseException) -> str:
    """The message of the original exception, without the text that Spark adds."""
    text = str(e)
    for marker in ("pipeline.offsets.Lost: ", "pipeline.tables.Contradiction: ", "RuntimeError: ", "ValueError: "):
        if marker in text:
            return text.rpartition(marker)[2].splitlines()[0]
    return (text.splitlines() or [type(e).__name__])[0][:500]


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="python -m pipeline.jobs.archive", description=__doc__)
    arguments.add_argument("--bootstrap", required=True, help="bootstrap servers, comma-separated")
    arguments.add_argument(
        "--kafka-config", type=Path, help="client.properties for a secured listener, with Kafka's config names"
    )
    arguments.add_argument("--topics", required=True, help="comma-separated")
    arguments.add_argument("--lake", required=True, help="folder")
    arguments.add_argument(
        "--job-id", required=True, help="name of the job's directory in the lake; an existing job continues"
    )
    arguments.add_argument("--once", action="store_true", help="archive the present records and exit")
    arguments.add_argument(
        "--trigger-seconds", type=float, default=2.0, help="a micro-batch this often, if there are records"
    )
    arguments.add_argument(
        "--records-per-batch", type=int, default=RECORDS_PER_BATCH_MAX, help="offsets in one micro-batch at most"
    )
    arguments.add_argument(
        "--starting-offsets",
        default="earliest",
        help='earliest, latest or {"topic": {"0": 23}}; at the first start only',
    )
    arguments.add_argument("--driver-memory", default="1g")
    arguments.add_argument("--master", default="local[*]", help="Spark master URL")
    arguments.add_argument("--native-source", action="store_true", help="Spark's own kafka source (needs its jars)")
    return arguments


def main() -> int:
    arguments = parser().parse_args()
    try:
        run(arguments)
    except (Contradiction, JavaMissing, ValueError) as e:
        print(f"archive: {e}", file=sys.stderr)
        return 2
    except StreamingQueryException as e:
        print(f"archive: {reason(e)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
