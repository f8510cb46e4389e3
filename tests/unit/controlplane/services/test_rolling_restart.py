"""Rolling restarts as rows: the result of each worker pass, the requests to the supervisor, and operations on the restart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokerd.cluster.cordons import LEADERSHIP
from brokerd.cluster.model import ReplicaIncarnation
from controlplane.clients import supervisor as supervisor_client
from controlplane.domain.restart import ProcessIdentity
from controlplane.models import Change, RollingRestart
from controlplane.selectors import restarts as selectors
from controlplane.services import Rejected, rolling_restart
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def supervised_pids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> dict[str, int]:
    """Pids of brokers that a supervisor runs, by name."""
    pids = {f"broker-{b}": 1000 + b for b in (1, 2, 3)}
    settings.WEIR = replace(settings.WEIR, data_dir=tmp_path)

    def running(folder: Path, name: str) -> ProcessIdentity | None:
        return ProcessIdentity(pids[name], 7) if name in pids else None

    monkeypatch.setattr(supervisor_client, "running_process", running)
    monkeypatch.setattr(rolling_restart.core, "SETTLED_SECONDS", 0.0)
    return pids


def restart_request(folder: Path, broker_id: int) -> dict[str, int] | None:
    path = folder / "restart" / f"broker-{broker_id}"
    return json.loads(path.read_text()) if path.exists() else None


def controller(world: World) -> None:
    """The controller's leader placement: the first in-sync replica on a broker whose leadership is not disabled."""
    for topic in world.image.topics.values():
        for index, state in topic.partitions.items():
            ok = [
                b
                for b in state.replicas
                if b in state.isr_ids and world.image.broker_configs.get(b, (0, {}))[1].get(LEADERSHIP) != "false"
            ]
            if ok and state.leader != ok[0]:
                topic.partitions[index] = replace(state, leader=ok[0], leader_broker_epoch=100 + ok[0])
    world.project()


def restart_broker(world: World, broker_id: int) -> None:
    """The broker restarts: a new incarnation, in sync again."""
    before = world.image.brokers[broker_id]
    world.image.brokers[broker_id] = replace(before, broker_epoch=before.broker_epoch + 50)
    for topic in world.image.topics.values():
        for index, state in topic.partitions.items():
            isr = tuple(
                ReplicaIncarnation(s.broker_id, s.broker_epoch + 50) if s.broker_id == broker_id else s
                for s in state.isr
            )
            topic.partitions[index] = replace(state, isr=isr)
    world.project()


def test_all_brokers_restart_and_each_process_is_requested_once_by_its_pid(
    world: World, supervised_pids: dict[str, int], tmp_path: Path
) -> None:
    world.topic("flights", (1, 2, 3), (2, 3, 1), (3, 1, 2), configs={"min.insync.replicas": "2"})
    row = rolling_restart.start_restart(actor="alice", comment="new release")
    assert row.by_supervisor
    for b in (1, 2, 3):
        assert rolling_restart.advance_restart(row.pk) == "running"
        assert restart_request(tmp_path, b) is None, "its leaders have not moved yet"
        world.apply_rows()
        controller(world)
        assert all(world.state("flights", i).leader != b for i in range(3))
        rolling_restart.advance_restart(row.pk)
        assert restart_request(tmp_path, b) == {"pid": 1000 + b, "started": 7}
        supervised_pids[f"broker-{b}"] = 2000 + b
        rolling_restart.advance_restart(row.pk)
        assert restart_request(tmp_path, b) == {"pid": 1000 + b, "started": 7}, (
            "the new process is not asked for the old one's sake"
        )
        restart_broker(world, b)
        for _ in range(3):
            rolling_restart.advance_restart(row.pk)
        world.apply_rows()
        controller(world)
    assert rolling_restart.advance_restart(row.pk) == "done"
    assert rolling_restart.advance_restart(row.pk) is None
    shape = selectors.restart_row(row.pk)
    assert shape is not None and shape.done == 3 and [t.state for t in shape.turns] == ["done"] * 3
    assert all(t.away_s is not None for t in shape.turns)
    assert not any(LEADERSHIP in configs for _, configs in world.image.broker_configs.values())
    assert Change.objects.get(verb="restart.start").outcome == "confirmed"


def test_a_topic_that_needs_a_broker_delays_its_restart_and_is_named(
    world: World, supervised_pids: dict[str, int]
) -> None:
    world.topic("lonely", (1,))
    row = rolling_restart.start_restart([1], actor="alice")
    rolling_restart.advance_restart(row.pk)
    shape = selectors.restart_row(row.pk)
    assert shape is not None and shape.now is not None
    assert shape.now.state == "waiting" and "lonely-0: no other replica is in sync" in shape.now.note


def test_one_at_a_time(world: World, supervised_pids: dict[str, int]) -> None:
    first = rolling_restart.start_restart([1], actor="alice")
    with pytest.raises(Rejected, match=f"Rolling restart {first.pk} is in progress"):
        rolling_restart.start_restart([2], actor="bob")
    rolling_restart.cancel_restart(first.pk, actor="alice")
    assert rolling_restart.advance_restart(first.pk) == "cancelled"
    assert rolling_restart.start_restart([2], actor="bob").state == "running"
    assert RollingRestart.objects.count() == 2
    shape = selectors.restart_row(first.pk)
    assert shape is not None and [t.state for t in shape.turns] == ["skipped"]


def test_without_a_supervisor_the_restart_waits_for_the_operator(
    world: World, supervised_pids: dict[str, int], tmp_path: Path
) -> None:
    world.topic("flights", (1, 2, 3))
    supervised_pids.clear()
    row = rolling_restart.start_restart([1], actor="alice")
    rolling_restart.advance_restart(row.pk)
    world.apply_rows()
    controller(world)
    rolling_restart.advance_restart(row.pk)
    shape = selectors.restart_row(row.pk)
    assert shape is not None and shape.now is not None and not shape.by_supervisor
    assert "Restart broker 1 now" in shape.now.note and restart_request(tmp_path, 1) is None
    restart_broker(world, 1)
    for _ in range(3):
        rolling_restart.advance_restart(row.pk)
    assert rolling_restart.advance_restart(row.pk) == "done"


def test_a_rolling_restart_by_rest(
    world: World, supervised_pids: dict[str, int], operator: APIClient, viewer_client: APIClient
) -> None:
    world.topic("flights", (1, 2, 3))
    assert viewer_client.post("/api/v1/restarts", {}, format="json").status_code == 403
    made = operator.post("/api/v1/restarts", {"brokers": [3, 1], "comment": "kernel"}, format="json")
    assert made.status_code == 201 and made.json()["brokers"] == [3, 1] and made.json()["can"] == ["pause", "cancel"]
    pk = made.json()["id"]
    assert operator.post("/api/v1/restarts", {"comment": "x"}, format="json").status_code == 409
    assert operator.post("/api/v1/restarts", {}, format="json").status_code == 400, "without a reason"
    assert operator.post("/api/v1/restarts", {"brokers": [9], "comment": "x"}, format="json").status_code in (400, 409)
    assert operator.post(f"/api/v1/restarts/{pk}/pause", {}, format="json").json()["state"] == "paused"
    assert operator.post(f"/api/v1/restarts/{pk}/pause", {}, format="json").status_code == 409
    assert operator.post(f"/api/v1/restarts/{pk}/resume", {}, format="json").json()["state"] == "running"
    assert operator.post(f"/api/v1/restarts/{pk}/cancel", {}, format="json").json()["state"] == "cancelling"
    assert operator.get("/api/v1/restarts").json()["rows"][0]["id"] == pk
