"""Rolling restarts: start, pause, resume, cancel, and one step of the worker. Invariants: `controlplane.domain.restart` decides each step. The row
is the queue, changed by compare-and-set. A restart request names the pid and start time of the process and is sent after its row is written.

Does not contain: the safety check of a restart (`controlplane.domain.restart`), the stop of a process (the supervisor).
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokerd.cluster.cordons import leadership_disabled
from controlplane.clients import supervisor as supervisor_client
from controlplane.domain import restart as core
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.restart import RestartState, StepState
from controlplane.models import Broker, Cluster, RestartStep, RollingRestart
from controlplane.models.change import Outcome
from controlplane.models.restart import WORKING
from controlplane.services import brokers
from controlplane.services.common import Rejected, finish_changes, record, recorded_rejections
from weir_common.phrases import phrase_to_json, sentence, with_phrase


def start_restart(broker_ids: Sequence[int] | None = None, *, actor: str, comment: str = "") -> RollingRestart:
    """Restart these brokers one after the other, in this order; None: all live brokers. Raises Rejected, also while another restart is in
    progress."""
    ids = list(broker_ids) if broker_ids is not None else [b.broker_id for b in Broker.objects.filter(alive=True)]
    name = ",".join(map(str, ids))[:255]
    with recorded_rejections(actor, AuditOperation.RESTART_START, "restart", name, comment=comment):
        if (problem := core.problem(ids, observed_brokers())) is not None:
            raise Rejected(problem, "brokers")
        by_supervisor = all(
            supervisor_client.running_process(settings.WEIR.data_dir, f"broker-{b}") is not None for b in ids
        )
        try:
            with transaction.atomic():
                row = RollingRestart.objects.create(by_supervisor=by_supervisor, actor=actor, comment=comment)
                RestartStep.objects.bulk_create(
                    RestartStep(restart=row, place=i, broker_id=b) for i, b in enumerate(ids)
                )
                record(
                    actor,
                    AuditOperation.RESTART_START,
                    "restart",
                    str(row.pk),
                    comment=comment,
                    after={"brokers": ids},
                    object_id=f"restart-{row.pk}",
                )
                return row
        except IntegrityError:
            other = RollingRestart.objects.filter(state__in=WORKING).values_list("pk", flat=True).first()
            raise Rejected(
                sentence("Rolling restart {other} is in progress; cancel it, or wait until it ends.", other=other)
            ) from None


def pause_restart(restart_id: int, *, actor: str, comment: str = "") -> RollingRestart:
    """Pause: no further broker is restarted. The restart of the current broker finishes."""
    return _turn(restart_id, AuditOperation.RESTART_PAUSE, (RestartState.RUNNING,), RestartState.PAUSED, actor, comment)


def resume_restart(restart_id: int, *, actor: str, comment: str = "") -> RollingRestart:
    return _turn(
        restart_id, AuditOperation.RESTART_RESUME, (RestartState.PAUSED,), RestartState.RUNNING, actor, comment
    )


def cancel_restart(restart_id: int, *, actor: str, comment: str = "") -> RollingRestart:
    """Cancel: the remaining brokers are skipped. The restart of the current broker finishes, and its leadership is restored."""
    allowed = (RestartState.RUNNING, RestartState.PAUSED)
    return _turn(restart_id, AuditOperation.RESTART_CANCEL, allowed, RestartState.CANCELLING, actor, comment)


def _turn(
    restart_id: int, verb: AuditOperation, allowed: tuple[RestartState, ...], to: RestartState, actor: str, comment: str
) -> RollingRestart:
    with recorded_rejections(actor, verb, "restart", str(restart_id), comment=comment), transaction.atomic():
        row = RollingRestart.objects.filter(pk=restart_id).first()
        if row is None:
            raise Rejected(sentence("Rolling restart {restart_id} does not exist.", restart_id=restart_id))
        if row.state not in allowed:
            raise Rejected(
                sentence(
                    "Rolling restart {id} is {state}; this needs it to be in one of these states: {allowed}.",
                    id=restart_id,
                    state=row.state,
                    allowed=[s.value for s in allowed],
                )
            )
        changed = RollingRestart.objects.filter(pk=row.pk, state=row.state, version=row.version).update(
            state=to, version=F("version") + 1
        )
        if not changed:
            raise Rejected(
                sentence(
                    "Rolling restart {restart_id} was changed concurrently; reload and try again.",
                    restart_id=restart_id,
                )
            )
        record(
            actor,
            verb,
            "restart",
            str(restart_id),
            comment=comment,
            before=row.state,
            after=to,
            outcome=Outcome.CONFIRMED,
        )
    return RollingRestart.objects.get(pk=restart_id)


def working_restarts() -> list[int]:
    return list(RollingRestart.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def advance_restart(restart_id: int) -> str | None:
    """One step. Returns the new state, None when no restart is in progress or another worker was faster."""
    with transaction.atomic():
        row = RollingRestart.objects.filter(pk=restart_id, state__in=WORKING).first()
        if row is None:
            return None
        decision = core.next_step(view_of(row), timezone.now().timestamp())
        if decision == core.RestartDecision():
            return str(row.state)
        values: dict[str, object] = {"version": F("version") + 1}
        if decision.state is not None:
            values |= {
                "state": decision.state,
                "note": decision.note or "",
                "note_phrase": phrase_to_json(decision.note or ""),
                "finished_at": timezone.now(),
                "turn": None,
            }
        if not RollingRestart.objects.filter(pk=row.pk, state=row.state, version=row.version).update(**values):
            return None
        restarting = _apply(row, decision.change) if decision.change is not None else None
        if decision.state is not None:
            row.steps.filter(state=StepState.WAITING).update(state=StepState.SKIPPED)
            finish_changes(f"restart-{row.pk}", None, Outcome.CONFIRMED, decision.note or "")
            record(
                "worker",
                AuditOperation(f"restart.{decision.state}"),
                "restart",
                str(row.pk),
                outcome=Outcome.CONFIRMED,
                detail=decision.note or "",
            )
    if restarting is not None and restarting.process is not None:
        supervisor_client.request_restart(settings.WEIR.data_dir, f"broker-{restarting.broker_id}", restarting.process)
    return decision.state or str(row.state)


def _apply(row: RollingRestart, change: core.RestartChange) -> RestartStep | None:
    """Write the change of one step. Returns the step if the supervisor must restart its process."""
    step, now = row.steps.get(pk=change.step_id), timezone.now()
    if change.state == StepState.DEMOTING and step.state != StepState.DEMOTING:
        step.began_at, step.asked_at, step.back_at, step.process = now, None, None, None
    if change.state == StepState.RESTARTING and step.state != StepState.RESTARTING:
        step.asked_at = now
    if change.state == StepState.DONE:
        step.finished_at = now
    if change.restart_process and step.process is None:
        step.process = supervisor_client.running_process(settings.WEIR.data_dir, f"broker-{step.broker_id}")
    for name in ("broker_epoch", "leads_before"):
        if (value := getattr(change, name)) is not None:
            setattr(step, name, value)
    if change.back is not None:
        step.back_at = now if change.back else None
    step.state, step.note, step.note_phrase = change.state, change.note, phrase_to_json(change.note)
    step.save()
    if change.demote is not None:
        act = brokers.demote if change.demote else brokers.restore_leadership
        act(step.broker_id, actor="worker", comment=f"rolling restart {row.pk}")
    return step if change.restart_process else None


def view_of(row: RollingRestart) -> core.RestartSnapshot:
    at = Cluster.objects.filter(pk=1).values_list("observed_at", flat=True).first()
    return core.RestartSnapshot(
        state=RestartState(row.state),
        by_supervisor=row.by_supervisor,
        steps=tuple(
            core.StepView(
                s.pk,
                s.broker_id,
                StepState(s.state),
                s.broker_epoch,
                s.asked_at.timestamp() if s.asked_at else None,
                s.back_at.timestamp() if s.back_at else None,
                s.leads_before,
                with_phrase(s.note, s.note_phrase),
            )
            for s in row.steps.all()
        ),
        brokers=tuple(observed_brokers()),
        age_s=None if at is None else max(0.0, (timezone.now() - at).total_seconds()),
    )


def observed_brokers() -> list[core.BrokerSeen]:
    return [
        core.BrokerSeen(
            b.broker_id,
            b.alive,
            b.broker_epoch,
            b.leaders,
            b.replicas_out_of_sync,
            b.restart_blocked,
            tuple(core.blocker(b.broker_id, *blocker) for blocker in b.restart_blockers),
            leadership_disabled(b.configs),
        )
        for b in Broker.objects.all()
    ]
