"""The listeners of a broker. All sockets are bound together and opened together.

Invariants: no connection is accepted before the broker has the metadata. The broker registers exactly the endpoints that it has bound.
Does not contain: the meaning of requests, authorization.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from brokerd.cluster.model import Endpoint
from brokerd.config.broker import BrokerConfig, ConfigError
from brokerd.config.listeners import ListenerConfig
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.listener import SocketBuffers
from brokerd.net.peers import Peer
from brokerd.net.rejections import Rejections
from brokerd.security.certificates import CERTIFICATE_CHECK_MS, Certificates
from brokerd.security.sasl_client import SaslClientExchange

if TYPE_CHECKING:
    from brokerd.environment import Environment

OnFrame = Callable[[Connection, memoryview], None]


class ListenerSecurity(TypedDict, total=False):
    """Arguments of `Environment.listen`. Empty for a plaintext listener."""

    tls: Callable[[], ssl.SSLContext]
    proves: bool


class PeerSecurity(TypedDict, total=False):
    """Arguments of a connection to another broker. Empty for a plaintext listener."""

    tls: Callable[[], ssl.SSLContext]
    new_sasl_exchange: Callable[[], SaslClientExchange]


class Listeners:
    """`on_frame(listener)` returns the frame handler for connections of that listener."""

    def __init__(
        self,
        config: BrokerConfig,
        on_frame: Callable[[ListenerConfig], OnFrame],
        environment: Environment,
        rejections: Rejections | None = None,
    ) -> None:
        self._certificates = {d.name: Certificates(partial(config.for_listener, d)) for d in config.listeners if d.tls}
        self._config = config
        admission = self._admission = Admission(*self._limits(), rejections)
        buffers = SocketBuffers(config["socket.send.buffer.bytes"], config["socket.receive.buffer.bytes"])
        self._open = [
            environment.listen(
                listener.host,
                listener.port,
                on_frame(listener),
                frame_bytes_max=config["socket.request.max.bytes"],
                admission=admission,
                buffers=buffers,
                **self._security(listener),
            )
            for listener in config.listeners
        ]
        self._new_sasl_exchange: Callable[[], SaslClientExchange] | None = None
        if config.inter_broker is not None and config.inter_broker.sasl:
            mechanism, login = (
                config["sasl.mechanism.inter.broker.protocol"],
                config.for_listener(config.inter_broker, "sasl.jaas.config"),
            )
            if login is None:
                raise ConfigError(
                    "the inter-broker listener uses SASL: sasl.jaas.config needs the broker's username and password"
                )
            self._new_sasl_exchange = lambda: SaslClientExchange(mechanism, login)
        if self._certificates:
            environment.loop.every(CERTIFICATE_CHECK_MS, lambda now: self._reload_changed_certificates())
        ports = [listener.port for listener in self._open]
        self.endpoints = tuple(d.endpoint(port) for d, port in zip(config.listeners, ports, strict=True))
        inter_broker = config.inter_broker
        assert inter_broker is not None
        self.inter_broker: Endpoint = next(e for e in self.endpoints if e.listener == inter_broker.name)

    def _limits(self) -> tuple[int, int, Mapping[str, int], int]:
        names = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")
        total, per_ip, overrides = (self._config[name] for name in names)
        return total, per_ip, overrides, self._config["max.connection.creation.rate"]

    def quotas_changed(self, rates: Mapping[str | None, float]) -> None:
        """Set the connection rates (connections per second) of addresses."""
        self._admission.limit_rates(rates)

    def limits_changed(self) -> None:
        self._admission.limit(*self._limits())

    @property
    def plaintext_endpoint(self) -> Endpoint:
        """The endpoint for programs on this machine that are configured with an address only, without a security protocol."""
        return next((e for e in self.endpoints if e.protocol == "PLAINTEXT"), self.inter_broker)

    def _security(self, listener: ListenerConfig) -> ListenerSecurity:
        security: ListenerSecurity = {}
        if listener.tls:
            security["tls"] = lambda: self._certificates[listener.name].server
        if listener.sasl:
            security["proves"] = True
        return security

    def _reload_changed_certificates(self) -> None:
        for certificates in self._certificates.values():
            certificates.check_files()

    def connect(self, connect: Callable[..., Peer], host: str, port: int, **limits: int) -> Peer:
        """A connection to another broker, with the security protocol of the inter-broker listener."""
        security: PeerSecurity = {}
        certificates = self._certificates.get(self.inter_broker.listener)
        if certificates is not None:
            security["tls"] = lambda: certificates.client
        if self._new_sasl_exchange is not None:
            security["new_sasl_exchange"] = self._new_sasl_exchange
        return connect(host, port, **limits, **security)

    def open(self) -> None:
        """Accept connections. Idempotent."""
        for listener in self._open:
            listener.open()

    def connections(self) -> Iterator[tuple[str, Connection]]:
        """Yield each accepted connection with the name of its listener."""
        for endpoint, listener in zip(self.endpoints, self._open, strict=True):
            for connection in listener.connections.values():
                yield endpoint.listener, connection

    def close_idle(self, idle_ms_max: int) -> None:
        for listener in self._open:
            listener.close_idle(idle_ms_max)

    def stop_accepting(self) -> None:
        for listener in self._open:
            listener.stop_accepting()

    def close(self) -> None:
        for listener in self._open:
            listener.close()
