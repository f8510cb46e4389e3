"""Topic configs: Kafka's names, types, defaults and bounds in one table.

An unknown name or an invalid value is rejected with a message. Does not contain broker settings (brokerd/config/broker).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from brokerd.cluster.majority_config import majority_contradiction, majority_transition_problem

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's config types on the wire. SHORT 4, CLASS 8 and PASSWORD 9 are not used here."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One topic config. `low` and `high` bound numbers, `choices` lists the valid strings. `acts` is false for a config that is stored and
    shown but has no effect; `doc` gives the reason."""

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
"""Compression types in the order of the codec numbers in a batch's attributes."""

TOPIC_CONFIGS: dict[str, Definition] = {
    d.name: d
    for d in (
        Definition("cleanup.policy", LIST, "delete", "delete: old segments are deleted. compact: the latest record per key is kept. delete,compact: both. An empty list, which only Kafka's tools can set, keeps every record.",
                   "log.cleanup.policy", choices=("delete", "compact")),
        Definition("compression.gzip.level", INT, "-1", "Level for compression.type gzip, 1 (fast) to 9 (small). -1: the library's default. Batches that are gzip already are not compressed again.",
                   "compression.gzip.level", -1, 9),
        Definition("compression.lz4.level", INT, "9", "Level for compression.type lz4, 1 to 17. 9, the default: the fast compressor, as in Kafka. Any other level: the slower one of high compression; above 12 as 12.",
                   "compression.lz4.level", 1, 17),
        Definition("compression.type", STRING, "producer", "producer: batches keep the producer's compression. A codec: the broker recompresses batches, which costs CPU time.",
                   "compression.type", choices=("producer", *_CODECS)),
        Definition("compression.zstd.level", INT, "3", "Level for compression.type zstd, -131072 (fast) to 22 (small).",
                   "compression.zstd.level", -131_072, 22),
        Definition("delete.retention.ms", LONG, str(_DAY), "How long a tombstone stays readable after its first compaction.",
                   "log.cleaner.delete.retention.ms", 0),
        Definition("file.delete.delay.ms", LONG, "60000", "No effect: open files stay readable after they are deleted.",
                   "log.segment.delete.delay.ms", 0, acts=False),
        Definition("errors.deadletterqueue.group.enable", BOOLEAN, "false", "Whether share groups may write dead letters to this topic (KIP-1191). The administrator of the topic decides this, because the brokers write without an ACL of the clients."),
        Definition("flush.messages", LONG, str(LONG_MAX), "Maximum number of unflushed records. A power failure loses fewer acknowledged records than this. 1: acknowledgements wait for the flush.",
                   "log.flush.interval.messages", 1),
        Definition("flush.ms", LONG, str(LONG_MAX), "Maximum time in milliseconds that a record stays unflushed. 0: acknowledgements wait for the flush.", "log.flush.interval.ms", 0),
        Definition("follower.replication.throttled.replicas", LIST, "", "Replicas throttled on the follower: partition:broker pairs, or *."),
        Definition("index.interval.bytes", INT, "4096", "Bytes of log between two index entries.", "log.index.interval.bytes", 0),
        Definition("leader.replication.throttled.replicas", LIST, "", "Replicas throttled on the leader: partition:broker pairs, or *."),
        Definition("local.retention.bytes", LONG, "-2", "With remote.storage.enable: bytes of a partition that stay on the brokers after they are copied to the remote store. -2: as retention.bytes. -1: unlimited.",
                   "log.local.retention.bytes", -2),
        Definition("local.retention.ms", LONG, "-2", "With remote.storage.enable: milliseconds that records stay on the brokers after they are copied to the remote store. -2: as retention.ms. -1: unlimited.",
                   "log.local.retention.ms", -2),
        Definition("max.compaction.lag.ms", LONG, str(LONG_MAX), "Maximum time that a record stays uncompacted.",
                   "log.cleaner.max.compaction.lag.ms", 1),
        Definition("max.message.bytes", INT, "1048588", "Maximum size of a record batch in bytes, after compression.", "message.max.bytes", 0),
        Definition("message.timestamp.after.max.ms", LONG, str(LONG_MAX), "Maximum time by which a record timestamp may be ahead of the broker's clock.",
                   "log.message.timestamp.after.max.ms", 0),
        Definition("message.timestamp.before.max.ms", LONG, str(LONG_MAX), "Maximum time by which a record timestamp may be behind the broker's clock.",
                   "log.message.timestamp.before.max.ms", 0),
        Definition("message.timestamp.type", STRING, "CreateTime", "CreateTime: timestamps of the producer. LogAppendTime: timestamps of the broker.",
                   "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")),
        Definition("min.cleanable.dirty.ratio", DOUBLE, "0.5", "Ratio of uncompacted bytes to all bytes at which compaction starts.",
                   "log.cleaner.min.cleanable.ratio", 0, high=1),
        Definition("min.compaction.lag.ms", LONG, "0", "Minimum time that a record stays uncompacted.",
                   "log.cleaner.min.compaction.lag.ms", 0),
        Definition("min.insync.replicas", INT, "1", "Minimum number of in-sync replicas for a write with acks=all.",
                   "min.insync.replicas", 1),
        Definition("preallocate", BOOLEAN, "false", "No effect: common file systems allocate blocks when data is written.", "log.preallocate",
                   acts=False),
        Definition("remote.log.copy.disable", BOOLEAN, "false", "With remote.storage.enable: true stops the copy of further segments. Copied segments stay readable."),
        Definition("remote.log.delete.on.disable", BOOLEAN, "false", "When remote.storage.enable becomes false: true deletes the remote segments. Required to disable tiered storage."),
        Definition("remote.storage.enable", BOOLEAN, "false", "Tiered storage: copy closed segments to the remote store of the brokers (remote.log.storage.url) and read older records from there."),
        Definition("retention.bytes", LONG, "-1", "Maximum size of a partition in bytes. -1: unlimited.", "log.retention.bytes", -1),
        Definition("retention.ms", LONG, str(7 * _DAY), "Milliseconds that records are kept. -1: unlimited.", "log.retention.ms",
                   -1),
        Definition("segment.bytes", INT, str(1 << 30), "Maximum size of a segment file.", "log.segment.bytes", 14),
        Definition("segment.index.bytes", INT, str(10 << 20), "Maximum size of an offset index. The segment is rolled when it is reached.",
                   "log.index.size.max.bytes", 4),
        Definition("segment.jitter.ms", LONG, "0", "Maximum random time that is subtracted from segment.ms, so that segments do not roll at the same time.",
                   "log.roll.jitter.ms", 0),
        Definition("segment.ms", LONG, str(7 * _DAY), "Age at which a segment is rolled.", "log.roll.ms", 1),
        Definition("unclean.leader.election.enable", BOOLEAN, "false",
                   "Elect a replica outside the ISR if no in-sync replica is available. Acknowledged records may be lost.",
                   "unclean.leader.election.enable"),
        Definition("weir.delay.enable", BOOLEAN, "false", "Delayed messages: create the front topic NAME.delay. Records written to it are delivered to this topic at the time in their headers. Kafka has no such config."),
        Definition("weir.delay.topic", STRING, "", "Read-only: the topic to which the records of this front topic are delivered. Empty: no front topic."),
        Definition("weir.half.enable", BOOLEAN, "false", "Half messages: create the front topic NAME.half. A record written to it is delivered to this topic when a later record commits it. Kafka has no such config."),
        Definition("weir.half.source", STRING, "", "Read-only: the topic whose half messages this topic has: those that are checked (NAME.half.check), or those that expired (NAME.half.expired)."),
        Definition("weir.half.topic", STRING, "", "Read-only: the topic to which the half messages of this front topic are delivered. Empty: no front topic."),
        Definition("weir.index.header", STRING, "", "With weir.index.keys: the name of a record header whose values are indexed like keys. Empty: none."),
        Definition("weir.index.keys", BOOLEAN, "false", "Build an index of the record keys of each segment, for look-ups by key. Kafka has no such config."),
        Definition("weir.majority.acks.enable", BOOLEAN, "false", "With acks=all, acknowledge a record when a majority of the replicas has it, so that one slow replica delays no producer. Set when the topic is created; needs at least 3 replicas. Kafka has no such config."),
        Definition("weir.retry.enable", BOOLEAN, "false", "Retries of consumers: create NAME.retry, whose delayed messages are the records to process again, and NAME.dead. Kafka has no such config."),
        Definition("weir.retry.source", STRING, "", "Read-only: the topic whose records this topic has for another attempt (NAME.retry), or after the last one (NAME.dead)."),
    )
}  # fmt: skip

