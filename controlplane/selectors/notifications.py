"""Notification channels and deliveries as rows for pages and REST. Invariant: a row contains no credential: of an address only the host is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from controlplane.clients.notifications import PAGERDUTY_URL
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.notification import ChannelKind, ChannelRule, DeliveryEvent, DeliveryState
from controlplane.models import NotificationChannel, NotificationDelivery
from controlplane.selectors.alerts import AlertRow
from controlplane.selectors.common import NumberFilter, RowFilter, TimeFilter
from controlplane.selectors.paging import Page, PageStart, paginate


@dataclass(frozen=True, slots=True)
class NotificationChannelRow:
    """`destination`: the host of the address, or the e-mail addresses. `is_failing`: the last attempt failed. `failure`: why the last failed attempt
    failed. Addresses and secrets are never shown. `version`: number of changes by operators, also the entity tag."""

    id: int
    name: str
    kind: str
    enabled: bool
    severity_min: str
    alert_kinds: list[str]
    send_resolved: bool
    destination: str
    recipients: list[str]
    has_secret: bool
    created_at: datetime
    created_by: str
    delivered_at: datetime | None
    failed_at: datetime | None
    failure: str
    is_failing: bool
    version: int

    @property
    def is_at_risk_only(self) -> bool:
        return self.severity_min == Severity.AT_RISK


@dataclass(frozen=True, slots=True)
class NotificationDeliveryRow:
    """`alert_id` null: a test, or an alert that is not stored any more. `due_at`: the next attempt, null in a final state. `status`: HTTP status or SMTP
    code of the last response, 0 = none. `answer`: its first characters, or what failed."""

    id: int
    channel_id: int
    channel_name: str
    channel_kind: str
    alert_id: int | None
    alert_kind: str
    subject: str
    text: str
    event: str
    state: str
    severity: str
    attempts: int
    created_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    error: str
    status: int
    answer: str

    @property
    def is_retrying(self) -> bool:
        return self.state == DeliveryState.RETRYING


CHANNEL_COLUMNS = {"name": "name", "kind": "kind", "delivered_at": "delivered_at", "failed_at": "failed_at"}
DELIVERY_COLUMNS = {"created_at": "created_at", "channel": "channel__name", "state": "state", "event": "event"}
FINAL = (DeliveryState.DELIVERED, DeliveryState.FAILED, DeliveryState.CANCELLED)
ALERT_DELIVERIES_MAX = 100
"""Maximum number of deliveries on the page of one alert, newest first."""


class NotificationChannelFilter(RowFilter):
    query = filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="Part of a name.")


class NotificationDeliveryFilter(TimeFilter):
    query = filters.CharFilter(
        field_name="channel__name", lookup_expr="icontains", help_text="Part of a channel's name."
    )
    channel = NumberFilter(field_name="channel_id", help_text="Number of a channel.")
    alert = NumberFilter(field_name="alert_id", help_text="Number of an alert.")
    state = filters.ChoiceFilter(choices=[(s.value, s.value) for s in DeliveryState])


def channel_list(
    *, query: str = "", sort: str = "name", page: PageStart = 1, per_page: int = 50
) -> Page[NotificationChannelRow]:
    rows = NotificationChannelFilter.rows(NotificationChannel.objects.all(), query=query)
    return channel_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def channel_page(
    rows: QuerySet[NotificationChannel], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[NotificationChannelRow]:
    return paginate(
        rows,
        lambda found: [channel_shape(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=CHANNEL_COLUMNS,
        query=query,
    )


def channel_row(channel_id: int) -> NotificationChannelRow | None:
    row = NotificationChannel.objects.filter(pk=channel_id).first()
    return None if row is None else channel_shape(row)


def channel_destination(row: NotificationChannel) -> str:
    """Return the address of the receiver without its path. The path is not shown, because Slack and others put a credential into it."""
    if row.kind == ChannelKind.EMAIL:
        return ", ".join(row.recipients)
    url = row.url or (PAGERDUTY_URL if row.kind == ChannelKind.PAGERDUTY else "")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}{port}"


def channel_shape(channel: NotificationChannel) -> NotificationChannelRow:
    failing = channel.failed_at is not None and (
        channel.delivered_at is None or channel.delivered_at < channel.failed_at
    )
    return NotificationChannelRow(
        channel.pk,
        channel.name,
        channel.kind,
        channel.enabled,
        channel.severity_min,
        channel.alert_kinds,
        channel.send_resolved,
        channel_destination(channel),
        channel.recipients,
        bool(channel.secret),
        channel.created_at,
        channel.created_by,
        channel.delivered_at,
        channel.failed_at,
        channel.failure,
        failing,
        channel.version,
    )


def delivery_rows() -> QuerySet[NotificationDelivery]:
    return NotificationDelivery.objects.select_related("channel")


def delivery_list(
    *,
    query: str = "",
    channel: int | None = None,
    state: str = "",
    sort: str = "-created_at",
    page: PageStart = 1,
    per_page: int = 50,
) -> Page[NotificationDeliveryRow]:
    rows = NotificationDeliveryFilter.rows(delivery_rows(), query=query, channel=channel, state=state)
    return delivery_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def delivery_page(
    rows: QuerySet[NotificationDelivery], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[NotificationDeliveryRow]:
    return paginate(
        rows,
        delivery_shapes,
        page=page,
        per_page=per_page,
        sort=sort,
        columns=DELIVERY_COLUMNS,
        query=query,
        tie="-pk",
    )


def delivery_row(delivery_id: int) -> NotificationDeliveryRow | None:
    return next(iter(delivery_shapes(list(delivery_rows().filter(pk=delivery_id)))), None)


def is_covered(alerts: Sequence[AlertRow]) -> bool:
    """Return whether an enabled channel takes one of these alerts."""
    kinds: dict[AlertKind, Severity] = {}
    for a in sorted(alerts, key=lambda a: a.severity == Severity.AT_RISK):
        kinds[AlertKind(a.kind)] = Severity(a.severity)
    return any(channel_rule(c).covers(kinds) for c in NotificationChannel.objects.filter(enabled=True))


def channel_rule(channel: NotificationChannel) -> ChannelRule:
    kinds = frozenset(AlertKind(k) for k in channel.alert_kinds if k in tuple(AlertKind))
    return ChannelRule(ChannelKind(channel.kind), Severity(channel.severity_min), kinds)


def deliveries_of_alert(alert_id: int) -> list[NotificationDeliveryRow]:
    """Return the channels to which an alert was sent, newest delivery first."""
    return delivery_shapes(list(delivery_rows().filter(alert_id=alert_id)[:ALERT_DELIVERIES_MAX])) if alert_id else []


def delivery_shapes(deliveries: Sequence[NotificationDelivery]) -> list[NotificationDeliveryRow]:
    return [
        NotificationDeliveryRow(
            d.pk,
            d.channel_id,
            d.channel.name,
            d.channel.kind,
            d.alert_id,
            d.message.kind if d.event != DeliveryEvent.TEST else "",
            d.message.subject,
            d.message.text,
            d.event,
            d.state,
            d.severity,
            d.attempts,
            d.created_at,
            None if d.state in FINAL else d.due_at,
            d.finished_at,
            d.error,
            d.status,
            d.answer,
        )
        for d in deliveries
    ]
