"""Rows of alerts: the most severe first, silences, and the alert of a silent monitor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Alert, AlertEntry, AlertSilence, Cluster, ClusterEvent
from controlplane.selectors import alerts
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def alert(kind: str, severity: str = "degraded", minutes: int = 5, subject: str = "", **more: Any) -> Alert:
    since = timezone.now() - timedelta(minutes=minutes)
    return Alert.objects.create(
        kind=kind, severity=severity, since=since, subject=subject, text="text", do="do", **more
    )


def listed_kinds(**options: Any) -> list[str]:
    return [a.kind for a in alerts.alert_list(**options).rows]


def test_open_alerts_are_sorted_by_severity_and_then_by_kind() -> None:
    for kind, severity, minutes in (
        ("disk_low", "at_risk", 99),
        ("drift", "degraded", 1),
        ("partitions_offline", "at_risk", 1),
    ):
        alert(kind, severity, minutes)
    assert listed_kinds(sort="severity") == ["partitions_offline", "disk_low", "drift"]
    assert listed_kinds(sort="since") == ["disk_low", "drift", "partitions_offline"]
    found = alerts.most_severe()
    assert found is not None and found.kind == "partitions_offline"
    assert alerts.counts()[:2] == (3, 2)


def test_the_alerts_of_a_group_are_those_that_name_it_in_any_form() -> None:
    """The alert of missing dead letters has the subject `mail: invoices`."""
    alert("dead_letters_missing", "at_risk", subject="mail: invoices", group_id="mail", topic="invoices")
    alert("group_stopped", subject="mail")
    alert("group_stopped", subject="other")
    assert [a.kind for a in alerts.open_alerts_of_group("mail")] == ["dead_letters_missing", "group_stopped"]


def test_ended_alerts_are_listed_instead_and_their_time_stops() -> None:
    ended = alert("drift", ended_at=timezone.now() - timedelta(minutes=4))
    alert("disk_low")
    assert (listed_kinds(), listed_kinds(state="resolved")) == (["disk_low"], ["drift"])
    row = alerts.alert_row(ended.pk)
    assert row is not None and 59 <= row.lasts_s <= 61
    assert alerts.alert_row(999) is None


def silence(minutes: int, **fields: Any) -> None:
    now = timezone.now()
    AlertSilence.objects.create(
        reason="disk is ordered",
        actor="alice",
        starts_at=now - timedelta(hours=1),
        ends_at=now + timedelta(minutes=minutes),
        **fields,
    )


@pytest.mark.parametrize(
    ("fields", "minutes", "silenced"),
    [
        ({"kind": "disk_low", "subject": "1"}, 5, True),
        ({"kind": "disk_low", "subject": None}, 5, True),
        ({"kind": "disk_low", "subject": "2"}, 5, False),
        ({"kind": "drift", "subject": None}, 5, False),
        ({"kind": "disk_low", "subject": "1"}, -5, False),
    ],
)
def test_a_silence_marks_the_alerts_of_its_kind_and_object(
    fields: dict[str, Any], minutes: int, silenced: bool
) -> None:
    pk = alert("disk_low", subject="1").pk
    silence(minutes, **fields)
    row = alerts.alert_row(pk)
    assert row is not None and (row.silenced_until is not None) is silenced
    (found,) = alerts.silence_list().rows
    assert found.active is (minutes > 0) and alerts.silence_row(found.id) == found


def test_a_silent_monitor_is_an_alert_without_a_row(world: World) -> None:
    assert alerts.silence() is None and alerts.alert_row(alerts.SILENCE_ID) is None
    world.age_observation(40)
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=40))
    alert("drift")
    assert [a.kind for a in alerts.open_alerts()] == ["monitor_silent", "drift"]
    Cluster.objects.update(zookeeper_connected=False, heartbeat_at=timezone.now())
    assert [a.kind for a in alerts.open_alerts()] == ["drift"], "it runs, without ZooKeeper"


def test_a_page_sees_a_change_by_the_newest_entry() -> None:
    row = alert("drift")
    assert alerts.counts() == (1, 0, 0)
    entry = AlertEntry.objects.create(alert=row, at=timezone.now(), kind="acknowledged", actor="ann")
    assert alerts.counts() == (1, 0, entry.pk)


def event(kind: str, minutes: float, subject: str = "3") -> ClusterEvent:
    return ClusterEvent.objects.create(
        kind=kind, subject=subject, text="text", at=timezone.now() - timedelta(minutes=minutes)
    )


def test_a_broker_that_left_again_has_the_time_of_the_last_time() -> None:
    event("broker_registered", 9)
    event("broker_down", 8)
    row = alert("broker_down", minutes=5, subject="3")
    event("broker_down", 4.9)
    assert alerts.open_alerts()[0].again_since is None, "it left once during this alert"
    event("broker_registered", 4)
    event("broker_registered", 4, subject="2")
    event("broker_down", 4, subject="2")
    assert alerts.open_alerts()[0].again_since is None, "it is alive, and broker 2 has no alert"
    second = event("broker_down", 3)
    assert alerts.open_alerts()[0].again_since == second.at
    event("broker_registered", 2)
    third = event("broker_down", 1)
    assert alerts.open_alerts()[0].again_since == third.at
    row.ended_at = timezone.now()
    row.save()
    found = alerts.alert_row(row.pk)
    assert found is not None and found.again_since is None


def test_only_an_alert_of_a_broker_reads_its_starts_and_ends(django_assert_num_queries: Any) -> None:
    alert("drift")
    alert("disk_low", subject="3")
    with django_assert_num_queries(3):  # the alerts, the silences, the cluster
        alerts.open_alerts()
