"""Marks on the time line of charts: changes, alerts, elections and ends of brokers within a range. Three queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from controlplane.domain.alert_types import AlertKind
from controlplane.domain.audit_operation import operation_label
from controlplane.domain.cluster_events import ClusterEventKind
from controlplane.domain.history import HistorySubject
from controlplane.domain.incident import BROKERS
from controlplane.domain.page_phrases import OPERATION_ON_OBJECT
from controlplane.models import Alert, Change, ClusterEvent
from controlplane.selectors.alerts import shown_texts
from controlplane.selectors.changes import WITHOUT_EFFECT
from controlplane.selectors.visibility import visible
from weir_common.phrases import Phrase, TranslatableText, Value, with_phrase

M = TypeVar("M", bound=Model)

MARKS_MAX = 60
"""Maximum number of marks of a page."""


class MarkKind(StrEnum):
    CHANGE = "change"
    ALERT = "alert"
    ELECTION = "election"
    BROKER = "broker"


EVENTS = {
    ClusterEventKind.LEADERS_CHANGED: MarkKind.ELECTION,
    ClusterEventKind.CONTROLLER_ELECTED: MarkKind.ELECTION,
    ClusterEventKind.BROKER_DOWN: MarkKind.BROKER,
    ClusterEventKind.BROKER_REGISTERED: MarkKind.BROKER,
}

ALERTS = {
    HistorySubject.BROKER: tuple(BROKERS),
    HistorySubject.GROUP: (
        AlertKind.GROUP_DATA_LOST,
        AlertKind.GROUP_RETENTION,
        AlertKind.GROUP_FALLING_BEHIND,
        AlertKind.GROUP_STOPPED,
        AlertKind.GROUP_STALLED,
    ),
    HistorySubject.SHARE_GROUP: (AlertKind.SHARE_GROUP_STOPPED,),
}
"""Alerts about one object of a kind. Alerts about topics name no topic."""


@dataclass(frozen=True, slots=True)
class MarkRow:
    """`target`: id of the change, of the alert or of the broker; empty for an election."""

    at: datetime
    kind: str
    text: str
    target: str

    @property
    def is_change(self) -> bool:
        return self.kind == MarkKind.CHANGE


@dataclass(frozen=True, slots=True)
class Marks:
    """The newest marks, in the order of time. `more`: the range has earlier ones."""

    rows: list[MarkRow]
    more: bool


def marks(subject: str, since: datetime, until: datetime) -> Marks:
    """Changes and alerts of the subject (of all objects for the cluster, of its topic for a partition), elections, and starts and ends of brokers.
    Reads of records and logins are no changes."""
    within = (since, until)
    kind, _, name = subject.partition(":")
    if kind == HistorySubject.PARTITION:
        kind, name = HistorySubject.TOPIC, name.rpartition(":")[0]
    if kind == HistorySubject.BROKER_API:
        kind, name = HistorySubject.BROKER, name.partition(":")[0]
    changes = visible(Change.objects.filter(at__range=within).exclude(object_kind__in=WITHOUT_EFFECT))
    alerts = visible(Alert.objects.filter(since__range=within))
    events = visible(ClusterEvent.objects.filter(at__range=within, kind__in=list(EVENTS)))
    if kind != HistorySubject.CLUSTER:
        changes = changes.filter(object_kind=kind, object_name=name)
        alerts = alerts.filter(subject=name, kind__in=ALERTS.get(HistorySubject(kind), ()))
    if kind == HistorySubject.BROKER:
        events = events.filter(Q(subject=name) | Q(kind=ClusterEventKind.LEADERS_CHANGED))
    mark_rows = [MarkRow(c.at, MarkKind.CHANGE, _operation(c), str(c.pk)) for c in _newest(changes)]
    mark_rows += [MarkRow(a.since, MarkKind.ALERT, shown_texts(a)[0], str(a.pk)) for a in _newest(alerts)]
    mark_rows += [
        MarkRow(e.at, EVENTS[k], with_phrase(e.text, e.phrase), e.subject if EVENTS[k] is MarkKind.BROKER else "")
        for e in _newest(events)
        if (k := ClusterEventKind(e.kind))
    ]
    mark_rows.sort(key=lambda m: m.at)
    return Marks(mark_rows[-MARKS_MAX:], len(mark_rows) > MARKS_MAX)


def _operation(c: Change) -> str:
    """The code of the operation with its object and its user. Pages show the label of the operation instead of the code."""
    values: dict[str, Value] = {"operation": Phrase(operation_label(c.verb)), "name": c.object_name, "actor": c.actor}
    return TranslatableText.of(f"{c.verb} {c.object_name}, {c.actor}", Phrase(OPERATION_ON_OBJECT, values))


def _newest(rows: QuerySet[M]) -> QuerySet[M]:
    return rows.order_by("-id")[: MARKS_MAX + 1]