DELAY_ENABLE, DELAY_TOPIC = "weir.delay.enable", "weir.delay.topic"
HALF_ENABLE, HALF_TOPIC, HALF_SOURCE = "weir.half.enable", "weir.half.topic", "weir.half.source"
GROUP_DEAD_LETTERS = "errors.deadletterqueue.group.enable"
RETRY_ENABLE, RETRY_SOURCE = "weir.retry.enable", "weir.retry.source"

UNIT_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.ms": (("log.roll.hours", 3_600_000),),
    "segment.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
"""Kafka's broker settings for the same config in other units. The finer unit has precedence."""

BROKER_SYNONYMS = {d.broker_synonym: d.name for d in TOPIC_CONFIGS.values() if d.broker_synonym} | {
    synonym: name for name, others in UNIT_SYNONYMS.items() for synonym, _ in others
}


def broker_value(definition: Definition, broker_defaults: Mapping[str, str]) -> str | None:
    """The default of a topic config from the broker settings, in the unit of the topic config. None if it is not set."""
    if definition.broker_synonym is not None and definition.broker_synonym in broker_defaults:
        return broker_defaults[definition.broker_synonym]
    for synonym, unit in UNIT_SYNONYMS.get(definition.name, ()):
        if synonym in broker_defaults:
            value = int(broker_defaults[synonym])
            return str(value * unit if value >= 0 else value)
    return None


