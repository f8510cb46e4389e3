"""The worker's part of offset resets: waiting for a group without members, the end of a reset whose process died, and cleaning up.

Invariants: a waiting reset is computed again when the group is empty, because its members commit until they leave. A reset whose process died is
not sent again: the committed offsets are read back and its result is set from them. Does not contain: the preview (`services.offset_resets`), the write
(`services.offset_reset_writes`).
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import DEADLINE_SECONDS
from controlplane.clients.share_offsets import offsets_client
from controlplane.domain import offset_reset as core
from controlplane.domain.offset_reset_types import UNDO_DAYS, ResetState
from controlplane.models import OffsetReset
from controlplane.models.change import Outcome
from controlplane.models.offset_reset import ResetCause
from controlplane.services.common import Rejected, record
from controlplane.services.offset_reset_writes import NotReady, change_state, finish, spec_of_audit, verb_of, write
from controlplane.services.offset_resets import compute, to_columns
from weir_common.phrases import sentence

SETTLE_SECONDS = DEADLINE_SECONDS + 10
"""Time after which the process that claimed a reset sends nothing more."""

PREVIEW_DAYS = 1
"""Days that previews, and resets that ended without a write, are kept."""


def working_resets() -> list[int]:
    """Resets that wait, and those whose process died while it wrote."""
    overdue = timezone.now() - timedelta(seconds=SETTLE_SECONDS)
    due = Q(state=ResetState.WAITING) | Q(state=ResetState.APPLYING, applying_at__lt=overdue)
    return list(OffsetReset.objects.filter(due).order_by("id").values_list("id", flat=True))


def advance_reset(reset_id: int) -> str | None:
    """One step. Returns the state, None if there is nothing to do or another worker was faster."""
    row = OffsetReset.objects.filter(pk=reset_id).first()
    try:
        if row is not None and row.state == ResetState.WAITING:
            _wait_on(row)
            return str(row.state)
        if row is not None and row.state == ResetState.APPLYING:
            _finish_by_reading(row)
            return str(row.state)
    except Rejected:
        pass  # another worker changed the row, or another reset of the group writes: the next step reads it again
    return None


def _wait_on(row: OffsetReset) -> None:
    if row.wait_until is None or row.wait_until <= timezone.now():
        _end(row, ResetState.EXPIRED, ResetCause.ACTIVE, sentence("The group was still active at the end of the wait."))
        return
    try:
        with offsets_client(row.group_id) as client:
            if client.status().active:
                return
            rows = compute(client, row.spec)
    except (NoResponse, Declined) as e:
        if row.note != str(e):
            change_state(row, ResetState.WAITING, cause=ResetCause.NO_RESPONSE, note=str(e))
        return
    except Rejected as rejection:
        _end(row, ResetState.FAILED, ResetCause.OUT_OF_RANGE, rejection.reason)
        return
    if not any(r.changes for r in rows):
        _end(row, ResetState.CANCELLED, ResetCause.NONE, sentence("The group is empty, and the reset changes nothing."))
        return
    change_state(row, ResetState.WAITING, **to_columns(rows), computed_at=timezone.now(), differences=())
    try:
        write(row, row.actor, row.comment)
    except NotReady as stop:
        # A member joined or an offset was committed since the preview. The row has the cause. The next step computes again.
        if stop.cause in (ResetCause.DECLINED, ResetCause.OUT_OF_RANGE):
            _end(row, ResetState.FAILED, stop.cause, stop.reason)


def _end(row: OffsetReset, state: ResetState, cause: ResetCause, note: str) -> None:
    """The end of a wait without a write."""
    with transaction.atomic():
        change_state(row, state, cause=cause, note=note, finished_at=timezone.now())
        outcome = Outcome.UNCHANGED if state is ResetState.CANCELLED else Outcome.REJECTED
        record(
            row.actor,
            verb_of(row),
            "group",
            row.group_id,
            comment=row.comment,
            after=spec_of_audit(row),
            outcome=outcome,
            detail=note,
        )


def _finish_by_reading(row: OffsetReset) -> None:
    rows = row.rows
    try:
        with offsets_client(row.group_id) as client:
            committed, _ = client.fetch_committed([r.key for r in rows if r.changes])
    except (NoResponse, Declined):
        return
    finish(row, {}, core.not_applied(rows, committed), unsent=not core.differences(rows, committed))


def sweep() -> int:
    """Delete resets that can no longer be applied or undone. Returns how many."""
    now = timezone.now()
    unwritten = [ResetState.PREVIEWED, ResetState.CANCELLED, ResetState.EXPIRED]
    old = Q(state__in=unwritten, created_at__lt=now - timedelta(days=PREVIEW_DAYS)) | Q(
        finished_at__lt=now - timedelta(days=UNDO_DAYS)
    )
    return OffsetReset.objects.filter(old).exclude(state=ResetState.WAITING).delete()[0]
