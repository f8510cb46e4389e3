"""Topic configs in groups, for pages that show all of them: the ones that operators change most often, then the others by subject.

Invariant: each config of the catalogue is in exactly one group. Does not contain: values and meanings of configs (`brokerd.cluster.configs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from console.texts import gettext_lazy

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ConfigGroup:
    """`names`: its configs, in the order of the page."""

    title: str
    names: tuple[str, ...]


CONFIG_GROUPS = (
    ConfigGroup(
        gettext_lazy("Changed most often"),
        (
            "retention.ms",
            "retention.bytes",
            "cleanup.policy",
            "min.insync.replicas",
            "max.message.bytes",
            "compression.type",
            "segment.bytes",
            "segment.ms",
        ),
    ),
    ConfigGroup(
        gettext_lazy("Retention and compaction"),
        ("delete.retention.ms", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms"),
    ),
    ConfigGroup(
        gettext_lazy("Durability and replication"),
        (
            "unclean.leader.election.enable",
            "weir.majority.acks.enable",
            "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas",
        ),
    ),
    ConfigGroup(
        gettext_lazy("Tiered storage"),
        (
            "remote.storage.enable",
            "local.retention.ms",
            "local.retention.bytes",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
        ),
    ),
    ConfigGroup(
        gettext_lazy("Delayed and half messages, retries, look-ups by key"),
        (
            "weir.delay.enable",
            "weir.delay.topic",
            "weir.half.enable",
            "weir.half.topic",
            "weir.half.source",
            "weir.retry.enable",
            "weir.retry.source",
            "errors.deadletterqueue.group.enable",
            "weir.index.keys",
            "weir.index.header",
        ),
    ),
    ConfigGroup(
        gettext_lazy("Segments and flushing"),
        (
            "segment.jitter.ms",
            "segment.index.bytes",
            "index.interval.bytes",
            "flush.messages",
            "flush.ms",
            "preallocate",
            "file.delete.delay.ms",
        ),
    ),
    ConfigGroup(
        gettext_lazy("Limits of timestamps, compression levels"),
        (
            "message.timestamp.type",
            "message.timestamp.before.max.ms",
            "message.timestamp.after.max.ms",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
        ),
    ),
)
GROUPED_MIN = 12
"""Fewer configs have no headings: a selection has a few of several groups."""


@dataclass(frozen=True, slots=True)
class GroupedRows(Generic[Row]):
    """Rows of configs below one heading. `title`: empty for a short list, which has no headings."""

    title: str
    rows: list[Row]


def grouped_configs(rows: Iterable[Row], name_of: Callable[[Row], str]) -> list[GroupedRows[Row]]:
    """The rows in the order of the groups, without empty groups. Below GROUPED_MIN rows: one group without a title."""
    by_name = {name_of(row): row for row in rows}
    groups = [
        GroupedRows(group.title, [by_name[name] for name in group.names if name in by_name]) for group in CONFIG_GROUPS
    ]
    if len(by_name) < GROUPED_MIN:
        return [GroupedRows("", [row for group in groups for row in group.rows])]
    return [group for group in groups if group.rows]
