"""Levels of the metadata log: which records may be written and which programs can read them (docs/decisions/018).

A record is written only if the log has reached the level of the record. An operator raises the level. This is possible only if every registered
broker supports the new level. A program that reads an unknown level, record type, version or field halts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import ClassVar, Protocol, TypeVar

FEATURE = "weir.metadata.version"
"""Name of the level among the features of ApiVersions. Not `metadata.version`, because tools interpret those levels as Kafka releases."""

LEVELS = {
    1: "records from before levels were introduced; the level of a program that registers without levels",
    2: "MetadataLevelRaised",
    3: "AccessChanged; the endpoints in BrokerUp",
    4: "FeatureFinalised",
    5: "observers, tail_start and log_start_floor in PartitionChanged",
    6: "archive_start, archive_epoch and holders (handover_offset, handover_epoch, history_replicas) in PartitionChanged",
    7: "life and tail_doubt in BrokerUp",
    8: "AccessChanged of the kind route",
    9: "principal in AccessChanged of the kind route",
    10: "voters in PartitionChanged",
}
LEVEL_MIN, LEVEL_MAX = min(LEVELS), max(LEVELS)
"""The levels that this program reads. It writes all of them."""

HANDOVER_LEVEL = 6
"""First level in which a partition may have a hand-over offset: older records are read from the history replicas."""
LIFE_LEVEL = 7
"""First level in which the lives of brokers are recorded, so that an older copy of a data directory is detected."""
ROUTE_LEVEL = 8
"""First level in which the log may contain routes. Brokers of earlier levels would append their batches without the check that prevents duplicates."""
ROUTE_PRINCIPAL_LEVEL = 9
"""First level in which a route may have a principal. Brokers of earlier levels would route its records without its ACLs and quotas."""
MAJORITY_LEVEL = 10
"""First level in which a partition may have majority acknowledgements. Earlier controllers would elect a replica that lacks committed records."""

Range = tuple[int, int]
SUPPORTED_LEVELS: Range = (LEVEL_MIN, LEVEL_MAX)
LEVELS_BY_DEFAULT: Range = (1, 1)
"""The levels of a registration without levels, which an older program has written."""


def level_problem(level: int, supported: Range = SUPPORTED_LEVELS) -> str | None:
    """Return the reason why a program that reads the levels `supported` cannot read a log of this level, or None."""
    low, high = supported
    if low <= level <= high:
        return None
    newer = "newer" if level > high else "older"
    return f"the metadata log is at level {level}, {newer} than the supported levels {low} to {high}; upgrade the older side"


class Levelled(Protocol):
    """The part of a metadata record that levels need: a dataclass whose fields may have the metadata keys `version` and `level`."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    LEVEL: ClassVar[int]

    @property
    def raises_to(self) -> int: ...


R = TypeVar("R", bound=Levelled)


def version_of(record: Levelled) -> int:
    """The lowest version that can store the record. Fields of a later version are omitted if they have their default."""
    return max((int(f.metadata.get("version", 1)) for f in _non_default_fields(record)), default=1)


def level_of(record: Levelled) -> int:
    """The lowest level of a log that may contain the record."""
    return max([record.LEVEL, *(int(f.metadata.get("level", LEVEL_MIN)) for f in _non_default_fields(record))])


def _non_default_fields(record: Levelled) -> Iterator[Field[object]]:
    """The fields, including those of a nested state, whose value is not the default."""
    for f in fields(record):
        value = getattr(record, f.name)
        if f.default is MISSING or value != f.default:
            yield f
        if is_dataclass(value):
            yield from (inner for inner in fields(value) if getattr(value, inner.name) != inner.default)


def too_new(records: Iterable[R], level: int) -> R | None:
    """The first of `records` that a log of `level` may not contain, or None. A record that raises the level applies to the records after it."""
    for record in records:
        level = max(level, record.raises_to)
        if level_of(record) > level:
            return record
    return None
