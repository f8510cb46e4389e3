"""Settings that change while a broker runs: whose word counts, what is refused, and that it takes effect."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd import dynamic
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config import BY_NAME, BrokerConfig
from brokerd.dynamic import CLUSTER_WIDE, FIXED
from brokerd.net.admission import Admission, Refusal
from tests.unit.settings_page import PAGE, render


def config(**file: str) -> BrokerConfig:
    given = {"broker.id": "1", "log.dirs": "/tmp/x", **{k.replace("_", "."): v for k, v in file.items()}}
    return BrokerConfig.parse(given, BROKER_SYNONYMS.__contains__)


def change(name: str, value: str | None, op: str = "set") -> dict[str, Any]:
    return {"name": name, "op": op, "value": value}


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == render(), "write it anew: python -m tests.unit.settings_page"


def test_a_brokers_own_word_beats_the_clusters_and_that_its_files() -> None:
    it = config(num_partitions="3")
    assert it["num.partitions"] == 3
    assert it.follow({CLUSTER_WIDE: (1, {"num.partitions": "5"})}) == {"num.partitions"}
    assert it["num.partitions"] == 5
    it.follow(
        {CLUSTER_WIDE: (1, {"num.partitions": "5"}), 1: (1, {"num.partitions": "7"}), 2: (1, {"num.partitions": "9"})}
    )
    assert it["num.partitions"] == 7
    assert it.follow({1: (2, {})}) == {"num.partitions"}
    assert it["num.partitions"] == 3


def test_defaults_for_topics_are_the_clusters_over_the_files() -> None:
    it = config(log_retention_ms="5", log_retention_hours="1")
    it.follow({CLUSTER_WIDE: (1, {"log.retention.ms": "9", "log.segment.bytes": "100"})})
    assert it.defaults_in_force == {"log.retention.ms": "9", "log.retention.hours": "1", "log.segment.bytes": "100"}


def test_the_same_again_changes_nothing() -> None:
    it = config()
    settings = {CLUSTER_WIDE: (1, {"num.partitions": "5"})}
    assert it.follow(settings)
    assert it.follow({CLUSTER_WIDE: (2, {"num.partitions": "5"})}) == set()


def test_what_cannot_be_used_is_passed_over_and_the_rest_counts(caplog: pytest.LogCaptureFixture) -> None:
    it = config()
    it.follow({1: (1, {"num.partitions": "none", "max.connections": "7", "from.the.future": "1", "broker.id": "9"})})
    assert (it["num.partitions"], it["max.connections"], it.broker_id) == (1, 7, 1)
    assert len([r for r in caplog.records if "passed over" in r.message]) == 3


def test_a_secret_that_cannot_be_used_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    config().follow({1: (1, {"sasl.jaas.config": "hush", "from.the.future": "hush"})})
    assert "passed over" in caplog.text and "hush" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "broker_id", "said"),
    [
        ("num.partitions", "0", 1, "below its least value 1"),
        ("num.partitions", "x", 1, "Invalid value x"),
        ("log.dirs", "/x", 1, "read at the start"),
        ("group.max.size", "5", 1, "set it in the broker’s file and restart"),
        ("sasl.jaas.config", "secret", 1, "set it in the broker’s file"),
        ("no.such", "1", 1, "Unknown broker config name: no.such"),
        ("ssl.keystore.location", "/x", CLUSTER_WIDE, "for one broker only"),
        ("log.retention.ms", "5", 1, "set it for all brokers"),
        ("log.retention.ms", "x", CLUSTER_WIDE, "is not a number"),
        ("log.retention.hours", "1", CLUSTER_WIDE, "under its finest unit only: log.retention.ms"),
        ("min.insync.replicas", "2", CLUSTER_WIDE, "on topics only"),
        ("unclean.leader.election.enable", "true", CLUSTER_WIDE, "on topics only"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_reason(name: str, value: str, broker_id: int, said: str) -> None:
    _, problem = dynamic.altered(BY_NAME, {}, [change(name, value)], broker_id)
    assert problem is not None
    assert said in problem
    assert "secret" not in problem


def test_operations_follow_each_other() -> None:
    before = {"num.partitions": "2", "max.connections": "9"}
    operations = [
        change("num.partitions", None, "delete"), change("max.connections", "10"),
        change("log.cleanup.policy", "compact", "append"),
    ]  # fmt: skip
    after, problem = dynamic.altered(BY_NAME, before, operations, CLUSTER_WIDE)
    assert (after, problem) == ({"max.connections": "10", "log.cleanup.policy": "delete,compact"}, None)
    assert dynamic.altered(BY_NAME, {}, [change("num.partitions", "1", "append")], 1)[1]
    assert dynamic.altered(BY_NAME, {}, [change("num.partitions", None)], 1)[1]


def test_settings_that_contradict_each_other_are_refused_together() -> None:
    operations = [change("log.cleaner.min.compaction.lag.ms", "9"), change("log.cleaner.max.compaction.lag.ms", "5")]
    assert dynamic.altered(BY_NAME, {}, operations, CLUSTER_WIDE)[1]


def test_reasons_are_given_for_settings_that_exist_and_do_not_change() -> None:
    assert [n for n in FIXED if n not in BY_NAME or BY_NAME[n].live] == []


def test_every_default_reads_back_from_how_it_is_shown() -> None:
    for setting in BY_NAME.values():
        shown = setting.show(setting.default)
        if shown is not None and setting.default != ():
            assert setting.parse(shown) == setting.default, setting.name


def test_new_limits_of_connections_hold_for_who_comes_from_now_on() -> None:
    admission = Admission(2, 10, {}, 2**31)
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) is not None
    admission.limit(4, 3, {"b": 0}, 1)
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) == Refusal("max.connections.per.ip (3) reached")
    assert admission.problem("b", 0) == Refusal("max.connections.per.ip (0) reached")
    assert [admission.delay_ms(1_000), admission.delay_ms(1_000)] == [0, 1_000]
