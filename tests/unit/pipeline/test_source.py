"""The options of the Spark source, and the partitions and records that it reads."""

from __future__ import annotations

import pytest

from pipeline.source import Settings
from tests.unit.config.test_kafka_client import JAAS


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
