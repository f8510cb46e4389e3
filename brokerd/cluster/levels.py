"""The metadata log's level: which records may be written, and who can read them (docs/decisions/018).

Laws: a record is written only at the level that knows it; the level is raised by a person, and only once every registered broker has said that
it reads it; who meets a level, a type, a version or a field that it does not know halts. Called by `metadata`, `appender` and the controller's core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokerd.cluster.metadata import Record

FEATURE = "weir.metadata.version"
"""The level's name among the features of Kafka's ApiVersions. Not `metadata.version`: tools read that one's numbers as Kafka's own releases."""

LEVELS = {
    1: "what was written before there were levels; who says nothing reads and writes this",
    2: "MetadataLevelRaised",
    3: "AccessChanged; the endpoints in BrokerUp",
    4: "FeatureFinalised",
    5: "observers, tail_start and log_start_floor in PartitionChanged",
    6: "archive_start, archive_epoch and holders in PartitionChanged",
}
LEVEL_MIN, LEVEL_MAX = min(LEVELS), max(LEVELS)
"""What this program reads. It writes every one of them."""

ARCHIVE_LEVEL = 6
"""From there on old records may lie apart."""

Range = tuple[int, int]
SPOKEN: Range = (LEVEL_MIN, LEVEL_MAX)
UNSAID: Range = (1, 1)
"""What a registration without a range reads: it is of a program from before there were any."""


def level_problem(level: int, spoken: Range = SPOKEN) -> str | None:
    """Why a program with this range cannot follow a log of this level, or None."""
    low, high = spoken
    if low <= level <= high:
        return None
    newer = "newer" if level > high else "older"
    return f"the metadata log is at level {level}, {newer} than levels {low} to {high} that can be read; upgrade the older side"


def version_of(record: Record) -> int:
    """The lowest version that can hold it: fields that a later version brought are left out while they say nothing new."""
    return max((int(f.metadata.get("version", 1)) for f in _said(record)), default=1)


def level_of(record: Record) -> int:
    """The level that a log must have for this record to be written into it."""
    return max([record.LEVEL, *(int(f.metadata.get("level", LEVEL_MIN)) for f in _said(record))])


def _said(record: Record) -> Iterator[Field[Any]]:
    """The fields, also of a state within, whose value is not what their absence means."""
    for f in fields(record):
        value = getattr(record, f.name)
        if f.default is MISSING or value != f.default:
            yield f
        if is_dataclass(value):
            yield from (inner for inner in fields(value) if getattr(value, inner.name) != inner.default)


def too_new(records: Iterable[Record], level: int) -> Record | None:
    """The first of `records` that a log of `level` may not hold yet. One that raises the level counts at once."""
    for record in records:
        level = max(level, record.raises_to)
        if level_of(record) > level:
            return record
    return None
