"""Which problems the observed facts contain: thresholds, many groups at once, unknown values."""

from __future__ import annotations

from controlplane.domain.alert import alerts
from controlplane.domain.alert_cases import GROUPS_MAX
from controlplane.domain.alert_types import BrokerFacts, Facts, GroupFacts
from controlplane.domain.lag import LagStatus


def test_many_groups_at_once_are_one_alert() -> None:
    many = tuple(
        GroupFacts(f"g{i}", LagStatus.STOPPED, "a-0", 5, 10, retention_in_s=900.0 + i) for i in range(GROUPS_MAX)
    )
    few = alerts(Facts(groups=many))
    assert len(few) == 2 * GROUPS_MAX and ("group_stopped", "g7") in {(a.kind, a.subject) for a in few}
    crowd = Facts(groups=many, group_counts={LagStatus.STOPPED: 400}, retention_count=300)
    assert [(a.kind, a.subject, a.severity) for a in alerts(crowd)] == [
        ("group_retention", "", "at_risk"),
        ("group_stopped", "", "degraded"),
    ]
    first, second = alerts(crowd)
    assert second.text == "400 groups (g0, g1, g2 and 397 more) have stopped: no members and no commits."
    assert (
        first.text.startswith("In 15 min and later")
        and "that 300 groups (g0, g1, g2 and 297 more) have not" in first.text
    )


def test_retention_warns_two_hours_ahead_and_is_critical_half_an_hour_before() -> None:
    def severities(in_s: float, at_most: bool = False) -> list[tuple[str, str]]:
        g = GroupFacts(
            "g", LagStatus.STOPPED, retention_partition="a-0", retention_in_s=in_s, retention_at_most=at_most
        )
        return [(a.severity, a.text) for a in alerts(Facts(groups=(g,))) if a.kind == "group_retention"]

    assert severities(7_201) == []
    assert [s for s, _ in severities(7_200)] == ["degraded"]
    assert [s for s, _ in severities(1_800)] == ["at_risk"]
    assert "Within 30 min" in severities(1_800, at_most=True)[0][1]


def test_a_dead_broker_is_one_alert_without_one_per_replica() -> None:
    lacks = Facts(brokers=(BrokerFacts(1, False, None, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in alerts(lacks)] == ["broker_down"]
    alive = Facts(brokers=(BrokerFacts(1, True, True, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in alerts(alive)] == ["partitions_under_replicated"]


def test_an_unknown_value_is_no_alert() -> None:
    assert alerts(Facts()) == []
    assert alerts(Facts(brokers=(BrokerFacts(1, True, None, 9, None, None),))) == []
