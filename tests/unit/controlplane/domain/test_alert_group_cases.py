"""Problems of consumer groups: many groups at the same time, and records that retention will delete."""

from __future__ import annotations

import pytest

from controlplane.domain.alert import alerts
from controlplane.domain.alert_thresholds import RULES, ThresholdName
from controlplane.domain.alert_types import AlertFacts, GroupFacts
from controlplane.domain.lag import LagStatus

GROUPS_MAX = int(RULES[ThresholdName.GROUP_ALERTS_MAX].default)


def test_many_groups_at_once_are_one_alert() -> None:
    many = tuple(
        GroupFacts(f"g{i}", LagStatus.STOPPED, "a-0", 5, 10, retention_in_s=900.0 + i) for i in range(GROUPS_MAX)
    )
    few = alerts(AlertFacts(groups=many))
    assert len(few) == 2 * GROUPS_MAX and ("group_stopped", "g7") in {(a.kind, a.subject) for a in few}
    crowd = AlertFacts(groups=many, group_counts={LagStatus.STOPPED: 400}, retention_count=300)
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
        return [(a.severity, a.text) for a in alerts(AlertFacts(groups=(g,))) if a.kind == "group_retention"]

    assert severities(7_201) == []
    assert [s for s, _ in severities(7_200)] == ["degraded"]
    assert [s for s, _ in severities(1_800)] == ["at_risk"]
    assert "Within 30 min" in severities(1_800, at_most=True)[0][1]


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (GroupFacts("g", LagStatus.STOPPED, lag_records=1), "no members and no commits; lag 1 record."),
        (GroupFacts("g", LagStatus.STOPPED, lag_records=1, lag_ms=5_000), "; lag 1 record (unread for 5 s)."),
        (
            GroupFacts("g", LagStatus.STALLED, lag_records=1, lag_ms=5_000, lag_at_least=True),
            "; lag 1 record (unread for more than 5 s).",
        ),
        (GroupFacts("g", LagStatus.STOPPED, lag_records=21, lag_ms=5_000), "; lag 21 records (oldest unread: 5 s)."),
        (
            GroupFacts("g", LagStatus.DATA_LOST, lag_records=0, lost_records=1),
            "Group g lost data: retention deleted 1 record before it was consumed; lag 0 records.",
        ),
        (
            GroupFacts("g", LagStatus.DATA_LOST, worst="orders-2", lost_records=1_200),
            "retention deleted 1,200 records before they were consumed (most behind: orders-2).",
        ),
        (GroupFacts("g", LagStatus.DATA_LOST), "retention deleted records before they were consumed."),
    ],
)
def test_one_record_is_singular(group: GroupFacts, text: str) -> None:
    (found,) = alerts(AlertFacts(groups=(group,)))
    assert found.text.endswith(text)


def test_the_stored_form_does_not_change_with_each_record() -> None:
    """A stored alert is written again when its text or its values change."""
    first, second = (
        alerts(AlertFacts(groups=(GroupFacts("g", LagStatus.STOPPED, lag_records=n),))) for n in (12_340, 12_341)
    )
    assert first == second
