"""Requests for connectors and the responses of workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.clients import connectors as api
from controlplane.clients.connect import ConnectClient, ConnectUnavailable, ConnectUnknown
from controlplane.domain.connect import ConnectorState, ConnectorType
from tests.unit.connect_server import WORKER, WorkerState, running_worker


@pytest.fixture
def state() -> Iterator[WorkerState]:
    with running_worker() as found:
        yield found


@pytest.fixture
def client(state: WorkerState) -> ConnectClient:
    return ConnectClient("etl", (state.url,))


def test_version_connectors_and_details(state: WorkerState, client: ConnectClient) -> None:
    state.add("a/b c", tasks=2, connection_password="x")
    state.fail_task("a/b c", 1)
    assert api.worker_info(client).version == "4.3.1"
    [found] = api.connectors(client)
    assert (found.name, found.type, found.state, found.worker) == (
        "a/b c",
        ConnectorType.SINK,
        ConnectorState.RUNNING,
        WORKER,
    )
    assert [t.state for t in found.tasks] == ["RUNNING", "FAILED"] and "no route to db" in found.tasks[1].trace
    assert api.connector_config(client, "a/b c")["connection.password"] == "x"
    state.topics["a/b c"] = ["z", "y"]
    assert api.active_topics(client, "a/b c") == ["y", "z"]
    state.offsets["a/b c"] = [{"partition": {"kafka_topic": "y"}, "offset": {"kafka_offset": 7}}]
    assert api.offsets(client, "a/b c") == [('{"kafka_topic": "y"}', '{"kafka_offset": 7}')]
    assert [p.class_name for p in api.plugins(client)] == ["shop.FileSource", "shop.JdbcSink"], "no transformations"
    assert api.secret_configs(client, "shop.JdbcSink") == {"connection.auth"}
    with pytest.raises(ConnectUnknown):
        api.connector_config(client, "gone")


@pytest.mark.parametrize("body", [[], {"a": 1}, {"a": {}}, "x", None])
def test_a_response_of_another_form_is_an_error(state: WorkerState, client: ConnectClient, body: object) -> None:
    state.statuses["/connectors"] = (200, body)
    if body == []:
        state.statuses["/connectors"] = (200, [1])
    with pytest.raises(ConnectUnavailable, match="unknown form"):
        api.connectors(client)


def test_a_validation_has_each_config_with_its_definition_and_errors(state: WorkerState, client: ConnectClient) -> None:
    found = {
        d.name: d for d in api.validate(client, {"connector.class": "shop.JdbcSink", "name": "a", "tasks.max": "x"})
    }
    assert found["connection.url"].is_required and "Missing required" in found["connection.url"].errors[0]
    assert found["tasks.max"].value == "x" and found["tasks.max"].default == "1" and len(found["tasks.max"].errors) == 1
    assert found["insert.mode"].recommended == ["insert", "upsert"] and found["connection.auth"].default is None
    with pytest.raises(ConnectUnknown):
        api.validate(client, {"connector.class": "shop.Unknown"})


def test_changes_are_sent_with_quoted_names(state: WorkerState, client: ConnectClient) -> None:
    api.create(client, "a b", {"connector.class": "shop.JdbcSink"})
    api.change_config(client, "a b", {"connector.class": "shop.JdbcSink", "tasks.max": "2"})
    api.pause(client, "a b")
    api.resume(client, "a b")
    api.stop(client, "a b")
    api.restart(client, "a b", include_tasks=True, only_failed=False)
    api.restart_task(client, "a b", 1)
    api.delete(client, "a b")
    assert state.requests == [
        ("POST", "/connectors"),
        ("PUT", "/connectors/a%20b/config"),
        ("PUT", "/connectors/a%20b/pause"),
        ("PUT", "/connectors/a%20b/resume"),
        ("PUT", "/connectors/a%20b/stop"),
        ("POST", "/connectors/a%20b/restart?includeTasks=true&onlyFailed=false"),
        ("POST", "/connectors/a%20b/tasks/1/restart"),
        ("DELETE", "/connectors/a%20b"),
    ]
