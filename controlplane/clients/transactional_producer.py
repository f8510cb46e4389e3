"""Sends records in a transaction with a marker: a committed offset whose metadata names the transaction. The marker says later whether it was committed.

Invariant: `find_marker` fences the producer of an earlier `send_once` with the same transactional id, so an unfinished transaction is never committed
after the response. Does not contain: what is sent, rows (`services.dead_letter_batches`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from controlplane.clients.connection import NoResponse
from controlplane.clients.producer import BATCH_BYTES, MESSAGE_BYTES_MAX, failed_record
from controlplane.clients.settings import librdkafka
from controlplane.domain.produce import NewRecord, ProducedRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

STEP_SECONDS = 10.0
"""Time limit of each step: the begin, the records, the marker, the commit."""
TRANSACTION_MS = 30_000
"""Time after which the coordinator aborts a transaction whose producer has ended."""


class TransactionEnd(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The committed offset of `group` in a partition. `metadata` names the transaction."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """`records`: the place of each one, if the transaction was committed. `problem`: why it was not."""

    end: TransactionEnd
    records: list[ProducedRecord] = field(default_factory=list)
    problem: str = ""


def send_once(
    transactional_id: str, topic: str, records: Sequence[NewRecord], marker: TransactionMarker, **config: object
) -> TransactionResult:
    """Write all records and the marker, or nothing. `config` overrides librdkafka's settings."""
    producer = _producer(transactional_id, config)
    consumer = _consumer(marker.group, config)
    committing = False
    try:
        producer.init_transactions(STEP_SECONDS)
        producer.begin_transaction()
        outcomes = _write(producer, topic, records)
        problem = next((o.problem for o in outcomes if o.problem), "")
        if problem:
            _abort(producer)
            return TransactionResult(TransactionEnd.ABORTED, problem=problem)
        place = TopicPartition(marker.topic, marker.partition, marker.offset, marker.metadata)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), STEP_SECONDS)
        committing = True
        producer.commit_transaction(STEP_SECONDS)
        return TransactionResult(TransactionEnd.COMMITTED, outcomes)
    except KafkaException as e:
        if not committing:
            _abort(producer)
        end = TransactionEnd.UNKNOWN if committing else TransactionEnd.ABORTED
        return TransactionResult(end, problem=_text(e))
    finally:
        consumer.close()


def find_marker(transactional_id: str, marker: TransactionMarker, **config: object) -> bool:
    """Return whether the transaction of this marker was committed. An unfinished one is aborted before. Raises NoResponse."""
    producer = _producer(transactional_id, config)
    consumer = _consumer(marker.group, config)
    try:
        producer.init_transactions(STEP_SECONDS)
        (found,) = consumer.committed([TopicPartition(marker.topic, marker.partition)], timeout=STEP_SECONDS)
        if found.error is not None:
            raise NoResponse(found.error.str())
        return bool(found.metadata == marker.metadata)
    except KafkaException as e:
        raise NoResponse(_text(e)) from None
    finally:
        consumer.close()


def _producer(transactional_id: str, config: dict[str, object]) -> Producer:
    return Producer(
        {
            **librdkafka(),
            "client.id": "weir-console",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "allow.auto.create.topics": False,
            "partitioner": "murmur2_random",
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "batch.size": BATCH_BYTES,
            "linger.ms": 5,
            "log_level": 0,
            **config,
        }
    )


def _consumer(group: str, config: dict[str, object]) -> Consumer:
    return Consumer(
        {
            **librdkafka(),
            "client.id": "weir-console",
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
            **config,
        }
    )


def _write(producer: Producer, topic: str, records: Sequence[NewRecord]) -> list[ProducedRecord]:
    outcomes: list[ProducedRecord | None] = [None] * len(records)

    def delivery_callback(position: int) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                outcomes[position] = ProducedRecord(message.partition(), message.offset())
            else:
                outcomes[position] = failed_record(error, records[position].partition, STEP_SECONDS)

        return on_delivery

    until = time.monotonic() + STEP_SECONDS
    for position, record in enumerate(records):
        options: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            on_delivery=delivery_callback(position),
            **options,
        )
        producer.poll(0)
    producer.flush(max(0.1, until - time.monotonic()))
    silent = ProducedRecord(None, None, f"No acknowledgement within {STEP_SECONDS:.0f} s.")
    return [outcome or silent for outcome in outcomes]


def _abort(producer: Producer) -> None:
    """A transaction that cannot be aborted now is aborted by the coordinator, or by the next producer with its id."""
    try:
        producer.purge()
        producer.abort_transaction(STEP_SECONDS)
    except KafkaException:
        return


def _text(error: KafkaException) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
