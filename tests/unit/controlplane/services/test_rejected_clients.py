"""Alerts about clients that brokers reject steadily, and their next steps."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Alert, Broker, ShareGroupLetters
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.incidents import incident_detail
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts, incidents, rejected_clients
from controlplane.services.alert_thresholds import alter_threshold
from tests.unit.controlplane.world import World


def rejected_client(
    reason: str = "unauthorized", *, per_min: float = 40.0, minutes: float = 5, **more: Any
) -> dict[str, Any]:
    since_ms = int(timezone.now().timestamp() * 1000 - minutes * 60_000)
    denied = reason == "unauthorized"
    return {
        "principal": "User:x",
        "host": "10.0.0.1",
        "client_id": "app",
        "reason": reason,
        "per_min": per_min,
        "since_ms": since_ms,
        "operation": "write" if denied else "",
        "resource_type": "topic" if denied else "",
        "resource_name": "flights" if denied else "",
    } | more


def store(broker_id: int, *rows: dict[str, Any]) -> None:
    Broker.objects.filter(broker_id=broker_id).update(refused_clients=list(rows))


def client_alerts() -> dict[str, Any]:
    alerts.evaluate()
    return {a.subject: a for a in open_alerts() if a.kind == "client_refused"}


def test_a_client_that_is_rejected_steadily_is_an_alert(world: World) -> None:
    store(1, rejected_client(per_min=24.0))
    store(2, rejected_client(per_min=19.0, minutes=7, host="10.0.0.2"))
    (alert,) = client_alerts().values()
    assert alert.subject == "User:x (unauthorized)" and alert.severity == "degraded"
    assert alert.text.startswith("Requests of User:x are rejected about 40 times per minute: ")
    assert "it is not authorized to write topic flights (client ID app, address 10.0.0.2)." in alert.text
    store(1)
    store(2)
    assert client_alerts() == {}


def test_neither_a_short_series_nor_a_low_rate_is_an_alert(world: World) -> None:
    store(1, rejected_client(minutes=1), rejected_client("too_large", per_min=9.0))
    assert client_alerts() == {}
    alter_threshold("client_refused", 5, actor="root")
    assert list(client_alerts()) == ["User:x (too large)"]


def test_clients_without_a_principal_have_the_name_of_their_address(world: World) -> None:
    failed = rejected_client("authentication_failed", principal="", client_id="", host="10.0.0.9")
    store(1, failed, rejected_client("too_large", principal="User:ANONYMOUS"))
    both = client_alerts()
    assert set(both) == {"10.0.0.9 (authentication failed)", "10.0.0.1 (too large)"}
    assert both["10.0.0.9 (authentication failed)"].text.endswith("its authentication fails.")
    steps = [(s.kind, s.target) for s in next_steps(both["10.0.0.9 (authentication failed)"])]
    assert steps == [("open_refused", ["10.0.0.9"])]


def login(user: str, count: int, failure: str = "wrong_password", mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {"user": user, "mechanism": mechanism, "failure": failure, "count": count}


def test_the_alert_about_failed_logins_names_users_mechanism_and_reason_with_the_advice(world: World) -> None:
    failed = rejected_client("authentication_failed", principal="", client_id="", host="10.0.0.9")
    store(1, failed | {"logins": [login("etl", 40), login("", 8, "malformed", "")]})
    store(2, failed | {"logins": [login("etl", 4), login("app", 70, "unknown_user")]})
    (alert,) = client_alerts().values()
    assert alert.text.endswith(
        ": its authentication fails for user app (SCRAM-SHA-256: unknown user), user etl (SCRAM-SHA-256: wrong password), "
        "a login without a user (no mechanism: malformed)."
    )
    assert alert.do.startswith(
        "Create the user on the page Users, or correct the user name in the client. Stop a client"
    )
    store(2)
    store(1, failed | {"logins": [login(f"user{n}", 100 - 20 * n) for n in range(5)]})
    (alert,) = client_alerts().values()
    assert "user user2 (SCRAM-SHA-256: wrong password) and 2 more." in alert.text
    assert "user user4" not in alert.text and alert.do.startswith("Correct the password in the client")
    store(1, failed | {"logins": [login("etl", 3, "reason_of_a_newer_broker")]})
    (alert,) = client_alerts().values()
    assert "user etl (SCRAM-SHA-256: reason of a newer broker)" in alert.text
    assert alert.do.startswith("Correct the credentials")


def test_many_rejected_clients_have_a_limited_number_of_alerts(world: World) -> None:
    store(
        1,
        *(
            rejected_client(host=f"10.0.{n}.1", principal="", per_min=100.0 + n)
            for n in range(2 * rejected_clients.REJECTED_ALERTS_MAX)
        ),
    )
    subjects = client_alerts()
    assert len(subjects) == rejected_clients.REJECTED_ALERTS_MAX
    assert "10.0.39.1 (unauthorized)" in subjects and "10.0.0.1 (unauthorized)" not in subjects


@pytest.mark.parametrize("principal", ["User:x", "User:CN=a (b),O=c"])
def test_the_next_step_is_the_permission_that_the_client_lacks(world: World, principal: str) -> None:
    store(1, rejected_client(principal=principal))
    (alert,) = client_alerts().values()
    check, clients = next_steps(alert)
    assert (check.kind, check.target) == ("check_permission", [principal, "10.0.0.1", "topic", "flights", "write"])
    assert (clients.kind, clients.target) == ("open_refused", [principal])


def test_an_alert_about_a_long_principal_is_stored_silenced_and_ended(world: World) -> None:
    """A certificate may have a name of several hundred characters. The column of PostgreSQL rejects longer texts than it has room for."""
    principal = "User:CN=" + "ü" * 700
    store(1, rejected_client(principal=principal))
    (subject,) = client_alerts()
    assert subject.endswith(" (unauthorized)") and len(subject) <= 300
    row = Alert.objects.get()
    assert row.client == principal and row.subject == subject
    incidents.silence(row.kind, row.subject, 60, actor="ann", comment="x")
    assert client_alerts()[subject].silenced_until is not None
    store(1)
    assert client_alerts() == {}


def test_an_alert_about_the_longest_group_and_topic_is_stored_and_ended(world: World) -> None:
    group, topic = "g" * 255, "t" * 249
    letters = ShareGroupLetters.objects.create(
        group_id=group,
        topic=topic,
        broker_id=1,
        written=0,
        unwritten=3,
        unwritten_at=timezone.now(),
        changed_at=timezone.now(),
    )
    alerts.evaluate()
    row = Alert.objects.get()
    assert (row.kind, len(row.subject), row.group_id, row.topic) == ("dead_letters_missing", 300, group, topic)
    assert incident_detail(row.pk) is not None
    letters.delete()
    alerts.evaluate()
    assert Alert.objects.get().ended_at is not None
