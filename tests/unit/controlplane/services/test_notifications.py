"""Deliveries of notifications, to real receivers on loopback: one per incident, channel and event, with retries, in order."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from controlplane.domain import notification
from controlplane.models import Alert, AlertSilence, Cluster, NotificationChannel, NotificationDelivery
from controlplane.services import alerts, incidents, notification_channels, notifications
from tests.unit.controlplane.receivers import HttpReceiver, http_receiver, smtp_receiver
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


def channel(url: str = "", **given: Any) -> NotificationChannel:
    values: dict[str, Any] = {"name": "ops", "kind": "webhook", "url": url, "actor": "root", **given}
    return notification_channels.create_channel(**values)


def broker_down(world: World) -> Alert:
    """Broker 1 is down: its alert explains those of its partitions and is old enough to be sent."""
    world.topic("flights", (1, 2))
    world.down(1)
    alerts.evaluate()
    Alert.objects.update(since=timezone.now() - timedelta(seconds=notification.SETTLE_S))
    return Alert.objects.get(kind="broker_down")


def end(alert: Alert) -> None:
    ended = timezone.now() - timedelta(seconds=notification.RESOLVED_AFTER_S + 1)
    Alert.objects.filter(pk=alert.pk).update(ended_at=ended)


def deliver_due() -> list[str | None]:
    """One poll of the worker."""
    notifications.plan()
    return [notifications.deliver(pk) for pk in notifications.due_deliveries()]


def make_due() -> None:
    NotificationDelivery.objects.exclude(state="delivered").update(due_at=timezone.now())


def events() -> list[tuple[str, str]]:
    return list(NotificationDelivery.objects.order_by("pk").values_list("event", "state"))


def test_an_incident_is_one_message_and_its_end_another_with_the_same_key(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    channel(f"{receiver.url}/hook?token=t0p", secret="s3cret")
    assert deliver_due() == ["delivered"] and deliver_due() == []
    end(alert)
    assert deliver_due() == ["delivered"] and deliver_due() == []
    begun, ended = (json.loads(p.body) for p in receiver.posts)
    assert (begun["event"], ended["event"]) == ("triggered", "resolved")
    assert begun["key"] == ended["key"] and begun["id"] != ended["id"]
    assert begun["alert"] | {"text": ""} == {
        "id": alert.pk,
        "kind": "broker_down",
        "subject": "1",
        "severity": "degraded",
        "text": "",
        "do": alert.do,
        "since": begun["alert"]["since"],
        "ended_at": None,
        "url": notifications.console_url(f"/alerts/{alert.pk}/"),
    }
    assert ended["alert"]["ended_at"] is not None
    post = receiver.posts[0]
    assert post.path == "/hook?token=t0p" and post.headers["X-Weir-Event"] == "triggered"
    assert post.headers["X-Weir-Delivery"] == begun["id"]
    expected = "sha256=" + hmac.new(b"s3cret", post.body, hashlib.sha256).hexdigest()
    assert post.headers["X-Weir-Signature-256"] == expected
    row = NotificationChannel.objects.get()
    assert row.delivered_at is not None and row.failed_at is None


def test_alerts_that_the_cause_explains_are_part_of_its_message(world: World, receiver: HttpReceiver) -> None:
    world.topic("flights", (1, 2))
    world.down(1)
    alerts.evaluate()
    Alert.objects.update(since=timezone.now() - timedelta(minutes=1))
    since = timezone.now() - timedelta(minutes=1)
    for kind in ("no_controller", "zookeeper_away"):
        Alert.objects.create(kind=kind, severity="at_risk", text=kind, do="start it", since=since)
    channel(receiver.url)
    deliver_due()
    found = {json.loads(p.body)["alert"]["kind"]: json.loads(p.body)["explains"] for p in receiver.posts}
    assert set(found) == {"broker_down", "zookeeper_away"}
    assert [e["kind"] for e in found["zookeeper_away"]] == ["no_controller"]


def test_a_young_a_silenced_and_an_acknowledged_incident_are_not_sent(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    channel(receiver.url)
    Alert.objects.update(since=timezone.now())
    assert deliver_due() == []
    Alert.objects.update(since=timezone.now() - timedelta(minutes=1))
    AlertSilence.objects.create(
        kind=alert.kind,
        reason="r",
        actor="a",
        starts_at=timezone.now() - timedelta(minutes=1),
        ends_at=timezone.now() + timedelta(minutes=9),
    )
    assert deliver_due() == []
    AlertSilence.objects.update(ends_at=timezone.now())
    incidents.acknowledge(alert.pk, actor="alice")
    assert deliver_due() == []
    incidents.withdraw(alert.pk, actor="alice")
    assert deliver_due() == ["delivered"]


def test_an_alert_that_ended_before_it_was_sent_is_never_sent(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    end(alert)
    channel(receiver.url)
    assert deliver_due() == [] and events() == []


def test_an_alert_that_returns_within_a_minute_is_not_resolved(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    channel(receiver.url)
    deliver_due()
    Alert.objects.update(ended_at=timezone.now())
    assert deliver_due() == []
    Alert.objects.update(ended_at=None)
    assert deliver_due() == [] and Alert.objects.get(pk=alert.pk).ended_at is None
    assert events() == [("triggered", "delivered")]


def test_a_failed_attempt_is_repeated_later_with_the_same_id(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    receiver.responses = [(503, "overloaded"), (200, "ok")]
    channel(receiver.url)
    assert deliver_due() == ["retrying"] and deliver_due() == []
    row = NotificationDelivery.objects.get()
    assert (row.attempts, row.error, row.status, row.answer) == (1, "status", 503, "overloaded")
    assert row.due_at > timezone.now()
    shown = NotificationChannel.objects.get()
    assert shown.failure == "503 overloaded" and shown.failed_at is not None and shown.delivered_at is None
    make_due()
    assert deliver_due() == ["delivered"]
    assert [json.loads(p.body)["id"] for p in receiver.posts] == [json.loads(receiver.posts[0].body)["id"]] * 2
    assert [p.headers["X-Weir-Delivery"] for p in receiver.posts] == [json.loads(receiver.posts[0].body)["id"]] * 2


def test_attempts_end_and_a_permanent_error_ends_them_at_once(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    receiver.responses = [(500, "no")]
    channel(receiver.url)
    states = []
    for _ in range(notification.ATTEMPTS_MAX + 1):
        states += deliver_due()
        make_due()
    assert states == ["retrying"] * (notification.ATTEMPTS_MAX - 1) + ["failed"]
    receiver.responses = [(404, "no_service")]
    channel(receiver.url, name="other")
    assert deliver_due() == ["failed"]
    assert NotificationChannel.objects.get(name="other").failure == "404 no_service"


def test_the_end_is_sent_after_the_begin_also_when_that_is_late(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    receiver.responses = [(503, ""), (200, "")]
    channel(receiver.url)
    assert deliver_due() == ["retrying"]
    end(alert)
    assert deliver_due() == []
    make_due()
    assert deliver_due() == ["delivered"] and deliver_due() == ["delivered"]
    assert [json.loads(p.body)["event"] for p in receiver.posts] == ["triggered", "triggered", "resolved"]


def test_an_acknowledged_alert_is_not_attempted_again(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    receiver.responses = [(503, "")]
    channel(receiver.url)
    deliver_due()
    incidents.acknowledge(alert.pk, actor="alice")
    make_due()
    assert deliver_due() == ["cancelled"]
    end(alert)
    assert deliver_due() == [] and len(receiver.posts) == 1


def test_an_incident_that_becomes_grave_is_sent_again_once(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    channel(receiver.url)
    grave = channel(receiver.url, name="grave", severity_min="at_risk")
    assert deliver_due() == ["delivered"]
    Alert.objects.filter(pk=alert.pk).update(severity="at_risk")
    assert deliver_due() == ["delivered", "delivered"] and deliver_due() == []
    sent = [(d.channel_id, d.event) for d in NotificationDelivery.objects.order_by("pk")]
    assert sent[0][1] == "triggered" and set(sent[1:]) == {(sent[0][0], "escalated"), (grave.pk, "triggered")}


def test_a_channel_with_kinds_gets_only_these(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    channel(receiver.url, alert_kinds=["disk_low"], name="disks")
    assert deliver_due() == []
    channel(receiver.url, alert_kinds=["disk_low", "broker_down"], name="brokers", send_resolved=False)
    assert deliver_due() == ["delivered"]
    end(Alert.objects.get(kind="broker_down"))
    assert deliver_due() == [] and not NotificationDelivery.objects.filter(is_open=True).exists()


def test_a_disabled_channel_gets_nothing(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    row = channel(receiver.url)
    notifications.plan()
    notification_channels.alter_channel(row.pk, {"enabled": False}, actor="root")
    assert deliver_due() == ["cancelled"] and receiver.posts == []
    row = channel(receiver.url, name="second")
    notifications.plan()
    notification_channels.alter_channel(row.pk, {"enabled": False}, actor="root")
    notifications.sweep()
    assert NotificationDelivery.objects.get(channel=row).state == "cancelled"


def test_one_attempt_runs_at_a_time_and_a_lost_one_is_repeated(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    channel(receiver.url)
    channel(receiver.url, name="second")
    notifications.plan()
    first, second = notifications.due_deliveries()
    NotificationDelivery.objects.filter(pk=first).update(
        state="sending", due_at=timezone.now() + timedelta(minutes=1), attempts=1
    )
    assert (
        notifications.due_deliveries() == []
        and notifications.deliver(second) is None
        and notifications.deliver(first) is None
    )
    NotificationDelivery.objects.filter(pk=first).update(due_at=timezone.now())
    assert sorted(notifications.due_deliveries()) == sorted([first, second])
    assert notifications.deliver(first) == "delivered"
    assert NotificationDelivery.objects.get(pk=first).attempts == 2


def test_pagerduty_gets_trigger_acknowledge_and_resolve(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    receiver.responses = [(202, '{"status":"success"}')]
    channel(f"{receiver.url}/v2/enqueue", kind="pagerduty", secret="R0UT1NG")
    deliver_due()
    incidents.acknowledge(alert.pk, actor="alice")
    deliver_due()
    end(alert)
    deliver_due()
    sent = [json.loads(p.body) for p in receiver.posts]
    assert [e["event_action"] for e in sent] == ["trigger", "acknowledge", "resolve"]
    assert {e["dedup_key"] for e in sent} == {sent[0]["dedup_key"]} and {e["routing_key"] for e in sent} == {"R0UT1NG"}
    assert sent[0]["payload"]["severity"] == "warning" and sent[0]["payload"]["component"] == "1"


def test_slack_gets_its_format(world: World, receiver: HttpReceiver) -> None:
    broker_down(world)
    channel(f"{receiver.url}/services/T0/B0/x", kind="slack")
    assert deliver_due() == ["delivered"]
    body = json.loads(receiver.posts[0].body)
    assert "Broker 1 is down" in body["text"] and body["attachments"][0]["color"]


def test_mail_is_sent_by_smtp(world: World, settings: Any) -> None:
    alert = broker_down(world)
    with smtp_receiver() as server:
        settings.WEIR = replace(django_settings.WEIR, smtp_url=f"smtp://127.0.0.1:{server.port}")
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        channel(kind="email", recipients=["oncall@example.com", "lead@example.com"])
        assert deliver_due() == ["delivered"]
        end(alert)
        server.rejection = "550 no such user"
        assert deliver_due() == ["failed"]
    ((sender, recipients, text),) = server.mails
    assert sender == django_settings.DEFAULT_FROM_EMAIL and recipients == ["oncall@example.com", "lead@example.com"]
    assert (
        "Broker 1 is down" in text
        and f"References: <weir-weir-alert-{alert.pk}-{int(Alert.objects.get().since.timestamp())}@weir>" in text
    )
    assert NotificationChannel.objects.get().failure == "550 The mail server rejected every recipient."


def test_old_deliveries_are_deleted_except_of_open_incidents(world: World, receiver: HttpReceiver) -> None:
    alert = broker_down(world)
    channel(receiver.url)
    deliver_due()
    NotificationDelivery.objects.update(created_at=timezone.now() - notifications.KEPT - timedelta(hours=1))
    notifications.sweep()
    assert deliver_due() == [] and NotificationDelivery.objects.count() == 1
    end(alert)
    deliver_due()
    NotificationDelivery.objects.update(created_at=timezone.now() - notifications.KEPT - timedelta(hours=1))
    notifications.sweep()
    assert not NotificationDelivery.objects.exists()


def test_a_silent_monitor_is_sent_although_it_has_no_row(world: World, receiver: HttpReceiver) -> None:
    seen = timezone.now() - timedelta(minutes=2)
    Cluster.objects.update_or_create(pk=1, defaults={"observed_at": seen, "heartbeat_at": seen})
    channel(receiver.url)
    assert deliver_due() == ["delivered"] and deliver_due() == []
    Cluster.objects.update(observed_at=timezone.now(), heartbeat_at=timezone.now())
    assert deliver_due() == ["delivered"]
    assert [(json.loads(p.body)["alert"]["kind"], json.loads(p.body)["event"]) for p in receiver.posts] == [
        ("monitor_silent", "triggered"),
        ("monitor_silent", "resolved"),
    ]
