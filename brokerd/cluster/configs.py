"""Topic settings: Kafka's names, types, defaults and bounds, in one table.

Law: a name or value that is not in the table is refused with a sentence. Called by the controller (validation), the log
(typed values) and DescribeConfigs. Must not come in: the broker's own settings (brokerd/config).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's config types on the wire (SHORT 4, CLASS 8, PASSWORD 9 are not needed here)."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting. `low` and `high` bound numbers, `choices` closes strings and lists. `acts` is false for what is only stored and
    shown; its doc says why."""

    name: str
    kafka_type: int
    default_text: str
    doc: str
    broker_synonym: str | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] | None = None
    acts: bool = True


_DAY = 86_400_000
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
"""In the order of the codec numbers in a batch's attributes."""

TOPIC_CONFIGS: dict[str, Definition] = {
    d.name: d
    for d in (
        Definition("cleanup.policy", LIST, "delete", "delete: old segments go; compact: the newest record per key stays; both may be given.",
                   "log.cleanup.policy", choices=("delete", "compact")),
        Definition("compression.type", STRING, "producer", "producer keeps each batch as it came; a codec's name packs it anew, which costs CPU.",
                   "compression.type", choices=("producer", *_CODECS)),
        Definition("delete.retention.ms", LONG, str(_DAY), "How long a tombstone stays readable after its first compaction.",
                   "log.cleaner.delete.retention.ms", 0),
        Definition("file.delete.delay.ms", LONG, "60000", "Not needed: a file being read stays readable after its removal.",
                   "log.segment.delete.delay.ms", 0, acts=False),
        Definition("flush.messages", LONG, str(LONG_MAX), "Of acknowledged records a power cut takes fewer than this many; at 1, acknowledgements wait for the disk.",
                   "log.flush.interval.messages", 1),
        Definition("flush.ms", LONG, str(LONG_MAX), "Records older than this many milliseconds are flushed; at 0, acknowledgements wait for the disk.", "log.flush.interval.ms", 0),
        Definition("follower.replication.throttled.replicas", LIST, "", "partition:broker pairs (or *) throttled where they are copied to."),
        Definition("index.interval.bytes", INT, "4096", "Bytes of log per index entry.", "log.index.interval.bytes", 0),
        Definition("leader.replication.throttled.replicas", LIST, "", "partition:broker pairs (or *) throttled where they are copied from."),
        Definition("local.retention.bytes", LONG, "-2", "With tiers: bytes kept on the broker; -2 follows retention.bytes.",
                   "log.local.retention.bytes", -2, acts=False),
        Definition("local.retention.ms", LONG, "-2", "With tiers: milliseconds kept on the broker; -2 follows retention.ms.",
                   "log.local.retention.ms", -2, acts=False),
        Definition("max.compaction.lag.ms", LONG, str(LONG_MAX), "Longest time a record may stay uncompacted.",
                   "log.cleaner.max.compaction.lag.ms", 1),
        Definition("max.message.bytes", INT, "1048588", "Largest batch accepted, in bytes after compression.", "message.max.bytes", 0),
        Definition("message.timestamp.after.max.ms", LONG, str(LONG_MAX), "How far ahead of the broker's clock a timestamp may lie.",
                   "log.message.timestamp.after.max.ms", 0),
        Definition("message.timestamp.before.max.ms", LONG, str(LONG_MAX), "How far behind the broker's clock a timestamp may lie.",
                   "log.message.timestamp.before.max.ms", 0),
        Definition("message.timestamp.type", STRING, "CreateTime", "Whose clock stamps records: the producer's or the broker's.",
                   "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")),
        Definition("min.cleanable.dirty.ratio", DOUBLE, "0.5", "Share of uncompacted bytes that starts compaction.",
                   "log.cleaner.min.cleanable.ratio", 0, high=1),
        Definition("min.compaction.lag.ms", LONG, "0", "Shortest time a record stays uncompacted.",
                   "log.cleaner.min.compaction.lag.ms", 0),
        Definition("min.insync.replicas", INT, "1", "With acks=all, the replicas that must hold a record.",
                   "min.insync.replicas", 1),
        Definition("preallocate", BOOLEAN, "false", "Not needed: the file systems in use allocate late.", "log.preallocate",
                   acts=False),
        Definition("remote.storage.enable", BOOLEAN, "false", "Keep old segments in a remote tier: not offered yet.", acts=False),
        Definition("retention.bytes", LONG, "-1", "Bytes per partition kept; -1 is no bound.", "log.retention.bytes", -1),
        Definition("retention.ms", LONG, str(7 * _DAY), "Milliseconds records are kept; -1 is for ever.", "log.retention.ms",
                   -1),
        Definition("segment.bytes", INT, str(1 << 30), "Largest segment file.", "log.segment.bytes", 14),
        Definition("segment.index.bytes", INT, str(10 << 20), "Largest offset index; a segment is closed when it is reached.",
                   "log.index.size.max.bytes", 4),
        Definition("segment.jitter.ms", LONG, "0", "Up to this is taken off segment.ms, so that not all segments close at once.",
                   "log.roll.jitter.ms", 0),
        Definition("segment.ms", LONG, str(7 * _DAY), "Age after which a segment is closed.", "log.roll.ms", 1),
        Definition("unclean.leader.election.enable", BOOLEAN, "false",
                   "Elect a replica outside the ISR rather than stay offline: acknowledged records may be lost.",
                   "unclean.leader.election.enable"),
    )
}  # fmt: skip

