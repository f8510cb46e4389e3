"""Rows of a table back into a topic. Each task replays one partition of the table with transactions.

Invariant: a transaction contains the records and, as an offset of a consumer group of the run, the position that they reach. A run that is killed
and started again continues there, so the topic has each record once. Readers with read_committed never see part of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse

from pipeline.lake.conditions import at_least, below, equal, every
from pipeline.lake.reading import in_order
from weir_common.lake import NAMESPACE
from weir_common.lake_catalog import LakeSettings

RECORDS_PER_TRANSACTION = 5_000
"""A task that is killed repeats at most these; the coordinator aborts them."""

TIMEOUT_SECONDS = 60.0

COLUMNS = ("offset", "timestamp", "key", "value", "headers")

REPLAYED_DDL = "partition int, records long"


@dataclass(frozen=True, slots=True)
class TableReplay:
    """A selection of records to replay. `since`, `until`: ISO times or empty. `key`: UTF-8 text or empty. `where`: a condition of Iceberg, as "offset < 100", or empty.
    `ends`: the end of each partition of the table at the start, so that a repeated run replays the same rows."""

    run: str
    table: str
    topic: str
    ends: Mapping[int, int]
    since: str = ""
    until: str = ""
    key: str = ""
    where: str = ""
    keeps_partition: bool = True

    def condition(self) -> BooleanExpression:
        """Raises ValueError for a condition that is not valid."""
        parts: list[BooleanExpression] = []
        if self.since:
            parts.append(at_least("timestamp", self.since))
        if self.until:
            parts.append(below("timestamp", self.until))
        if self.key:
            parts.append(equal("key", self.key.encode()))
        if self.where:
            try:
                parts.append(parse(self.where))
            except Exception as e:  # noqa: BLE001 - the parser raises errors of its own library.
                raise ValueError(f"the filter {self.where!r} is not valid: {e}") from None
        return every(*parts)

    def group(self, partition: int) -> str:
        """The consumer group whose committed offset is the position of the replay of a partition."""
        return f"weir-replay-{self.run}-{partition}"


@dataclass(frozen=True, slots=True)
class PartitionReplayer:
    """The function that Spark's tasks run: partitions in, (partition, records) out. `client`: settings of librdkafka."""

    lake: LakeSettings
    replay: TableReplay
    client: Mapping[str, Any] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch["partition"].to_pylist():
                records = self.run(partition)
                yield pa.RecordBatch.from_pydict(
                    {"partition": pa.array([partition], pa.int32()), "records": pa.array([records], pa.int64())}
                )

    def run(self, partition: int) -> int:
        """Replay one partition from its committed position on. Returns the number of records that this call produced."""
        replay = self.replay
        table = self.lake.open().load_table((NAMESPACE, replay.table))
        group = Consumer({**self._shared_state(), "group.id": replay.group(partition), "enable.auto.commit": False})
        producer = Producer(
            {
                **self._shared_state(),
                "transactional.id": replay.group(partition),
                "compression.type": "zstd",
                "queue.buffering.max.messages": 2 * RECORDS_PER_TRANSACTION,
            }
        )
        try:
            # Fences a task of an earlier start, and ends its transaction, before the position is read.
            producer.init_transactions(TIMEOUT_SECONDS)
            anchor = TopicPartition(replay.topic, 0)
            position = max(0, group.committed([anchor], TIMEOUT_SECONDS)[0].offset)
            produced = 0
            for rows in in_order(table, partition, position, replay.ends[partition], replay.condition(), COLUMNS):
                for first in range(0, rows.num_rows, RECORDS_PER_TRANSACTION):
                    part = rows.slice(first, RECORDS_PER_TRANSACTION).to_pylist()
                    self._transaction(producer, group, partition, part, anchor)
                    produced += len(part)
            return produced
        finally:
            group.close()

    def _shared_state(self) -> dict[str, object]:
        return {**self.client, "log_level": 3}

    def _transaction(
        self, producer: Producer, group: Consumer, partition: int, rows: list[dict[str, Any]], anchor: TopicPartition
    ) -> None:
        producer.begin_transaction()
        for row in rows:
            at = row["timestamp"]
            headers = [(h["key"], h["value"]) for h in row["headers"] or []]
            placement = {"partition": partition} if self.replay.keeps_partition else {}
            producer.produce(
                self.replay.topic,
                value=row["value"],
                key=row["key"],
                headers=headers or None,
                timestamp=round(at.timestamp() * 1000) if at is not None else TIMESTAMP_NOT_AVAILABLE,
                **placement,
            )
            producer.poll(0)
        reached = TopicPartition(anchor.topic, anchor.partition, rows[-1]["offset"] + 1)
        producer.send_offsets_to_transaction([reached], group.consumer_group_metadata(), TIMEOUT_SECONDS)
        commit_with_retries(producer)


def commit_with_retries(producer: Producer) -> None:
    """Commit the transaction, with the retries that librdkafka leaves to its user. Raises KafkaException."""
    while True:
        try:
            producer.commit_transaction(TIMEOUT_SECONDS)
            return
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.retriable():
                continue
            if error.txn_requires_abort():
                producer.abort_transaction(TIMEOUT_SECONDS)
            raise