ALL_BROKERS = -1
"""Broker id of the cluster-wide settings in the metadata log. Kafka uses an empty broker name."""
CONTROLLER_DEFAULTS = ("min.insync.replicas",)
"""Topic configs that the controller uses and whose default may be a dynamic cluster-wide setting."""


def controller_defaults(broker_configs: Mapping[int, tuple[int, Mapping[str, str]]]) -> dict[str, str]:
    """The topic defaults that the controller uses: those in the metadata log. Settings files of brokers do not apply to the controller."""
    _, given = broker_configs.get(ALL_BROKERS, (0, {}))
    return {name: given[name] for name in CONTROLLER_DEFAULTS if name in given}


_NUMBER: dict[int, Callable[[str], float]] = {INT: int, LONG: int, DOUBLE: float}
_HIGH = {INT: INT_MAX, LONG: LONG_MAX}
_THROTTLED = re.compile(r"\*|\d+:\d+")
VALUE_CHARACTERS_MAX = 8_192
"""Maximum length of one value. All configs of a topic are stored in one record, which must fit into an entry of the metadata log."""
NUMBER_CHARACTERS_MAX = 40


def topic_config_problem(name: str, value: str | None) -> str | None:
    """Return the reason why `name=value` is invalid for a topic, or None. The client receives the text."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"{name} requires a value; delete the config to use the default {definition.default_text!r}"
    if len(value) > VALUE_CHARACTERS_MAX:
        return f"{name} has {len(value)} characters, more than the maximum {VALUE_CHARACTERS_MAX}"
    if definition.kafka_type in _NUMBER:
        return _number_problem(definition, value)
    if definition.kafka_type == BOOLEAN:
        if value.lower() not in ("true", "false"):
            return f"{name}={value!r} is invalid: expected true or false"
    elif name.endswith(".replication.throttled.replicas"):
        wrong = [v for v in _list(value) if not _THROTTLED.fullmatch(v)]
        if wrong:
            return f"{name}={value!r} is invalid: expected * or partition:broker,partition:broker,..."
    elif definition.choices is not None:
        listed = _list(value) if definition.kafka_type == LIST else [value]
        empty = (
            definition.kafka_type == LIST and not value.strip()
        )  # Kafka 4.2 (KIP-1161): neither delete nor compact, so all records are kept
        if not (listed or empty) or any(v not in definition.choices for v in listed):
            return f"{name}={value!r} is invalid: expected {', '.join(definition.choices)}"
    return None


def _number_problem(definition: Definition, value: str) -> str | None:
    name = definition.name
    try:
        if len(value) > NUMBER_CHARACTERS_MAX or "_" in value or not value.isascii():
            raise ValueError  # Python accepts these spellings, Kafka's tools do not
        number = _NUMBER[definition.kafka_type](value)
    except ValueError:
        return f"{name}={value!r} is not a number"
    if definition.low is not None and not number >= definition.low:
        return f"{name}={value} is below the minimum {definition.low:g}"
    high = definition.high if definition.high is not None else _HIGH.get(definition.kafka_type, number)
    if number > high:
        return f"{name}={value} is above the maximum {high}"
    if name == "compression.gzip.level" and number == 0:
        return f"{name}=0 is invalid: expected -1 or 1 to 9"  # level 0 of the format stores without compression
    return None


def contradiction(configs: Mapping[str, str]) -> str | None:
    """Return the reason why valid topic configs contradict each other, or None."""
    topic = TopicConfig.from_overrides({k: v for k, v in configs.items() if k in TOPIC_CONFIGS})
    if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        return "min.compaction.lag.ms is larger than max.compaction.lag.ms"
    return majority_contradiction(configs) or (_tier_contradiction(topic) if topic.remote_storage else None)


def transition_problem(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Return the reason why the configs of a topic may not change from `before` to `after`, or None."""
    if (problem := majority_transition_problem(before, after)) is not None:
        return problem
    name, delete = "remote.storage.enable", "remote.log.delete.on.disable"
    disabled = before.get(name, "false").lower() == "true" and after.get(name, "false").lower() != "true"
    if disabled and after.get(delete, "false").lower() != "true":
        return f"{name} can be disabled only with {delete}=true, which deletes the remote segments; {name}=true with remote.log.copy.disable=true keeps them"
    return None


