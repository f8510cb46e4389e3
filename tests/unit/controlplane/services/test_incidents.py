"""Operations on alerts, and the audit row of each."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.clients.supervisor import started_at
from controlplane.models import Alert, AlertEntry, AlertSilence, Change
from controlplane.services import Rejected, alerts, incidents
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def alert(world: World) -> Alert:
    world.topic("flights", (1, 2))
    world.down(1)
    alerts.evaluate()
    return Alert.objects.get()


def timeline(alert: Alert) -> list[tuple[str, str, str]]:
    return [(e.kind, e.actor, e.text) for e in AlertEntry.objects.filter(alert=alert)]


def recorded_changes() -> list[tuple[str, str, str]]:
    return list(Change.objects.order_by("pk").values_list("verb", "object_name", "outcome"))


def test_one_operator_acknowledges_and_withdraws(alert: Alert) -> None:
    row = incidents.acknowledge(alert.pk, actor="alice", comment="on it")
    assert row.acknowledged_by == "alice" and row.acknowledged_at is not None
    with pytest.raises(Rejected, match=f"alice acknowledged alert {alert.pk} before"):
        incidents.acknowledge(alert.pk, actor="bob")
    assert incidents.withdraw(alert.pk, actor="alice").acknowledged_at is None
    with pytest.raises(Rejected, match="not acknowledged"):
        incidents.withdraw(alert.pk, actor="alice")
    assert timeline(alert)[1:] == [("acknowledged", "alice", "on it"), ("withdrawn", "alice", "")]
    name = str(alert.pk)
    assert recorded_changes() == [
        ("alert.acknowledge", name, "confirmed"),
        ("alert.acknowledge", name, "refused"),
        ("alert.withdraw", name, "confirmed"),
        ("alert.withdraw", name, "refused"),
    ]


def test_a_resolved_alert_takes_a_note_and_no_acknowledgement(alert: Alert) -> None:
    Alert.objects.update(ended_at=timezone.now())
    with pytest.raises(Rejected, match="was resolved at"):
        incidents.acknowledge(alert.pk, actor="alice")
    incidents.add_note(alert.pk, " the power supply failed ", actor="alice")
    assert timeline(alert)[-1] == ("note", "alice", "the power supply failed")
    for text in ("  ", "x" * (incidents.NOTE_CHARS_MAX + 1)):
        with pytest.raises(Rejected) as rejection:
            incidents.add_note(alert.pk, text, actor="alice")
        assert rejection.value.field == "text"
    with pytest.raises(Rejected, match="no stored alert 999"):
        incidents.add_note(999, "x", actor="alice")


def test_a_silence_has_an_end_and_a_reason_and_is_ended_early(alert: Alert) -> None:
    with pytest.raises(Rejected, match="reason"):
        incidents.silence("broker_down", "1", 30, actor="alice")
    for kind, minutes in (("broker_gone", 5), ("broker_down", 0), ("broker_down", incidents.SILENCE_MINUTES_MAX + 1)):
        with pytest.raises(Rejected):
            incidents.silence(kind, None, minutes, actor="alice", comment="x")
    row = incidents.silence("broker_down", None, 30, actor="alice", comment="new disk")
    assert row.ends_at - row.starts_at == timedelta(minutes=30)
    incidents.end_silence(row.pk, actor="bob")
    row.refresh_from_db()
    assert row.ends_at <= timezone.now() and row.ended_by == "bob"
    with pytest.raises(Rejected, match="has ended"):
        incidents.end_silence(row.pk, actor="bob")
    assert [kind for kind, *_ in timeline(alert)] == ["opened", "silenced", "silence_ended"]
    assert [v for v, _, o in recorded_changes() if o == "confirmed"] == ["alert.silence", "alert.end_silence"]


def test_a_silence_of_one_object_is_in_the_timeline_of_its_alert_only(alert: Alert, world: World) -> None:
    world.topic("orders", (2, 3))
    world.down(3)
    alerts.evaluate()
    other = Alert.objects.get(subject="3")
    incidents.silence("broker_down", "3", 5, actor="alice", comment="x")
    assert AlertSilence.objects.get().subject == "3"
    assert [k for k, *_ in timeline(other)] == ["opened", "silenced"]
    assert [k for k, *_ in timeline(alert)] == ["opened"]


def test_the_timeline_has_the_end_the_return_and_a_new_severity(alert: Alert) -> None:
    Alert.objects.update(severity="at_risk")
    alerts.evaluate()
    Alert.objects.update(ended_at=timezone.now())
    alerts.evaluate()
    assert [kind for kind, *_ in timeline(alert)] == ["opened", "changed", "reopened"]
    assert timeline(alert)[1][2].startswith("at risk → degraded: ")


def test_a_stopped_process_is_started_by_its_supervisor(settings: Any, tmp_path: Path) -> None:
    def write_supervisor_state(state: str) -> None:
        process = {"name": "broker-2", "pid": None, "started": None, "state": state, "exit_code": 0}
        supervisor = {"pid": os.getpid(), "started": started_at(os.getpid())}
        (tmp_path / "processes.json").write_text(json.dumps({"supervisor": supervisor, "processes": [process]}))

    settings.WEIR = type("Settings", (), {"data_dir": tmp_path})
    marker = tmp_path / "stopped" / "broker-2"
    marker.parent.mkdir()
    marker.touch()
    with pytest.raises(Rejected, match="No supervisor"):
        incidents.start_process("broker-2", actor="alice")
    write_supervisor_state("ended")
    with pytest.raises(Rejected, match="No supervisor"):
        incidents.start_process("broker-2", actor="alice")
    write_supervisor_state("stopped")
    incidents.start_process("broker-2", actor="alice")
    assert not marker.exists()
    assert recorded_changes()[-1] == ("process.start", "broker-2", "confirmed")
