"""Replica recoveries, and the damaged replicas that brokers report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.models import ReplicaDamageReport, ReplicaRecovery
from controlplane.models.job import DamageKind, RecoveryState
from controlplane.selectors.common import NumberFilter, StateFilter, TimeFilter, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import visible
from weir_common.phrases import with_phrase


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """A recovery of a damaged replica: the broker deletes the replica and copies it from the leader. `bytes_total` null: unknown."""

    id: int
    topic: str
    partition: int
    broker_id: int
    state: str
    bytes_total: int | None
    bytes_done: int | None
    actor: str
    comment: str
    note: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class DamageReportRow:
    """A damaged replica reported by a broker. `kind`: corrupt (damaged bytes), disk (offline, its log directory failed), lost (missing at the start),
    diverged (truncated below the high watermark); the last two are repaired automatically. `recovery`: the recovery that was requested for it."""

    id: int
    topic: str
    partition: int
    broker_id: int
    kind: str
    detail: str
    found_at: datetime
    ended_at: datetime | None
    recovery: int | None
    recovery_state: str | None

    @property
    def needs_recovery(self) -> bool:
        """The broker does not repair it."""
        return self.kind in (DamageKind.CORRUPT, DamageKind.DISK)


UNFINISHED, FINISHED = "unfinished", "finished"
OPEN, RESOLVED = "open", "resolved"
UNFINISHED_STATES = (RecoveryState.REQUESTED, RecoveryState.RESET, RecoveryState.COPYING)


class RecoveryFilter(TimeFilter):
    state = StateFilter(
        {
            UNFINISHED: Q(state__in=UNFINISHED_STATES),
            FINISHED: ~Q(state__in=UNFINISHED_STATES),
            **in_states(RecoveryState),
        },
        help_text="unfinished and finished: groups of the other states.",
    )
    topic = filters.CharFilter(field_name="topic_name")
    partition = NumberFilter()


def recovery_list(
    *, page: PageStart = 1, per_page: int = 50, state: str = "", topic: str = "", partition: int | None = None
) -> Page[RecoveryRow]:
    """Newest first; of one topic, of one partition of it, when given."""
    rows = RecoveryFilter.rows(ReplicaRecovery.objects.all(), topic=topic, partition=partition, state=state)
    return recovery_page(rows, page=page, per_page=per_page)


def recovery_page(
    rows: QuerySet[ReplicaRecovery], *, sort: str = "-id", page: PageStart, per_page: int, query: str = ""
) -> Page[RecoveryRow]:
    return paginate(
        rows,
        lambda found: [recovery_shape(r) for r in found],
        page=page,
        per_page=per_page,
        sort="-id",
        columns={"id": "id"},
    )


def recovery_row(recovery_id: int) -> RecoveryRow | None:
    row = visible(ReplicaRecovery.objects.filter(pk=recovery_id)).first()
    return None if row is None else recovery_shape(row)


def recovery_shape(recovery: ReplicaRecovery) -> RecoveryRow:
    return RecoveryRow(
        id=recovery.pk,
        topic=recovery.topic_name,
        partition=recovery.partition,
        broker_id=recovery.broker_id,
        state=recovery.state,
        bytes_total=recovery.bytes_total,
        bytes_done=recovery.bytes_done,
        actor=recovery.actor,
        comment=recovery.comment,
        note=with_phrase(recovery.note, recovery.note_phrase),
        created_at=recovery.created_at,
        finished_at=recovery.finished_at,
    )


DAMAGE_REPORT_COLUMNS = {"id": "id", "topic": "topic_name", "broker_id": "broker_id", "kind": "kind"}


class DamageReportFilter(TimeFilter):
    time_field = "found_at"
    state = StateFilter(
        {OPEN: Q(ended_at=None), RESOLVED: Q(ended_at__isnull=False)}, help_text="open: brokers still report it."
    )
    topic = filters.CharFilter(field_name="topic_name")
    partition = NumberFilter()


def damage_report_list(
    *,
    state: str = "",
    topic: str = "",
    partition: int | None = None,
    sort: str = "-id",
    page: PageStart = 1,
    per_page: int = 50,
) -> Page[DamageReportRow]:
    """Damaged replicas reported by brokers, newest first. `state`: OPEN (still reported), RESOLVED."""
    rows = DamageReportFilter.rows(ReplicaDamageReport.objects.all(), state=state, topic=topic, partition=partition)
    return damage_report_page(rows, sort=sort, page=page, per_page=per_page)


def damage_report_page(
    rows: QuerySet[ReplicaDamageReport], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[DamageReportRow]:
    return paginate(
        rows.select_related("recovery"),
        lambda found: [_damage_report_row(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=DAMAGE_REPORT_COLUMNS,
        tie="-id",
    )


def damaged_replicas_open() -> int:
    """The number of replicas with an open report, as in the alert. A replica may have several reports."""
    reports = visible(ReplicaDamageReport.objects.filter(ended_at__isnull=True))
    return reports.order_by().values("topic_id", "partition", "broker_id").distinct().count()


def _damage_report_row(report: ReplicaDamageReport) -> DamageReportRow:
    return DamageReportRow(
        id=report.pk,
        topic=report.topic_name,
        partition=report.partition,
        broker_id=report.broker_id,
        kind=report.kind,
        detail=report.detail,
        found_at=report.found_at,
        ended_at=report.ended_at,
        recovery=report.recovery_id,
        recovery_state=report.recovery.state if report.recovery is not None else None,
    )
