"""The incident page and its operations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import (
    Alert,
    AlertSilence,
    Broker,
    Change,
    ClusterEvent,
    ConnectCluster,
    NotificationChannel,
)
from controlplane.services import alerts, incidents
from tests.unit.controlplane.services.test_rejected_clients import rejected_client
from tests.unit.controlplane.world import World


@pytest.fixture
def outage(world: World) -> Alert:
    world.topic("orders", (1, 2))
    Change.objects.create(actor="alice", verb="topic.create", object_kind="topic", object_name="orders")
    world.offline("orders", 0)
    world.down(1)
    alerts.evaluate()
    return Alert.objects.get(kind="broker_down")


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_the_page_has_the_cause_what_it_explains_and_what_changed(outage: Alert, operator: Client) -> None:
    page = text(operator.get(f"/alerts/{outage.pk}/"))
    assert "<h1>Broker 1 is down</h1>" in page and "at risk" in page
    assert page.index("1 partition (orders-0) has no leader") < page.index(
        "Changes around the start (15 min before to 1 min after)"
    )
    assert "Broker 1 went down" in page and "Drain broker 1" in page and "/runbooks/broker_down/" in page
    assert '<a href="/topics/orders/">orders</a>' in page, "the topic was created before"
    effect = Alert.objects.get(kind="partitions_offline")
    assert f'<b>Cause:</b> <a href="/alerts/{outage.pk}/">Broker 1 is down' in text(
        operator.get(f"/alerts/{effect.pk}/")
    )


def test_a_broker_that_leaves_again_during_its_incident_is_named(outage: Alert, operator: Client) -> None:
    assert "again since" not in text(operator.get("/"))
    at = timezone.now()
    for kind in ("broker_registered", "broker_down"):
        ClusterEvent.objects.create(kind=kind, subject="1", text="text", at=at)
    for address in ("/", "/alerts/", f"/alerts/{outage.pk}/", "/brokers/1/"):
        shown = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", text(operator.get(address))))
        assert f"again since {at:%m-%d %H:%M:%S} UTC" in shown, address
    page = text(operator.get(f"/alerts/{outage.pk}/"))
    assert "<dt>First opened</dt>" in page and "<dt>Open again since</dt>" in page and "<dt>Since</dt>" not in page


def test_the_reason_of_a_change_is_apart_from_its_operation(outage: Alert, operator: Client) -> None:
    Change.objects.create(
        actor="alice",
        verb="topic.alter",
        object_kind="topic",
        object_name="orders",
        comment="one day",
        before={"0": {"leader": -1, "isr": [2]}},
        after={"0": {"leader": 3, "isr": [3]}},
    )
    page = text(operator.get(f"/alerts/{outage.pk}/"))
    assert re.search(r"<span[^>]*>reason: one day</span>", page)
    shown = re.sub("<[^>]+>", "", page)
    assert "partition 0: ISR [2] → [3], partition 0: leader none → 3" in re.sub(r"\s+", " ", shown)


def test_an_acknowledgement_has_an_undo_and_is_rejected_the_second_time(outage: Alert, operator: Client) -> None:
    page = operator.post(f"/alerts/{outage.pk}/acknowledge/", follow=True)
    assert "acknowledged by alice" in text(page) and f"/alerts/{outage.pk}/withdraw/" in text(page)
    assert operator.post(f"/alerts/{outage.pk}/acknowledge/").status_code == 409
    assert "acknowledged by alice" not in text(operator.post(f"/alerts/{outage.pk}/withdraw/", follow=True))


def test_a_resolved_alert_is_shown_as_ended(outage: Alert, operator: Client) -> None:
    """Its page had a red severity and "for 0 s", as that of an alert that is still open."""
    page = text(operator.get(f"/alerts/{outage.pk}/"))
    assert "<dt>Since</dt>" in page
    Alert.objects.filter(pk=outage.pk).update(ended_at=timezone.now())
    page = text(operator.get(f"/alerts/{outage.pk}/"))
    head = page[page.index("<h1>") : page.index("</h1>") + 200]
    assert '<span class="st st-grey">resolved</span>' in head and "st-red" not in head
    assert "<dt>Started</dt>" in page and "UTC, lasted" in page and "<dt>Since</dt>" not in page


def test_the_list_links_what_its_advice_names(outage: Alert, operator: Client) -> None:
    page = text(operator.get("/alerts/"))
    assert '<a class="go" href="/brokers/1/">broker 1</a>' in page and 'href="/api/v1/metrics"' in page


def test_a_note_is_in_the_timeline(outage: Alert, operator: Client) -> None:
    assert "fan &lt;broken&gt;" in text(
        operator.post(f"/alerts/{outage.pk}/note/", {"text": "fan <broken>"}, follow=True)
    )
    response = operator.post(f"/alerts/{outage.pk}/note/", {"text": ""})
    assert response.status_code == 400 and "Write the note." in text(response)
    assert operator.get(f"/alerts/{outage.pk}/note/").status_code == 302


def test_a_silence_of_the_object_or_of_the_kind(outage: Alert, operator: Client) -> None:
    address = f"/alerts/{outage.pk}/silence/"
    response = operator.post(address, {"minutes": "60", "scope": "object", "comment": ""})
    assert response.status_code == 400 and "Give a reason" in text(response)
    page = operator.post(address, {"minutes": "60", "scope": "object", "comment": "new disk"}, follow=True)
    assert "silenced until" in text(page)
    assert AlertSilence.objects.get().subject == "1"
    assert "new disk" in text(operator.get("/silences/"))
    ended = operator.post(f"/silences/{AlertSilence.objects.get().pk}/end/", follow=True)
    assert f"Silence {AlertSilence.objects.get().pk} ended." in text(ended)
    assert operator.post(f"/silences/{AlertSilence.objects.get().pk}/end/").status_code == 409
    operator.post(address, {"minutes": "15", "scope": "kind", "comment": "all"})
    assert AlertSilence.objects.order_by("pk").last().subject is None  # type: ignore[union-attr]


def test_a_silenced_alert_offers_the_end_of_its_silence_and_says_why_nothing_was_sent(
    outage: Alert, operator: Client
) -> None:
    """The page offered a second silence, and said that no channel had the alert."""
    address = f"/alerts/{outage.pk}/"
    page = text(operator.get(address))
    assert "no channel takes this alert" in page and "End silence" not in page
    effect = Alert.objects.get(kind="partitions_offline")
    assert "the notifications of its cause report it" in text(operator.get(f"/alerts/{effect.pk}/"))
    NotificationChannel.objects.create(name="hook", kind="webhook", severity_min="at_risk", created_by="bea")
    assert "None sent yet." in text(operator.get(address)), "its incident is at risk"
    NotificationChannel.objects.update(enabled=False)
    assert "no channel takes this alert" in text(operator.get(address))
    silence = incidents.silence("broker_down", "1", 10, actor="alice", comment="new disk")
    page = text(operator.get(address))
    assert "None sent: the alert is silenced until" in page and f"/alerts/{outage.pk}/silence/" not in page
    end = f"/silences/{silence.pk}/end/"
    assert f'action="{end}"' in page and "End silence" in page
    ended = operator.post(end, headers={"referer": f"http://testserver{address}"})
    assert ended.headers["Location"].endswith(address)


def test_a_viewer_reads_the_page_and_may_do_nothing(outage: Alert, viewer: Client) -> None:
    page = text(viewer.get(f"/alerts/{outage.pk}/"))
    assert "Broker 1 is down: " in page and "Add note" not in page
    for verb in ("acknowledge", "note", "silence"):
        assert viewer.post(f"/alerts/{outage.pk}/{verb}/", {"text": "x"}).status_code == 403
    assert viewer.post("/start/process/broker-1/").status_code == 403


def test_unknown_alerts_operations_and_runbooks_are_not_found(outage: Alert, operator: Client) -> None:
    for address in ("/alerts/999/", f"/alerts/{outage.pk}/explode/", "/alerts/0/", "/runbooks/none/"):
        assert operator.get(address).status_code == 404


def test_a_process_without_a_supervisor_is_rejected(outage: Alert, operator: Client) -> None:
    response = operator.post("/start/process/broker-1/")
    assert response.status_code == 409 and "No supervisor" in text(response)


def test_a_stopped_process_is_started_from_the_page(
    outage: Alert, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(incidents.supervisor, "is_kept_stopped", lambda folder, name: True)
    monkeypatch.setattr(incidents.supervisor, "request_start", lambda folder, name: started.append(name))
    assert "Start broker 1" in text(operator.get(f"/alerts/{outage.pk}/"))
    page = f"/alerts/{outage.pk}/"
    response = operator.post("/start/process/broker-1/", headers={"referer": f"http://testserver{page}"})
    assert started == ["broker-1"] and response["Location"].endswith(page), "the page where the button was"
    for other in ("", "http://testserver/start/process/broker-1/", "https://elsewhere.example/"):
        response = operator.post("/start/process/broker-1/", headers={"referer": other})
        assert response["Location"] == "/", other


def test_the_alert_about_a_rejected_client_leads_to_its_permission(world: World, operator: Client) -> None:
    Broker.objects.filter(broker_id=1).update(refused_clients=[rejected_client()])
    alerts.evaluate()
    page = operator.get(f"/alerts/{Alert.objects.get(kind='client_refused').pk}/").content.decode()
    address = "/permissions/?principal=User%3Ax&amp;host=10.0.0.1&amp;resource_type=topic&amp;resource_name=flights&amp;operation=write"
    assert address in page and "Check the permission of User:x" in page
    assert "/clients/?q=User%3Ax#refused" in page and "/runbooks/client_refused/" in page


def test_the_alert_about_a_failed_task_has_a_button_that_restarts_it(world: World, operator: Client) -> None:
    failure = {"name": "to db/1", "has_failed": False, "tasks": 2, "failed_tasks": [1]}
    ConnectCluster.objects.create(name="etl", tried_at=timezone.now(), failures=[failure])
    alerts.evaluate()
    page = operator.get(f"/alerts/{Alert.objects.get(kind='connector_failed').pk}/").content.decode()
    assert "/connect/act/restart-task/?cluster=etl&amp;name=to+db%2F1&amp;task=1" in page
    assert "/connect/connector/?cluster=etl&amp;name=to+db%2F1" in page and "/runbooks/connector_failed/" in page
