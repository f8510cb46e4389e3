"""Health checks over rows: values, first times, bounded failures."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.health import CheckName, CheckState
from controlplane.models import Broker, Cluster, ConsumerGroup, HealthFailure, HealthResult, ObservedPartition
from controlplane.selectors.health import failure_list, health_report, score_list
from controlplane.services import health
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def states() -> dict[str, str]:
    return {c.name: c.state for c in health_report().checks}


def failed_checks() -> set[str]:
    return {name for name, state in states().items() if state == CheckState.FAILED}


def group(name: str, status: str, **values: object) -> None:
    ConsumerGroup.objects.create(group_id=name, state="Stable", status=status, observed_at=timezone.now(), **values)


def test_nothing_is_known_before_the_first_check(db: None) -> None:
    report = health_report()
    assert (report.score, report.checked_at) == (None, None)
    assert {c.state for c in report.checks} == {CheckState.UNKNOWN}


def test_a_good_cluster_has_100(world: World) -> None:
    world.topic("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2), configs={"min.insync.replicas": "2"})
    Broker.objects.update(answered=True, total_bytes=1000, free_bytes=500)
    group("billing", "healthy")
    health.evaluate()
    assert failed_checks() == set() and health_report().score == 100
    assert CheckState.UNKNOWN not in states().values()


def test_each_problem_fails_its_check(world: World) -> None:
    world.topic("single", (1,))
    world.topic("strict", (1, 2), configs={"min.insync.replicas": "2"})
    world.topic("skewed", *[(1, 2)] * 8, size=20_000_000)
    ObservedPartition.objects.filter(topic__name="skewed", index=0).update(size_bytes=900_000_000)
    world.put("strict", 0, isr=(1,))
    Broker.objects.filter(pk=2).update(alive=False)
    Broker.objects.filter(pk=1).update(
        answered=False, total_bytes=1000, free_bytes=50, dirs_failed=["/a"], dirs_slow=["/b"]
    )
    Cluster.objects.update(drift=2, controller_id=None)
    group("slow", "falling_behind", retention_in_s=600, partitions_unknown=3)
    group("new", "unknown")
    health.evaluate()
    wrong = failed_checks()
    assert {
        CheckName.CONTROLLER,
        CheckName.UNDER_MIN_ISR,
        CheckName.UNDER_REPLICATED,
        CheckName.DECLARED_STATE,
        CheckName.BROKER_UP,
        CheckName.BROKER_RESPONDS,
        CheckName.LOG_DIRECTORIES,
        CheckName.DISK_FREE,
        CheckName.DISK_SPEED,
        CheckName.LEADER_BALANCE,
        CheckName.REPLICATION,
        CheckName.FAULT_TOLERANCE,
        CheckName.PARTITION_BALANCE,
        CheckName.GROUP_PROGRESS,
        CheckName.GROUP_RETENTION,
        CheckName.GROUP_LAG_KNOWN,
    } <= wrong
    assert [f.subject for f in failure_list(CheckName.REPLICATION).rows] == ["single"]
    assert [f.subject for f in failure_list(CheckName.PARTITION_BALANCE).rows] == ["skewed"]
    scores = {r.subject: r.score for r in score_list("broker").rows}
    assert scores["2"] < 100 and scores["1"] < 100
    assert 0 < (health_report().score or 0) < 80


def test_without_zookeeper_the_controller_is_unknown(world: World) -> None:
    Cluster.objects.update(zookeeper_connected=False)
    health.evaluate()
    assert states()[CheckName.CONTROLLER] == CheckState.UNKNOWN and states()[CheckName.ZOOKEEPER] == CheckState.FAILED


def test_a_failure_keeps_its_first_time_and_ends(world: World) -> None:
    world.topic("single", (1,))
    health.evaluate()
    earlier = timezone.now() - timedelta(hours=1)
    HealthFailure.objects.update(since=earlier)
    HealthResult.objects.update(since=earlier)
    health.evaluate()
    (row,) = failure_list(CheckName.REPLICATION).rows
    assert row.since == earlier
    health.evaluate(AlertThresholds({ThresholdName.HEALTH_REPLICATION: 1}))
    assert failure_list(CheckName.REPLICATION).total == 0
    result = HealthResult.objects.get(pk=CheckName.REPLICATION)
    assert result.since > earlier and HealthResult.objects.get(pk=CheckName.ZOOKEEPER).since == earlier


def test_stored_failures_are_bounded_and_all_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FAILURES_MAX", 3)
    for i in range(5):
        group(f"g{i}", "stopped")
    health.evaluate()
    assert failure_list(CheckName.GROUP_PROGRESS).total == 3
    assert HealthResult.objects.get(pk=CheckName.GROUP_PROGRESS).failed == 5