UNIT_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.ms": (("log.roll.hours", 3_600_000),),
    "segment.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
"""Kafka's older broker names for the same setting, in other units; the finer one wins."""

BROKER_SYNONYMS = {d.broker_synonym: d.name for d in TOPIC_CONFIGS.values() if d.broker_synonym} | {
    synonym: name for name, others in UNIT_SYNONYMS.items() for synonym, _ in others
}


def broker_value(definition: Definition, broker_defaults: Mapping[str, str]) -> str | None:
    """What the broker's settings give as a topic's default, in the topic's unit; None when they are silent."""
    if definition.broker_synonym is not None and definition.broker_synonym in broker_defaults:
        return broker_defaults[definition.broker_synonym]
    for synonym, unit in UNIT_SYNONYMS.get(definition.name, ()):
        if synonym in broker_defaults:
            value = int(broker_defaults[synonym])
            return str(value * unit if value >= 0 else value)
    return None


_NUMBER: dict[int, Callable[[str], float]] = {INT: int, LONG: int, DOUBLE: float}
_HIGH = {INT: INT_MAX, LONG: LONG_MAX}
_THROTTLED = re.compile(r"\*|\d+:\d+")
MESSAGE_TOO_LARGE, INVALID_TIMESTAMP = 10, 32
VALUE_CHARACTERS_MAX = 8_192
"""Of one setting: all settings of a topic stand in one record, and a record has to fit an entry of the metadata log."""
NUMBER_CHARACTERS_MAX = 40


def topic_config_problem(name: str, value: str | None) -> str | None:
    """Why `name=value` cannot be set on a topic, or None. The text goes to the client."""
    d = TOPIC_CONFIGS.get(name)
    if d is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"{name} needs a value; delete it to go back to the default {d.default_text!r}"
    if len(value) > VALUE_CHARACTERS_MAX:
        return f"{name} has {len(value)} characters; at most {VALUE_CHARACTERS_MAX} may be"
    if d.kafka_type in _NUMBER:
        return _number_problem(d, value)
    if d.kafka_type == BOOLEAN:
        if value.lower() not in ("true", "false"):
            return f"{name}={value!r} is neither true nor false"
    elif name.endswith(".replication.throttled.replicas"):
        wrong = [v for v in _list(value) if not _THROTTLED.fullmatch(v)]
        if wrong:
            return f"{name}={value!r} is not possible; give * or partition:broker,partition:broker,..."
    elif d.choices is not None:
        listed = _list(value) if d.kafka_type == LIST else [value]
        if not listed or any(v not in d.choices for v in listed):
            return f"{name}={value!r} is not possible; choose from {', '.join(d.choices)}"
    return None


def _number_problem(d: Definition, value: str) -> str | None:
    name = d.name
    try:
        if len(value) > NUMBER_CHARACTERS_MAX or "_" in value or not value.isascii():
            raise ValueError  # Python would read these, Kafka's own tools would not
        number = _NUMBER[d.kafka_type](value)
    except ValueError:
        return f"{name}={value!r} is not a number"
    if d.low is not None and not number >= d.low:
        return f"{name}={value} is below its least value {d.low:g}"
    high = d.high if d.high is not None else _HIGH.get(d.kafka_type, number)
    if number > high:
        return f"{name}={value} is above its greatest value {high}"
    return None


