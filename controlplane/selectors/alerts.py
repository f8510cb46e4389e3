"""Alerts: what is wrong now, and what was lately. Law: an observer that is silent is an alert of its own, which nobody else could write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, Max, Q, Value, When
from django.utils import timezone

from controlplane import alerts as core
from controlplane.models import Alert
from controlplane.selectors.common import Page, age_s, cluster_row, paged

SILENT_AGE_S = 15.0


@dataclass(frozen=True, slots=True)
class AlertRow:
    """`severity`: at_risk or degraded; `subject`: the number of a broker, move or job, a group's verdict, or empty. `do`: the next step. `ended_at`
    null = now; `lasts_s` until then."""

    id: int
    kind: str
    subject: str
    severity: str
    text: str
    do: str
    since: datetime
    ended_at: datetime | None
    lasts_s: float


COLUMNS = {"since": "since", "severity": "gravity", "kind": "kind", "ended_at": "ended_at"}
ORDER = tuple(dict.fromkeys(k.name for k in core.KINDS))
GRAVITY = Case(When(severity=core.AT_RISK, then=Value(0)), default=Value(len(ORDER))) + Case(
    *(When(kind=name, then=Value(place)) for place, name in enumerate(ORDER)), default=Value(0)
)
"""By severity, within it in the order of the table: what has no leader stands above a disk that fills up, whichever came first."""


def alert_list(
    *, query: str = "", sort: str = "-since", page: int = 1, per_page: int = 50, ended: bool = False
) -> Page[AlertRow]:
    """Those that are open, or (`ended`) those that ended within the week."""
    rows = Alert.objects.filter(ended_at__isnull=not ended).annotate(gravity=GRAVITY)
    if query:
        rows = rows.filter(Q(text__icontains=query) | Q(kind__icontains=query))
    return paged(
        rows, lambda found: [_shape(a) for a in found],
        page=page, per_page=per_page, sort=sort, columns=COLUMNS, query=query, tie="-pk",
    )  # fmt: skip


def silence() -> AlertRow | None:
    """The observer's: while it says nothing, every other alert is as old as that."""
    seen = cluster_row().observed_at
    old = age_s(seen)
    if seen is None or old is None or old <= SILENT_AGE_S:
        return None
    return AlertRow(
        0, "observer_silent", "", "at_risk", f"Nothing was read from the cluster for {int(old)} s: whatever stands here is as old as that.",
        "Look whether the web process (or `manage.py observe`) runs, whether ZooKeeper answers, and at the console's log.", seen, None, old,
    )  # fmt: skip


def open_alerts() -> list[AlertRow]:
    """All of them, gravest and oldest first, the observer's silence in front."""
    rows = [_shape(a) for a in Alert.objects.filter(ended_at__isnull=True).order_by("severity", "since", "pk")]
    silent = silence()
    return [silent, *rows] if silent is not None else rows


def counts() -> tuple[int, int, int]:
    """(open, of them at risk, newest id): what a badge shows, and by what a page sees that the list changed."""
    found = Alert.objects.filter(ended_at__isnull=True).aggregate(
        all=Count("pk"), grave=Count("pk", filter=Q(severity="at_risk")), newest=Max("pk")
    )
    return found["all"], found["grave"], found["newest"] or 0


def _shape(a: Alert) -> AlertRow:
    lasts = ((a.ended_at or timezone.now()) - a.since).total_seconds()
    return AlertRow(a.pk, a.kind, a.subject, a.severity, a.text, a.do, a.since, a.ended_at, max(0.0, lasts))
