"""Connection settings of the control plane (controller, monitor, console, worker, demo, `up`) for brokers and ZooKeeper.

All processes use the same files (`WEIR_KAFKA_CONFIG`, `WEIR_ZOOKEEPER_CONFIG`). Without a file a connection is plaintext.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.conf import settings

from brokerd.cluster.model import BrokerState
from brokerd.cluster.protection import OPEN, Protection
from brokerd.cluster.zookeeper import SessionKey, ZooKeeperStore
from brokerd.config import zookeeper_client
from brokerd.config.kafka_client import ClientSettings


@cache
def client_settings() -> ClientSettings:
    """Read once: a changed password needs a restart. Certificate files are read at each connection. Raises ClientSettingsError."""
    path = settings.WEIR.kafka_config
    return ClientSettings.load(path) if path is not None else ClientSettings()


def librdkafka() -> dict[str, object]:
    """Base config of each confluent-kafka client."""
    return {"bootstrap.servers": settings.WEIR.bootstrap, **client_settings().librdkafka()}


def address_of(broker: BrokerState) -> tuple[str, int]:
    """Address of a broker: of the configured listener (`WEIR_KAFKA_LISTENER`), otherwise of the first listener with the configured protocol."""
    requested, protocol = settings.WEIR.kafka_listener, client_settings().protocol
    for e in broker.endpoints:
        if (e.listener == requested) if requested else (e.protocol == protocol):
            return e.host, e.port
    return broker.host, broker.port


def zookeeper_store(
    hosts: str, session_timeout_ms: int, remember: Callable[[SessionKey], None] = lambda key: None
) -> ZooKeeperStore:
    """Raises ValueError and CertificateError for an unusable file."""
    return ZooKeeperStore(hosts, session_timeout_ms, zookeeper_protection(), remember)


def zookeeper_protection() -> Protection:
    path = settings.WEIR.zookeeper_config
    return zookeeper_client.load(path) if path is not None else OPEN
