"""The overview: its incidents, and their acknowledgement."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import Alert, Change, Cluster
from controlplane.services import alerts
from tests.unit.controlplane.world import World


@pytest.fixture
def outage(world: World) -> Alert:
    world.topic("orders", (1, 2))
    world.offline("orders", 0)
    world.down(1)
    alerts.evaluate()
    return Alert.objects.get(kind="broker_down")


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_the_overview_begins_with_the_open_incidents(outage: Alert, operator: Client) -> None:
    page = text(operator.get("/"))
    assert page.index(f'href="/alerts/{outage.pk}/"') < page.index("Live brokers")
    Alert.objects.filter(pk=outage.pk).update(since=timezone.now() - timedelta(minutes=4, seconds=10))
    later = text(operator.get("/"))
    since = Alert.objects.get(pk=outage.pk).since
    assert f"since {since:%m-%d %H:%M:%S} UTC, for 4 min" in re.sub("<[^>]+>", "", later)
    assert "<span data-lasts>for 4 min</span>" in later, (
        "panels.js reloads the panel each minute: no update does while nothing changes"
    )
    assert page.index("Broker 1 is down: 1 replica offline.") < page.index("1 partition (orders-0) has no leader")


def incidents_of(page: str) -> str:
    return page.split('id="incidents"')[1].split('class="figures')[0]


def test_an_incident_is_acknowledged_on_the_overview(
    outage: Alert, operator: Client, viewer: Client, settings: Any
) -> None:
    path = f"/alerts/{outage.pk}/acknowledge/"
    page = text(operator.get("/"))
    assert f'<form method="post" action="{path}"' in incidents_of(page) and "csrfmiddlewaretoken" in incidents_of(page)
    assert f"/api/v1/alerts/{outage.pk}/acknowledge" in page and "weir alerts acknowledge --comment" in page
    for_viewer = text(viewer.get("/"))
    assert "Acknowledge" not in incidents_of(for_viewer) and "/acknowledge" not in for_viewer
    settings.WEIR = replace(settings.WEIR, read_only=True)
    assert "Acknowledge" not in incidents_of(text(operator.get("/")))
    settings.WEIR = replace(settings.WEIR, read_only=False)
    origin = {"referer": "http://testserver/"}
    response = operator.post(path, headers=origin)
    assert response.status_code == 302 and response["Location"] == "http://testserver/", "the page where the button was"
    assert Change.objects.get(verb="alert.acknowledge", object_name=str(outage.pk)).actor == "alice"
    page = text(operator.get("/"))
    assert "acknowledged by alice" in incidents_of(page) and path not in page and "/api/v1/alerts/" not in page
    assert f"/alerts/{outage.pk}/withdraw/" in page, "its undo"
    assert operator.post(f"/alerts/{outage.pk}/withdraw/", headers=origin)["Location"] == "http://testserver/"
    for elsewhere in ("", f"http://testserver{path}"):
        Alert.objects.update(acknowledged_at=None)
        assert operator.post(path, headers={"referer": elsewhere})["Location"] == f"/alerts/{outage.pk}/"


def test_the_alert_of_a_silent_monitor_has_no_row_to_acknowledge(outage: Alert, operator: Client) -> None:
    Cluster.objects.update(observed_at=timezone.now() - timedelta(minutes=5), heartbeat_at=None)
    page = text(operator.get("/"))
    assert 'href="/alerts/0/"' in incidents_of(page) and "/alerts/0/acknowledge" not in page
