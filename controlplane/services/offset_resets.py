"""Offset resets of a consumer group: preview, apply, cancel and undo. Invariants: a preview is a row with the committed offsets that it was computed
from, and a reset is applied only to those.

Does not contain: what a reset changes (`domain.offset_reset`), the requests (`clients.group_offsets`), the verification and the write
(`services.offset_reset_writes`), waiting and cleaning up (`services.offset_reset_worker`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.clients.share_offsets import offsets_client
from controlplane.domain import offset_reset as core
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.log_ends import LogEndHistory, RecordAge
from controlplane.domain.offset_reset_texts import NAMED_MAX
from controlplane.domain.offset_reset_types import (
    PREVIEW_MINUTES,
    UNDO_DAYS,
    WAIT_MINUTES_MAX,
    CommittedOffset,
    Key,
    PartitionReset,
    ResetSpec,
    ResetState,
    ResetTarget,
)
from controlplane.models import LogEnds, OffsetReset
from controlplane.models.change import Outcome
from controlplane.models.offset_reset import ResetCause
from controlplane.services.common import Rejected, record, record_rejection, recorded_rejections
from controlplane.services.offset_reset_writes import NotReady, change_state, spec_of_audit, verb_of, write
from weir_common.phrases import sentence


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
        **to_columns(rows),
        requests=requests,
        undo_of=undo_of,
        actor=actor,
        computed_at=timezone.now(),
    )


def preview_again(reset_id: int, *, actor: str) -> OffsetReset:
    """A new preview of the request of another reset, from the current offsets. Raises Rejected."""
    row = find_reset(reset_id)
    return preview(row.group_id, row.spec, actor=actor, undo_of=row.undo_of)


def undo(reset_id: int, *, actor: str) -> OffsetReset:
    """The preview of an undo: offset, leader epoch and metadata as before the reset, within UNDO_DAYS. Raises Rejected."""
    row = find_reset(reset_id)
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
    row = find_reset(reset_id)
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
            detail=sentence("Waits until {until} UTC for the group to be empty.", until=f"{until:%Y-%m-%d %H:%M}"),
        )
    return row


def cancel(reset_id: int, *, actor: str, comment: str = "") -> OffsetReset:
    """Drop a preview, or end the wait of a reset. Raises Rejected."""
    row = find_reset(reset_id)
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


def compute(client: GroupOffsetsClient, spec: ResetSpec) -> list[PartitionReset]:
    """Read the offsets and logs, and plan. Raises Rejected, NoResponse, Declined."""
    committed, unstable = client.fetch_committed()
    source: dict[Key, CommittedOffset] = {}
    undone: list[PartitionReset] = []
    if spec.target is ResetTarget.GROUP:
        source, _ = client.fetch_committed(group_id=spec.source_group)
        if not source:
            raise Rejected(
                sentence("Group {source_group} has no committed offsets.", source_group=repr(spec.source_group)),
                "source_group",
            )
    elif spec.target is ResetTarget.UNDO:
        assert spec.undone is not None
        undone = [r for r in find_reset(spec.undone).rows if r.changes]
    saved: dict[Key, CommittedOffset | None] = {r.key: r.now for r in undone}
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
    return core.with_spans_of(undone, core.plan(spec, keys, read, _ages(keys)))


def _ages(keys: Iterable[Key]) -> Callable[[Key, int], RecordAge | None]:
    """Ages of records from the observed log ends in the rows, without a request."""
    requested = set(keys)
    now_ms = time.time_ns() // 1_000_000
    ends = {
        (topic, index): LogEndHistory.from_stored(observed)
        for topic, index, observed in LogEnds.objects.filter(
            partition__topic__name__in={t for t, _ in requested}
        ).values_list("partition__topic__name", "partition__index", "observed")
        if (topic, index) in requested
    }
    return lambda key, offset: ends[key].age(offset, now_ms) if key in ends else None


def find_reset(reset_id: int) -> OffsetReset:
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


def to_columns(rows: list[PartitionReset]) -> dict[str, object]:
    """The columns of a computed reset."""
    return {"rows": tuple(rows), "totals": core.totals(rows)}
