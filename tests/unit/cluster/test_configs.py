"""Topic settings: what may be set, what wins, what a batch may not exceed."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import (
    BROKER_SYNONYMS,
    INT_MAX,
    LONG_MAX,
    TOPIC_CONFIGS,
    TopicConfig,
    contradiction,
    topic_config_problem,
)

KAFKA = """cleanup.policy compression.type delete.retention.ms file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas local.retention.bytes
local.retention.ms max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.storage.enable
retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable"""


def test_the_table_holds_kafkas_names() -> None:
    assert set(KAFKA.split()) == set(TOPIC_CONFIGS)
    assert all(d.doc and (d.acts or d.doc) for d in TOPIC_CONFIGS.values())


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS))
def test_every_default_is_possible(name: str) -> None:
    definition = TOPIC_CONFIGS[name]
    if definition.default_text or definition.choices:
        assert topic_config_problem(name, definition.default_text) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"), ("retention.ms", str(LONG_MAX)), ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", "compact"), ("compression.type", "zstd"), ("compression.type", "uncompressed"),
        ("min.cleanable.dirty.ratio", "0.25"), ("preallocate", "TRUE"), ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"), ("leader.replication.throttled.replicas", ""),
    ],
)  # fmt: skip
def test_what_kafka_takes_is_taken(name: str, value: str) -> None:
    assert topic_config_problem(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("no.such", "1", "Unknown topic config"), ("retention.ms", "-2", "below"), ("retention.ms", "a week", "not a number"),
        ("retention.ms", str(LONG_MAX + 1), "above"), ("segment.bytes", str(INT_MAX + 1), "above"),
        ("segment.bytes", "13", "below"), ("cleanup.policy", "shrink", "choose from"), ("cleanup.policy", "", "choose from"),
        ("min.cleanable.dirty.ratio", "1.5", "above"), ("min.cleanable.dirty.ratio", "nan", "below"),
        ("unclean.leader.election.enable", "maybe", "neither true nor false"), ("min.insync.replicas", "0", "below"),
        ("leader.replication.throttled.replicas", "1-2", "partition:broker"), ("segment.ms", None, "needs a value"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_reason(name: str, value: str | None, told: str) -> None:
    problem = topic_config_problem(name, value)
    assert problem is not None and told in problem


def test_a_topics_own_value_wins_over_the_brokers_over_the_table() -> None:
    broker = {"log.retention.ms": "7000", "log.segment.bytes": "5000", "min.insync.replicas": "2"}
    config = TopicConfig.from_overrides({"segment.bytes": "900"}, broker)
    assert (config.retention_ms, config.segment_bytes, config.min_insync_replicas) == (7_000, 900, 2)
    assert TopicConfig.from_overrides({}).retention_ms == 604_800_000


def test_kafkas_older_names_count_in_their_own_units_and_the_finer_one_wins() -> None:
    assert TopicConfig.from_overrides({}, {"log.retention.hours": "2"}).retention_ms == 7_200_000
    assert (
        TopicConfig.from_overrides({}, {"log.retention.hours": "2", "log.retention.minutes": "3"}).retention_ms
        == 180_000
    )
    assert TopicConfig.from_overrides({}, {"log.retention.hours": "2", "log.retention.ms": "5"}).retention_ms == 5
    assert TopicConfig.from_overrides({}, {"log.retention.hours": "-1"}).retention_ms == -1
    assert BROKER_SYNONYMS["log.retention.hours"] == "retention.ms"


def test_policies_and_codecs_are_typed() -> None:
    both = TopicConfig.from_overrides({"cleanup.policy": "compact, delete", "compression.type": "lz4"})
    assert both.compacts and both.deletes and both.compression == 3
    assert TopicConfig.from_overrides({}).compression is None
    assert TopicConfig.from_overrides({"compression.type": "uncompressed"}).compression == 0


def test_settings_that_contradict_each_other_are_found() -> None:
    assert contradiction({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    assert contradiction({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "10"}) is None


def test_a_batch_is_held_against_its_topics_bounds() -> None:
    config = TopicConfig.from_overrides(
        {"max.message.bytes": "100", "message.timestamp.before.max.ms": "50", "message.timestamp.after.max.ms": "20"}
    )
    assert config.batch_problem(100, 1_000, 1_000) is None
    assert config.batch_problem(101, 1_000, 1_000)[0] == 10  # type: ignore[index]
    assert config.batch_problem(1, 949, 1_000)[0] == 32  # type: ignore[index]
    assert config.batch_problem(1, 1_021, 1_000)[0] == 32  # type: ignore[index]
    assert config.batch_problem(1, -1, 1_000) is None
    stamped = TopicConfig.from_overrides(
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "0"}
    )
    assert stamped.batch_problem(1, 5_000, 1_000) is None
