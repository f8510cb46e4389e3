"""Produces records for an operator: acks=all, idempotent, Kafka's default partitioner, the outcome of each record.

Does not contain: input and limits (`domain.produce`), permission and audit (`services.produce`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer

from controlplane.clients.settings import librdkafka
from controlplane.domain.produce import NewRecord, ProducedRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

ACKNOWLEDGE_SECONDS = 10.0
"""Time limit for the acknowledgement of all records of a request. A leader election takes less."""

BATCH_BYTES = 16_384
"""Bytes of a batch, as in Kafka's Java client. A small batch stays below the max.message.bytes of a topic."""

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""The client's own limit, above that of `domain.produce`: the broker decides by the topic's max.message.bytes."""

PROBLEMS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "The record is larger than max.message.bytes of the topic.",
    KafkaError.RECORD_LIST_TOO_LARGE: "The records are larger than the segment size of the topic.",
    KafkaError.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas. Nothing was written.",
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The leader has the record, but fewer replicas are in sync than min.insync.replicas. It may be lost.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "The console's own principal has no permission to write to the topic (ACL).",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "The console's own principal has no permission for an idempotent write (ACL).",
    KafkaError.INVALID_RECORD: "The broker rejected the record. A compacted topic needs a key.",
    KafkaError.INVALID_TIMESTAMP: "The timestamp differs too much from the broker's time (message.timestamp limits of the topic).",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "The cluster does not have this partition. It may have been deleted.",
    KafkaError.TOPIC_EXCEPTION: "Clients must not write to this topic.",
    KafkaError.POLICY_VIOLATION: "A policy of the broker rejected the record.",
    KafkaError._UNKNOWN_PARTITION: "The topic does not have this partition.",
    KafkaError._UNKNOWN_TOPIC: "The cluster does not have this topic.",
}
UNKNOWN_OUTCOMES = {
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
NO_RESPONSE = "No acknowledgement within {seconds:.0f} s: the partition has no leader, or its leader does not respond. The record may have been written."


def produce(
    topic: str, records: Sequence[NewRecord], timeout_s: float = ACKNOWLEDGE_SECONDS, **config: object
) -> list[ProducedRecord]:
    """Write records in order. Returns the outcome of each, in the same order. `config` overrides librdkafka's settings."""
    outcomes: list[ProducedRecord | None] = [None] * len(records)
    deadline = time.monotonic() + timeout_s
    producer = Producer(
        {
            **librdkafka(),
            "client.id": "weir-console",
            "acks": "all",
            "allow.auto.create.topics": False,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.timeout.ms": int(timeout_s * 1000),
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "batch.size": BATCH_BYTES,
            "linger.ms": 5,
            "log_level": 0,
            **config,
        }
    )

    def delivery_callback(position: int) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                outcomes[position] = ProducedRecord(message.partition(), message.offset())
            else:
                outcomes[position] = failed_record(error, records[position].partition, timeout_s)

        return on_delivery

    for position, record in enumerate(records):
        options: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        if record.timestamp_ms is not None:
            options["timestamp"] = record.timestamp_ms
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=delivery_callback(position),
                **options,
            )
        except KafkaException as error:
            outcomes[position] = failed_record(error.args[0], record.partition, timeout_s)
        producer.poll(0)
    producer.flush(max(0.1, deadline - time.monotonic() + 1.0))
    if any(outcome is None for outcome in outcomes):
        producer.purge()
        producer.flush(1.0)
    silent = ProducedRecord(None, None, NO_RESPONSE.format(seconds=timeout_s), unknown=True)
    return [outcome or silent for outcome in outcomes]


def failed_record(error: KafkaError, partition: int | None, timeout_s: float) -> ProducedRecord:
    """The outcome of a record that was not acknowledged."""
    code = error.code()
    unknown = code in UNKNOWN_OUTCOMES
    text = PROBLEMS.get(code) or (
        NO_RESPONSE.format(seconds=timeout_s) if unknown else f"{error.name()}: {error.str()}"
    )
    return ProducedRecord(partition, None, text, unknown)
