"""The options of the Spark source, and the partitions and records that it reads."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipeline import source
from pipeline.offsets import Lost, Range
from pipeline.source import Settings
from tests.unit.config.test_kafka_client import JAAS
from tests.unit.pipeline.test_arrow_records import Record


@pytest.mark.parametrize(
    ("options", "client"),
    [
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/ca.pem"},
            {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"},
        ),
        ({"kafka.ssl.truststore.certificates": "-----BEGIN A\\nx"}, {"ssl.ca.pem": "-----BEGIN A\nx"}),
        (
            {"kafka.sasl.jaas.config": JAAS, "kafka.sasl.mechanism": "PLAIN"},
            {"sasl.username": "weir", "sasl.password": 'not "this"', "sasl.mechanism": "PLAIN"},
        ),
        (
            {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": "/me.pem", "kafka.ssl.key.password": "p"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "p"},
        ),
        (
            {"kafka.ssl.keystore.location": "/me.p12", "kafka.ssl.keystore.password": "p"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"kafka.ssl.keystore.key": "K", "kafka.ssl.keystore.certificate.chain": "C"},
            {"ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        (
            {"kafka.ssl.ca.location": "/ca.pem", "kafka.sasl.username": "u"},
            {"ssl.ca.location": "/ca.pem", "sasl.username": "u"},
        ),
    ],
)
def test_source_options_accept_kafkas_names_and_librdkafkas_names(
    options: dict[str, str], client: dict[str, str]
) -> None:
    found = Settings.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}, streaming=True)
    assert found.client == {"bootstrap.servers": "h:1", **client}
    assert "this" not in repr(found)


def test_min_partitions_is_a_number() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    assert Settings.parse({**options, "minPartitions": "8"}, streaming=False).partitions_min == 8
    with pytest.raises(ValueError, match="minPartitions"):
        Settings.parse({**options, "minPartitions": "-1"}, streaming=False)


class ErrorRecord(Record):
    """A message that is an error."""

    def __init__(self, code: int, at: int = -1, fatal: bool = False) -> None:
        super().__init__(at)
        self.code, self.fatal = code, fatal

    def error(self) -> Any:
        return KafkaError(self.code, "why", fatal=self.fatal)


RANGE = Range("t", 0, 5, 10)


def take_messages(*messages: Any) -> tuple[list[int], bool]:
    records, done = source._take(messages, RANGE)
    return [r.offset() or 0 for r in records], done


def test_a_range_ends_at_its_last_offset_or_above_it() -> None:
    assert take_messages(Record(5), Record(6)) == ([5, 6], False)
    assert take_messages(Record(8), Record(9)) == ([8, 9], True)
    assert take_messages(Record(8), Record(9), Record(10)) == ([8, 9], True)
    assert take_messages(Record(7), Record(12)) == ([7], True), "compaction has removed the records between them"


def test_only_an_end_at_or_above_the_planned_one_ends_a_range() -> None:
    assert take_messages(Record(8), ErrorRecord(KafkaError._PARTITION_EOF, 9)) == ([8], False)
    assert take_messages(Record(8), ErrorRecord(KafkaError._PARTITION_EOF, 10), Record(11)) == ([8], True)


def test_deleted_records_and_fatal_errors_end_the_read() -> None:
    for code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        with pytest.raises(Lost, match="t-0 no longer contains offset 5"):
            take_messages(Record(5), ErrorRecord(code))
    with pytest.raises(KafkaException):
        take_messages(ErrorRecord(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        take_messages(ErrorRecord(KafkaError._FATAL, fatal=True))
    assert take_messages(ErrorRecord(KafkaError._TRANSPORT), Record(5)) == ([5], False), (
        "librdkafka repeats the request"
    )
