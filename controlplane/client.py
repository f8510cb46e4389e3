"""How the house's own programs (controller, observer, console, worker, demo, `up`) come to the brokers, by which listener and as whom, and to ZooKeeper.

Law: one file says it for all of them (`WEIR_KAFKA_CONFIG`, and `WEIR_ZOOKEEPER_CONFIG`), and without one they come in the clear. Called by
whoever opens a connection.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings

from brokerd.access import zookeeper_settings
from brokerd.access.client_settings import ClientSettings
from brokerd.cluster.model import BrokerState
from brokerd.cluster.protection import OPEN, Protection
from brokerd.cluster.zookeeper import ZooKeeperStore


@cache
def client_settings() -> ClientSettings:
    """Read once: another password counts from the next start on; certificates' files are read at each connection. Raises ClientSettingsError."""
    path = settings.HOUSE.kafka_config
    return ClientSettings.load(path) if path is not None else ClientSettings()


def librdkafka() -> dict[str, Any]:
    """What each of confluent-kafka's clients begins with."""
    return {"bootstrap.servers": settings.HOUSE.bootstrap, **client_settings().librdkafka()}


def address_of(broker: BrokerState) -> tuple[str, int]:
    """Where this house reaches a broker: by the listener that it was told (`WEIR_KAFKA_LISTENER`), else by the first of its protocol."""
    wanted, protocol = settings.HOUSE.kafka_listener, client_settings().protocol
    for e in broker.endpoints:
        if (e.listener == wanted) if wanted else (e.protocol == protocol):
            return e.host, e.port
    return broker.host, broker.port


def zookeeper_store(hosts: str, session_timeout_ms: int) -> ZooKeeperStore:
    """Raises ValueError and CertificateError for a file that cannot be used."""
    return ZooKeeperStore(hosts, session_timeout_ms, zookeeper_protection())


def zookeeper_protection() -> Protection:
    path = settings.HOUSE.zookeeper_config
    return zookeeper_settings.load(path) if path is not None else OPEN
