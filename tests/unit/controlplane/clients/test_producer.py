"""Outcomes of produced records: the words for broker errors, and a broker that does not respond."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from controlplane.clients import producer
from controlplane.domain.produce import NewRecord


@pytest.mark.parametrize(
    ("code", "words", "unknown"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, "max.message.bytes", False),
        (KafkaError.NOT_ENOUGH_REPLICAS, "min.insync.replicas", False),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "may be lost", True),
        (KafkaError._MSG_TIMED_OUT, "has no leader", True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "(ACL)", False),
        (KafkaError.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR", False),
    ],
)
def test_a_rejection_in_plain_words(code: int, words: str, unknown: bool) -> None:
    outcome = producer.failed_record(KafkaError(code), 3, 10)
    assert words in outcome.problem and (outcome.partition, outcome.offset, outcome.unknown) == (3, None, unknown)


def test_records_without_a_response_have_an_unknown_outcome() -> None:
    """No broker listens on port 1."""
    records = [NewRecord(b"k", b"v"), NewRecord(b"k", None, [("h", None)], 0, 5)]
    outcomes = producer.produce("orders", records, 0.5, **{"bootstrap.servers": "127.0.0.1:1"})
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome.unknown and outcome.offset is None and "within" in outcome.problem
