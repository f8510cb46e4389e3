"""All the doors of a broker: each listener's socket, taken at once and opened together.

Law: nobody is let in before the broker knows the cluster; what is registered is where clients really get in. Called by `broker`.
Must not come in: what a request means, who may ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from brokerd.access.certificates import LOOK_MS, Certificates
from brokerd.access.client import Introduction
from brokerd.cluster.model import Endpoint
from brokerd.config import BrokerConfig, ConfigError
from brokerd.listeners import Door
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.peers import Peer

if TYPE_CHECKING:
    from brokerd.outside import Outside

OnFrame = Callable[[Connection, memoryview], None]


class Listeners:
    """`on_frame(door)` gives what handles the frames of connections by that door."""

    def __init__(self, config: BrokerConfig, on_frame: Callable[[Door], OnFrame], outside: Outside) -> None:
        self._certificates = {d.name: Certificates(partial(config.of, d)) for d in config.doors if d.tls}
        self._config = config
        admission = self._admission = Admission(*self._limits())
        self._open = [
            outside.listen(
                door.host, door.port, on_frame(door),
                frame_bytes_max=config["socket.request.max.bytes"], admission=admission,
                **self._security(door),
            )
            for door in config.doors
        ]  # fmt: skip
        self._introduce: Callable[[], Introduction] | None = None
        if config.inter_broker is not None and config.inter_broker.sasl:
            mechanism, login = (
                config["sasl.mechanism.inter.broker.protocol"],
                config.of(config.inter_broker, "sasl.jaas.config"),
            )
            if login is None:
                raise ConfigError("brokers use SASL among themselves: sasl.jaas.config must say as whom")
            self._introduce = lambda: Introduction(mechanism, login)
        if self._certificates:
            outside.loop.every(LOOK_MS, lambda now: self._look_at_certificates())
        ports = [listener.port for listener in self._open]
        self.endpoints = tuple(d.endpoint(port) for d, port in zip(config.doors, ports, strict=True))
        inter_broker = config.inter_broker
        assert inter_broker is not None
        self.inter_broker: Endpoint = next(e for e in self.endpoints if e.listener == inter_broker.name)

    def _limits(self) -> tuple[int, int, Mapping[str, int], int]:
        names = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")
        total, per_ip, overrides = (self._config[name] for name in names)
        return total, per_ip, overrides, self._config["max.connection.creation.rate"]

    def quotas_changed(self, rates: Mapping[str | None, float]) -> None:
        """New connections per second, by address."""
        self._admission.rates = rates

    def limits_changed(self) -> None:
        self._admission.limit(*self._limits())

    @property
    def clear(self) -> Endpoint:
        """For who knows of one address only, and of no security: older programs, and the house's own."""
        return next((e for e in self.endpoints if e.protocol == "PLAINTEXT"), self.inter_broker)

    def _security(self, door: Door) -> dict[str, Any]:
        """Nothing for a listener without: its clients prove nothing."""
        security: dict[str, Any] = {}
        if door.tls:
            security["tls"] = lambda: self._certificates[door.name].server
        if door.sasl:
            security["proves"] = True
        return security

    def _look_at_certificates(self) -> None:
        for certificates in self._certificates.values():
            certificates.look()

    def connect(self, connect: Callable[..., Peer], host: str, port: int, **limits: int) -> Peer:
        """A connection to another broker, secured as the listener is that they use among themselves."""
        security: dict[str, Any] = {}
        certificates = self._certificates.get(self.inter_broker.listener)
        if certificates is not None:
            security["tls"] = lambda: certificates.client
        if self._introduce is not None:
            security["introduce"] = self._introduce
        return connect(host, port, **limits, **security)

    def open(self) -> None:
        """Let clients in. Once is enough."""
        for listener in self._open:
            listener.open()

    def close_idle(self, idle_ms_max: int) -> None:
        for listener in self._open:
            listener.close_idle(idle_ms_max)

    def stop_accepting(self) -> None:
        for listener in self._open:
            listener.stop_accepting()

    def close(self) -> None:
        for listener in self._open:
            listener.close()
