"""Health checks as rows: the report, failures and scores."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.health import CheckName, CheckScope, object_score
from controlplane.models import AlertThreshold, HealthFailure
from controlplane.selectors.health import failure_list, health_report, object_count, rule_named, score_list
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def create_failure(name: CheckName, subject: str, minutes_ago: int = 0) -> None:
    since = timezone.now() - timedelta(minutes=minutes_ago)
    HealthFailure.objects.create(name=name, subject=subject, value=1, since=since)


def test_limits_are_the_thresholds_in_force() -> None:
    AlertThreshold.objects.create(name=ThresholdName.DISK_FREE_LOW, value=25, changed_by="root")
    (row,) = [c for c in health_report("broker").checks if c.name == CheckName.DISK_FREE]
    assert (row.limit, row.at_least, row.threshold, row.unit) == (25, True, "disk_free_low", "percent")
    assert {c.scope for c in health_report("broker").checks} == {"broker"}


def test_the_longest_failures_come_first() -> None:
    create_failure(CheckName.GROUP_PROGRESS, "new")
    create_failure(CheckName.GROUP_PROGRESS, "old", 90)
    create_failure(CheckName.REPLICATION, "topic", 500)
    assert [f.subject for f in failure_list(CheckName.GROUP_PROGRESS).rows] == ["old", "new"]
    assert [f.subject for f in failure_list(per_page=2, page=2).rows] == ["new"]


def test_objects_with_the_lowest_score_come_first(world: World) -> None:
    create_failure(CheckName.GROUP_LAG_KNOWN, "a")
    create_failure(CheckName.GROUP_PROGRESS, "b")
    create_failure(CheckName.GROUP_LAG_KNOWN, "b")
    rows = score_list("group").rows
    assert [(r.subject, r.failed) for r in rows] == [
        ("b", ["group_lag_known", "group_progress"]),
        ("a", ["group_lag_known"]),
    ]
    assert rows[1].score == object_score(CheckScope.GROUP, [CheckName.GROUP_LAG_KNOWN])
    assert (object_count("broker"), object_count("topic"), object_count("cluster")) == (3, 0, 1)
    assert score_list("topic").total == 0 and rule_named("nothing") is None
