"""Offset resets of a consumer group: preview, apply, cancel and undo. Invariants: a preview is a row with the committed offsets that it was computed
from, and a reset is applied only to those. The offsets before are in the row before the first write, so an undo is possible after any later failure.
Each write is read back, and is in the audit log before it is sent.

Does not contain: what a reset changes (`domain.offset_reset`), the requests (`clients.group_offsets`), waiting and cleaning up
(`services.offset_reset_worker`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.clients.share_offsets import offsets_client
from controlplane.domain import offset_reset as core
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.log_ends import LogEndHistory, RecordAge
from controlplane.domain.offset_reset import (
    PREVIEW_MINUTES,
    UNDO_DAYS,
    WAIT_MINUTES_MAX,
    Key,
    OffsetDifference,
    PartitionReset,
    ResetSpec,
    ResetState,
    ResetTarget,
)
from controlplane.domain.offset_reset_texts import NAMED_MAX, active_reason, difference_text, names_of
from controlplane.models import LogEnds, OffsetReset
from controlplane.models.change import Outcome
from controlplane.models.offset_reset import ResetCause
from controlplane.services.common import Rejected, finish_changes, record, record_rejection, recorded_rejections
from weir_common.phrases import counted, phrase_to_json, sentence

VERBS = {ResetTarget.DELETE: AuditOperation.GROUP_DELETE_OFFSETS, ResetTarget.UNDO: AuditOperation.GROUP_UNDO_RESET}


class NotReady(Exception):
    """The reset cannot be applied now; nothing was written. `recorded`: whether the rejection is in the audit log."""

    def __init__(
        self, cause: ResetCause, reason: str, differences: Sequence[OffsetDifference] = (), *, recorded: bool = False
    ) -> None:
        super().__init__(reason)
        self.cause, self.reason, self.differences, self.recorded = cause, reason, differences, recorded


def preview(group_id: str, spec: ResetSpec, *, actor: str, undo_of: OffsetReset | None = None) -> OffsetReset:
    """Compute a reset and store it. Nothing is sent that changes the group. Raises Rejected."""
    core.check(spec)
    if not group_id or len(group_id) > 255:
        raise Rejected("A group ID has 1 to 255 characters.", "group_id")
    try:
        with offsets_client(group_id) as client:
            rows = compute(client, spec)
            requests = sum(client.requests.values())
    except NoResponse as e:
        raise Rejected(sentence("The cluster did not respond: {detail}", detail=e)) from e
    except Declined as e:
        raise Rejected(sentence("The coordinator declined: {detail}", detail=e)) from e
    return OffsetReset.objects.create(
        group_id=group_id,
        spec=spec,
        **stored(rows),
        requests=requests,
        undo_of=undo_of,
        actor=actor,
        computed_at=timezone.now(),
    )


def preview_again(reset_id: int, *, actor: str) -> OffsetReset:
    """A new preview of the request of another reset, from the current offsets. Raises Rejected."""
    row = existing(reset_id)
    return preview(row.group_id, row.spec, actor=actor, undo_of=row.undo_of)


def undo(reset_id: int, *, actor: str) -> OffsetReset:
    """The preview of an undo: offset, leader epoch and metadata as before the reset, within UNDO_DAYS. Raises Rejected."""
    row = existing(reset_id)
    if row.finished_at is None or row.applying_at is None:
        raise Rejected(
            sentence(
                "Offset reset {reset_id} is {state}; only an applied one can be undone.",
                reset_id=reset_id,
                state=row.state,
            )
        )
    if row.finished_at < timezone.now() - timedelta(days=UNDO_DAYS):
        raise Rejected(
            sentence("Offset reset {reset_id} is older than {days} days.", reset_id=reset_id, days=UNDO_DAYS)
        )
    return preview(row.group_id, ResetSpec(ResetTarget.UNDO, undone=row.pk), actor=actor, undo_of=row)


def apply(reset_id: int, *, actor: str, comment: str = "", wait_minutes: int = 0) -> OffsetReset:
    """Write the offsets of a preview and read them back. `wait_minutes` > 0: while the group is active, wait so long for its members to leave. The
    row's state is the result: applied, failed, waiting, or applying where the cluster did not respond in time. Raises Rejected: nothing was
    written."""
    row = existing(reset_id)
    try:
        if not 0 <= wait_minutes <= WAIT_MINUTES_MAX:
            raise Rejected(sentence("Wait 0 to {max} minutes.", max=f"{WAIT_MINUTES_MAX:,}"), "wait_minutes")
        if row.state != ResetState.PREVIEWED:
            raise Rejected(
                sentence(
                    "Offset reset {reset_id} is {state}; only a preview can be applied.",
                    reset_id=reset_id,
                    state=row.state,
                )
            )
        if row.computed_at < timezone.now() - timedelta(minutes=PREVIEW_MINUTES):
            raise Rejected(
                sentence(
                    "The preview is older than {minutes} minutes. Preview the reset again.", minutes=PREVIEW_MINUTES
                )
            )
        if not any(r.changes for r in row.rows):
            raise Rejected("The reset changes nothing.")
        try:
            return write(row, actor, comment)
        except NotReady as stop:
            if stop.cause is not ResetCause.ACTIVE or not wait_minutes:
                raise Rejected(stop.reason) from stop
            return _wait(row, actor, comment, wait_minutes)
    except Rejected as rejection:
        if isinstance(rejection.__cause__, NotReady) and rejection.__cause__.recorded:
            raise
        record_rejection(
            actor, verb_of(row), "group", row.group_id, rejection, comment=comment, after=spec_of_audit(row)
        )
        raise


def cancel(reset_id: int, *, actor: str, comment: str = "") -> OffsetReset:
    """Drop a preview, or end the wait of a reset. Raises Rejected."""
    row = existing(reset_id)
    with (
        recorded_rejections(actor, AuditOperation.GROUP_CANCEL_RESET, "group", row.group_id, comment=comment),
        transaction.atomic(),
    ):
        if row.state not in (ResetState.PREVIEWED, ResetState.WAITING):
            raise Rejected(
                sentence(
                    "Offset reset {reset_id} is {state}; only a preview or a waiting one can be cancelled.",
                    reset_id=reset_id,
                    state=row.state,
                )
            )
        change_state(row, ResetState.CANCELLED, finished_at=timezone.now())
        record(
            actor,
            AuditOperation.GROUP_CANCEL_RESET,
            "group",
            row.group_id,
            comment=comment,
            after=spec_of_audit(row),
            outcome=Outcome.CONFIRMED,
        )
    return row


# -- the steps; also of the worker ---------------------------------------------------------------------------------------------


def compute(client: GroupOffsetsClient, spec: ResetSpec) -> list[PartitionReset]:
    """Read the offsets and logs, and plan. Raises Rejected, NoResponse, Declined."""
    committed, unstable = client.committed()
    source: dict[Key, core.CommittedOffset] = {}
    saved: dict[Key, core.CommittedOffset | None] = {}
    if spec.target is ResetTarget.GROUP:
        source, _ = client.committed(group_id=spec.source_group)
        if not source:
            raise Rejected(
                sentence("Group {source_group} has no committed offsets.", source_group=repr(spec.source_group)),
                "source_group",
            )
    elif spec.target is ResetTarget.UNDO:
        assert spec.undone is not None
        saved = {r.key: r.now for r in existing(spec.undone).rows if r.changes}
    named: set[Key] = set(source) | set(saved)
    given = named or set(spec.offsets) or set(committed) | unstable
    topics = {*spec.topics, *(t for t, _ in spec.partitions)} or {t for t, _ in given}
    leaders = client.leaders(topics) if topics else {}
    if spec.target is not ResetTarget.DELETE and (missing := sorted(set(spec.topics) - {t for t, _ in leaders})):
        raise Rejected(sentence("There is no topic {missing}.", missing=", ".join(missing[:NAMED_MAX])), "topics")
    keys = core.select_partitions(spec, {*committed, *unstable}, leaders, named)
    chosen = {k: leaders[k] for k in keys if k in leaders}
    read = core.OffsetsRead(
        committed=committed,
        leaders=leaders,
        logs=client.log_ranges(chosen),
        unstable=unstable,
        at_time=client.offsets_at(chosen, spec.time_ms or 0) if spec.target is ResetTarget.TIME else {},
        source=source,
        saved=saved,
    )
    return core.plan(spec, keys, read, _ages(keys))


def _ages(keys: Iterable[Key]) -> Callable[[Key, int], RecordAge | None]:
    """Ages of records from the observed log ends in the rows, without a request."""
    requested = set(keys)
    now_ms = time.time_ns() // 1_000_000
    ends = {
        (topic, index): LogEndHistory.restored(observed)
        for topic, index, observed in LogEnds.objects.filter(
            partition__topic__name__in={t for t, _ in requested}
        ).values_list("partition__topic__name", "partition__index", "observed")
        if (topic, index) in requested
    }
    return lambda key, offset: ends[key].age(offset, now_ms) if key in ends else None


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
    committed, unstable = client.committed(changed)
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
            finish_changes(change_id(row), None, Outcome.REJECTED, "Declined for all partitions.")
            raise _all_declined(row, errors)
        committed, _ = client.committed([r.key for r in changing])
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
        finish_changes(change_id(row), None, outcome, note or "Read back as written.")
    return row


def _wait(row: OffsetReset, actor: str, comment: str, minutes: int) -> OffsetReset:
    with transaction.atomic():
        until = timezone.now() + timedelta(minutes=minutes)
        change_state(
            row, ResetState.WAITING, wait_until=until, actor=actor, comment=comment, cause=ResetCause.NONE, note=""
        )
        record(
            actor,
            AuditOperation.GROUP_WAIT_RESET,
            "group",
            row.group_id,
            comment=comment,
            after=spec_of_audit(row),
            outcome=Outcome.CONFIRMED,
            detail=f"Waits until {until:%Y-%m-%d %H:%M} UTC for the group to be empty.",
        )
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


# -- forms of a row ------------------------------------------------------------------------------------------------------------


def existing(reset_id: int) -> OffsetReset:
    row = OffsetReset.objects.filter(pk=reset_id).first()
    if row is None:
        raise Rejected(
            sentence(
                "There is no offset reset {reset_id}; previews are kept for a day, applied resets for {days} days.",
                reset_id=reset_id,
                days=UNDO_DAYS,
            )
        )
    return row


def stored(rows: list[PartitionReset]) -> dict[str, object]:
    """The columns of a computed reset."""
    return {"rows": tuple(rows), "totals": core.totals(rows)}


def verb_of(row: OffsetReset) -> AuditOperation:
    return VERBS.get(row.spec.target, AuditOperation.GROUP_RESET_OFFSETS)


def change_id(row: OffsetReset) -> str:
    return f"offset-reset-{row.pk}"


def spec_of_audit(row: OffsetReset) -> dict[str, object]:
    return {"reset": row.pk, **{k: v for k, v in row.spec.to_json().items() if k != "offsets"}}
