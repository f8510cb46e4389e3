"""Kafka Connect over REST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.unit.connect_server import WorkerState, running_worker
from tests.unit.controlplane.world import World

ADDRESS = "/api/v1/connectors"
ONE = {"cluster": "etl", "name": "a b"}
CONFIG = {"connector.class": "shop.JdbcSink", "connection.url": "jdbc:x", "connection.auth": "typed-secret"}


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[WorkerState]:
    with running_worker() as found:
        settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (found.url,)),))
        yield found


def post(client: APIClient, verb: str, body: dict[str, Any], status: int = 204) -> Any:
    response = client.post(f"{ADDRESS}/{verb}", body, format="json")
    assert response.status_code == status, response.content
    return response.json() if response.content else None


def test_connectors_one_of_them_and_plugins(state: WorkerState, operator: APIClient) -> None:
    state.add("a b", connection_auth="typed-secret")
    listed = operator.get(f"{ADDRESS}?query=b").json()
    assert listed["rows"][0]["name"] == "a b" and listed["clusters"][0]["version"] == "4.3.1"
    one = operator.get(f"{ADDRESS}/connector?cluster=etl&name=a b").json()
    assert one["row"]["group"] == "connect-a b" and "typed-secret" not in str(one)
    assert operator.get(f"{ADDRESS}/connector?cluster=etl&name=gone").status_code == 404
    assert operator.get(f"{ADDRESS}/connector?cluster=other&name=a").status_code == 400
    plugins = operator.get(f"{ADDRESS}/plugins?cluster=etl").json()
    assert [p["class_name"] for p in plugins] == ["shop.FileSource", "shop.JdbcSink"]
    assert operator.get(f"{ADDRESS}?state=odd").status_code == 400


def test_workers_that_do_not_respond(settings: Any, world: World, operator: APIClient) -> None:
    settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", ("http://127.0.0.1:9",)),))
    assert "did not respond" in operator.get(ADDRESS).json()["clusters"][0]["problem"]
    assert operator.get(f"{ADDRESS}/connector?cluster=etl&name=a").status_code == 409


def test_validate_create_change_and_delete(state: WorkerState, operator: APIClient) -> None:
    wrong = {"connector.class": "shop.JdbcSink", "tasks.max": "many"}
    checked = post(operator, "validate", {**ONE, "config": wrong}, 200)
    assert not checked["valid"] and checked["error_count"] == 2
    rejected = post(operator, "create", {**ONE, "config": wrong, "comment": "x"}, 400)
    assert [e["field"] for e in rejected["errors"]] == ["config.tasks.max", "config.connection.url"]
    post(operator, "create", {**ONE, "config": CONFIG, "comment": "x"})
    assert post(operator, "create", {**ONE, "config": CONFIG, "comment": "x"}, 400)["field"] == "name"
    shown = operator.get(f"{ADDRESS}/connector?cluster=etl&name=a b").json()
    config = {c["name"]: c["value"] for c in shown["config"]} | {"tasks.max": "3"}
    change = {**ONE, "config": config, "version": shown["version"], "comment": "x"}
    post(operator, "change", change)
    assert state.connectors["a b"] == {**CONFIG, "name": "a b", "tasks.max": "3"}
    post(operator, "change", change, 409)
    post(operator, "delete", ONE, 400)
    post(operator, "delete", {**ONE, "comment": "x"})
    assert state.connectors == {}


def test_pause_resume_stop_and_restart(state: WorkerState, operator: APIClient) -> None:
    state.add("a b")
    post(operator, "pause", ONE)
    assert state.states["a b"] == "PAUSED"
    post(operator, "resume", ONE)
    post(operator, "stop", {**ONE, "comment": "x"})
    assert state.states["a b"] == "STOPPED"
    post(operator, "restart", {**ONE, "include_tasks": True, "only_failed": True})
    assert state.requests[-1][1] == "/connectors/a%20b/restart?includeTasks=true&onlyFailed=true"
    post(operator, "restart-task", {**ONE, "task": 0})
    post(operator, "restart-task", {**ONE, "task": 7}, 409)


def test_viewers_read_and_change_nothing(state: WorkerState, viewer_client: APIClient) -> None:
    state.add("a b")
    assert viewer_client.get(ADDRESS).status_code == 200
    for verb in ("validate", "create", "change", "pause", "resume", "stop", "restart", "restart-task", "delete"):
        post(viewer_client, verb, {**ONE, "config": CONFIG, "comment": "x", "task": 0}, 403)
    assert not [path for method, path in state.requests if method != "GET"]
