"""The listener for connections of the local cluster's own programs, and the settings of a secured local cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from brokerd.cluster.model import BrokerState, Endpoint
from controlplane.clients import settings as client
from controlplane.clients import spark

BROKER = BrokerState(
    1,
    1,
    "u",
    "10.0.0.1",
    1,
    endpoints=(
        Endpoint("PLAINTEXT", "10.0.0.1", 1),
        Endpoint("OUT", "host", 2, "SASL_SSL"),
        Endpoint("IN", "10.0.0.1", 3, "SASL_SSL"),
    ),
)


@pytest.fixture(autouse=True)
def _uncached_settings() -> Iterator[None]:
    client.client_settings.cache_clear()
    yield
    client.client_settings.cache_clear()


@pytest.mark.parametrize(
    ("protocol", "listener", "address"),
    [
        (None, "", ("10.0.0.1", 1)),
        ("SASL_SSL", "", ("host", 2)),
        ("SASL_SSL", "IN", ("10.0.0.1", 3)),
        ("SSL", "", ("10.0.0.1", 1)),
    ],
)
def test_the_broker_address_is_the_listener_with_the_configured_protocol(
    protocol: str | None, listener: str, address: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f'security.protocol={protocol}\nsasl.jaas.config=x required username="u" password="p";\n')
    values = dataclasses.replace(settings.WEIR, kafka_config=path if protocol else None, kafka_listener=listener)
    monkeypatch.setattr(settings, "WEIR", values)
    assert client.address_of(BROKER) == address
    assert client.address_of(dataclasses.replace(BROKER, endpoints=())) == ("10.0.0.1", 1)  # an older broker


def test_an_archive_job_gets_the_path_of_the_client_file_and_not_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--kafka-config" not in spark.command(1, ["t"], "h:1")
    monkeypatch.setattr(settings, "WEIR", dataclasses.replace(settings.WEIR, kafka_config=tmp_path / "c"))
    command = spark.command(1, ["t"], "h:1")
    assert command[-2:] == ["--kafka-config", str(tmp_path / "c")]
