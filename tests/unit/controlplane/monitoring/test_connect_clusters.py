"""States of Kafka Connect clusters in rows, the alerts about them, and their next steps, with a small worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.clients import connect as client_module
from controlplane.models import ConnectCluster
from controlplane.monitoring import connect_clusters
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts
from tests.unit.connect_server import WorkerState, running_worker
from tests.unit.controlplane.world import World

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def state(settings: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerState]:
    monkeypatch.setattr(client_module, "UNREACHABLE_SECONDS", 0)
    with running_worker() as found:
        settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (found.url,)),))
        yield found


def evaluate_alerts() -> dict[tuple[str, str], Any]:
    connect_clusters.read_all()
    alerts.evaluate()
    return {(a.kind, a.subject): a for a in open_alerts() if a.kind in ("connector_failed", "connect_silent")}


def test_a_failed_task_is_an_alert_until_it_is_restarted(state: WorkerState) -> None:
    state.add("sound")
    state.add("orders: to db", tasks=3)
    state.fail_task("orders: to db", 1)
    ((key, alert),) = evaluate_alerts().items()
    assert key == ("connector_failed", "etl: orders: to db") and alert.severity == "degraded"
    assert alert.text == "Connector orders: to db of Connect cluster etl: task 1 has failed (1 of 3)."
    steps = [(s.kind, s.label, s.target) for s in next_steps(alert)]
    assert steps == [
        ("open_connector", "Open connector orders: to db", ["etl", "orders: to db"]),
        ("restart_task", "Restart task 1 of orders: to db", ["etl", "orders: to db", "1"]),
    ]
    assert "s3cr3t" not in str(ConnectCluster.objects.values()), "a trace may have secrets"
    state.states.clear()
    assert evaluate_alerts() == {}


def test_several_failed_tasks_are_restarted_by_a_form(state: WorkerState) -> None:
    state.add("a", tasks=9)
    for task in range(5):
        state.fail_task("a", task)
    state.states["a"] = "FAILED"
    (alert,) = evaluate_alerts().values()
    assert "has failed, with tasks 0, 1, 2 and 2 more (5 of 9)" in alert.text
    assert [s.kind for s in next_steps(alert)] == ["open_connector", "restart_failed"]
    state.states = {"a": "FAILED"}
    (alert,) = evaluate_alerts().values()
    assert alert.text == "Connector a of Connect cluster etl has failed."


def test_a_cluster_that_does_not_respond_again_and_again_is_an_alert(state: WorkerState, settings: Any) -> None:
    state.add("a")
    state.fail_task("a")
    assert list(evaluate_alerts()) == [("connector_failed", "etl: a")]
    settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (NOBODY,)),))
    assert list(evaluate_alerts()) == [("connector_failed", "etl: a")], (
        "one missed response may be a restart of the worker"
    )
    ConnectCluster.objects.update(silent_since=timezone.now() - timedelta(minutes=1))
    both = evaluate_alerts()
    assert set(both) == {("connector_failed", "etl: a"), ("connect_silent", "etl")}
    silent = both["connect_silent", "etl"]
    assert silent.text.startswith("Connect cluster etl does not respond: Worker http://127.0.0.1:9")
    assert [(s.kind, s.target) for s in next_steps(silent)] == [("open_connect", ["etl"])]
    settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (state.url,)),))
    state.states.clear()
    assert evaluate_alerts() == {} and ConnectCluster.objects.get().problem == ""


def test_clusters_that_are_not_configured_any_more_have_no_row(state: WorkerState, settings: Any) -> None:
    connect_clusters.read_all()
    assert [c.name for c in ConnectCluster.objects.all()] == ["etl"]
    settings.WEIR = replace(settings.WEIR, connect_urls=())
    connect_clusters.read_all()
    assert not ConnectCluster.objects.exists()
