"""Stored alerts. Evaluates the facts with `controlplane.domain.alert`, and writes the resulting alert rows and the entries of their history.

Invariants: a transaction is opened only if a row changes. Ended alerts are kept for a week. Does not contain: the reading of the facts (`alert_facts`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.domain import alert, alert_rows
from controlplane.domain import alert_types as types
from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.models import Alert, AlertEntry
from controlplane.models.alert import parts_columns
from controlplane.selectors import alert_thresholds
from controlplane.services import alert_facts
from weir_common.json_values import JsonObject
from weir_common.phrases import phrase_to_json, to_json

KEPT = timedelta(days=7)
"""Retention of an ended alert: one week on call."""


def evaluate(thresholds: AlertThresholds | None = None, monitored_since: datetime | None = None) -> bool:
    """One evaluation: alerts are created, updated and ended. `thresholds` None: those of the rows. `monitored_since`: the start of the monitor. A worker that was
    silent before, while the whole cluster was stopped, causes no alert. Returns whether any row changed. Raises DatabaseError."""
    now = timezone.now()
    found = alert.alerts(alert_facts.facts(thresholds or alert_thresholds.current_thresholds(), monitored_since))
    rows = Alert.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=now - timedelta(seconds=alert_rows.FLAP_SECONDS))
    )
    known = [
        alert_rows.StoredAlert(
            r.pk,
            r.kind,
            r.subject,
            r.severity,
            r.text,
            r.do,
            r.ended_at.timestamp() if r.ended_at is not None else None,
        )
        for r in rows.order_by("ended_at", "pk")
    ]
    changes = alert_rows.changes(known, found, now.timestamp())
    if not (changes.created or changes.updated or changes.resolved):
        return False  # a transaction would wait for the only write lock of the database
    with transaction.atomic():
        entries: list[AlertEntry] = []
        before = {k.id: k for k in known}
        for case in changes.created:
            row = Alert.objects.create(
                kind=case.kind,
                subject=case.subject,
                severity=case.severity,
                text=case.text,
                do=case.do,
                since=now,
                ended_at=None,
                words=_json(case),
                **parts_columns(case.parts),
            )
            entries.append(_entry(row.pk, now, types.EntryKind.OPENED, alert.text_of(case)))
        for pk, case in changes.updated:
            Alert.objects.filter(pk=pk).update(
                severity=case.severity, text=case.text, do=case.do, words=_json(case), ended_at=None
            )
            if before[pk].ended_s is not None:
                entries.append(_entry(pk, now, types.EntryKind.REOPENED, alert.text_of(case)))
            elif before[pk].severity != case.severity:
                text = alert.severity_change(types.Severity(before[pk].severity), case)
                entries.append(_entry(pk, now, types.EntryKind.CHANGED, text))
        Alert.objects.filter(pk__in=changes.resolved).update(ended_at=now)
        entries += [AlertEntry(alert_id=pk, at=now, kind=types.EntryKind.RESOLVED) for pk in changes.resolved]
        AlertEntry.objects.bulk_create(entries)
        Alert.objects.filter(ended_at__lt=now - KEPT).delete()
    return True


def _entry(alert_id: int, at: datetime, kind: types.EntryKind, text: str) -> AlertEntry:
    return AlertEntry(alert_id=alert_id, at=at, kind=kind, text=text, phrase=phrase_to_json(text))


def _json(a: types.ComputedAlert) -> JsonObject:
    return {name: to_json(value) for name, value in a.words.items()}
