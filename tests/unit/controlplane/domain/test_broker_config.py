"""Units of broker settings, and the comparison of two brokers."""

from __future__ import annotations

import pytest

from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig, compare_configs, unit_of


def config(name: str, value: str | None, source: str = "default", *, sensitive: bool = False) -> ReportedConfig:
    return ReportedConfig(name, value, BrokerConfigSource(source), "1", False, sensitive, "doc")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("log.retention.ms", "ms"),
        ("log.retention.hours", "h"),
        ("offsets.retention.minutes", "min"),
        ("log.segment.bytes", "bytes"),
        ("leader.replication.throttled.rate", "bytes/s"),
        ("num.partitions", ""),
    ],
)
def test_the_name_has_the_unit(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_values_of_two_brokers_are_compared_and_sensitive_ones_by_source_only() -> None:
    mine = [config("a", "1"), config("b", "1"), config("only.mine", "1"), config("key", None, "file", sensitive=True)]
    other = [config("a", "1"), config("b", "2", "file"), config("key", None, "default", sensitive=True)]
    rows = compare_configs({c.name: c for c in mine}, {c.name: c for c in other})
    assert [(r.name, r.value, r.other_value, r.differs) for r in rows] == [
        ("a", "1", "1", False),
        ("b", "1", "2", True),
        ("key", None, None, True),
        ("only.mine", "1", None, True),
    ]
    assert rows[2].default is None and rows[2].sensitive
    assert [r.differs for r in compare_configs({c.name: c for c in mine}, None)] == [False] * 4


def test_a_setting_that_only_the_other_broker_has_cannot_be_edited_here() -> None:
    (row,) = compare_configs({}, {"x": config("x", "1")})
    assert (row.value, row.source, row.other_value, row.editable, row.differs) == (None, "unknown", "1", False, True)
