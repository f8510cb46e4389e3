"""Self-healing: off by default, dry runs, limits, conditions, and the audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from brokerd.cluster.cordons import LEADERSHIP
from controlplane.domain.healing import HealingAction, HealingOutcome
from controlplane.models import Broker, Change, HealingRun, HealthResult, ReplicaDamageReport, ReplicaRecovery
from controlplane.models.job import DamageKind
from controlplane.selectors.healing import healing_action, healing_runs
from controlplane.services import Rejected, healing
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ELECT, RECOVER = HealingAction.ELECT_PREFERRED_LEADERS, HealingAction.RECOVER_DAMAGED_REPLICA


def switch(action: str, mode: str, **limits: int | None) -> None:
    given: dict[str, Any] = {"cool_down_s": None, "per_hour": None} | limits
    healing.alter_action(action, mode, actor="alice", **given)


def damage_replica(world: World, name: str = "orders", broker: int = 2, *replicas: tuple[int, ...]) -> None:
    topic_id = world.image.topic_ids.get(name) or world.topic(name, *(replicas or ((1, 2),)))
    ReplicaDamageReport.objects.create(
        topic_id=topic_id, topic_name=name, partition=0, broker_id=broker, kind=DamageKind.CORRUPT, detail="segment 0"
    )


def report_unbalanced(minutes: float = 6, name: str = "preferred_leaders") -> None:
    now = timezone.now()
    HealthResult.objects.update_or_create(
        name=name,
        defaults={
            "state": "failed",
            "since": now - timedelta(minutes=minutes),
            "checked_at": now,
            "objects_count": 1,
            "failed": 1,
            "unknown": 0,
            "value": 40,
        },
    )


def age_healing_runs(**passed: float) -> None:
    for run in HealingRun.objects.all():
        HealingRun.objects.filter(pk=run.pk).update(at=run.at - timedelta(**passed))


def test_everything_is_off_by_default(world: World) -> None:
    damage_replica(world)
    report_unbalanced()
    assert healing.heal() == [] and ReplicaRecovery.objects.count() == 0


def test_a_dry_run_records_and_does_nothing(world: World) -> None:
    damage_replica(world)
    switch(RECOVER, "dry_run")
    (run,) = healing.heal()
    assert (run.outcome, run.subject) == (HealingOutcome.DRY_RUN, "orders-0 on broker 2")
    assert ReplicaRecovery.objects.count() == 0
    assert healing.heal() == [], "the cool-down holds for dry runs, too"


def test_a_damaged_replica_is_recovered_with_an_audit_row(world: World) -> None:
    damage_replica(world)
    switch(RECOVER, "on")
    (run,) = healing.heal()
    assert run.outcome == HealingOutcome.DONE
    assert ReplicaRecovery.objects.get().actor == healing.ACTOR
    change = Change.objects.get(verb="replica.recover")
    assert change.actor == healing.ACTOR and "Self-healing" in change.comment
    age_healing_runs(hours=2)
    assert healing.heal() == [], "its recovery was requested"


def test_a_rejected_action_is_recorded_and_the_next_replica_follows(world: World) -> None:
    damage_replica(world, "alone", 1, (1,))
    switch(RECOVER, "on")
    (run,) = healing.heal()
    assert run.outcome == HealingOutcome.REJECTED and "No other replica" in run.detail
    damage_replica(world, "orders", 2)
    age_healing_runs(minutes=5)
    (run,) = healing.heal()
    assert (run.outcome, run.subject) == (HealingOutcome.DONE, "orders-0 on broker 2")


def test_one_broker_with_a_slow_disk_is_demoted(world: World) -> None:
    switch(HealingAction.DEMOTE_SLOW_BROKER, "on")
    Broker.objects.filter(pk=2).update(dirs_slow=["/b"])
    assert healing.heal() == [], "the check has not failed yet"
    report_unbalanced(name="disk_speed", minutes=4)
    assert healing.heal() == [], "it has not failed for long"
    report_unbalanced(name="disk_speed")
    (run,) = healing.heal()
    assert (run.outcome, run.subject, run.detail) == (HealingOutcome.DONE, "broker 2", "Slow log directories: /b.")
    change = Change.objects.get(verb="broker.demote")
    assert (change.actor, change.object_name) == (healing.ACTOR, "2")
    age_healing_runs(hours=2)
    Broker.objects.filter(pk=1).update(dirs_slow=["/a"])
    Broker.objects.filter(pk=2).update(configs={LEADERSHIP: "false"})
    assert healing.heal() == [], "a second broker stays leader"


def test_actions_per_hour_are_limited(world: World) -> None:
    switch(RECOVER, "on", per_hour=1, cool_down_s=60)
    damage_replica(world, "a")
    damage_replica(world, "b")
    assert len(healing.heal()) == 1
    age_healing_runs(minutes=30)
    assert healing.heal() == []
    age_healing_runs(minutes=31)
    assert len(healing.heal()) == 1


def test_preferred_leaders_are_elected_only_in_a_calm_cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    elected: list[str] = []
    monkeypatch.setattr(
        healing.leader_elections, "elect_preferred_leaders", lambda **given: elected.append(given["actor"])
    )
    switch(ELECT, "on")
    assert healing.heal() == [], "the check has not failed"
    report_unbalanced(minutes=4)
    assert healing.heal() == [], "not for long enough"
    report_unbalanced()
    Broker.objects.filter(pk=3).update(alive=False)
    assert healing.heal() == [], "a broker is down"
    Broker.objects.update(alive=True)
    HealthResult.objects.update(checked_at=timezone.now() - timedelta(minutes=3))
    assert healing.heal() == [], "the check is old"
    report_unbalanced()
    (run,) = healing.heal()
    assert run.outcome == HealingOutcome.DONE and elected == [healing.ACTOR]
    assert run.detail == "40 % of the partitions are not led by their preferred replica."


def test_settings_are_audited_and_checked(world: World) -> None:
    switch(ELECT, "dry_run", cool_down_s=1800)
    row = healing_action(ELECT)
    assert row is not None and (row.mode, row.cool_down_s, row.per_hour, row.changed_by) == (
        "dry_run",
        1800,
        2,
        "alice",
    )
    change = Change.objects.get(verb="healing.alter")
    assert change.before["mode"] == "off" and change.after["mode"] == "dry_run"
    for action, mode, wait in (("none", "on", None), (ELECT, "none", None), (ELECT, "on", 5)):
        with pytest.raises(Rejected):
            switch(action, mode, cool_down_s=wait)


def test_old_runs_are_deleted(world: World) -> None:
    damage_replica(world)
    switch(RECOVER, "dry_run")
    healing.heal()
    age_healing_runs(days=31)
    healing.heal()
    assert healing_runs().total == 1
