"""Topic settings: Kafka's names, types, defaults and bounds, in one table.

Law: a name or value that is not in the table is refused with a sentence. Called by the controller (validation), the log
(typed values) and DescribeConfigs. Must not come in: the broker's own settings (brokerd/config).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's config types on the wire (SHORT 4, CLASS 8, PASSWORD 9 are not needed here)."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting. `low` bounds numbers, `choices` closes strings and lists. `acts` is false for what is stored and shown only."""

    name: str
    kafka_type: int
    default_text: str
    doc: str
    broker_synonym: str | None = None
    low: float | None = None
    choices: tuple[str, ...] | None = None
    acts: bool = True


_DAY, _HOUR = 86_400_000, 3_600_000

TOPIC_CONFIGS: dict[str, Definition] = {
    d.name: d
    for d in (
        Definition("cleanup.policy", LIST, "delete", "delete: old segments go; compact: the newest record per key stays.",
                   "log.cleanup.policy", choices=("delete", "compact")),
        Definition("compression.type", STRING, "producer", "Batches keep the producer's compression.", "compression.type",
                   choices=("producer",)),
        Definition("delete.retention.ms", LONG, str(_DAY), "How long a tombstone stays readable.",
                   "log.cleaner.delete.retention.ms", 0),
        Definition("file.delete.delay.ms", LONG, "60000", "Wait before a removed segment leaves the disk.",
                   "log.segment.delete.delay.ms", 0, acts=False),
        Definition("flush.messages", LONG, str(LONG_MAX), "Records between forced flushes.", "log.flush.interval.messages", 1,
                   acts=False),
        Definition("flush.ms", LONG, str(LONG_MAX), "Milliseconds between forced flushes.", "log.flush.interval.ms", 0,
                   acts=False),
        Definition("index.interval.bytes", INT, "4096", "Bytes of log per index entry.", "log.index.interval.bytes", 0),
        Definition("max.compaction.lag.ms", LONG, str(LONG_MAX), "Longest time a record may stay uncompacted.",
                   "log.cleaner.max.compaction.lag.ms", 1, acts=False),
        Definition("max.message.bytes", INT, "1048588", "Largest batch accepted.", "message.max.bytes", 0),
        Definition("message.timestamp.after.max.ms", LONG, str(LONG_MAX), "How far ahead a timestamp may lie.",
                   "log.message.timestamp.after.max.ms", 0, acts=False),
        Definition("message.timestamp.before.max.ms", LONG, str(LONG_MAX), "How far back a timestamp may lie.",
                   "log.message.timestamp.before.max.ms", 0, acts=False),
        Definition("message.timestamp.type", STRING, "CreateTime", "Whose clock stamps records.",
                   "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")),
        Definition("min.cleanable.dirty.ratio", DOUBLE, "0.5", "Share of uncompacted bytes that starts compaction.",
                   "log.cleaner.min.cleanable.ratio", 0, acts=False),
        Definition("min.compaction.lag.ms", LONG, "0", "Shortest time a record stays uncompacted.",
                   "log.cleaner.min.compaction.lag.ms", 0, acts=False),
        Definition("min.insync.replicas", INT, "1", "With acks=all, the replicas that must hold a record.",
                   "min.insync.replicas", 1),
        Definition("preallocate", BOOLEAN, "false", "Reserve the whole segment at its creation.", "log.preallocate",
                   choices=("true", "false"), acts=False),
        Definition("retention.bytes", LONG, "-1", "Bytes per partition kept; -1 is no bound.", "log.retention.bytes", -1),
        Definition("retention.ms", LONG, str(7 * _DAY), "Milliseconds records are kept; -1 is for ever.", "log.retention.ms",
                   -1),
        Definition("segment.bytes", INT, str(1 << 30), "Largest segment file.", "log.segment.bytes", 14),
        Definition("segment.index.bytes", INT, str(10 << 20), "Largest index file.", "log.index.size.max.bytes", 4,
                   acts=False),
        Definition("segment.jitter.ms", LONG, "0", "Random delay of rolls.", "log.roll.jitter.ms", 0, acts=False),
        Definition("segment.ms", LONG, str(7 * _DAY), "Age after which a segment is closed.", "log.roll.ms", 1),
        Definition("unclean.leader.election.enable", BOOLEAN, "false",
                   "Elect a replica outside the ISR rather than stay offline: data may be lost.",
                   "unclean.leader.election.enable", choices=("true", "false")),
        Definition("leader.replication.throttled.replicas", LIST, "", "Throttled replicas at their leaders.", acts=False),
        Definition("follower.replication.throttled.replicas", LIST, "", "Throttled replicas at their followers.", acts=False),
    )
}  # fmt: skip

BROKER_SYNONYMS = {d.broker_synonym: d.name for d in TOPIC_CONFIGS.values() if d.broker_synonym}
_NUMBER: dict[int, Callable[[str], float]] = {INT: int, LONG: int, DOUBLE: float}
_HIGH = {INT: INT_MAX, LONG: LONG_MAX}


def topic_config_problem(name: str, value: str | None) -> str | None:
    """Why `name=value` cannot be set on a topic, or None. The text goes to the client."""
    d = TOPIC_CONFIGS.get(name)
    if d is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"{name} needs a value; delete it to go back to the default {d.default_text!r}"
    if d.kafka_type in _NUMBER:
        try:
            number = _NUMBER[d.kafka_type](value)
        except ValueError:
            return f"{name}={value!r} is not a number"
        if d.low is not None and number < d.low:
            return f"{name}={value} is below its least value {d.low:g}"
        if number > _HIGH.get(d.kafka_type, number):
            return f"{name}={value} is above its greatest value {_HIGH[d.kafka_type]}"
    elif d.choices is not None:
        given = [v.strip() for v in value.split(",")] if d.kafka_type == LIST else [value]
        wrong = [v for v in given if v not in d.choices]
        if wrong or not given:
            return f"{name}={value!r} is not possible; choose from {', '.join(d.choices)}"
    return None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's settings, typed: bytes, milliseconds, counts."""

    cleanup_policy: frozenset[str]
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_type: str
    min_insync_replicas: int
    unclean_leader_election: bool
    delete_retention_ms: int

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @staticmethod
    def from_overrides(overrides: Mapping[str, str], broker_defaults: Mapping[str, str] | None = None) -> TopicConfig:
        """The topic's own overrides win over the broker's defaults (under their synonyms), those over the table's."""

        def text(name: str) -> str:
            d = TOPIC_CONFIGS[name]
            if name in overrides:
                return overrides[name]
            if broker_defaults and d.broker_synonym and d.broker_synonym in broker_defaults:
                return broker_defaults[d.broker_synonym]
            return d.default_text

        return TopicConfig(
            cleanup_policy=frozenset(v.strip() for v in text("cleanup.policy").split(",")),
            retention_ms=int(text("retention.ms")),
            retention_bytes=int(text("retention.bytes")),
            segment_bytes=int(text("segment.bytes")),
            segment_ms=int(text("segment.ms")),
            index_interval_bytes=int(text("index.interval.bytes")),
            max_message_bytes=int(text("max.message.bytes")),
            message_timestamp_type=text("message.timestamp.type"),
            min_insync_replicas=int(text("min.insync.replicas")),
            unclean_leader_election=text("unclean.leader.election.enable") == "true",
            delete_retention_ms=int(text("delete.retention.ms")),
        )
