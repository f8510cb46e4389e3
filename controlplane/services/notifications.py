"""Deliveries of notifications: due deliveries, attempts, retries, retention. The worker calls this each second.

Invariants: the row is the queue. A delivery is claimed with a compare-and-set and attempted at least once; the unique key (channel, incident, event)
keeps it from being created twice. The events of an incident reach a channel in their order. One attempt runs at a time: a receiver that does not respond
must not occupy both threads of the worker, which also runs moves. Does not contain: which event is due (`controlplane.domain.notification`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from controlplane.clients.notifications import Receiver, send
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.notification import (
    OPEN_STATES,
    RESOLVED_AFTER_S,
    ChannelKind,
    DeliveryEvent,
    DeliveryState,
    IncidentState,
    SendResult,
    next_event,
    retry_delay_s,
    state_after,
)
from controlplane.domain.notification_message import EFFECTS_MAX, ExplainedAlert, Message, sample_message
from controlplane.models import NotificationChannel, NotificationDelivery
from controlplane.selectors.alerts import AlertRow
from controlplane.selectors.incidents import IncidentRow, incident_list
from controlplane.selectors.notifications import channel_rule

KEPT = timedelta(days=14)
"""Retention of a delivery: two weeks, so that a missed notification can still be investigated."""

LEASE = timedelta(seconds=60)
"""An attempt that did not end within this time is attempted again: the worker died. Longer than any attempt takes."""

DUE_MAX = 20
"""Maximum number of deliveries that one poll hands to the worker. The others are due at the next poll."""

Sent = dict[DeliveryEvent, Severity]


def plan() -> int:
    """Create the deliveries that the open and the ended incidents need now. Returns their number. Raises DatabaseError."""
    channels = list(NotificationChannel.objects.filter(enabled=True))
    if not channels:
        return 0
    now = timezone.now()
    incidents = incident_list()
    made = _queue_opened(channels, incidents, now)
    return made + _queue_closed(channels, incidents, now)


def _queue_opened(channels: Iterable[NotificationChannel], incidents: list[IncidentRow], now: datetime) -> int:
    if not incidents:
        return 0
    keys = {i.cause.id: incident_key(i.cause) for i in incidents}
    sent: dict[tuple[int, str], Sent] = {}
    rows = NotificationDelivery.objects.filter(incident__in=keys.values())
    for channel_id, key, was, severity in rows.values_list("channel_id", "incident", "event", "severity"):
        sent.setdefault((channel_id, key), {})[DeliveryEvent(was)] = Severity(severity)
    found: list[NotificationDelivery] = []
    for incident in incidents:
        key, state = keys[incident.cause.id], _state(incident, now)
        for channel in channels:
            event = next_event(channel_rule(channel), state, sent.get((channel.pk, key), {}))
            if event is not None:
                found.append(_delivery(channel, incident.cause, key, event, state.severity, incident.effects, now))
    return _store(found)


def _queue_closed(channels: Iterable[NotificationChannel], incidents: list[IncidentRow], now: datetime) -> int:
    """The ends of incidents that were sent. The alert about a silent monitor has no row. It has ended when it is not open."""
    by_id = {c.pk: c for c in channels}
    open_keys = {incident_key(a) for i in incidents for a in (i.cause, *i.effects)}
    late = now - timedelta(seconds=RESOLVED_AFTER_S)
    rows = NotificationDelivery.objects.filter(channel__in=by_id, is_open=True).filter(
        Q(alert__isnull=True) | Q(alert__ended_at__lte=late)
    )
    ended = [r for r in rows.select_related("alert") if r.incident not in open_keys]
    if not ended:
        return 0
    found = []
    for row in ended:
        channel = by_id[row.channel_id]
        if channel.send_resolved and row.state != DeliveryState.CANCELLED:
            ended_at = row.alert.ended_at if row.alert and row.alert.ended_at else now
            message = replace(
                row.message,
                id=_id(channel.pk, row.incident, DeliveryEvent.RESOLVED),
                event=DeliveryEvent.RESOLVED,
                at=now.isoformat(),
                ended_at=ended_at.isoformat(),
            )
            found.append(
                NotificationDelivery(
                    channel=channel,
                    alert=row.alert,
                    incident=row.incident,
                    event=DeliveryEvent.RESOLVED,
                    severity=row.severity,
                    message=message,
                    due_at=now,
                )
            )
    with transaction.atomic():
        NotificationDelivery.objects.filter(pk__in=[r.pk for r in ended]).update(is_open=False)
        return _store(found)


def _store(deliveries: list[NotificationDelivery]) -> int:
    """Store the deliveries. A row that another worker has created since stays unchanged."""
    if deliveries:
        NotificationDelivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    return len(deliveries)


def _delivery(
    channel: NotificationChannel,
    cause: AlertRow,
    key: str,
    event: DeliveryEvent,
    severity: Severity,
    effects: list[AlertRow],
    now: datetime,
) -> NotificationDelivery:
    message = Message(
        id=_id(channel.pk, key, event),
        key=f"{_cluster_key()}-{key}",
        event=event,
        cluster=settings.LOCAL_CLUSTER.cluster_name,
        at=now.isoformat(),
        alert_id=cause.id or None,
        kind=cause.kind,
        subject=cause.subject,
        severity=severity,
        text=cause.text,
        do=cause.do,
        since=cause.since.isoformat(),
        ended_at=None,
        effects=tuple(ExplainedAlert(e.kind, e.subject, e.severity, e.text) for e in effects[:EFFECTS_MAX]),
        effects_count=len(effects),
        url=console_url(f"/alerts/{cause.id}/"),
    )
    return NotificationDelivery(
        channel=channel,
        alert_id=cause.id or None,
        incident=key,
        event=event,
        severity=severity,
        message=message,
        due_at=now,
        is_open=event is DeliveryEvent.TRIGGERED,
    )


def incident_key(cause: AlertRow) -> str:
    """The identity of an incident. It contains the start time, because a restored database may use a number again."""
    return f"alert-{cause.id}-{int(cause.since.timestamp())}"


def console_url(path: str) -> str:
    address: str = settings.WEIR.console_url
    return address.rstrip("/") + path if address else ""


def _cluster_key() -> str:
    return f"weir-{settings.LOCAL_CLUSTER.cluster_name}"


def _id(channel_id: int, key: str, event: DeliveryEvent) -> str:
    """Return the id of one delivery. Each attempt has the same id, so a receiver can drop a repeated message."""
    return f"{_cluster_key()}-{channel_id}-{key}-{event}"


def _state(incident: IncidentRow, now: datetime) -> IncidentState:
    alerts: dict[AlertKind, Severity] = {}
    for a in (incident.cause, *incident.effects):
        kind, severity = AlertKind(a.kind), Severity(a.severity)
        if a.silenced_until is None and alerts.get(kind) is not Severity.AT_RISK:
            alerts[kind] = severity
    return IncidentState(
        severity=Severity(incident.severity),
        alerts=alerts,
        age_s=(now - incident.cause.since).total_seconds(),
        acknowledged=incident.cause.acknowledged_at is not None,
        silenced=incident.cause.silenced_until is not None,
    )


# -- attempts ----------------------------------------------------------------------------------------------------------------


def due_deliveries() -> list[int]:
    """Deliveries to attempt now, oldest first. None while an attempt runs."""
    now = timezone.now()
    if _is_busy(now):
        return []
    earlier = NotificationDelivery.objects.filter(
        channel=OuterRef("channel"), incident=OuterRef("incident"), pk__lt=OuterRef("pk"), state__in=OPEN_STATES
    )
    return list(
        _deliveries_to_attempt(now)
        .filter(~Exists(earlier))
        .order_by("due_at", "pk")
        .values_list("pk", flat=True)[:DUE_MAX]
    )


def _deliveries_to_attempt(now: datetime) -> QuerySet[NotificationDelivery]:
    """A test is attempted by the request of the operator who waits for it."""
    return NotificationDelivery.objects.filter(state__in=OPEN_STATES, due_at__lte=now).exclude(event=DeliveryEvent.TEST)


def _is_busy(now: datetime) -> bool:
    running = NotificationDelivery.objects.filter(state=DeliveryState.SENDING, due_at__gt=now)
    return running.exclude(event=DeliveryEvent.TEST).exists()


def deliver(delivery_id: int) -> str | None:
    """One attempt of this delivery, if it is still due. Returns its new state."""
    row = _claim(delivery_id)
    if row is None:
        return None
    if not row.channel.enabled or _is_obsolete(row):
        _finish(row, DeliveryState.CANCELLED)
        return DeliveryState.CANCELLED
    message = row.message
    result = send(receiver(row.channel), message)
    return record_result(row, result)


def _claim(delivery_id: int) -> NotificationDelivery | None:
    now = timezone.now()
    with transaction.atomic():
        if _is_busy(now):
            return None
        claimed = _deliveries_to_attempt(now).filter(pk=delivery_id)
        if not claimed.update(state=DeliveryState.SENDING, due_at=now + LEASE, attempts=F("attempts") + 1):
            return None
    return NotificationDelivery.objects.select_related("channel", "alert").get(pk=delivery_id)


def _is_obsolete(row: NotificationDelivery) -> bool:
    """Return whether an operator acknowledged the alert before the receiver accepted its notification. PagerDuty needs the incident to acknowledge it."""
    calls = (
        row.event in (DeliveryEvent.TRIGGERED, DeliveryEvent.ESCALATED) and row.channel.kind != ChannelKind.PAGERDUTY
    )
    return calls and row.alert is not None and row.alert.acknowledged_at is not None


def receiver(channel: NotificationChannel) -> Receiver:
    return Receiver(ChannelKind(channel.kind), channel.url, channel.secret, tuple(channel.recipients))


def record_result(row: NotificationDelivery, result: SendResult) -> DeliveryState:
    """Store the outcome of an attempt in the delivery and in its channel."""
    state = state_after(result, row.attempts)
    now = timezone.now()
    with transaction.atomic():
        if state is DeliveryState.RETRYING:
            NotificationDelivery.objects.filter(pk=row.pk, state=DeliveryState.SENDING).update(
                state=state, due_at=now + timedelta(seconds=retry_delay_s(row.attempts)), **_response_columns(result)
            )
        else:
            _finish(row, state, result)
        channel = NotificationChannel.objects.filter(pk=row.channel_id)
        if state is DeliveryState.DELIVERED:
            channel.update(delivered_at=now)
        else:
            channel.update(failed_at=now, failure=failure_text(result))
    return state


def failure_text(result: SendResult) -> str:
    """Return the status and the first line of the response, for the list of channels."""
    line = next(iter(result.response.strip().splitlines()), "")
    return f"{result.status} {line}"[:200].strip() if result.status else line[:200]


def _response_columns(result: SendResult) -> dict[str, object]:
    # PostgreSQL stores no NUL in a text.
    return {"error": result.error, "status": max(result.status, 0), "answer": result.response.replace("\0", "")}


def _finish(row: NotificationDelivery, state: DeliveryState, result: SendResult | None = None) -> None:
    NotificationDelivery.objects.filter(pk=row.pk, state=DeliveryState.SENDING).update(
        state=state, finished_at=timezone.now(), **(_response_columns(result) if result is not None else {})
    )


def attempt_test(channel: NotificationChannel, key: str) -> NotificationDelivery:
    """Send a test notification now, without retries, and store it."""
    now = timezone.now()
    message = sample_message(
        _id(channel.pk, key, DeliveryEvent.TEST),
        f"{_cluster_key()}-{key}",
        settings.LOCAL_CLUSTER.cluster_name,
        now.isoformat(),
        console_url("/"),
    )
    row = NotificationDelivery.objects.create(
        channel=channel,
        incident=key,
        event=DeliveryEvent.TEST,
        state=DeliveryState.SENDING,
        severity=Severity.DEGRADED,
        message=message,
        attempts=1,
        due_at=now,
    )
    result = send(receiver(channel), message)
    failed = state_after(result, row.attempts) is not DeliveryState.DELIVERED
    _finish(row, DeliveryState.FAILED if failed else DeliveryState.DELIVERED, result)
    changes = {"failed_at": now, "failure": failure_text(result)} if failed else {"delivered_at": now}
    NotificationChannel.objects.filter(pk=channel.pk).update(**changes)
    row.refresh_from_db()
    return row


def sweep() -> None:
    """End deliveries of disabled channels, delete old ones. Called each minute."""
    now = timezone.now()
    NotificationDelivery.objects.filter(
        Q(channel__enabled=False, state__in=(DeliveryState.PENDING, DeliveryState.RETRYING))
        | Q(event=DeliveryEvent.TEST, state=DeliveryState.SENDING, due_at__lte=now - LEASE)
    ).update(state=DeliveryState.CANCELLED, finished_at=now)
    # The row of an incident that is still open is kept, because it prevents a second notification of the incident.
    ended = Q(is_open=False) | Q(channel__enabled=False)
    NotificationDelivery.objects.filter(ended, created_at__lt=now - KEPT).delete()
