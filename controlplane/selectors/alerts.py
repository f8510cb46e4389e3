"""Open and recent alerts. Invariant: a silent monitor causes an alert, which is computed here because the monitor itself cannot write it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Case, Count, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.utils import timezone
from django_filters import rest_framework as filters

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert import KINDS_IN_ORDER, brief, stored_texts
from controlplane.domain.alert_phrases import MONITOR_SILENT, MONITOR_SILENT_DO
from controlplane.domain.alert_types import AlertKind, AlertMetric, ClientRejection, GroupTopic, Severity
from controlplane.domain.cluster_events import ClusterEventKind
from controlplane.domain.history import HistorySubject
from controlplane.domain.incident import BROKERS
from controlplane.domain.text import duration
from controlplane.models import Alert, AlertEntry, AlertSilence, ClusterEvent
from controlplane.selectors.common import StateFilter, TimeFilter, age_s, cluster_row
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import GROUP_ALERTS, MOVE_ALERTS, TOPIC_ALERTS, limited, visible
from weir_common.phrases import Phrase, TranslatableText

SILENT_AGE_S = 15.0


@dataclass(frozen=True, slots=True)
class AlertRow:
    """`severity`: at_risk or degraded; `subject`: the number of a broker, move or job, a group's name, or empty. `do`: the next step. `ended_at`
    null = open; `lasts_s`: duration until then. `acknowledged_at` null = no operator works on it. `silenced_until` null = not silenced. `metric`: of an
    anomaly, `client`: of a rejected client, `share_group`: of missing dead letters; the subject of these alerts only identifies them. `again_since`: the last
    time at which the broker left after it had registered again during this alert; null = it left once, or the alert is of another kind."""

    id: int
    kind: str
    subject: str
    severity: str
    text: str
    do: str
    since: datetime
    ended_at: datetime | None
    lasts_s: float
    acknowledged_by: str = ""
    acknowledged_at: datetime | None = None
    silenced_until: datetime | None = None
    metric: AlertMetric | None = None
    client: ClientRejection | None = None
    share_group: GroupTopic | None = None
    again_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """`subject` null = every object of the kind. `ended_by`: who ended it before its time; then `ends_at` is that time."""

    id: int
    kind: str
    subject: str | None
    reason: str
    actor: str
    starts_at: datetime
    ends_at: datetime
    ended_by: str
    active: bool


SILENCE_ID = 0
"""Number of the alert of a silent monitor, which has no row."""
SILENCE_COLUMNS = {"ends_at": "ends_at", "kind": "kind", "starts_at": "starts_at", "actor": "actor"}
COLUMNS = {"since": "since", "severity": "severity_rank", "kind": "kind", "ended_at": "ended_at"}
BY_KIND = Case(*(When(kind=name, then=Value(place)) for place, name in enumerate(KINDS_IN_ORDER)), default=Value(0))


def _severity_rank(grave: Q) -> Combinable:
    """The order of alerts: those of this condition first, then by kind."""
    return Case(When(grave, then=Value(0)), default=Value(len(KINDS_IN_ORDER))) + BY_KIND


AT_RISK = Q(severity=Severity.AT_RISK)
BY_SEVERITY = _severity_rank(AT_RISK)
"""Sort key: by severity, then in the order of the table of kinds. So a partition without a leader is above a disk that fills up, whichever alert started
first."""


OPEN, RESOLVED = "open", "resolved"


class AlertFilter(TimeFilter):
    time_field = "since"
    query = filters.CharFilter(method="search", help_text="Part of the text or the kind.")
    state = StateFilter(
        {OPEN: Q(ended_at=None), RESOLVED: Q(ended_at__isnull=False), "all": Q()},
        without=OPEN,
        help_text="Default: open. resolved: ended within the last week.",
    )

    def search(self, rows: QuerySet[Alert], name: str, value: str) -> QuerySet[Alert]:
        if limited():  # the text may contain topics that the user must not see: a match would reveal their names
            return rows.filter(Q(subject__icontains=value) | Q(kind__icontains=value))
        return rows.filter(Q(text__icontains=value) | Q(kind__icontains=value))


def alert_list(
    *,
    query: str = "",
    sort: str = "-since",
    page: PageStart = 1,
    per_page: int = 50,
    state: str = OPEN,
    raised: Collection[int] = (),
) -> Page[AlertRow]:
    """The open alerts, or those of another `state`: RESOLVED (they ended within the last week), "all". `raised`: as of `alert_page`."""
    rows = AlertFilter.rows(Alert.objects.all(), query=query, state=state)
    return alert_page(rows, sort=sort, page=page, per_page=per_page, query=query, raised=raised)


def alert_page(
    rows: QuerySet[Alert],
    *,
    sort: str,
    page: PageStart,
    per_page: int,
    query: str = "",
    raised: Collection[int] = (),
) -> Page[AlertRow]:
    """`raised`: ids of the alerts that are shown and sorted as at risk, because their incident is."""
    return paginate(
        rows.annotate(severity_rank=_severity_rank(AT_RISK | Q(pk__in=raised))),
        lambda found: raise_severity(alert_shapes(found), raised),
        page=page,
        per_page=per_page,
        sort=sort,
        columns=COLUMNS,
        query=query,
        tie="-pk",
    )


def raise_severity(rows: list[AlertRow], raised: Collection[int]) -> list[AlertRow]:
    return [replace(a, severity=Severity.AT_RISK) if a.id in raised else a for a in rows]


def silence() -> AlertRow | None:
    """The alert of a silent monitor: all other alerts are then as old as its last report. A monitor that runs without ZooKeeper is not silent, and
    writes an alert for that."""
    row = cluster_row()
    seen = row.observed_at
    old = age_s(seen)
    if seen is None or old is None or old <= SILENT_AGE_S:
        return None
    heartbeat_age = age_s(row.heartbeat_at)
    if row.zookeeper_connected is False and heartbeat_age is not None and heartbeat_age <= SILENT_AGE_S:
        return None
    text = Phrase(MONITOR_SILENT, {"time": duration(old)})
    return AlertRow(
        SILENCE_ID,
        AlertKind.MONITOR_SILENT,
        "",
        Severity.AT_RISK,
        TranslatableText.of(str(text), text),
        MONITOR_SILENT_DO,
        seen,
        None,
        old,
    )


def open_alerts(kinds: Collection[AlertKind] = tuple(AlertKind)) -> list[AlertRow]:
    """The open alerts of these kinds, most severe and oldest first, after the alert of a silent monitor."""
    found = Alert.objects.filter(ended_at__isnull=True)
    if len(kinds) < len(AlertKind):
        found = found.filter(kind__in=kinds)
    rows = alert_shapes(visible(found).order_by("severity", "since", "pk"))
    silent = silence() if AlertKind.MONITOR_SILENT in kinds else None
    return [silent, *rows] if silent is not None else rows


def open_alerts_of_group(group_id: str) -> list[AlertRow]:
    """The open alerts of a consumer group or a share group, the most severe and oldest first."""
    of_group = Q(subject=group_id, kind__in=GROUP_ALERTS) | Q(group_id=group_id)
    found = Alert.objects.filter(of_group, ended_at__isnull=True)
    return alert_shapes(visible(found).order_by("severity", "since", "pk"))


def open_alerts_of_broker(broker_id: int) -> list[AlertRow]:
    """The open alerts of a broker, the most severe and oldest first."""
    found = Alert.objects.filter(ended_at__isnull=True, subject=str(broker_id), kind__in=BROKERS)
    return alert_shapes(visible(found).order_by("severity", "since", "pk"))


def open_alerts_of_topic(name: str, of_partitions: Collection[AlertKind]) -> list[AlertRow]:
    """The open alerts of a topic, the most severe and oldest first. `of_partitions`: kinds of alerts about partitions of all topics that are also about this
    one."""
    of_topic = Q(kind__in=TOPIC_ALERTS, subject=name) | Q(object_kind=HistorySubject.TOPIC, object_name=name)
    found = Alert.objects.filter(of_topic | Q(topic=name) | Q(kind__in=of_partitions), ended_at__isnull=True)
    return alert_shapes(visible(found).order_by("severity", "since", "pk"))


def open_alerts_of_move(move_id: int) -> list[AlertRow]:
    """The open alerts of a move, the most severe and oldest first."""
    found = Alert.objects.filter(ended_at__isnull=True, subject=str(move_id), kind__in=MOVE_ALERTS)
    return alert_shapes(visible(found).order_by("severity", "since", "pk"))


def most_severe() -> AlertRow | None:
    """The first open alert, in the order of the list."""
    found = visible(Alert.objects.filter(ended_at__isnull=True)).order_by(BY_SEVERITY, "pk").first()
    return None if found is None else alert_shapes([found])[0]


def counts() -> tuple[int, int, int]:
    """(open, open at risk, number of the newest timeline entry): a page compares them to see that an alert changed."""
    found = visible(Alert.objects.filter(ended_at__isnull=True)).aggregate(
        all=Count("pk"), grave=Count("pk", filter=Q(severity=Severity.AT_RISK))
    )
    newest = AlertEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
    return found["all"], found["grave"], newest or 0


def alert_row(alert_id: int) -> AlertRow | None:
    """An alert, open or ended. Number 0 is the alert of a silent monitor."""
    if alert_id == SILENCE_ID:
        return silence()
    return next(iter(alert_shapes(visible(Alert.objects.filter(pk=alert_id)))), None)


def alert_shapes(rows: Iterable[Alert]) -> list[AlertRow]:
    alerts = list(rows)
    now = timezone.now()
    silences = list(active_silences()) if alerts else []
    left_again = _left_again([a for a in alerts if a.kind == AlertKind.BROKER_DOWN and a.ended_at is None])
    return [
        AlertRow(
            a.pk,
            a.kind,
            a.subject,
            a.severity,
            *shown_texts(a),
            a.since,
            a.ended_at,
            max(0.0, ((a.ended_at or now) - a.since).total_seconds()),
            a.acknowledged_by,
            a.acknowledged_at,
            max((s.ends_at for s in silences if silences_alert(s, a)), default=None) if a.ended_at is None else None,
            AlertMetric(a.metric, HistorySubject(a.object_kind), a.object_name) if a.metric else None,
            ClientRejection(a.client, RejectionReason(a.client_reason)) if a.client else None,
            GroupTopic(a.group_id, a.topic) if a.group_id else None,
            left_again.get(a.subject),
        )
        for a in alerts
    ]


def _left_again(rows: list[Alert]) -> dict[str, datetime]:
    """The last time at which each broker left after it had registered again, by the subject of its open alert. An alert outlives a short return of its broker,
    so its start is that of the first time."""
    if not rows:
        return {}
    since = {a.subject: a.since for a in rows}
    events = ClusterEvent.objects.filter(
        kind__in=(ClusterEventKind.BROKER_REGISTERED, ClusterEventKind.BROKER_DOWN),
        subject__in=since,
        at__gte=min(since.values()),
    )
    registered: set[str] = set()
    again: dict[str, datetime] = {}
    for subject, kind, at in events.order_by("pk").values_list("subject", "kind", "at"):
        if at < since[subject]:
            continue
        if kind == ClusterEventKind.BROKER_REGISTERED:
            registered.add(subject)
        elif subject in registered:
            again[subject] = at
    return again


def shown_texts(a: Alert) -> tuple[str, str]:
    """The text and the action. For a user who sees only some resources the text is the short one of the kind: the whole one may name other topics."""
    text, do = stored_texts(a.kind, a.text, a.do, a.words)
    return (brief(a.kind, a.subject, "") if limited() else text), do


def active_silences() -> QuerySet[AlertSilence]:
    now = timezone.now()
    return AlertSilence.objects.filter(starts_at__lte=now, ends_at__gt=now)


def silences_of(a: AlertRow) -> list[int]:
    """Ids of the active silences of an open alert."""
    return [s.pk for s in active_silences() if a.ended_at is None and silences_alert(s, a)]


def silences_alert(s: AlertSilence, a: Alert | AlertRow) -> bool:
    return s.kind == a.kind and s.subject in (None, a.subject)


def silence_page(
    rows: QuerySet[AlertSilence], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[SilenceRow]:
    return paginate(
        rows,
        lambda found: [_silence_shape(s) for s in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=SILENCE_COLUMNS,
        query=query,
        tie="-pk",
    )


def silence_list(*, sort: str = "-ends_at", page: PageStart = 1, per_page: int = 50) -> Page[SilenceRow]:
    """All silences, those that ended too."""
    return silence_page(AlertSilence.objects.all(), sort=sort, page=page, per_page=per_page)


def silence_row(silence_id: int) -> SilenceRow | None:
    row = AlertSilence.objects.filter(pk=silence_id).first()
    return None if row is None else _silence_shape(row)


def _silence_shape(s: AlertSilence) -> SilenceRow:
    active = s.starts_at <= timezone.now() < s.ends_at
    return SilenceRow(s.pk, s.kind, s.subject, s.reason, s.actor, s.starts_at, s.ends_at, s.ended_by, active)
