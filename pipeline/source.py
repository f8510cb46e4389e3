"""A Spark data source over confluent-kafka: columns, option names and checkpoint of Spark's own `kafka` source, without its jars.

Invariant: between two offsets every record is read exactly once, or an error is raised; no record is skipped silently. `read` runs in
Spark's Python workers, one range of one partition each. The rest runs in the process of the planner. Use it through `session.kafka_stream`
or `spark.read.format("weir")`. Unlike Spark's own source it accepts only the options in OPTIONS and `kafka.*` (given to librdkafka, those of
security also under Kafka's names). Any other option is rejected, not ignored.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from brokerd.config.kafka_client import librdkafka
from pipeline import schemas
from pipeline.arrow_records import RecordColumns
from pipeline.offsets import (
    EARLIEST,
    LATEST,
    Lost,
    Offsets,
    Range,
    each,
    limit_end,
    offset_of,
    parse,
    put,
    ranges,
    read_end,
    split,
)
from pipeline.pushdown import OffsetBounds, bounds

NAME = "weir"

Result = TypeVar("Result")

OPTIONS = frozenset(
    (
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        "maxoffsetspertrigger",
        "minpartitions",
        "failondataloss",
        "includeheaders",
    )
)
"""Supported options in addition to `kafka.*`. The names are in lower case, because Spark's options are case-insensitive."""

ROWS_PER_ARROW_BATCH = 10_000
BYTES_PER_ARROW_BATCH = 8 * 1024 * 1024
"""Bytes of keys and values in one Arrow batch: 10,000 records of 1 MB would not fit a worker."""

RECORD_BYTES_FIRST = 8 * 1024
"""The assumed size of a record before the first one is read. It limits the records that one call takes from librdkafka's queue."""

CONSUME_SECONDS = 0.2
"""Time for which a call waits for the number of records that it requests. A range that ends in a gap costs this wait."""

FETCH_QUEUE_KBYTES = 16 * 1024
"""KiB that librdkafka reads ahead in one task."""

FETCH_QUEUE_BACKOFF_MS = 10
"""Time for which librdkafka does not fetch after its queue was full. Its default, a second, is longer than a task needs to empty the queue."""

RETRY_SECONDS_MAX = 90.0
"""Time limit for retries of an offset request during broker failures. After that the run fails."""

STALL_SECONDS_MAX = 120.0
"""Time limit of a read without records. After that the run fails."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, parsed. Picklable, because they are sent to the workers."""

    client: dict[str, Any] = field(repr=False)
    subscribe: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, tuple[int, ...]]
    starting: str
    ending: str
    records_max: int | None
    partitions_min: int
    fail_on_loss: bool
    headers: bool

    @staticmethod
    def parse(options: Mapping[str, str], *, streaming: bool) -> Settings:
        """Parse the options. Raises ValueError with the option and its allowed values."""
        known = {k.lower(): v for k, v in options.items()}
        client = librdkafka({k[len("kafka.") :]: v for k, v in known.items() if k.startswith("kafka.")})
        if not client.get("bootstrap.servers"):
            raise ValueError("option kafka.bootstrap.servers is missing")
        strange = sorted(k for k in known if not k.startswith("kafka.") and k not in OPTIONS and k != "path")
        if strange:
            raise ValueError(
                f"option {strange[0]} is not known to this source; it knows kafka.* and {', '.join(sorted(OPTIONS))}"
            )
        ways = [k for k in ("subscribe", "subscribepattern", "assign") if known.get(k)]
        if len(ways) != 1:
            raise ValueError("exactly one of the options subscribe, subscribePattern and assign must be given")
        assigned = {t: tuple(sorted(ps)) for t, ps in json.loads(known.get("assign") or "{}").items()}
        rows, parts = known.get("maxoffsetspertrigger"), known.get("minpartitions", "0")
        if not parts.isdecimal():
            raise ValueError(f"option minPartitions must be a number, not {parts!r}")
        return Settings(
            client=client,
            subscribe=tuple(sorted({t.strip() for t in known.get("subscribe", "").split(",") if t.strip()})),
            pattern=known.get("subscribepattern"),
            assigned=assigned,
            starting=known.get("startingoffsets", "latest" if streaming else "earliest"),
            ending=known.get("endingoffsets", "latest"),
            records_max=int(rows) if rows else None,
            partitions_min=int(parts),
            fail_on_loss=known.get("failondataloss", "true").lower() == "true",
            headers=known.get("includeheaders", "false").lower() == "true",
        )


