"""Offset resets with their partitions, for pages, scripts and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters

from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset_types import (
    PREVIEW_MINUTES,
    UNDO_DAYS,
    Key,
    PartitionReset,
    ReportedDifference,
    ResetState,
    ResetTarget,
    StoredReset,
)
from controlplane.models import OffsetReset
from controlplane.selectors.common import StateFilter, TimeFilter, in_states
from controlplane.selectors.paging import Page, PageStart, numbered_page, paginate
from controlplane.selectors.visibility import TOPIC, limited, sees, visible
from weir_common.phrases import with_phrase


class ResetVerb(StrEnum):
    """Operations on an offset reset."""

    APPLY = "apply"
    CANCEL = "cancel"
    PREVIEW = "preview"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class ResetPartitionRow:
    """`now`, `after`: committed offsets; `after` null without a `problem`: the committed offset is deleted. `limited`: log_start or log_end, where the
    requested offset was outside the log. `problem`: no_partition, no_leader, no_committed_offset, no_source_offset or open_transaction; such a
    partition is not changed. `lost`: records that retention deleted before the group read them. `span_ms`: time between the records at both
    offsets; `span_at_least`: it may be longer. `error`: error code of the coordinator."""

    topic: str
    partition: int
    now: int | None
    after: int | None
    log_start: int | None
    log_end: int | None
    changes: bool
    replayed: int | None
    skipped: int | None
    lost: int
    span_ms: int | None
    span_at_least: bool
    limited: str
    problem: str
    error: str


@dataclass(frozen=True, slots=True)
class OffsetResetRow:
    """`target`: earliest, latest, time, offset, shift, group, file, delete or undo; `spec` is the whole request. `state`: previewed, waiting, applying,
    applied, failed, cancelled or expired. `cause`: why the last attempt to apply it did not succeed: active, changed, out_of_range, no_response,
    declined or different. `requests`: requests of the preview to brokers. `can`: apply, cancel,
    preview (again, from the current offsets), undo."""

    id: int
    group_id: str
    target: str
    spec: StoredReset
    state: str
    cause: str
    note: str
    partitions: int
    changes: int
    problems: int
    replayed: int
    skipped: int
    overtaken: int
    limited: int
    requests: int
    undo_of: int | None
    actor: str
    comment: str
    created_at: datetime
    applies_until: datetime | None
    wait_until: datetime | None
    finished_at: datetime | None
    undo_until: datetime | None
    differences: list[ReportedDifference]
    can: list[str]

    @property
    def can_apply(self) -> bool:
        return ResetVerb.APPLY in self.can

    @property
    def can_cancel(self) -> bool:
        return ResetVerb.CANCEL in self.can

    @property
    def can_preview(self) -> bool:
        return ResetVerb.PREVIEW in self.can

    @property
    def can_undo(self) -> bool:
        return ResetVerb.UNDO in self.can

    @property
    def is_previewed(self) -> bool:
        return self.state == ResetState.PREVIEWED

    @property
    def is_waiting(self) -> bool:
        return self.state == ResetState.WAITING

    @property
    def is_failed(self) -> bool:
        return self.state == ResetState.FAILED

    @property
    def is_deletion(self) -> bool:
        return self.target == ResetTarget.DELETE


@dataclass(frozen=True, slots=True)
class OffsetResetDetail:
    """An offset reset with its partitions."""

    row: OffsetResetRow
    partitions: list[ResetPartitionRow]


class OffsetResetFilter(TimeFilter):
    state = StateFilter(in_states(ResetState))
    group_id = filters.CharFilter(strip=False)


def reset_list(*, group_id: str = "", page: PageStart = 1, per_page: int = 50) -> Page[OffsetResetRow]:
    """Newest first, of one group when given. Without the partitions."""
    rows = OffsetResetFilter.rows(OffsetReset.objects.all(), group_id=group_id)
    return reset_page(rows, page=page, per_page=per_page)


def reset_page(
    rows: QuerySet[OffsetReset], *, sort: str = "-id", page: PageStart, per_page: int, query: str = ""
) -> Page[OffsetResetRow]:
    return paginate(
        rows.defer("rows"),
        lambda found: [_row(r) for r in found],
        page=page,
        per_page=per_page,
        sort="-id",
        columns={"id": "id"},
    )


def reset_row(reset_id: int) -> OffsetResetRow | None:
    row = visible(OffsetReset.objects.defer("rows").filter(pk=reset_id)).first()
    return None if row is None else _row(row)


def reset_detail(reset_id: int) -> OffsetResetDetail | None:
    row = visible(OffsetReset.objects.filter(pk=reset_id)).first()
    if row is None:
        return None
    return OffsetResetDetail(_row(row), [_partition(p, row.errors) for p in row.rows if sees(TOPIC, p.topic)])


def partitions_page(detail: OffsetResetDetail, *, page: PageStart = 1, per_page: int = 50) -> Page[ResetPartitionRow]:
    """Partitions with a problem first, then those that change, then the others."""
    rows = sorted(detail.partitions, key=lambda p: (not p.problem, not p.changes))
    start, window = numbered_page(len(rows), page, per_page)
    return Page(rows[start : start + window.per_page], len(rows), window, "", "")


def _row(reset: OffsetReset) -> OffsetResetRow:
    applies_until = (
        reset.computed_at + timedelta(minutes=PREVIEW_MINUTES) if reset.state == ResetState.PREVIEWED else None
    )
    sent = reset.finished_at is not None and reset.applying_at is not None
    undo_until = reset.finished_at + timedelta(days=UNDO_DAYS) if sent and reset.finished_at else None
    now = timezone.now()
    can: list[str] = []
    short = limited()  # the definition and the note may name other topics than those of the user
    if applies_until is not None and now < applies_until and reset.totals.changes:
        can.append(ResetVerb.APPLY)
    if reset.state in (ResetState.PREVIEWED, ResetState.WAITING):
        can.append(ResetVerb.CANCEL)
    if reset.state in (ResetState.PREVIEWED, ResetState.CANCELLED, ResetState.EXPIRED):
        can.append(ResetVerb.PREVIEW)
    if undo_until is not None and now < undo_until:
        can.append(ResetVerb.UNDO)
    return OffsetResetRow(
        id=reset.pk,
        group_id=reset.group_id,
        target=reset.spec.target.value,
        spec={"target": reset.spec.target.value} if short else reset.spec.to_json(),
        state=reset.state,
        cause=reset.cause,
        note="" if short else with_phrase(reset.note, reset.note_phrase),
        **asdict(reset.totals),
        requests=reset.requests,
        undo_of=reset.undo_of_id,
        actor=reset.actor,
        comment=reset.comment,
        created_at=reset.created_at,
        applies_until=applies_until,
        wait_until=reset.wait_until,
        finished_at=reset.finished_at,
        undo_until=undo_until,
        differences=[d for d in reset.differences if sees(TOPIC, d.topic)],
        can=can,
    )


def _partition(partition: PartitionReset, errors: Mapping[Key, ErrorCode]) -> ResetPartitionRow:
    return ResetPartitionRow(
        topic=partition.topic,
        partition=partition.partition,
        now=partition.now.offset if partition.now else None,
        after=partition.after.offset if partition.after else None,
        log_start=partition.log_start,
        log_end=partition.log_end,
        changes=partition.changes,
        replayed=partition.replayed,
        skipped=partition.skipped,
        lost=partition.lost,
        span_ms=partition.span_ms,
        span_at_least=partition.span_at_least,
        limited=partition.limited.value,
        problem=partition.problem.value if partition.problem else "",
        error=errors[partition.key].name if partition.key in errors else "",
    )
