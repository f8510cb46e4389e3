"""Problems found in the observed values: thresholds, unknown values."""

from __future__ import annotations

from controlplane.domain.alert import alerts
from controlplane.domain.alert_cases import disk_severity
from controlplane.domain.alert_thresholds import DAY_S, RULES, AlertThresholds, ThresholdName
from controlplane.domain.alert_types import AlertFacts, BrokerFacts, DiskForecastFacts, GroupFacts
from controlplane.domain.lag import LagStatus

GROUPS_MAX = int(RULES[ThresholdName.GROUP_ALERTS_MAX].default)


def test_a_forecast_of_a_full_disk_warns_a_week_ahead_and_is_critical_two_days_before() -> None:
    def severities(median_s: float, **thresholds: float) -> list[str]:
        forecast = DiskForecastFacts(1, median_s, median_s / 2, None, 1, 2)
        values = AlertThresholds({ThresholdName(name): value for name, value in thresholds.items()})
        return [str(a.severity) for a in alerts(AlertFacts(disk_forecasts=(forecast,), thresholds=values))]

    assert severities(7 * DAY_S) == []
    assert severities(7 * DAY_S - 1) == ["degraded"] and severities(2 * DAY_S - 1) == ["at_risk"]
    assert severities(-60) == ["at_risk"], "the median has passed, and the disk may be full at any time"
    assert severities(20 * DAY_S, disk_full_ahead=30) == ["degraded"]
    assert severities(-60, disk_full_ahead=0, disk_full_grave=0) == []


def test_a_dead_broker_is_one_alert_without_one_per_replica() -> None:
    lacks = AlertFacts(brokers=(BrokerFacts(1, False, None, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in alerts(lacks)] == ["broker_down"]
    alive = AlertFacts(brokers=(BrokerFacts(1, True, True, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in alerts(alive)] == ["partitions_under_replicated"]


def test_an_unknown_value_is_no_alert() -> None:
    assert alerts(AlertFacts()) == []
    assert alerts(AlertFacts(brokers=(BrokerFacts(1, True, None, 9, None, None),))) == []


def test_a_changed_threshold_decides_about_the_alert() -> None:
    def alert_kinds(facts: AlertFacts) -> list[tuple[str, str]]:
        return [(a.kind, a.severity) for a in alerts(facts)]

    disk = (BrokerFacts(1, True, True, 9, 1000, 40),)
    assert alert_kinds(AlertFacts(brokers=disk)) == [("disk_low", "degraded")]
    strict = AlertThresholds({ThresholdName.DISK_FREE_LEAST: 5})
    assert alert_kinds(AlertFacts(brokers=disk, thresholds=strict)) == [("disk_low", "at_risk")]
    off = AlertThresholds({ThresholdName.DISK_FREE_LOW: 0, ThresholdName.DISK_FREE_LEAST: 0})
    assert alert_kinds(AlertFacts(brokers=disk, thresholds=off)) == []
    soon = (GroupFacts("g", LagStatus.HEALTHY, retention_partition="a-0", retention_in_s=9_000),)
    ahead = AlertThresholds({ThresholdName.RETENTION_AHEAD: 9_000, ThresholdName.RETENTION_GRAVE: 60})
    assert alert_kinds(AlertFacts(groups=soon)) == [] and alert_kinds(AlertFacts(groups=soon, thresholds=ahead)) == [
        ("group_retention", "degraded")
    ]
    two = tuple(GroupFacts(name, LagStatus.STOPPED) for name in "ab")
    together = AlertThresholds({ThresholdName.GROUP_ALERTS_MAX: 1})
    assert (
        len(alert_kinds(AlertFacts(groups=two))) == 2
        and len(alert_kinds(AlertFacts(groups=two, thresholds=together))) == 1
    )


def test_unknown_disk_space_has_no_severity() -> None:
    for total, free in ((None, None), (0, 0), (None, 5), (5, None)):
        assert disk_severity(total, free, AlertThresholds(), 1) is None
