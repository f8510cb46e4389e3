"""Operations on alerts: acknowledge, add a note, silence, start a stopped process of the local cluster.

Invariants: each operation is in the audit log and in the timeline of the alert. An acknowledgement and a silence never end an alert: only the
observed state does.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.clients import supervisor
from controlplane.domain.alert import RULES
from controlplane.domain.alert_types import EntryKind
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Alert, AlertEntry, AlertSilence
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, audited, needs_reason, record
from weir_common.phrases import phrase_to_json, sentence

SILENCE_MINUTES_MAX = 30 * 24 * 60
"""Maximum duration of a silence. For a longer time, change the threshold of the alert instead."""

NOTE_CHARS_MAX = 4_000
"""Maximum number of characters of a note: a page of text. The timeline is read as a whole."""


def _open_alert(alert_id: int) -> Alert:
    alert = Alert.objects.filter(pk=alert_id).first()
    if alert is None:
        raise Rejected(sentence("There is no stored alert {alert_id}.", alert_id=alert_id))
    if alert.ended_at is not None:
        raise Rejected(
            sentence(
                "Alert {alert_id} was resolved at {ended_at} UTC.",
                alert_id=alert_id,
                ended_at=f"{alert.ended_at:%Y-%m-%d %H:%M:%S}",
            )
        )
    return alert


def _enter(alert: Alert, kind: EntryKind, actor: str, text: str = "") -> None:
    """`text`: of the user, or a sentence with it."""
    entry = {"at": timezone.now(), "kind": kind, "actor": actor, "text": text, "phrase": phrase_to_json(text)}
    AlertEntry.objects.create(alert=alert, **entry)


@audited(AuditOperation.ALERT_ACKNOWLEDGE, "{alert_id}")
def acknowledge(alert_id: int, *, actor: str, comment: str = "") -> Alert:
    """Record that this operator works on the alert. Raises Rejected for a resolved alert, or one that is acknowledged already."""
    alert = _open_alert(alert_id)
    with transaction.atomic():
        free = Alert.objects.filter(pk=alert_id, ended_at__isnull=True, acknowledged_at__isnull=True)
        if not free.update(acknowledged_by=actor, acknowledged_at=timezone.now()):
            alert.refresh_from_db()
            raise Rejected(
                sentence(
                    "{user} acknowledged alert {alert_id} before.",
                    user=alert.acknowledged_by or sentence("Another operator"),
                    alert_id=alert_id,
                )
            )
        _enter(alert, EntryKind.ACKNOWLEDGED, actor, comment)
        record(
            actor, AuditOperation.ALERT_ACKNOWLEDGE, "alert", str(alert_id), comment=comment, outcome=Outcome.CONFIRMED
        )
    return Alert.objects.get(pk=alert_id)


@audited(AuditOperation.ALERT_WITHDRAW, "{alert_id}")
def withdraw(alert_id: int, *, actor: str, comment: str = "") -> Alert:
    """Withdraw the acknowledgement: no operator works on the alert. Raises Rejected."""
    alert = _open_alert(alert_id)
    with transaction.atomic():
        taken = Alert.objects.filter(pk=alert_id, acknowledged_at__isnull=False)
        if not taken.update(acknowledged_by="", acknowledged_at=None):
            raise Rejected(sentence("Alert {alert_id} is not acknowledged.", alert_id=alert_id))
        _enter(alert, EntryKind.WITHDRAWN, actor, comment)
        before = {"acknowledged_by": alert.acknowledged_by}
        record(
            actor,
            AuditOperation.ALERT_WITHDRAW,
            "alert",
            str(alert_id),
            comment=comment,
            before=before,
            outcome=Outcome.CONFIRMED,
        )
    return Alert.objects.get(pk=alert_id)


@audited(AuditOperation.ALERT_NOTE, "{alert_id}")
def add_note(alert_id: int, text: str, *, actor: str) -> None:
    """Add a note to the timeline of an alert, also of a resolved one. Raises Rejected."""
    alert = Alert.objects.filter(pk=alert_id).first()
    if alert is None:
        raise Rejected(sentence("There is no stored alert {alert_id}.", alert_id=alert_id))
    text = text.strip()
    if not text:
        raise Rejected("Write the note.", "text")
    if len(text) > NOTE_CHARS_MAX:
        raise Rejected(
            sentence(
                "The note has {count} characters; at most {max} are stored.",
                count=f"{len(text):,}",
                max=f"{NOTE_CHARS_MAX:,}",
            ),
            "text",
        )
    with transaction.atomic():
        _enter(alert, EntryKind.NOTE, actor, text)
        record(
            actor, AuditOperation.ALERT_NOTE, "alert", str(alert_id), after={"text": text}, outcome=Outcome.CONFIRMED
        )


@audited(AuditOperation.ALERT_SILENCE, lambda given: f"{given['kind']} {given['subject'] or ''}".strip())
def silence(kind: str, subject: str | None, minutes: int, *, actor: str, comment: str = "") -> AlertSilence:
    """Mark alerts of this kind as silenced for `minutes` minutes. `subject` None: every object. Raises Rejected."""
    if kind not in {r.kind.value for r in RULES}:
        raise Rejected(
            sentence("There is no kind of alert {kind}; GET /api/v1/alerts names the kinds.", kind=repr(kind)), "kind"
        )
    if not 1 <= minutes <= SILENCE_MINUTES_MAX:
        raise Rejected(
            sentence("A silence lasts 1 to {max} minutes (30 days).", max=f"{SILENCE_MINUTES_MAX:,}"), "minutes"
        )
    needs_reason(comment)
    now = timezone.now()
    with transaction.atomic():
        row = AlertSilence.objects.create(
            kind=kind,
            subject=subject,
            reason=comment,
            actor=actor,
            starts_at=now,
            ends_at=now + timedelta(minutes=minutes),
        )
        for alert in _silenced_by(row):
            until = sentence("Until {time} UTC: {reason}", time=f"{row.ends_at:%Y-%m-%d %H:%M}", reason=comment)
            _enter(alert, EntryKind.SILENCED, actor, until)
        record(
            actor,
            AuditOperation.ALERT_SILENCE,
            "alert",
            str(row),
            comment=comment,
            after={"kind": kind, "subject": subject, "ends_at": row.ends_at.isoformat()},
            outcome=Outcome.CONFIRMED,
        )
    return row


@audited(AuditOperation.ALERT_END_SILENCE, "{silence_id}")
def end_silence(silence_id: int, *, actor: str, comment: str = "") -> None:
    """End a silence now. Raises Rejected."""
    now = timezone.now()
    with transaction.atomic():
        row = AlertSilence.objects.filter(pk=silence_id).first()
        if row is None:
            raise Rejected(sentence("There is no silence {silence_id}.", silence_id=silence_id))
        if not AlertSilence.objects.filter(pk=silence_id, ends_at__gt=now).update(ends_at=now, ended_by=actor):
            raise Rejected(sentence("Silence {silence_id} has ended.", silence_id=silence_id))
        for alert in _silenced_by(row):
            _enter(alert, EntryKind.SILENCE_ENDED, actor, comment)
        record(
            actor,
            AuditOperation.ALERT_END_SILENCE,
            "alert",
            str(row),
            comment=comment,
            before={"ends_at": row.ends_at.isoformat()},
            outcome=Outcome.CONFIRMED,
        )


def _silenced_by(row: AlertSilence) -> QuerySet[Alert]:
    found = Alert.objects.filter(kind=row.kind, ended_at__isnull=True)
    return found if row.subject is None else found.filter(subject=row.subject)


@audited(AuditOperation.PROCESS_START, "{name}")
def start_process(name: str, *, actor: str, comment: str = "") -> None:
    """Start a stopped process of the local cluster. Raises Rejected unless a supervisor runs and has stopped the process."""
    folder = settings.WEIR.data_dir
    if not supervisor.is_kept_stopped(folder, name):
        raise Rejected(
            sentence(
                "No supervisor on this machine keeps {name} stopped. Start the process on its own machine.", name=name
            )
        )
    supervisor.request_start(folder, name)
    record(actor, AuditOperation.PROCESS_START, "process", name, comment=comment, outcome=Outcome.CONFIRMED)
