"""Rolling restarts: begin, pause, resume, cancel, and one look of the worker. Laws: what a look does is decided in `controlplane.restarts`; the
row is the queue, changed by compare-and-set; a process is asked to restart by its pid and start time, after the row that says so.

Called by the API, the console and the worker (`advance_restart`). Must not come in: when it is safe (`restarts`), how a process ends (`house`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokerd.cluster.cordons import shunned
from controlplane import restarts as core
from controlplane.house import processes
from controlplane.models import Broker, Change, Cluster, RestartStep, RollingRestart
from controlplane.models.change import Outcome
from controlplane.models.restart import WORKING, RestartState, StepState
from controlplane.services import brokers
from controlplane.services.common import Refused, record, record_refusal


def start_restart(broker_ids: Sequence[int] | None = None, *, who: str, why: str = "") -> RollingRestart:
    """Restart these brokers one after the other, in this order; None: all that are alive. Raises Refused, also while another one is under way."""
    ids = list(broker_ids) if broker_ids is not None else [b.broker_id for b in Broker.objects.filter(alive=True)]
    name = ",".join(map(str, ids))[:255]
    try:
        if (problem := core.problem(ids, seen())) is not None:
            raise Refused(problem, "brokers")
        by_house = all(processes.running(settings.DATA_DIR, f"broker-{b}") is not None for b in ids)
        try:
            with transaction.atomic():
                row = RollingRestart.objects.create(by_house=by_house, who=who, why=why)
                RestartStep.objects.bulk_create(
                    RestartStep(restart=row, place=i, broker_id=b) for i, b in enumerate(ids)
                )
                record(who, "restart.start", "restart", str(row.pk), why=why, after={"brokers": ids},
                       object_id=f"restart-{row.pk}")  # fmt: skip
                return row
        except IntegrityError:
            other = RollingRestart.objects.filter(state__in=WORKING).values_list("pk", flat=True).first()
            raise Refused(f"Rolling restart {other} is under way; cancel it or wait for its end.") from None
    except Refused as refused:
        record_refusal(who, "restart.start", "restart", name, refused, why=why)
        raise


def pause_restart(restart_id: int, *, who: str, why: str = "") -> RollingRestart:
    """No further broker is let go; the one under way is waited for."""
    return _turn(restart_id, "restart.pause", (RestartState.RUNNING,), RestartState.PAUSED, who, why)


def resume_restart(restart_id: int, *, who: str, why: str = "") -> RollingRestart:
    return _turn(restart_id, "restart.resume", (RestartState.PAUSED,), RestartState.RUNNING, who, why)


def cancel_restart(restart_id: int, *, who: str, why: str = "") -> RollingRestart:
    """The brokers that had no turn yet get none; the one under way is waited for, and leadership given back."""
    allowed = (RestartState.RUNNING, RestartState.PAUSED)
    return _turn(restart_id, "restart.cancel", allowed, RestartState.CANCELLING, who, why)


def _turn(
    restart_id: int, verb: str, allowed: tuple[RestartState, ...], to: RestartState, who: str, why: str
) -> RollingRestart:
    try:
        with transaction.atomic():
            row = RollingRestart.objects.filter(pk=restart_id).first()
            if row is None:
                raise Refused(f"There is no rolling restart {restart_id}.")
            if row.state not in allowed:
                raise Refused(
                    f"Rolling restart {restart_id} is {row.state}; this needs it to be {' or '.join(s.value for s in allowed)}."
                )
            changed = RollingRestart.objects.filter(pk=row.pk, state=row.state, version=row.version).update(
                state=to, version=F("version") + 1
            )
            if not changed:
                raise Refused(f"Rolling restart {restart_id} changed in this moment; look at it again.")
            record(
                who, verb, "restart", str(restart_id), why=why, before=row.state, after=to, outcome=Outcome.CONFIRMED
            )
    except Refused as refused:
        record_refusal(who, verb, "restart", str(restart_id), refused, why=why)
        raise
    return RollingRestart.objects.get(pk=restart_id)


def working_restarts() -> list[int]:
    return list(RollingRestart.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def advance_restart(restart_id: int) -> str | None:
    """One look, one short step. Returns the state afterwards, None when there is nothing to look at or somebody else was faster."""
    with transaction.atomic():
        row = RollingRestart.objects.filter(pk=restart_id, state__in=WORKING).first()
        if row is None:
            return None
        look = core.look(view_of(row), timezone.now().timestamp())
        if look == core.Look():
            return str(row.state)
        values: dict[str, Any] = {"version": F("version") + 1}
        if look.state is not None:
            values |= {"state": look.state, "note": look.note or "", "finished_at": timezone.now(), "turn": None}
        if not RollingRestart.objects.filter(pk=row.pk, state=row.state, version=row.version).update(**values):
            return None
        asked = _apply(row, look.change) if look.change is not None else None
        if look.state is not None:
            row.steps.filter(state=StepState.WAITING).update(state=StepState.SKIPPED)
            Change.objects.filter(object_id=f"restart-{row.pk}", outcome=Outcome.PENDING).update(
                outcome=Outcome.CONFIRMED, detail=look.note or "", finished_at=timezone.now()
            )
            record("worker", f"restart.{look.state}", "restart", str(row.pk), outcome=Outcome.CONFIRMED,
                   detail=look.note or "")  # fmt: skip
    if asked is not None and asked.process is not None:
        processes.ask_restart(settings.DATA_DIR, f"broker-{asked.broker_id}", asked.process)
    return look.state or str(row.state)


def _apply(row: RollingRestart, change: core.Change) -> RestartStep | None:
    """Write one turn's change; the turn when its process is to be asked for a restart."""
    step, now = row.steps.get(pk=change.step_id), timezone.now()
    if change.state == core.LEADERS_OFF and step.state != core.LEADERS_OFF:
        step.began_at, step.asked_at, step.back_at, step.process = now, None, None, None
    if change.state == core.RESTARTING and step.state != core.RESTARTING:
        step.asked_at = now
    if change.state == core.DONE:
        step.finished_at = now
    if change.ask and step.process is None:
        step.process = processes.running(settings.DATA_DIR, f"broker-{step.broker_id}")
    for name in ("incarnation", "leads_before"):
        if (value := getattr(change, name)) is not None:
            setattr(step, name, value)
    if change.back is not None:
        step.back_at = now if change.back else None
    step.state, step.note = change.state, change.note
    step.save()
    if change.shun is not None:
        act = brokers.leaders_off if change.shun else brokers.leaders_back
        act(step.broker_id, who="worker", why=f"rolling restart {row.pk}")
    return step if change.ask else None


def view_of(row: RollingRestart) -> core.RestartView:
    at = Cluster.objects.filter(pk=1).values_list("observed_at", flat=True).first()
    return core.RestartView(
        state=row.state,
        by_house=row.by_house,
        steps=tuple(
            core.StepView(
                s.pk, s.broker_id, s.state, s.incarnation,
                s.asked_at.timestamp() if s.asked_at else None, s.back_at.timestamp() if s.back_at else None,
                s.leads_before, s.note,
            )
            for s in row.steps.all()
        ),
        brokers=tuple(seen()),
        age_s=None if at is None else max(0.0, (timezone.now() - at).total_seconds()),
    )  # fmt: skip


def seen() -> list[core.BrokerSeen]:
    return [
        core.BrokerSeen(
            b.broker_id, b.alive, b.incarnation, b.leaders, b.replicas_out_of_sync, b.restart_blocked,
            tuple(core.blocker(b.broker_id, *why) for why in b.restart_blockers), shunned(b.configs),
        )
        for b in Broker.objects.all()
    ]  # fmt: skip
