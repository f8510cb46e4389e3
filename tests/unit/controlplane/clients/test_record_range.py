"""Records of an offset range: within the log, limited in bytes and time, and never beyond the range."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException

from controlplane.clients import record_range
from controlplane.clients.connection import NoResponse


def message(offset: int, *, error: KafkaError | None = None, timestamp: int | None = 5) -> Any:
    time = (TIMESTAMP_NOT_AVAILABLE, -1) if timestamp is None else (1, timestamp)
    return SimpleNamespace(
        offset=lambda: offset,
        error=lambda: error,
        timestamp=lambda: time,
        key=lambda: b"k",
        value=lambda: b"v" * 10,
        headers=lambda: [("h", b"x")],
    )


class Consumer:
    """A log from offset 2 to 9, without offset 5."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.closed, self.at = settings, False, 0
        self.extra: list[Any] = []

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return 2, 10

    def assign(self, partitions: list[Any]) -> None:
        self.at = partitions[0].offset

    def poll(self, timeout: float) -> Any:
        if self.extra:
            return self.extra.pop(0)
        if self.at > 9:
            return message(self.at, error=KafkaError(KafkaError._PARTITION_EOF))
        self.at += 1 + (self.at == 4)
        return message(self.at - 1 - (self.at == 6 and 1))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    made: list[Consumer] = []

    def consumer(settings: dict[str, Any]) -> Consumer:
        made.append(Consumer(settings))
        return made[-1]

    monkeypatch.setattr(record_range, "Consumer", consumer)
    monkeypatch.setattr(record_range, "librdkafka", lambda: {"bootstrap.servers": "h:1"})
    return made


def read(first: int, last: int, bytes_max: int = 1_000, timeout_s: float = 5.0) -> tuple[list[int], bool]:
    found = record_range.read_range("t", 0, first, last, bytes_max, timeout_s)
    assert (found.start_offset, found.end_offset) == (2, 10)
    return [offset for offset, _ in found.records], found.complete


@pytest.mark.parametrize(
    ("first", "last", "offsets"),
    [(3, 4, [3, 4]), (0, 3, [2, 3]), (8, 99, [8, 9]), (20, 30, []), (6, 5, [])],
)
def test_the_range_is_cut_to_the_log(consumers: list[Consumer], first: int, last: int, offsets: list[int]) -> None:
    assert read(first, last) == (offsets, True)
    assert consumers[0].closed and consumers[0].settings["isolation.level"] == "read_committed"


def test_a_limit_of_bytes_or_time_leaves_the_range_incomplete(consumers: list[Consumer]) -> None:
    offsets, complete = read(2, 9, bytes_max=30)
    assert 0 < len(offsets) < 3 and not complete
    assert read(2, 9, timeout_s=0.0) == ([], False)


def test_retriable_errors_are_skipped_and_others_are_no_response(
    consumers: list[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer({})
    retriable = SimpleNamespace(code=lambda: 5, retriable=lambda: True)
    consumer.extra = [None, message(0, error=retriable)]  # type: ignore[arg-type]
    monkeypatch.setattr(record_range, "Consumer", lambda settings: consumer)
    assert read(3, 3) == ([3], True)
    consumer.extra = [message(0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
    with pytest.raises(NoResponse):
        read(3, 3)
    assert consumer.closed

    def unreachable(*_: Any, **__: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(consumer, "get_watermark_offsets", unreachable)
    with pytest.raises(NoResponse):
        read(3, 3)


def test_a_record_keeps_its_headers_and_may_have_no_timestamp(
    consumers: list[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer({})
    consumer.extra = [message(3, timestamp=None)]
    monkeypatch.setattr(record_range, "Consumer", lambda settings: consumer)
    ((_, record),) = record_range.read_range("t", 0, 3, 3, 1_000).records
    assert (record.key, record.headers, record.timestamp_ms) == (b"k", (("h", b"x"),), None)
