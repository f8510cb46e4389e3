"""Client quotas: entity types, limits with their units, and which quota a measured rate belongs to. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from brokerd.cluster.quota_entities import (
    CLIENT,
    CONNECTIONS,
    FETCH,
    IP,
    MUTATIONS,
    PRODUCE,
    TIME,
    USER,
    entity_key,
)

Entity = Mapping[str, str | None]
"""{entity type: name}; the name None is the default entity."""


class QuotaUnit(StrEnum):
    BYTES_PER_S = "bytes/s"
    PERCENT = "%"
    PARTITIONS_PER_S = "partitions/s"
    CONNECTIONS_PER_S = "connections/s"


UNITS = {
    PRODUCE: QuotaUnit.BYTES_PER_S,
    FETCH: QuotaUnit.BYTES_PER_S,
    TIME: QuotaUnit.PERCENT,
    MUTATIONS: QuotaUnit.PARTITIONS_PER_S,
    CONNECTIONS: QuotaUnit.CONNECTIONS_PER_S,
}
"""All quotas with their units, in the order of columns."""
ENTITY_TYPES = (USER, CLIENT, IP)
ENTITIES = {"user": (USER,), "client-id": (CLIENT,), "user and client-id": (USER, CLIENT), "ip": (IP,)}
"""The combinations of entity types that a quota can have."""


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One limit of an entity, per broker, in `unit`."""

    quota: str
    value: float
    unit: str


def limits_of(values: Mapping[str, float]) -> list[QuotaLimit]:
    """The limits of an entity in the order of UNITS. Unknown names of another version are omitted."""
    return [QuotaLimit(quota, float(values[quota]), unit) for quota, unit in UNITS.items() if quota in values]


def entity_text(entity: Entity) -> str:
    return ", ".join(f"{t} {'<default>' if entity[t] is None else entity[t]}" for t in ENTITY_TYPES if t in entity)


def applies_to(quota: Entity, bucket: Entity) -> bool:
    """Return whether this quota may limit the bucket: equal entity types, and equal names where the quota has one."""
    return set(quota) == set(bucket) and all(name in (None, bucket[t]) for t, name in quota.items())


def candidates(bucket: Entity) -> list[str]:
    """Keys of the quotas of the same entity types that may limit this bucket, the most specific first."""
    types = [t for t in ENTITY_TYPES if t in bucket]
    return [entity_key(dict(zip(types, names, strict=True))) for names in product(*((bucket[t], None) for t in types))]


def quota_of(bucket: Entity, quota: str, limits: Mapping[str, Mapping[str, float]]) -> str | None:
    """The key of the quota that limits this bucket. `limits`: values by entity key, at least those of `candidates`."""
    return next((key for key in candidates(bucket) if quota in limits.get(key, {})), None)
