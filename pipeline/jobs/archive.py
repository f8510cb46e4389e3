"""`python -m pipeline.jobs.archive`: topics into Parquet, each record exactly once, over kill -9 and restart.

Law: the checkpoint says which offsets a batch has, the lake whether it is published; nothing else is remembered. Started by the worker
(`controlplane.spark`) or by hand. SIGTERM: ends after the current micro-batch.
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
from pyspark.sql.streaming import StreamingQuery

from brokerd.access.client_settings import ClientSettings, ClientSettingsError
from pipeline import session
from pipeline.offsets import Offsets, Range, each, of, ranges
from pipeline.source import Cluster, Settings
from pipeline.tables import Contradiction, JobFolder

HEARTBEAT_SECONDS = 5.0
STOP_SECONDS_MAX = 60.0
"""How long a micro-batch may go on after SIGTERM before it is cut off (it is then done again at the next start)."""
RECORDS_PER_BATCH_MAX = 500_000
"""Default of --records-per-batch: bounds what one micro-batch holds on disk twice (staging and lake)."""


SLOW_WORKER = "Python worker failed to connect back"
STARTS_MAX = 6
"""Spark gives its Python worker ten seconds to connect, whatever is set, and a busy machine needs more. To begin the query anew in this driver costs seconds, another
driver a minute and more on such a machine."""


@dataclass
class Archive:
    """What foreachBatch calls, and what it has to tell."""

    job: JobFolder
    start: Offsets
    status: dict[str, Any] = field(default_factory=dict)

    def planned(self, batch: int) -> list[Range]:
        """The batch's ranges as the checkpoint has them: the end of this batch after the end of the one before."""
        end = offsets_of(self.job.checkpoint, batch)
        before = offsets_of(self.job.checkpoint, batch - 1) if batch else self.start
        # A partition that was added since is read from its first record, which for a new one is 0.
        return ranges(before, end, {})

    def __call__(self, records: DataFrame, batch: int) -> None:
        began = time.monotonic()
        planned = self.planned(batch)
        if not self.job.already_published(batch, planned):
            records.select(
                "topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"
            ).write.mode("overwrite").partitionBy("topic").parquet(str(self.job.staged(batch)))
        lines = self.job.publish(batch, planned)
        rows, seconds = sum(line.rows for line in lines), time.monotonic() - began
        self.say(
            batch=batch, rows_last_batch=rows, batch_seconds=round(seconds, 2), rows_per_second=round(rows / seconds)
        )

    def say(self, **changes: Any) -> None:
        self.status |= changes
        self.job.say({**self.status, "rows": self.job.rows, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def offsets_of(checkpoint: Path, batch: int) -> Offsets:
    """The end offsets of a batch from Spark's own log: a version line, a line of metadata, one line per source."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    found = json.loads(lines[2])
    # Python sources' offsets are kept as JSON text inside JSON by some versions of Spark.
    return json.loads(found) if isinstance(found, str) else found


def started_at(job: JobFolder, settings: Settings, wanted: str) -> Offsets:
    """Where the job begins, resolved once and kept: a first batch that is done again must begin at the same offsets."""
    path = job.folder / "_start.json"
    if path.exists():
        found: Offsets = json.loads(path.read_text())
        return found
    start = Cluster(settings).resolve(wanted)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(start))
    temporary.replace(path)
    return start


def complete(start: Offsets, partitions: dict[str, list[int]]) -> Offsets:
    """`start` with partitions that came since, from their first record, so that it names all that are there now."""
    return {t: {str(p): of(start, t, p) or 0 for p in numbers} for t, numbers in partitions.items()}


def secured(config: Path | None) -> dict[str, str]:
    """A client.properties as options of the source, Spark's own or ours. Raises ValueError."""
    if config is None:
        return {}
    try:
        return {f"kafka.{name}": value for name, value in ClientSettings.load(config).given.items()}
    except ClientSettingsError as e:
        raise ValueError(str(e)) from e


def run(arguments: argparse.Namespace) -> None:
    topics = sorted({t.strip() for t in arguments.topics.split(",") if t.strip()})
    options = {
        **secured(arguments.kafka_config),
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
        archive.say(phase="starting", topics=topics)
        settings = Settings.parse(options, streaming=True)
        archive.start = started_at(job, settings, arguments.starting_offsets)
        options["startingOffsets"] = json.dumps(complete(archive.start, Cluster(settings).partitions()))
        spark = session.start(
            f"archive {arguments.job_id}", master=arguments.master, driver_memory=arguments.driver_memory,
            work=job.work,
        )  # fmt: skip
        try:
            stream = session.kafka_stream(spark, options, native=arguments.native_source)
            writer = stream.writeStream.foreachBatch(archive).option("checkpointLocation", str(job.checkpoint))
            if arguments.once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{arguments.trigger_seconds} seconds")

            def once() -> None:
                query = writer.start()
                archive.say(phase="running")
                watch(query, archive, lambda: stopping)

            patiently(once, lambda: stopping)
            archive.say(phase="ended")
        except Exception as e:
            archive.say(phase="failed", error=reason(e))
            raise
        finally:
            spark.stop()


def patiently(once: Callable[[], None], stopping: Callable[[], bool]) -> None:
    """Run the query, again where Spark's Python worker was too slow for it: the checkpoint says where it goes on."""
    for left in reversed(range(STARTS_MAX)):
        try:
            return once()
        except StreamingQueryException as e:
            if SLOW_WORKER not in str(e) or not left or stopping():
                raise


def watch(query: StreamingQuery, archive: Archive, told_to_stop: Any) -> None:
    """Until the query ends or is told to; raises what it failed with."""
    beat, deadline = time.monotonic(), 0.0
    while not query.awaitTermination(1):
        now = time.monotonic()
        if now - beat > HEARTBEAT_SECONDS:
            beat = now
            archive.say(behind_records=behind(query))
        if told_to_stop():
            deadline = deadline or now + STOP_SECONDS_MAX
            if not query.status["isTriggerActive"] or now > deadline:
                query.stop()
                return


def behind(query: StreamingQuery) -> int | None:
    """Records that the topics hold beyond the last batch, by Spark's last progress report; None when it has none."""
    progress = query.lastProgress
    if not progress or not progress["sources"]:
        return None
    source = progress["sources"][0]
    try:
        end, latest = json.loads(source["endOffset"]), json.loads(source["latestOffset"])
        return sum(o - (of(end, t, p) or 0) for t, p, o in each(latest))
    except (KeyError, TypeError, ValueError):
        return None


def reason(e: BaseException) -> str:
    """The sentence that matters: our own exception's text out of what Spark has wrapped around it."""
    text = str(e)
    for marker in ("pipeline.offsets.Lost: ", "pipeline.tables.Contradiction: ", "RuntimeError: ", "ValueError: "):
        if marker in text:
            return text.rpartition(marker)[2].splitlines()[0]
    return (text.splitlines() or [type(e).__name__])[0][:500]


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m pipeline.jobs.archive", description=__doc__)
    p.add_argument("--bootstrap", required=True, help="bootstrap servers, comma-separated")
    p.add_argument(
        "--kafka-config", type=Path, help="client.properties: how to come in by a secured listener, in Kafka's names"
    )
    p.add_argument("--topics", required=True, help="comma-separated")
    p.add_argument("--lake", required=True, help="folder")
    p.add_argument(
        "--job-id", required=True, help="name of the job's folder in the lake; the same name goes on where it was"
    )
    p.add_argument("--once", action="store_true", help="archive what is there now and end")
    p.add_argument("--trigger-seconds", type=float, default=2.0, help="a micro-batch this often, if there are records")
    p.add_argument(
        "--records-per-batch", type=int, default=RECORDS_PER_BATCH_MAX, help="offsets in one micro-batch at most"
    )
    p.add_argument(
        "--starting-offsets",
        default="earliest",
        help='earliest, latest or {"topic": {"0": 23}}; at the first start only',
    )
    p.add_argument("--driver-memory", default="1g")
    p.add_argument("--master", default="local[*]", help="Spark master URL")
    p.add_argument("--native-source", action="store_true", help="Spark's own kafka source (needs its jars)")
    return p


def main() -> int:
    arguments = parser().parse_args()
    try:
        run(arguments)
    except (Contradiction, session.JavaMissing, ValueError) as e:
        print(f"archive: {e}", file=sys.stderr)
        return 2
    except StreamingQueryException as e:
        print(f"archive: {reason(e)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
