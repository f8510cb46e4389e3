"""The write of an offset reset: claim the row, verify the group, commit or delete, read back, set the result.

Invariants: offsets are written only if those of the group are still those of the preview. The offsets before are in the row before the first write, so an
undo is possible after any later failure. Each write is read back, and is in the audit log before it is sent. Each change of the state of a row is a
compare-and-set. Does not contain: the preview, and when it may be applied (`services.offset_resets`); waiting (`services.offset_reset_worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.clients.share_offsets import offsets_client
from controlplane.domain import offset_reset as core
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.offset_reset_texts import active_reason, difference_text, names_of
from controlplane.domain.offset_reset_types import Key, OffsetDifference, PartitionReset, ResetState, ResetTarget
from controlplane.models import OffsetReset
from controlplane.models.change import Outcome
from controlplane.models.offset_reset import ResetCause
from controlplane.services.common import Rejected, finish_changes, record
from weir_common.phrases import counted, phrase_to_json, sentence

VERBS = {ResetTarget.DELETE: AuditOperation.GROUP_DELETE_OFFSETS, ResetTarget.UNDO: AuditOperation.GROUP_UNDO_RESET}


class NotReady(Exception):
    """The reset cannot be applied now; nothing was written. `recorded`: whether the rejection is in the audit log."""

    def __init__(
        self, cause: ResetCause, reason: str, differences: Sequence[OffsetDifference] = (), *, recorded: bool = False
    ) -> None:
        super().__init__(reason)
        self.cause, self.reason, self.differences, self.recorded = cause, reason, differences, recorded


def write(row: OffsetReset, actor: str, comment: str) -> OffsetReset:
    """Claim the row, verify, commit, read back. Raises NotReady: nothing was written, and the row has its state from before."""
    before, rows = ResetState(row.state), row.rows
    try:
        with transaction.atomic():
            change_state(row, ResetState.APPLYING, applying_at=timezone.now(), actor=actor, comment=comment)
    except IntegrityError:
        raise Rejected(
            sentence("Another reset of group {group_id} is being applied. Try again.", group_id=repr(row.group_id))
        ) from None
    try:
        with offsets_client(row.group_id) as client:
            _verify(client, row, rows)
            with transaction.atomic():
                _record_intent(row, rows)
            return _send(client, row, rows, before)
    except NotReady as stop:
        _release(row, before, stop)
        raise
    except NoResponse as e:
        lost = NotReady(
            ResetCause.NO_RESPONSE, sentence("Nothing was written. The cluster did not respond: {error}", error=e)
        )
        _release(row, before, lost)
        raise lost from e
    except Declined as e:
        declined = NotReady(
            ResetCause.DECLINED, sentence("Nothing was written. The coordinator declined: {error}", error=e)
        )
        _release(row, before, declined)
        raise declined from e


def _verify(client: GroupOffsetsClient, row: OffsetReset, rows: Sequence[PartitionReset]) -> None:
    """Raises NotReady: members, offsets other than those of the preview, new offsets that are no longer in the log."""
    target = row.spec.target
    status = client.status()
    # The coordinator itself rejects the deletion of offsets of subscribed topics.
    if status.active and target is not ResetTarget.DELETE:
        raise NotReady(ResetCause.ACTIVE, active_reason(row.group_id, len(status.members)))
    changed = [r.key for r in rows if r.changes]
    committed, unstable = client.fetch_committed(changed)
    if unstable:
        names = names_of(sorted(unstable))
        raise NotReady(
            ResetCause.CHANGED,
            sentence("An open transaction has written offsets of {names}. Nothing was written.", names=names),
        )
    if found := core.differences(rows, committed):
        raise NotReady(
            ResetCause.CHANGED,
            sentence(
                "The committed offsets changed since the preview; nothing was written. Preview the reset again. {differences}",
                differences=difference_text(found),
            ),
            found,
        )
    if target in (ResetTarget.DELETE, ResetTarget.UNDO):
        return
    leaders = client.leaders({t for t, _ in changed})
    if gone := core.rows_outside_log(rows, client.log_ranges({k: leaders[k] for k in changed if k in leaders})):
        names = names_of([r.key for r in gone])
        raise NotReady(
            ResetCause.OUT_OF_RANGE,
            sentence(
                "The new offsets of {names} are no longer in the log. Nothing was written. Preview the reset again.",
                names=names,
            ),
        )


def _send(
    client: GroupOffsetsClient, row: OffsetReset, rows: Sequence[PartitionReset], before: ResetState
) -> OffsetReset:
    changing = [r for r in rows if r.changes]
    errors: dict[Key, ErrorCode] = {}
    try:
        if commits := {r.key: r.after for r in changing if r.after is not None}:
            errors |= client.commit(commits)
        if deletions := [r.key for r in changing if r.after is None]:
            errors |= client.delete(deletions)
        if len(errors) == len(changing):
            finish_changes(change_id(row), None, Outcome.REJECTED, sentence("Declined for all partitions."))
            raise _all_declined(row, errors)
        committed, _ = client.fetch_committed([r.key for r in changing])
    except (NoResponse, Declined) as e:
        # Some requests may have been processed, so the worker reads the offsets back.
        change_state(row, ResetState.APPLYING, cause=ResetCause.NO_RESPONSE, note=str(e))
        return row
    return finish(row, errors, core.not_applied(rows, committed))


def _all_declined(row: OffsetReset, errors: dict[Key, ErrorCode]) -> NotReady:
    codes = set(errors.values())
    if codes <= {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP}:
        return NotReady(ResetCause.ACTIVE, active_reason(row.group_id, 0), recorded=True)
    names = ", ".join(sorted(c.text for c in codes))
    return NotReady(
        ResetCause.DECLINED,
        sentence("Nothing was written. The coordinator declined: {names}.", names=names),
        recorded=True,
    )


def finish(
    row: OffsetReset, errors: dict[Key, ErrorCode], different: list[OffsetDifference], *, unsent: bool = False
) -> OffsetReset:
    """Set the result of a reset that was sent. `different`: offsets that were read back and differ from those that the reset wrote."""
    if not different:
        state, cause, outcome, note = ResetState.APPLIED, ResetCause.NONE, Outcome.CONFIRMED, ""
    elif unsent:
        state, cause, outcome = ResetState.FAILED, ResetCause.NO_RESPONSE, Outcome.UNCHANGED
        note = sentence("Nothing was written: the committed offsets are those before the reset.")
    elif errors:
        state, cause, outcome = ResetState.FAILED, ResetCause.DECLINED, Outcome.CONFIRMED
        names = ", ".join(sorted({c.text for c in errors.values()}))
        note = counted(
            len(errors),
            "Applied in part. The coordinator declined {count} partition: {names}.",
            "Applied in part. The coordinator declined {count} partitions: {names}.",
            names=names,
        )
    else:
        state, cause, outcome = ResetState.FAILED, ResetCause.DIFFERENT, Outcome.UNKNOWN
        note = sentence("Read back different from what was written. {text}", text=difference_text(different))
    with transaction.atomic():
        change_state(
            row,
            state,
            cause=cause,
            note=note,
            errors=errors,
            differences=core.report_differences(different),
            finished_at=timezone.now(),
        )
        finish_changes(change_id(row), None, outcome, note or sentence("Read back as written."))
    return row


def _release(row: OffsetReset, state: ResetState, stop: NotReady) -> None:
    """Restore the state before the claim, and store the cause."""
    change_state(
        row,
        state,
        cause=stop.cause,
        note=stop.reason,
        differences=core.report_differences(stop.differences),
        applying_at=None,
    )


def change_state(row: OffsetReset, state: ResetState, **values: object) -> None:
    """Compare-and-set. Raises Rejected if the row has changed since it was read."""
    values |= {"state": state}
    if isinstance(note := values.get("note"), str):
        values["note_phrase"] = phrase_to_json(note)
    if not OffsetReset.objects.filter(pk=row.pk, state=row.state, version=row.version).update(
        **values, version=F("version") + 1
    ):
        raise Rejected(sentence("Offset reset {id} was changed by another request; reload it.", id=row.pk))
    row.refresh_from_db()


def _record_intent(row: OffsetReset, rows: Sequence[PartitionReset]) -> None:
    changing = [r for r in rows if r.changes]
    record(
        row.actor,
        verb_of(row),
        "group",
        row.group_id,
        comment=row.comment,
        before={f"{r.topic}-{r.partition}": r.now and r.now.offset for r in changing},
        after={f"{r.topic}-{r.partition}": r.after and r.after.offset for r in changing},
        object_id=change_id(row),
    )


def verb_of(row: OffsetReset) -> AuditOperation:
    return VERBS.get(row.spec.target, AuditOperation.GROUP_RESET_OFFSETS)


def change_id(row: OffsetReset) -> str:
    return f"offset-reset-{row.pk}"


def spec_of_audit(row: OffsetReset) -> dict[str, object]:
    return {"reset": row.pk, **{k: v for k, v in row.spec.to_json().items() if k != "offsets"}}