def _tier_contradiction(topic: TopicConfig) -> str | None:
    """Kafka's rules for a topic with tiered storage."""
    if topic.compacts:
        return "remote.storage.enable=true requires cleanup.policy=delete: compacted segments cannot be copied to the remote store"
    for name, local, total in (
        ("ms", topic.local_retention_ms, topic.retention_ms),
        ("bytes", topic.local_retention_bytes, topic.retention_bytes),
    ):
        if total >= 0 and (local > total or local == -1):
            return f"local.retention.{name}={local} is larger than retention.{name}={total}: use -2 for the same value"
        if topic.remote_copy_disabled and local not in (-2, total):
            return f"remote.log.copy.disable=true requires local.retention.{name}=-2 or the value of retention.{name}"
    return None


def _list(value: str) -> list[str]:
    return [v.strip() for v in value.split(",") if v.strip()]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Typed configs of a topic: bytes, milliseconds, counts."""

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
    """Codec number in a batch's attributes. None: keep the producer's compression."""
    compression_level: int | None = None
    """Level of that codec. None: the default of its library."""
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = LONG_MAX
    index_keys: bool = False
    index_header: str = ""
    """Name of the record header whose values are indexed too. Empty: none."""
    delay_topic: str = ""
    """Front topics of delayed messages: the topic to which the records are delivered."""
    half_topic: str = ""
    """Front topics of half messages: the topic to which the records are delivered."""
    takes_dead_letters: bool = False
    """Share groups may write dead letters to the topic."""
    remote_storage: bool = False
    """Closed segments are copied to the remote store (KIP-405)."""
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    """Configured value. -2: the value for both tiers."""
    remote_copy_disabled: bool = False
    remote_delete_on_disable: bool = False
    compacts: bool = field(init=False)
    bounds_timestamps: bool = field(init=False)
    """Records whose timestamps are too far from the clock are rejected. Computed once, because it is read for each batch."""

    def __post_init__(self) -> None:
        bounded = self.timestamp_before_max_ms != LONG_MAX or self.timestamp_after_max_ms != LONG_MAX
        object.__setattr__(self, "compacts", "compact" in self.cleanup_policy)
        object.__setattr__(self, "bounds_timestamps", bounded and self.message_timestamp_type == "CreateTime")

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def retention_deletes(self) -> bool:
        """True if retention by time or size can ever delete a record of the log. For a tiered topic True, because copied segments are deleted."""
        return self.remote_storage or (self.deletes and max(self.retention_ms, self.retention_bytes) >= 0)

    @property
    def local(self) -> TopicConfig:
        """The configs with the retention of the local log of a tiered topic."""
        return replace(
            self,
            retention_ms=self.retention_ms if self.local_retention_ms == -2 else self.local_retention_ms,
            retention_bytes=self.retention_bytes if self.local_retention_bytes == -2 else self.local_retention_bytes,
        )

    @property
    def unflushed_max(self) -> int:
        """Maximum number of acknowledged records that are not flushed (decision 015)."""
        return 0 if self.flush_ms == 0 else self.flush_messages - 1

    @staticmethod
    def from_overrides(overrides: Mapping[str, str], broker_defaults: Mapping[str, str] | None = None) -> TopicConfig:
        """Precedence: overrides of the topic, broker defaults (under their synonyms), defaults of the table.

        Equal configs return the same object: thousands of topics have few different configs.
        """
        return _resolve(tuple(overrides.items()), tuple((broker_defaults or {}).items()))

    def size_problem(self, size: int) -> str | None:
        """Return the reason why a batch of `size` bytes is too large for this topic, or None."""
        if size > self.max_message_bytes:
            return f"batch of {size} bytes is too large: max.message.bytes is {self.max_message_bytes}"
        return None


@lru_cache(maxsize=1024)
def _resolve(topic_values: tuple[tuple[str, str], ...], broker: tuple[tuple[str, str], ...]) -> TopicConfig:
    overrides, broker_defaults = dict(topic_values), dict(broker)

    def text(name: str) -> str:
        d = TOPIC_CONFIGS[name]
        if name in overrides:
            return overrides[name]
        if broker_defaults:
            value = broker_value(d, broker_defaults)
            if value is not None:
                return value
        return d.default_text

    codec, delay_topic, half_topic = text("compression.type"), text(DELAY_TOPIC), text(HALF_TOPIC)
    is_front = bool(delay_topic or half_topic)
    level = f"compression.{codec}.level"
    levelled = level in TOPIC_CONFIGS and int(text(level)) != int(TOPIC_CONFIGS[level].default_text)
    return TopicConfig(
        # Only a delivery removes records of a front topic. Its relative delays and its checks count from the append time.
        cleanup_policy=frozenset(() if is_front else _list(text("cleanup.policy"))),
        retention_ms=int(text("retention.ms")),
        retention_bytes=int(text("retention.bytes")),
        segment_bytes=int(text("segment.bytes")),
        segment_ms=int(text("segment.ms")),
        index_interval_bytes=int(text("index.interval.bytes")),
        max_message_bytes=int(text("max.message.bytes")),
        message_timestamp_type="LogAppendTime" if is_front else text("message.timestamp.type"),
        min_insync_replicas=int(text("min.insync.replicas")),
        unclean_leader_election=text("unclean.leader.election.enable").lower() == "true",
        delete_retention_ms=int(text("delete.retention.ms")),
        segment_jitter_ms=int(text("segment.jitter.ms")),
        segment_index_bytes=int(text("segment.index.bytes")),
        compression=_CODECS.index(codec) if codec in _CODECS else None,
        compression_level=int(text(level)) if levelled else None,
        flush_messages=int(text("flush.messages")),
        flush_ms=int(text("flush.ms")),
        min_cleanable_ratio=float(text("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
        max_compaction_lag_ms=int(text("max.compaction.lag.ms")),
        timestamp_before_max_ms=int(text("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(text("message.timestamp.after.max.ms")),
        index_keys=text("weir.index.keys").lower() == "true",
        index_header=text("weir.index.header"),
        delay_topic=delay_topic,
        half_topic=half_topic,
        takes_dead_letters=text(GROUP_DEAD_LETTERS).lower() == "true",
        remote_storage=text("remote.storage.enable").lower() == "true",
        local_retention_ms=int(text("local.retention.ms")),
        local_retention_bytes=int(text("local.retention.bytes")),
        remote_copy_disabled=text("remote.log.copy.disable").lower() == "true",
        remote_delete_on_disable=text("remote.log.delete.on.disable").lower() == "true",
    )


def delay_topic_name(name: str) -> str:
    """The name of the front topic for delayed messages of topic `name`."""
    return f"{name}.delay"


def half_topic_name(name: str) -> str:
    """The name of the front topic for half messages of topic `name`."""
    return f"{name}.half"


def check_topic_name(front: str) -> str:
    """The name of the topic with the checks for the producers of a front topic of half messages."""
    return f"{front}.check"


def expired_topic_name(front: str) -> str:
    """The name of the topic for the expired half messages of a front topic."""
    return f"{front}.expired"


def retry_topic_name(name: str) -> str:
    """The name of the topic for records of topic `name` that consumers process again."""
    return f"{name}.retry"


def dead_topic_name(name: str) -> str:
    """The name of the topic for records of topic `name` that consumers could not process."""
    return f"{name}.dead"


def front_target(configs: Mapping[str, str]) -> str:
    """The topic to which a front topic with these configs delivers. Empty if the topic is not a front topic."""
    return configs.get(DELAY_TOPIC, "") or configs.get(HALF_TOPIC, "")


LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttled_replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """(partition, broker) pairs of a list of throttled replicas. None: all replicas."""
    pairs = set()
    for item in _list(text):
        if item == "*":
            return None
        partition, _, broker = item.partition(":")
        pairs.add((int(partition), int(broker)))
    return frozenset(pairs)