class SourceCluster:
    """Requests for partitions and offsets, with retries."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        client = {
            k: v for k, v in settings.client.items() if not k.startswith(("isolation.", "group.", "fetch.", "queued."))
        }
        self._admin = AdminClient({**client, "log_level": 3})
        committed = settings.client.get("isolation.level", "read_uncommitted") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def partitions(self) -> dict[str, list[int]]:
        return self._retry(self._partitions)

    def _partitions(self) -> dict[str, list[int]]:
        settings = self._settings
        if settings.assigned:
            return {t: list(ps) for t, ps in settings.assigned.items()}
        topics = self._admin.list_topics(timeout=10).topics
        if settings.pattern is not None:
            selected = [t for t in topics if re.fullmatch(settings.pattern, t)]
        else:
            selected = list(settings.subscribe)
        out = {}
        for topic in sorted(selected):
            found = topics.get(topic)
            if found is None or found.error is not None:
                if settings.pattern is None:
                    raise _NotYet(f"topic {topic} does not exist")
                continue
            out[topic] = sorted(found.partitions)
        return out

    def offsets(self, spec: OffsetSpec, partitions: Mapping[str, Sequence[int]]) -> Offsets:
        """Return one offset per partition, by topic and partition."""

        def request() -> Offsets:
            selected = {TopicPartition(t, p): spec for t, ps in partitions.items() for p in ps}
            out: Offsets = {}
            if selected:
                results = self._admin.list_offsets(selected, isolation_level=self._isolation, request_timeout=10)
                for tp, result in results.items():
                    put(out, tp.topic, tp.partition, result.result(15).offset)
            return out

        return self._retry(request)

    def at_time(self, since_ms: int, partitions: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], int]:
        """The first offset at or after a time of each partition; the end of the partition if it has none."""
        found, ends = self.offsets(OffsetSpec.for_timestamp(since_ms), partitions), self.latest(partitions)
        return {(t, p): o if o >= 0 else (offset_of(ends, t, p) or 0) for t, p, o in each(found)}

    def latest(self, partitions: Mapping[str, Sequence[int]] | None = None) -> Offsets:
        return self.offsets(OffsetSpec.latest(), self.partitions() if partitions is None else partitions)

    def earliest(self, partitions: Mapping[str, Sequence[int]] | None = None) -> Offsets:
        return self.offsets(OffsetSpec.earliest(), self.partitions() if partitions is None else partitions)

    def resolve(self, text: str) -> Offsets:
        """The option startingOffsets or endingOffsets as numbers. Raises ValueError if it omits a partition."""
        if text.lower() == "latest":
            return self.latest()
        if text.lower() == "earliest":
            return self.earliest()
        requested, partitions = parse(text), self.partitions()
        ends = {EARLIEST: self.earliest(partitions), LATEST: self.latest(partitions)}
        out: Offsets = {}
        for topic, numbers in partitions.items():
            for p in numbers:
                offset = offset_of(requested, topic, p)
                if offset is None:
                    raise ValueError(f"no offset is given for {topic}-{p}")
                put(out, topic, p, ends[offset][topic][str(p)] if offset < 0 else offset)
        return out

    @staticmethod
    def _retry(request: Callable[[], Result]) -> Result:
        deadline = time.monotonic() + RETRY_SECONDS_MAX
        while True:
            try:
                return request()
            except (_NotYet, KafkaException, TimeoutError) as e:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the cluster did not respond for {RETRY_SECONDS_MAX:.0f} s: {e}") from e
                time.sleep(0.5)


class _NotYet(Exception):
    """The brokers cannot respond yet. The message is the reason; the request is repeated."""


@dataclass
class SourceSlice(InputPartition):
    """The input partition of one Spark task."""

    range: Range

    def __init__(self, offsets: Range) -> None:
        super().__init__(None)
        self.range = offsets


def read_range(settings: Settings, range_: Range) -> Iterator[pa.RecordBatch]:
    """Every record with an offset in [first, next), in order. Raises Lost if the first ones were deleted (and `fail_on_loss`)."""
    consumer = Consumer(
        {
            "group.id": f"spark-{uuid.uuid4()}",
            "isolation.level": "read_uncommitted",
            "queued.max.messages.kbytes": FETCH_QUEUE_KBYTES,
            "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
            "log_level": 3,
            **settings.client,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error" if settings.fail_on_loss else "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(range_.topic, range_.partition, range_.first)])
        position, record_bytes, moved = range_.first, RECORD_BYTES_FIRST, time.monotonic()
        rows, done = RecordColumns(headers=settings.headers), range_.first >= range_.next
        while not done:
            room = min(ROWS_PER_ARROW_BATCH - len(rows), (BYTES_PER_ARROW_BATCH - rows.size) // record_bytes + 1)
            # More than the rest of the range would wait for records that do not exist.
            messages = consumer.consume(max(1, min(room, range_.next - position)), CONSUME_SECONDS)
            if messages:
                taken, done = _take(messages, range_)
                if taken:
                    moved, position = time.monotonic(), (taken[-1].offset() or 0) + 1
                    record_bytes = max(1, rows.extend(taken) // len(taken))
                if len(rows) and (done or rows.size >= BYTES_PER_ARROW_BATCH or len(rows) >= ROWS_PER_ARROW_BATCH):
                    yield rows.arrow(range_.topic, range_.partition)
                    rows = RecordColumns(headers=settings.headers)
            if time.monotonic() - moved > STALL_SECONDS_MAX:
                raise RuntimeError(
                    f"{range_.topic}-{range_.partition} brought nothing for {STALL_SECONDS_MAX:.0f} s, before offset {range_.next}"
                )
    finally:
        consumer.close()


def _take(messages: Sequence[Message], range_: Range) -> tuple[list[Message], bool]:
    """The records of the range among `messages`, and whether they are its last ones. Raises for errors that end the read."""
    if not any(m.error() for m in messages):  # nearly always
        last = messages[-1].offset() or 0
        if last < range_.next:
            return list(messages), last == range_.next - 1
    taken: list[Message] = []
    for message in messages:
        error = message.error()
        if error is None:
            offset = message.offset() or 0
            if offset >= range_.next:
                return taken, True
            taken.append(message)
            if offset == range_.next - 1:
                return taken, True
        elif error.code() == KafkaError._PARTITION_EOF:
            # After an election the end may briefly be below the planned end: only an end at or above it ends the read.
            if (message.offset() or 0) >= range_.next:
                return taken, True
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Lost(
                f"{range_.topic}-{range_.partition} no longer contains offset {range_.first}: retention was faster than this job ({error.str()})"
            )
        elif error.fatal() or error.code() in (
            KafkaError.UNKNOWN_TOPIC_ID,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
        ):
            raise KafkaException(error)
    return taken, False


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._cluster_: SourceCluster | None = None

    @property
    def _cluster(self) -> SourceCluster:
        # Created on first use: the reader is pickled for the workers, and a client cannot be pickled.
        if self._cluster_ is None:
            self._cluster_ = SourceCluster(self._settings)
        return self._cluster_

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster_": None}

    def initialOffset(self) -> Offsets:
        return self._cluster.resolve(self._settings.starting)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._settings.records_max) if self._settings.records_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._cluster.latest()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        self._latest = self._cluster.latest()
        latest = self._target if self._target is not None else self._latest
        end = read_end(start, latest, fail_on_loss=self._settings.fail_on_loss)
        if isinstance(limit, ReadMaxRows):
            end = limit_end(start, end, self._earliest_of_new(start, end), limit.max_rows)
        return end

    def reportLatestOffset(self) -> Offsets | None:
        """The ends of the partitions, in the progress of the query as `latestOffset`: together with `endOffset` they are the lag."""
        return self._latest

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        planned = ranges(start, end, self._earliest_of_new(start, end))
        return [SourceSlice(r) for r in split(planned, self._settings.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SourceSlice)
        return read_range(self._settings, partition.range)

    def _earliest_of_new(self, start: Offsets, end: Offsets) -> Offsets:
        """First offsets of the partitions that are not in `start`; requested only if there are any."""
        new: dict[str, list[int]] = {}
        for topic, partition, _ in each(end):
            if offset_of(start, topic, partition) is None:
                new.setdefault(topic, []).append(partition)
        return self._cluster.earliest(new) if new else {}


class BatchReader(DataSourceReader):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bounds = OffsetBounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read only records that the filters can match. Spark evaluates all filters again."""
        self._bounds = bounds(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        cluster = SourceCluster(self._settings)
        start, end = cluster.resolve(self._settings.starting), cluster.resolve(self._settings.ending)
        planned = self._bounds.clip(ranges(start, end, {}), {})
        if self._bounds.since_ms is not None and planned:
            expected: dict[str, list[int]] = {}
            for r in planned:
                expected.setdefault(r.topic, []).append(r.partition)
            planned = self._bounds.clip(planned, cluster.at_time(self._bounds.since_ms, expected))
        return [SourceSlice(r) for r in split(planned, self._settings.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SourceSlice)
        return read_range(self._settings, partition.range)


class KafkaSource(DataSource):
    """`spark.dataSource.register(KafkaSource)`, then `format("weir")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return schemas.RECORD_WITH_HEADERS if headers else schemas.RECORD

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(Settings.parse(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(Settings.parse(self.options, streaming=True))