def contradiction(configs: Mapping[str, str]) -> str | None:
    """Why a topic's settings, each possible in itself, cannot stand together, or None."""
    topic = TopicConfig.from_overrides({k: v for k, v in configs.items() if k in TOPIC_CONFIGS})
    if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        return "min.compaction.lag.ms is larger than max.compaction.lag.ms"
    return None


def _list(value: str) -> list[str]:
    return [v.strip() for v in value.split(",") if v.strip()]


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
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    compression: int | None = None
    """The codec's number in a batch's attributes; None keeps the producer's."""
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = LONG_MAX

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def unflushed_max(self) -> int:
        """Records that may be acknowledged before they are flushed (decision 015)."""
        return 0 if self.flush_ms == 0 else self.flush_messages - 1

    @staticmethod
    def from_overrides(overrides: Mapping[str, str], broker_defaults: Mapping[str, str] | None = None) -> TopicConfig:
        """The topic's own overrides win over the broker's defaults (under their synonyms), those over the table's.

        Equal settings give the same object: thousands of topics have few different ones.
        """
        return _resolved(tuple(overrides.items()), tuple((broker_defaults or {}).items()))

    def batch_problem(self, size: int, max_timestamp: int, wall_ms: int) -> tuple[int, str] | None:
        """(Kafka's error code, sentence) when a producer's batch of `size` bytes may not stand in this topic, or None."""
        if size > self.max_message_bytes:
            return MESSAGE_TOO_LARGE, f"a batch of {size} bytes; max.message.bytes is {self.max_message_bytes}"
        if self.message_timestamp_type == "CreateTime" and max_timestamp >= 0:
            if wall_ms - max_timestamp > self.timestamp_before_max_ms:
                return (
                    INVALID_TIMESTAMP,
                    f"timestamp {max_timestamp} lies too far back (message.timestamp.before.max.ms)",
                )
            if max_timestamp - wall_ms > self.timestamp_after_max_ms:
                return (
                    INVALID_TIMESTAMP,
                    f"timestamp {max_timestamp} lies too far ahead (message.timestamp.after.max.ms)",
                )
        return None


@lru_cache(maxsize=1024)
def _resolved(own: tuple[tuple[str, str], ...], broker: tuple[tuple[str, str], ...]) -> TopicConfig:
    overrides, broker_defaults = dict(own), dict(broker)

    def text(name: str) -> str:
        d = TOPIC_CONFIGS[name]
        if name in overrides:
            return overrides[name]
        if broker_defaults:
            value = broker_value(d, broker_defaults)
            if value is not None:
                return value
        return d.default_text

    codec = text("compression.type")
    return TopicConfig(
        cleanup_policy=frozenset(_list(text("cleanup.policy"))),
        retention_ms=int(text("retention.ms")),
        retention_bytes=int(text("retention.bytes")),
        segment_bytes=int(text("segment.bytes")),
        segment_ms=int(text("segment.ms")),
        index_interval_bytes=int(text("index.interval.bytes")),
        max_message_bytes=int(text("max.message.bytes")),
        message_timestamp_type=text("message.timestamp.type"),
        min_insync_replicas=int(text("min.insync.replicas")),
        unclean_leader_election=text("unclean.leader.election.enable").lower() == "true",
        delete_retention_ms=int(text("delete.retention.ms")),
        segment_jitter_ms=int(text("segment.jitter.ms")),
        segment_index_bytes=int(text("segment.index.bytes")),
        compression=_CODECS.index(codec) if codec in _CODECS else None,
        flush_messages=int(text("flush.messages")),
        flush_ms=int(text("flush.ms")),
        min_cleanable_ratio=float(text("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
        max_compaction_lag_ms=int(text("max.compaction.lag.ms")),
        timestamp_before_max_ms=int(text("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(text("message.timestamp.after.max.ms")),
    )


LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttled_replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """(partition, broker) pairs of a list of throttled replicas; None is all of them."""
    pairs = set()
    for item in _list(text):
        if item == "*":
            return None
        partition, _, broker = item.partition(":")
        pairs.add((int(partition), int(broker)))
    return frozenset(pairs)
