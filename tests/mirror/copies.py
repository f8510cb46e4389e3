"""Comparison of a topic with its copy in another cluster, and of the positions of a group in both. No I/O.

A record is identified by its header `id`. Offsets of a copy differ from those of its source: a mirrored topic has no aborted records, and has the
transaction markers of the mirror.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Place = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A record as a consumer of committed records sees it. `content` is all that a copy must keep: key, value, headers, timestamp."""

    offset: int
    id: str
    content: tuple[object, ...]
    key: bytes | None = None

    @property
    def tombstone(self) -> bool:
        return self.content[1] is None


def without_timestamps(copies: Sequence[Copy]) -> list[Copy]:
    """For a topic with `message.timestamp.type=LogAppendTime` in the target: its brokers give each copy another timestamp."""
    return [replace(c, content=c.content[:-1]) for c in copies]


def difference(source: Sequence[Copy], target: Sequence[Copy]) -> str:
    """The first difference of two partitions. Empty if the target has each record of the source once, with equal content and in the same order."""
    ids = [c.id for c in target]
    if len(set(ids)) < len(ids):
        repeated = next(i for n, i in enumerate(ids) if i in ids[:n])
        return f"{len(ids) - len(set(ids))} duplicates, the first is {repeated}"
    if missing := [c.id for c in source if c.id not in set(ids)]:
        return f"{len(missing)} of {len(source)} records are missing, the first is {missing[0]}"
    if foreign := [i for i in ids if i not in {c.id for c in source}]:
        return f"{len(foreign)} records are not in the source, the first is {foreign[0]}"
    for one, other in zip(source, target, strict=True):
        if one.id != other.id:
            return f"the order differs: {other.id} instead of {one.id}"
        if one.content != other.content:
            return f"the content of {one.id} differs: {other.content} instead of {one.content}"
    return ""


def latest(partition: Sequence[Copy]) -> dict[bytes | None, Copy]:
    """The last record of each key: what compaction must keep."""
    return {c.key: c for c in partition}


def compacted_difference(source: Sequence[Copy], target: Sequence[Copy]) -> str:
    """As `difference`, for a compacted topic: only the last record of each key has to be in both. Empty if nothing differs."""
    one, other = latest(source), latest(target)
    for key in one.keys() | other.keys():
        here, there = one.get(key), other.get(key)
        missing = here or there if here is None or there is None else None
        if missing is not None and missing.tombstone:
            continue  # compaction deletes tombstones after a time
        if (here.content if here else None) != (there.content if there else None):
            return f"the last record of {key!r} differs: {there} instead of {here}"
    return ""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Records of one partition that a group loses after the switch, and records that it reads for the second time."""

    lost: int
    repeated: int


def continuation(source: Sequence[Copy], position: int, target: Sequence[Copy], translated: int) -> Continuation:
    """`position`: the committed offset in the source, `translated`: that in the target."""
    expected = {c.id for c in source if c.offset >= position}
    found = {c.id for c in target if c.offset >= translated}
    return Continuation(len(expected - found), len(found - expected))


def seeds(ends: Mapping[Place, int], cluster: str) -> list[tuple[str, str]]:
    """(key, value) of records of the offsets topic of a mirror from `cluster`. With them the mirror starts at these end offsets instead of at the
    earliest records. A mirror continues one after the offset in the record; an empty partition has no record and is read from its start."""
    return [
        (
            json.dumps(
                ["MirrorSourceConnector", {"cluster": cluster, "partition": partition, "topic": topic}],
                separators=(",", ":"),
            ),
            json.dumps({"offset": end - 1}, separators=(",", ":")),
        )
        for (topic, partition), end in sorted(ends.items())
        if end > 0
    ]


def config_differences(
    source: Mapping[str, str], target: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    """{config: (value in the source, value in the target)} of configs that a topic has itself and that differ. Names that a mirror does not copy are
    left out."""
    names = (source.keys() | target.keys()) - NOT_COPIED
    return {n: (source.get(n), target.get(n)) for n in sorted(names) if source.get(n) != target.get(n)}


NOT_COPIED = frozenset(
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    )
)
"""The default of `config.properties.exclude` of MirrorMaker 2."""
