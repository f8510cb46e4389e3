"""Rows of channels and deliveries: no credential, and the state of a channel."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.notification import ChannelKind
from controlplane.domain.notification_message import sample_message
from controlplane.models import NotificationChannel, NotificationDelivery
from controlplane.selectors import notifications

pytestmark = pytest.mark.django_db


def channel(name: str = "ops", kind: str = ChannelKind.WEBHOOK, **given: object) -> NotificationChannel:
    return NotificationChannel.objects.create(name=name, kind=kind, created_by="root", **given)


@pytest.mark.parametrize(
    ("kind", "given", "shown"),
    [
        ("webhook", {"url": "https://a.example:8443/t0ken?key=t0ken", "secret": "t0ken"}, "https://a.example:8443"),
        ("slack", {"url": "https://hooks.slack.com/services/t0ken"}, "https://hooks.slack.com"),
        ("pagerduty", {"secret": "t0ken"}, "https://events.pagerduty.com"),
        ("email", {"recipients": ["a@example.com", "b@example.com"]}, "a@example.com, b@example.com"),
        ("webhook", {"url": "https://a:b/t0ken"}, ""),
    ],
)
def test_of_an_address_only_the_host_is_shown(kind: str, given: dict[str, object], shown: str) -> None:
    row = notifications.channel_row(channel(kind=kind, **given).pk)
    assert row is not None and row.destination == shown and "t0ken" not in str(row)


def test_a_channel_fails_while_its_last_attempt_failed() -> None:
    now = timezone.now()
    channel("never")
    channel("failing", failed_at=now, failure="500")
    channel("again", failed_at=now, delivered_at=now - timedelta(minutes=1))
    channel("repaired", failed_at=now - timedelta(minutes=1), delivered_at=now)
    rows = notifications.channel_list().rows
    assert {r.name for r in rows if r.is_failing} == {"failing", "again"}
    assert [r.name for r in notifications.channel_list(query="pair").rows] == ["repaired"]
    assert notifications.channel_row(0) is None


def test_deliveries_are_filtered_and_have_a_next_attempt_while_they_are_open() -> None:
    row, other, now = channel(), channel("other"), timezone.now()
    for number, (owner, state) in enumerate(((row, "delivered"), (row, "retrying"), (other, "failed"))):
        NotificationDelivery.objects.create(
            channel=owner,
            incident=f"alert-{number}",
            event="triggered",
            state=state,
            severity="at_risk",
            message=replace(sample_message("", "", "", "", ""), kind="drift", text="Topics differ."),
            due_at=now,
        )
    found = notifications.delivery_list().rows
    assert [(d.channel_name, d.state, d.due_at) for d in found] == [
        ("other", "failed", None),
        ("ops", "retrying", now),
        ("ops", "delivered", None),
    ]
    assert found[0].alert_kind == "drift" and found[0].text == "Topics differ."
    assert [d.state for d in notifications.delivery_list(channel=row.pk).rows] == ["retrying", "delivered"]
    assert [d.channel_id for d in notifications.delivery_list(state="failed").rows] == [other.pk]
    assert notifications.deliveries_of_alert(0) == [] and notifications.delivery_row(0) is None
