"""Listener configuration of a broker: name, address, security protocol and advertised address.

Follows Kafka's rules for `listeners`, `advertised.listeners`, `listener.security.protocol.map` and `inter.broker.listener.name`.
Does not contain sockets or certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.cluster.model import Endpoint

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener: the address it is bound to, and the address that is advertised to its clients."""

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def endpoint(self, port: int) -> Endpoint:
        """The endpoint for the broker's registration. `port` is the bound port, used where the settings have port 0."""
        return Endpoint(self.name, self.advertised_host, self.advertised_port or port, self.protocol)


def parse_listeners(text: str) -> tuple[tuple[str, str, int], ...]:
    """`NAME://host:port,...` -> (name, host, port) each. Without NAME: PLAINTEXT. An IPv6 address is written in brackets."""
    out: list[tuple[str, str, int]] = []
    for item in (part.strip() for part in text.split(",")):
        scheme, _, rest = item.rpartition("://")
        host, _, port = rest.rpartition(":")
        name = (scheme or "PLAINTEXT").upper()
        if not _NAME.match(name):
            raise ValueError(f"invalid listener name {name!r}")
        if not 0 <= int(port) <= 65_535:
            raise ValueError(f"invalid port {port}")
        out.append((name, host.strip("[]"), int(port)))
    if len({name for name, _, _ in out}) != len(out):
        raise ValueError("duplicate listener name")
    if len({(host, port) for _, host, port in out if port}) != len([1 for _, _, port in out if port]):
        raise ValueError("two listeners have the same address")
    return tuple(out)


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` -> {listener name: protocol}."""
    out: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = item.rpartition(":")
        if protocol.upper() not in PROTOCOLS or not name:
            raise ValueError(f"{item!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        out[name.upper()] = protocol.upper()
    return out


def listener_configs(values: Mapping[str, Any]) -> tuple[ListenerConfig, ...]:
    """All listeners of the settings. Raises ValueError for settings that contradict each other."""
    advertised = {name: (host, port) for name, host, port in values["advertised.listeners"] or ()}
    out = []
    for name, host, port in values["listeners"]:
        protocol = values["listener.security.protocol.map"].get(name, name)
        if protocol not in PROTOCOLS:
            raise ValueError(f"listener {name} has no security protocol; add it to listener.security.protocol.map")
        if values["advertised.listeners"] is not None and name not in advertised:
            raise ValueError(f"listener {name} is missing in advertised.listeners")
        out.append(ListenerConfig(name, protocol, host, port, *advertised.pop(name, (host, port))))
    if advertised:
        raise ValueError(f"advertised.listeners contains {', '.join(advertised)}, which is missing in listeners")
    return tuple(out)


def inter_broker_listener(values: Mapping[str, Any], listeners: tuple[ListenerConfig, ...]) -> ListenerConfig:
    """The listener for traffic between brokers. Raises ValueError if it is not one of `listeners`."""
    requested = values["inter.broker.listener.name"]
    if requested is None:
        # Kafka's default is a listener with the protocol PLAINTEXT. A broker with one listener needs no setting.
        fitting = [d for d in listeners if d.protocol == "PLAINTEXT"] if len(listeners) > 1 else list(listeners)
        if not fitting:
            raise ValueError(
                "several listeners and none is PLAINTEXT: set inter.broker.listener.name to the listener between brokers"
            )
        return fitting[0]
    for listener in listeners:
        if listener.name == requested.upper():
            return listener
    raise ValueError(f"inter.broker.listener.name={requested} is missing in listeners")
