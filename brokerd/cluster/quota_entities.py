"""Quota entities and quota names, as the metadata log stores them and as Kafka's clients send them. Values only.

An entity is a mapping from entity types to names: `{"user": "alice", "client-id": None}`. The name None is the default entity.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCE, FETCH, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS = "controller_mutation_rate"
KEYS = (PRODUCE, FETCH, TIME, MUTATIONS)
"""The quotas of users and clients: bytes per second, bytes per second, per cent of one event loop, partitions per second."""
CONNECTIONS = "connection_creation_rate"
"""The quota of an address (KIP-612): new connections per second."""
NAME_CHARACTERS_MAX = 400
VALUE_MAX = 1e18


def entity_key(entity: Mapping[str, str | None]) -> str:
    """The entity as one string, which is its key in the metadata log."""
    return json.dumps(dict(sorted(entity.items())), separators=(",", ":"))


def entity_of(key: str) -> dict[str, str | None]:
    return dict(json.loads(key))


def quota_keys(entity: Mapping[str, str | None]) -> tuple[str, ...]:
    """The quotas that this entity can have."""
    return (CONNECTIONS,) if IP in entity else KEYS


def entity_problem(entity: Mapping[str, str | None]) -> str | None:
    """Return the reason why this is not a quota entity, or None. The client receives the text."""
    by_address = set(entity) == {IP}
    if not entity or not (by_address or set(entity) <= {USER, CLIENT}):
        return f"an entity consists of {USER}, of {CLIENT}, of both once each, or of {IP} alone"
    if by_address and (address := entity[IP]) is not None and not _is_address(address):
        return f"{address!r} is not an IP address"
    if any(name is not None and not 0 < len(name) <= NAME_CHARACTERS_MAX for name in entity.values()):
        return "the entity name is empty or too long"
    return None


def value_problem(entity: Mapping[str, str | None], key: str, value: float | None) -> str | None:
    """Return the reason why this entity cannot have this value, or None. `value` None: the quota is removed."""
    if key not in quota_keys(entity):
        return f"Invalid configuration key {key}"
    if value is not None and not 0 < value < VALUE_MAX:
        return f"{key} must be greater than 0"
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
