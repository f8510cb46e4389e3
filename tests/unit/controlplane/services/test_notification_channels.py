"""Notification channels: their checks, and an audit log without credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied

from controlplane.models import Change, NotificationChannel, NotificationDelivery
from controlplane.services import Rejected, notification_channels
from tests.unit.controlplane.receivers import http_receiver

pytestmark = pytest.mark.django_db
CREDENTIALS = ("p4th", "s3cret", "0ther")


def create(**given: Any) -> NotificationChannel:
    values = {"name": "ops", "kind": "webhook", "url": "https://a.example:8443/p4th?x=1", "secret": "s3cret"}
    return notification_channels.create_channel(**{**values, "actor": "root", **given})


def audit() -> list[Change]:
    rows = list(Change.objects.order_by("pk"))
    text = json.dumps([[c.before, c.after, c.detail, c.object_name] for c in rows])
    assert not any(word in text for word in CREDENTIALS)
    return rows


def test_a_change_is_audited_without_credentials() -> None:
    row = create(comment="first")
    notification_channels.alter_channel(row.pk, {"name": "night", "secret": "0ther"}, actor="root")
    notification_channels.alter_channel(row.pk, {"secret": None, "url": ""}, actor="root")
    row.refresh_from_db()
    assert (row.url, row.secret, row.version) == ("https://a.example:8443/p4th?x=1", "", 3)
    notification_channels.delete_channel(row.pk, actor="root", comment="old")
    created, altered, removed, deleted = audit()
    assert [c.verb for c in audit()] == [f"notification.{v}" for v in ("create", "alter", "alter", "delete")]
    assert created.after["destination"] == "https://a.example:8443" and created.after["has_secret"] is True
    assert altered.after["credentials"] == removed.after["credentials"] == "changed"
    assert altered.before["name"] == "ops" and removed.after["has_secret"] is False
    assert deleted.before["name"] == "night" and not NotificationChannel.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "fax"}, "kind"),
        ({"name": "  "}, "name"),
        ({"url": ""}, "url"),
        ({"url": "ftp://s3cret/"}, "url"),
        ({"url": "https://user:s3cret@a.example/"}, "url"),
        ({"url": "https://a.example/" + "p4th" * 1000}, "url"),
        ({"secret": "s3cret\nx"}, "secret"),
        ({"recipients": ["a@example.com"]}, "recipients"),
        ({"severity_min": "bad"}, "severity_min"),
        ({"alert_kinds": ["drift", "nothing"]}, "alert_kinds"),
        ({"kind": "slack"}, "secret"),
        ({"kind": "pagerduty", "secret": ""}, "secret"),
        ({"kind": "email", "url": "", "secret": ""}, "recipients"),
        ({"kind": "email", "url": "", "secret": "", "recipients": ["a b"]}, "recipients"),
        (
            {"kind": "email", "url": "", "secret": "", "recipients": [f"a{n}@b.example" for n in range(51)]},
            "recipients",
        ),
    ],
)
def test_wrong_input_is_rejected_with_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        create(**given)
    assert rejection.value.field == field and not any(word in rejection.value.reason for word in CREDENTIALS)
    assert audit()[-1].outcome == "refused" and not NotificationChannel.objects.exists()


def test_a_name_is_used_once_and_the_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    create()
    with pytest.raises(Rejected, match="exists already"):
        create()
    other = create(name="other")
    with pytest.raises(Rejected, match="exists already"):
        notification_channels.alter_channel(other.pk, {"name": "ops"}, actor="root")
    monkeypatch.setattr(notification_channels, "CHANNELS_MAX", 2)
    with pytest.raises(Rejected, match="2 channels, the maximum"):
        create(name="third")


def test_the_error_names_a_deleted_channel() -> None:
    for act in (notification_channels.delete_channel, notification_channels.send_test):
        with pytest.raises(Rejected, match="does not exist"):
            act(7, actor="root")


def test_a_test_is_sent_at_once_and_has_the_true_response() -> None:
    with http_receiver() as receiver:
        row = create(url=receiver.url, enabled=False)
        receiver.responses = [(200, "fine"), (500, "broken")]
        done = notification_channels.send_test(row.pk, actor="root")
        failed = notification_channels.send_test(row.pk, actor="root")
    body = json.loads(receiver.posts[0].body)
    assert body["event"] == "test" and body["alert"]["id"] is None
    assert (done.state, done.status, done.answer) == ("delivered", 200, "fine")
    assert (failed.state, failed.error, failed.status, failed.answer) == ("failed", "status", 500, "broken")
    row.refresh_from_db()
    assert row.failure == "500 broken" and row.delivered_at is not None and row.failed_at is not None
    assert NotificationDelivery.objects.count() == 2
    assert audit()[-1].after == {"state": "failed", "error": "status", "status": 500}


def test_only_administrators_pass() -> None:
    users = get_user_model().objects
    with pytest.raises(PermissionDenied):
        notification_channels.check_administrator(users.create_user("op", is_staff=True), "notification.create", "ops")
    assert audit()[-1].outcome == "refused"
    root = users.create_user("root", is_superuser=True)
    notification_channels.check_administrator(root, "notification.create", "ops")
