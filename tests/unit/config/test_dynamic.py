"""Dynamic broker settings: precedence, rejected changes, effect."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.requests import AlterConfigOp, OpType
from brokerd.config import dynamic
from brokerd.config.broker import BY_NAME, BrokerConfig
from brokerd.config.dynamic import CLUSTER_WIDE, FIXED
from brokerd.net.admission import Admission, AdmissionRejection
from tests.unit.settings_page import PAGE, render


def config(**file: str) -> BrokerConfig:
    given = {"broker.id": "1", "log.dirs": "/tmp/x", **{k.replace("_", "."): v for k, v in file.items()}}
    return BrokerConfig.parse(given, BROKER_SYNONYMS.__contains__)


def change(name: str, value: str | None, op: str = "set") -> AlterConfigOp:
    return AlterConfigOp(name, OpType(op), value)


def test_the_page_matches_the_tables() -> None:
    assert PAGE.read_text() == render(), "generate the page again: python -m tests.unit.settings_page"


def test_a_broker_setting_overrides_the_cluster_wide_setting_which_overrides_the_file() -> None:
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


def test_cluster_wide_topic_defaults_override_the_file() -> None:
    it = config(log_retention_ms="5", log_retention_hours="1")
    it.follow({CLUSTER_WIDE: (1, {"log.retention.ms": "9", "log.segment.bytes": "100"})})
    assert it.defaults_in_force == {"log.retention.ms": "9", "log.retention.hours": "1", "log.segment.bytes": "100"}


def test_equal_settings_change_nothing() -> None:
    it = config()
    settings = {CLUSTER_WIDE: (1, {"num.partitions": "5"})}
    assert it.follow(settings)
    assert it.follow({CLUSTER_WIDE: (2, {"num.partitions": "5"})}) == set()


def test_invalid_dynamic_settings_are_ignored_and_the_others_apply(caplog: pytest.LogCaptureFixture) -> None:
    it = config()
    it.follow({1: (1, {"num.partitions": "none", "max.connections": "7", "from.the.future": "1", "broker.id": "9"})})
    assert (it["num.partitions"], it["max.connections"], it.broker_id) == (1, 7, 1)
    assert len([r for r in caplog.records if "dynamic setting ignored" in r.message]) == 3


def test_an_invalid_secret_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    config().follow({1: (1, {"sasl.jaas.config": "hush", "from.the.future": "hush"})})
    assert "dynamic setting ignored" in caplog.text and "hush" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "broker_id", "message"),
    [
        ("num.partitions", "0", 1, "below the minimum 1"),
        ("num.partitions", "x", 1, "Invalid value x"),
        ("log.dirs", "/x", 1, "read at startup"),
        ("group.max.size", "5", 1, "change the settings file and restart the broker"),
        ("sasl.jaas.config", "secret", 1, "change the settings file"),
        ("no.such", "1", 1, "Unknown broker config name: no.such"),
        ("ssl.keystore.location", "/x", CLUSTER_WIDE, "each broker has its own files"),
        ("log.retention.ms", "5", 1, "set it cluster-wide"),
        ("log.retention.ms", "x", CLUSTER_WIDE, "is not a number"),
        ("log.retention.hours", "1", CLUSTER_WIDE, "set log.retention.ms"),
        ("min.insync.replicas", "2", 1, "set it cluster-wide"),
        ("unclean.leader.election.enable", "true", CLUSTER_WIDE, "on topics only"),
    ],
)
def test_an_invalid_change_is_rejected_with_the_reason(name: str, value: str, broker_id: int, message: str) -> None:
    _, problem = dynamic.apply_operations(BY_NAME, {}, [change(name, value)], broker_id)
    assert problem is not None
    assert message in problem
    assert "secret" not in problem


def test_operations_are_applied_in_order() -> None:
    before = {"num.partitions": "2", "max.connections": "9"}
    operations = [
        change("num.partitions", None, "delete"),
        change("max.connections", "10"),
        change("log.cleanup.policy", "compact", "append"),
    ]
    after, problem = dynamic.apply_operations(BY_NAME, before, operations, CLUSTER_WIDE)
    assert (after, problem) == ({"max.connections": "10", "log.cleanup.policy": "delete,compact"}, None)
    assert dynamic.apply_operations(BY_NAME, {}, [change("num.partitions", "1", "append")], 1)[1]
    assert dynamic.apply_operations(BY_NAME, {}, [change("num.partitions", None)], 1)[1]


def test_contradictory_settings_are_rejected() -> None:
    operations = [change("log.cleaner.min.compaction.lag.ms", "9"), change("log.cleaner.max.compaction.lag.ms", "5")]
    assert dynamic.apply_operations(BY_NAME, {}, operations, CLUSTER_WIDE)[1]


def test_reasons_belong_to_existing_static_settings() -> None:
    assert [n for n in FIXED if n not in BY_NAME or BY_NAME[n].live] == []


def test_every_shown_default_can_be_parsed() -> None:
    for setting in BY_NAME.values():
        shown = setting.show(setting.default)
        if shown is not None and setting.default != ():
            assert setting.parse(shown) == setting.default, setting.name


def test_new_connection_limits_apply_to_new_connections() -> None:
    admission = Admission(2, 10, {}, 2**31)
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) is not None
    admission.limit(4, 3, {"b": 0}, 1)
    assert admission.problem("a", 0) is None
    assert admission.problem("a", 0) == AdmissionRejection("max.connections.per.ip (3) reached")
    assert admission.problem("b", 0) == AdmissionRejection("max.connections.per.ip (0) reached")
    assert [admission.delay_ms(1_000), admission.delay_ms(1_000)] == [0, 1_000]
