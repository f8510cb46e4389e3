"""Self-healing: the worker takes the actions whose conditions and limits permit it, and operators change the settings.

Invariants: an action uses the same service as an operator, with its checks and its audit row; the actor is `self-healing`. At most one run of each action per
sweep. Does not contain: the limits (`controlplane.domain.healing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.cordons import leadership_disabled
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import not_one_of
from controlplane.domain.healing import (
    HOUR_S,
    RULES,
    HealingAction,
    HealingMode,
    HealingOutcome,
    HealingVerdict,
    limits_problem,
    verdict,
)
from controlplane.domain.health import CheckName, CheckState
from controlplane.models import Broker, HealingRun, HealingSetting, HealthResult, ReplicaDamageReport
from controlplane.models.change import Outcome
from controlplane.models.job import DamageKind
from controlplane.selectors import healing as selectors
from controlplane.services import brokers, leader_elections, recovery, rolling_restart
from controlplane.services.common import Rejected, audited, record

ACTOR = "self-healing"

KEPT = timedelta(days=30)
"""Retention of runs, as of the history."""

FAILED_FOR = timedelta(minutes=5)
"""Time for which the check must have failed: leaders return automatically after a restart."""

FRESH = timedelta(minutes=2)
"""Age after which the result of a check is no longer current."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The effect that an action would have now."""

    subject: str
    detail: str
    act: Callable[[], object]


def heal() -> list[HealingRun]:
    """One sweep: take the actions that are due. Raises DatabaseError."""
    now = timezone.now()
    done = []
    for action, limits in selectors.limits_in_force().items():
        if limits.mode is HealingMode.OFF:
            continue
        since = now - timedelta(seconds=max(HOUR_S, limits.cool_down_s))
        runs = HealingRun.objects.filter(action=action, at__gt=since).values_list("at", flat=True)
        step = STEPS[action]()
        found = verdict(limits, step is not None, [at.timestamp() for at in runs], now.timestamp())
        if step is not None and found in (HealingVerdict.DRY_RUN, HealingVerdict.ACT):
            done.append(_run_action(action, step, dry=found is HealingVerdict.DRY_RUN))
    if done:
        HealingRun.objects.filter(at__lt=now - KEPT).delete()
    return done


def _run_action(action: HealingAction, step: _Step, *, dry: bool) -> HealingRun:
    """Run the action. Its row is written first: if the worker dies during the action, the action is not repeated before the cool-down ends."""
    row = HealingRun.objects.create(
        at=timezone.now(), action=action, outcome=HealingOutcome.DRY_RUN, subject=step.subject, detail=step.detail
    )
    if dry:
        return row
    try:
        step.act()
    except Rejected as error:
        row.outcome, row.detail = HealingOutcome.REJECTED, error.reason
    else:
        row.outcome = HealingOutcome.DONE
    row.save(update_fields=["outcome", "detail"])
    return row


# -- the actions -------------------------------------------------------------------------------------------------------
def _preferred_leaders() -> _Step | None:
    now = timezone.now()
    failed = HealthResult.objects.filter(
        name=CheckName.PREFERRED_LEADERS,
        state=CheckState.FAILED,
        since__lte=now - FAILED_FOR,
        checked_at__gte=now - FRESH,
    ).first()
    if failed is None or Broker.objects.filter(alive=False).exists() or rolling_restart.working_restarts():
        return None
    detail = f"{failed.value:g} % of the partitions are not led by their preferred replica."
    return _Step(
        "", detail, lambda: leader_elections.elect_preferred_leaders(actor=ACTOR, comment=f"Self-healing: {detail}")
    )


def _damaged_replica() -> _Step | None:
    """The oldest damaged replica whose recovery was not rejected within the last hour."""
    rejected = HealingRun.objects.filter(
        action=HealingAction.RECOVER_DAMAGED_REPLICA,
        outcome=HealingOutcome.REJECTED,
        at__gt=timezone.now() - timedelta(seconds=HOUR_S),
    ).values_list("subject", flat=True)
    reports = ReplicaDamageReport.objects.filter(
        ended_at__isnull=True, recovery__isnull=True, kind__in=(DamageKind.CORRUPT, DamageKind.DISK)
    ).order_by("id")
    skipped = set(rejected)
    for found in reports[: len(skipped) + 1]:
        subject = f"{found.topic_name}-{found.partition} on broker {found.broker_id}"
        if subject not in skipped:
            break
    else:
        return None
    topic, partition, broker_id = found.topic_name, found.partition, found.broker_id
    detail = f"{found.get_kind_display()}: {found.detail}"
    return _Step(
        subject,
        detail,
        lambda: recovery.recover_replica(topic, partition, broker_id, actor=ACTOR, comment=f"Self-healing: {detail}"),
    )


def _slow_broker() -> _Step | None:
    """Only one broker at a time is demoted: if two brokers have slow disks, their partitions need the other brokers."""
    failed = HealthResult.objects.filter(
        name=CheckName.DISK_SPEED,
        state=CheckState.FAILED,
        since__lte=timezone.now() - FAILED_FOR,
        checked_at__gte=timezone.now() - FRESH,
    ).exists()
    rows = list(Broker.objects.order_by("pk")) if failed else []
    slow = next((b for b in rows if b.dirs_slow), None)
    if slow is None or any(not b.alive or leadership_disabled(b.configs) for b in rows):
        return None
    broker_id, detail = slow.broker_id, f"Slow log directories: {', '.join(slow.dirs_slow)}."
    return _Step(
        f"broker {broker_id}",
        detail,
        lambda: brokers.demote(broker_id, actor=ACTOR, comment=f"Self-healing: {detail}"),
    )


STEPS: dict[HealingAction, Callable[[], _Step | None]] = {
    HealingAction.ELECT_PREFERRED_LEADERS: _preferred_leaders,
    HealingAction.RECOVER_DAMAGED_REPLICA: _damaged_replica,
    HealingAction.DEMOTE_SLOW_BROKER: _slow_broker,
}


# -- settings ----------------------------------------------------------------------------------------------------------
@audited(
    AuditOperation.HEALING_ALTER,
    "{action}",
    after=lambda given: {k: given[k] for k in ("mode", "cool_down_s", "per_hour")},
)
def alter_action(
    action: str, mode: str, cool_down_s: int | None, per_hour: int | None, *, actor: str, comment: str = ""
) -> None:
    """Set mode and limits of an action; None keeps a limit. Raises Rejected."""
    row = selectors.healing_action(action)
    if row is None:
        raise not_one_of("There is no action {value}. The actions are: {allowed}.", action, RULES, "action")
    if mode not in list(HealingMode):
        raise not_one_of("There is no mode {value}. The modes are: {allowed}.", mode, HealingMode, "mode")
    wait, most = row.cool_down_s if cool_down_s is None else cool_down_s, row.per_hour if per_hour is None else per_hour
    if (problem := limits_problem(wait, most)) is not None:
        raise Rejected(problem[1], problem[0])
    with transaction.atomic():
        HealingSetting.objects.update_or_create(
            action=action, defaults={"mode": mode, "cool_down_s": wait, "per_hour": most, "changed_by": actor}
        )
        record(
            actor,
            AuditOperation.HEALING_ALTER,
            "healing",
            action,
            comment=comment,
            before={"mode": row.mode, "cool_down_s": row.cool_down_s, "per_hour": row.per_hour},
            after={"mode": mode, "cool_down_s": wait, "per_hour": most},
            outcome=Outcome.CONFIRMED,
        )
