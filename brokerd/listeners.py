"""Where a broker listens, under which name, how it is secured there, and what it tells others of it.

Law: a broker's listeners are known before it starts, each by its name (Kafka's rules for `listeners`, `advertised.listeners`,
`listener.security.protocol.map`, `inter.broker.listener.name`). Called by `config` and `broker`. Must not come in: sockets, certificates.
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
class Door:
    """One listener: where it is, and what clients that came by it are told."""

    name: str
    protocol: str
    host: str
    port: int
    told_host: str
    told_port: int

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def endpoint(self, port: int) -> Endpoint:
        """As registered; `port` is the one taken, where the settings left the choice to the system."""
        return Endpoint(self.name, self.told_host, self.told_port or port, self.protocol)


def parse_listeners(text: str) -> tuple[tuple[str, str, int], ...]:
    """`NAME://host:port,...` (or host:port alone: PLAINTEXT) -> (name, host, port) each. An IPv6 address stands in brackets."""
    out: list[tuple[str, str, int]] = []
    for item in (part.strip() for part in text.split(",")):
        scheme, _, rest = item.rpartition("://")
        host, _, port = rest.rpartition(":")
        name = (scheme or "PLAINTEXT").upper()
        if not _NAME.match(name):
            raise ValueError(f"{name!r} cannot name a listener")
        if not 0 <= int(port) <= 65_535:
            raise ValueError(f"{port} is no port")
        out.append((name, host.strip("[]"), int(port)))
    if len({name for name, _, _ in out}) != len(out):
        raise ValueError("a listener's name stands twice")
    if len({(host, port) for _, host, port in out if port}) != len([1 for _, _, port in out if port]):
        raise ValueError("two listeners have the same address")
    return tuple(out)


def show_listeners(listeners: tuple[tuple[str, str, int], ...]) -> str:
    return ",".join(f"{name}://{f'[{host}]' if ':' in host else host}:{port}" for name, host, port in listeners)


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` -> protocol by listener."""
    out: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = item.rpartition(":")
        if protocol.upper() not in PROTOCOLS or not name:
            raise ValueError(f"{item!r} maps no listener to one of {', '.join(PROTOCOLS)}")
        out[name.upper()] = protocol.upper()
    return out


def doors(values: Mapping[str, Any]) -> tuple[Door, ...]:
    """Every listener of these settings. Raises ValueError with a sentence where they do not fit together."""
    told = {name: (host, port) for name, host, port in values["advertised.listeners"] or ()}
    out = []
    for name, host, port in values["listeners"]:
        protocol = values["listener.security.protocol.map"].get(name, name)
        if protocol not in PROTOCOLS:
            raise ValueError(f"listener {name} has no security protocol; add it to listener.security.protocol.map")
        if values["advertised.listeners"] is not None and name not in told:
            raise ValueError(f"listener {name} is missing in advertised.listeners")
        out.append(Door(name, protocol, host, port, *told.pop(name, (host, port))))
    if told:
        raise ValueError(f"advertised.listeners names {', '.join(told)}, which listeners does not")
    return tuple(out)


def inter_broker_door(values: Mapping[str, Any], doors: tuple[Door, ...]) -> Door:
    """The listener other brokers come by. Raises ValueError when it is not among them."""
    wanted = values["inter.broker.listener.name"]
    if wanted is None:
        # Kafka's default is a listener of the protocol PLAINTEXT; a broker with one listener needs no word about it.
        fitting = [d for d in doors if d.protocol == "PLAINTEXT"] if len(doors) > 1 else list(doors)
        if not fitting:
            raise ValueError(
                "say by inter.broker.listener.name which of the listeners the brokers use among themselves"
            )
        return fitting[0]
    for door in doors:
        if door.name == wanted.upper():
            return door
    raise ValueError(f"inter.broker.listener.name={wanted} is none of listeners")
