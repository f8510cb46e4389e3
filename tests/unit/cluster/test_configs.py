"""Topic configs: valid values, precedence, maximum batch size."""

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

KAFKA = """cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas local.retention.bytes
local.retention.ms max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable
remote.log.delete.on.disable remote.storage.enable
retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable"""


def test_the_table_contains_kafkas_names() -> None:
    assert set(KAFKA.split()) == {name for name in TOPIC_CONFIGS if not name.startswith("weir.")}
    assert all(d.doc and (d.acts or d.doc) for d in TOPIC_CONFIGS.values())


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS))
def test_every_default_is_valid(name: str) -> None:
    definition = TOPIC_CONFIGS[name]
    if definition.default_text or definition.choices:
        assert topic_config_problem(name, definition.default_text) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", str(LONG_MAX)),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact"),
        ("compression.type", "zstd"),
        ("compression.type", "uncompressed"),
        ("compression.gzip.level", "-1"),
        ("compression.gzip.level", "9"),
        ("compression.lz4.level", "17"),
        ("compression.zstd.level", "-131072"),
        ("compression.zstd.level", "22"),
        ("min.cleanable.dirty.ratio", "0.25"),
        ("preallocate", "TRUE"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", ""),
    ],
)
def test_values_that_kafka_accepts_are_accepted(name: str, value: str) -> None:
    assert topic_config_problem(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such", "1", "Unknown topic config"),
        ("compression.gzip.level", "0", "expected -1 or 1 to 9"),
        ("compression.gzip.level", "10", "above the maximum 9"),
        ("compression.lz4.level", "0", "below the minimum 1"),
        ("compression.lz4.level", "18", "above the maximum 17"),
        ("compression.zstd.level", "23", "above the maximum 22"),
        ("compression.zstd.level", "fast", "not a number"),
        ("retention.ms", "-2", "below"),
        ("retention.ms", "a week", "not a number"),
        ("retention.ms", str(LONG_MAX + 1), "above"),
        ("segment.bytes", str(INT_MAX + 1), "above"),
        ("segment.bytes", "13", "below"),
        ("cleanup.policy", "shrink", "expected delete, compact"),
        ("cleanup.policy", ",", "expected delete, compact"),
        ("min.cleanable.dirty.ratio", "1.5", "above"),
        ("min.cleanable.dirty.ratio", "nan", "below"),
        ("unclean.leader.election.enable", "maybe", "expected true or false"),
        ("min.insync.replicas", "0", "below"),
        ("leader.replication.throttled.replicas", "1-2", "partition:broker"),
        ("segment.ms", None, "requires a value"),
    ],
)
def test_invalid_values_are_rejected_with_a_reason(name: str, value: str | None, message: str) -> None:
    problem = topic_config_problem(name, value)
    assert problem is not None and message in problem


def test_a_topic_config_overrides_the_broker_default_which_overrides_the_table() -> None:
    broker = {"log.retention.ms": "7000", "log.segment.bytes": "5000", "min.insync.replicas": "2"}
    config = TopicConfig.from_overrides({"segment.bytes": "900"}, broker)
    assert (config.retention_ms, config.segment_bytes, config.min_insync_replicas) == (7_000, 900, 2)
    assert TopicConfig.from_overrides({}).retention_ms == 604_800_000


def test_broker_settings_in_other_units_are_converted_and_the_finer_unit_has_precedence() -> None:
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


def test_contradictory_configs_are_found() -> None:
    assert contradiction({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    assert contradiction({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "10"}) is None


def test_the_maximum_batch_size_is_max_message_bytes() -> None:
    config = TopicConfig.from_overrides({"max.message.bytes": "100"})
    assert config.size_problem(100) is None
    assert "max.message.bytes" in (config.size_problem(101) or "")


@pytest.mark.parametrize(
    ("configs", "codec", "level"),
    [
        ({}, None, None),
        ({"compression.zstd.level": "19"}, None, None),  # the producer's compression stays
        ({"compression.type": "zstd"}, 4, None),
        ({"compression.type": "zstd", "compression.zstd.level": "19"}, 4, 19),
        ({"compression.type": "zstd", "compression.gzip.level": "1"}, 4, None),
        ({"compression.type": "gzip", "compression.gzip.level": "1"}, 1, 1),
        ({"compression.type": "lz4", "compression.lz4.level": "9"}, 3, None),  # Kafka's default is the fast compressor
        ({"compression.type": "lz4", "compression.lz4.level": "12"}, 3, 12),
        ({"compression.type": "snappy", "compression.lz4.level": "12"}, 2, None),
        ({"compression.type": "uncompressed", "compression.zstd.level": "1"}, 0, None),
    ],
)
def test_the_level_is_that_of_the_topics_codec(configs: dict[str, str], codec: int | None, level: int | None) -> None:
    topic = TopicConfig.from_overrides(configs)
    assert (topic.compression, topic.compression_level) == (codec, level)


def test_a_brokers_level_is_the_default_of_its_topics() -> None:
    own = {"compression.type": "zstd"}
    assert TopicConfig.from_overrides(own, {"compression.zstd.level": "7"}).compression_level == 7
    assert (
        TopicConfig.from_overrides(
            own | {"compression.zstd.level": "2"}, {"compression.zstd.level": "7"}
        ).compression_level
        == 2
    )


def test_key_indexes_are_off_unless_the_topic_asks_for_them() -> None:
    off, on = (
        TopicConfig.from_overrides({}),
        TopicConfig.from_overrides({"weir.index.keys": "TRUE", "weir.index.header": "id"}),
    )
    assert (off.index_keys, off.index_header) == (False, "")
    assert (on.index_keys, on.index_header) == (True, "id")
    assert topic_config_problem("weir.index.keys", "yes") is not None


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"cleanup.policy": "compact"}, "requires cleanup.policy=delete"),
        ({"local.retention.ms": "1000", "retention.ms": "500"}, "larger than retention.ms"),
        ({"local.retention.ms": "-1"}, "larger than retention.ms"),
        ({"local.retention.bytes": "1000", "retention.bytes": "500"}, "larger than retention.bytes"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "1000"}, "requires local.retention.ms"),
    ],
)
def test_a_tiered_topic_has_kafkas_rules(configs: dict[str, str], why: str) -> None:
    found = contradiction({**configs, "remote.storage.enable": "true"})
    assert found is not None and why in found
    assert contradiction(configs) is None


def test_the_local_retention_of_a_tiered_topic() -> None:
    given = {
        "remote.storage.enable": "true",
        "retention.ms": "5000",
        "local.retention.bytes": "70",
        "retention.bytes": "90",
    }
    local = TopicConfig.from_overrides(given).local
    assert (local.retention_ms, local.retention_bytes) == (5_000, 70)


@pytest.mark.parametrize(
    ("overrides", "deletes"),
    [
        ({}, True),
        ({"retention.ms": "-1"}, False),
        ({"retention.ms": "-1", "retention.bytes": "0"}, True),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": "compact,delete"}, True),
        ({"retention.ms": "-1", "remote.storage.enable": "true"}, True),
    ],
)
def test_whether_retention_can_ever_delete_a_record(overrides: dict[str, str], deletes: bool) -> None:
    assert TopicConfig.from_overrides(overrides).retention_deletes is deletes
