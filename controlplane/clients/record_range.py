"""Reads the records of an offset range of one partition as bytes, for a copy. Committed records only.

Does not contain: reads for a page (`selectors.messages`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from controlplane.clients.connection import NoResponse
from controlplane.clients.settings import librdkafka
from controlplane.domain.produce import NewRecord

READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RecordRange:
    """`records`: (offset, record) in offset order. `start_offset`, `end_offset`: of the log. `complete` False: the deadline or the byte limit was
    reached before the end of the range."""

    records: list[tuple[int, NewRecord]]
    start_offset: int
    end_offset: int
    complete: bool


def read_range(
    topic: str, partition: int, first: int, last: int, bytes_max: int, timeout_s: float = READ_SECONDS
) -> RecordRange:
    """The records with offsets from `first` to `last` inclusive, of at most `bytes_max` bytes. Raises NoResponse."""
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(
        {
            **librdkafka(),
            "group.id": "weir-console-look-up",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        return _read_range(consumer, topic, partition, first, last, bytes_max, deadline)
    except KafkaException as e:
        error = e.args[0] if e.args else e
        raise NoResponse(error.str() if isinstance(error, KafkaError) else str(error)) from None
    finally:
        consumer.close()


def _read_range(
    consumer: Consumer, topic: str, partition: int, first: int, last: int, bytes_max: int, deadline: float
) -> RecordRange:
    def remaining_s() -> float:
        return max(0.05, deadline - time.monotonic())

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=remaining_s())
    first, last = max(first, low), min(last, high - 1)
    records: list[tuple[int, NewRecord]] = []
    if first > last:
        return RecordRange(records, low, high, True)
    consumer.assign([TopicPartition(topic, partition, first)])
    size = 0
    while time.monotonic() < deadline:
        message = consumer.poll(min(0.25, remaining_s()))
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return RecordRange(records, low, high, True)
            if error.retriable():
                continue
            raise KafkaException(error)
        if message.offset() > last:
            return RecordRange(records, low, high, True)
        kind, at = message.timestamp()
        timestamp = None if kind == TIMESTAMP_NOT_AVAILABLE else at
        record = NewRecord(message.key(), message.value(), tuple(message.headers() or ()), None, timestamp)
        size += record.size
        if size > bytes_max:
            break
        records.append((message.offset(), record))
        if message.offset() == last:
            return RecordRange(records, low, high, True)
    return RecordRange(records, low, high, False)
