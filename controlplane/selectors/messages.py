"""Records of one partition, looked up on demand. Law: the one selector that asks a broker, so it is bounded in records, bytes and
time, and says whether it saw all it was asked for. Called by the console and the API."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from controlplane.client import librdkafka
from controlplane.models import Partition
from controlplane.services.common import Refused

RECORDS_MAX = 500
"""Records of one look-up: a page, not an export."""

RECORD_SHOWN_BYTES_MAX = 64 * 1024
"""Bytes of a key or value that are shown; its real size is said."""

DEADLINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class MessageRow:
    """`key` and `value` are text, None = null. Bytes that are no UTF-8 are shown as hex and `binary` names which."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: str | None
    value: str | None
    key_bytes: int
    value_bytes: int
    headers: list[tuple[str, str | None]]
    binary: list[str]


@dataclass(frozen=True, slots=True)
class MessageRead:
    """`complete` False = the deadline came first; `note` says so. Offsets of the log at the time of asking."""

    topic: str
    partition: int
    rows: list[MessageRow] = field(default_factory=list)
    start_offset: int | None = None
    end_offset: int | None = None
    first_asked: int | None = None
    complete: bool = True
    note: str = ""
    took_ms: int = 0


def read_messages(
    topic: str,
    partition: int,
    *,
    start: str = "newest",
    offset: int | None = None,
    timestamp_ms: int | None = None,
    limit: int = 50,
    deadline_s: float = DEADLINE_SECONDS,
) -> MessageRead:
    """Up to `limit` records of one partition, in offset order. `start`: newest (the last `limit`), oldest, offset, time. Raises Refused
    for what cannot be asked; a cluster that does not answer gives an incomplete read with a note."""
    if not Partition.objects.filter(topic__name=topic, index=partition).exists():
        raise Refused(f"There is no partition {topic}-{partition}.", "partition")
    if start not in ("newest", "oldest", "offset", "time"):
        raise Refused(f"{start!r} is no place to start; use newest, oldest, offset or time.", "start")
    if start == "offset" and (offset is None or offset < 0):
        raise Refused("Give an offset of 0 or more.", "offset")
    if start == "time" and timestamp_ms is None:
        raise Refused("Give a time, in milliseconds since 1970.", "timestamp_ms")
    if not 1 <= limit <= RECORDS_MAX:
        raise Refused(f"{limit} records; use 1 to {RECORDS_MAX}.", "limit")
    began = time.monotonic()
    consumer = Consumer(
        {
            **librdkafka(),
            "group.id": "weir-console-look-up",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "socket.timeout.ms": int(deadline_s * 1000),
            "log_level": 0,
            "fetch.wait.max.ms": 50,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        return _read(consumer, topic, partition, start, offset, timestamp_ms, limit, began, began + deadline_s)
    except KafkaException as e:
        error = e.args[0] if e.args else e
        text = error.str() if isinstance(error, KafkaError) else str(error)
        return MessageRead(
            topic, partition, complete=False, note=f"The cluster did not answer: {text}", took_ms=_ms(began)
        )
    finally:
        consumer.close()


def _read(
    consumer: Consumer,
    topic: str,
    partition: int,
    start: str,
    offset: int | None,
    timestamp_ms: int | None,
    limit: int,
    began: float,
    deadline: float,
) -> MessageRead:
    def left() -> float:
        return max(0.05, deadline - time.monotonic())

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=left())
    if start == "offset":
        first = max(low, min(offset or 0, high))
    elif start == "time":
        found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms or 0)], timeout=left())[0]
        first = high if found.offset in (OFFSET_END, -1) else found.offset
    elif start == "oldest":
        first = low
    else:
        first = max(low, high - limit)
    rows: list[MessageRow] = []
    complete, note = True, ""
    if first < high:
        consumer.assign([TopicPartition(topic, partition, first)])
        while len(rows) < limit:
            if time.monotonic() >= deadline:
                complete, note = (
                    False,
                    f"Stopped after {_ms(began)} ms with {len(rows)} records; the rest did not arrive in time.",
                )
                break
            message = consumer.poll(min(0.25, left()))
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    break
                if error.retriable():
                    continue
                raise KafkaException(error)
            rows.append(_row(message))
            if message.offset() + 1 >= high:
                break
    if start == "offset" and offset is not None and not low <= offset <= high:
        note = f"{note} Offset {offset} is outside the log [{low}, {high}); shown from {first}.".strip()
    return MessageRead(topic, partition, rows, low, high, first, complete, note, _ms(began))


def _row(message: object) -> MessageRow:
    m: "Message" = message  # type: ignore[assignment, name-defined]  # noqa: F821, UP037
    binary: list[str] = []

    def text(name: str, data: bytes | None) -> str | None:
        if data is None:
            return None
        shown = bytes(data[:RECORD_SHOWN_BYTES_MAX])
        try:
            return shown.decode()
        except UnicodeDecodeError as e:
            # A character cut in two by the limit is not binary data.
            if len(data) > RECORD_SHOWN_BYTES_MAX and e.start >= len(shown) - 3:
                return shown[: e.start].decode()
            binary.append(name)
            return shown.hex()

    key, value = m.key(), m.value()
    kind, at = m.timestamp()
    return MessageRow(
        partition=m.partition(),
        offset=m.offset(),
        timestamp_ms=at if kind else None,
        key=text("key", key),
        value=text("value", value),
        key_bytes=len(key or b""),
        value_bytes=len(value or b""),
        headers=[(name, text(f"header {name}", data)) for name, data in (m.headers() or [])],
        binary=binary,
    )


def _ms(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
