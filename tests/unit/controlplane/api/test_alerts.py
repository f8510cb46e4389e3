"""Alerts, incidents and silences over REST."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.models import Alert
from controlplane.services import alerts
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def alert(world: World) -> Alert:
    world.topic("orders", (1, 2))
    world.offline("orders", 0)
    world.down(1)
    alerts.evaluate()
    return Alert.objects.get(kind="broker_down")


def post(client: APIClient, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, format="json")


def test_incidents_have_their_cause_first(operator: APIClient, alert: Alert) -> None:
    (found,) = operator.get("/api/v1/incidents").json()
    assert (found["cause"]["kind"], found["severity"]) == ("broker_down", "at_risk")
    assert [e["kind"] for e in found["effects"]] == ["partitions_offline"]
    detail = operator.get(f"/api/v1/alerts/{alert.pk}").json()
    assert (detail["alert"]["subject"], detail["caused_by"]) == ("1", None)
    assert [s["kind"] for s in detail["next_steps"]] == ["open_broker", "drain_broker"]
    assert detail["timeline"][0]["kind"] == "opened"
    assert operator.get("/api/v1/alerts/999").status_code == 404


def test_an_alert_is_acknowledged_one_time_and_takes_notes(operator: APIClient, alert: Alert) -> None:
    path = f"alerts/{alert.pk}"
    assert post(operator, f"{path}/acknowledge", comment="on it").json()["alert"]["acknowledged_by"] == "alice"
    assert post(operator, f"{path}/acknowledge").status_code == 409
    assert post(operator, f"{path}/withdraw").json()["alert"]["acknowledged_at"] is None
    assert post(operator, f"{path}/notes", text="fan").json()["timeline"][-1]["text"] == "fan"
    assert post(operator, f"{path}/notes", text="").status_code == 400


def test_a_silence_has_an_end_and_a_reason(operator: APIClient, alert: Alert) -> None:
    assert post(operator, "silences", kind="broker_down", minutes=5).status_code == 400
    assert post(operator, "silences", kind="no_such", minutes=5, comment="x").status_code == 400
    made = post(operator, "silences", kind="broker_down", subject="1", minutes=5, comment="new disk")
    assert made.status_code == 201 and made.json()["active"]
    assert operator.get(f"/api/v1/alerts/{alert.pk}").json()["alert"]["silenced_until"] is not None
    assert not post(operator, f"silences/{made.json()['id']}/end").json()["active"]
    assert operator.get("/api/v1/silences").json()["rows"][0]["ended_by"] == "alice"


def test_a_viewer_reads_and_does_not_act(viewer_client: APIClient, alert: Alert) -> None:
    assert viewer_client.get(f"/api/v1/alerts/{alert.pk}").status_code == 200
    for path in (f"alerts/{alert.pk}/acknowledge", f"alerts/{alert.pk}/notes", "silences", "processes/broker-1/start"):
        assert post(viewer_client, path, text="x", kind="broker_down", minutes=1, comment="x").status_code == 403


def test_a_process_that_no_supervisor_keeps_stopped_is_not_started(operator: APIClient, world: World) -> None:
    assert post(operator, "processes/broker-1/start").status_code == 409
