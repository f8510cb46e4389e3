"""Connect workers over HTTP: failover, time-outs, rejections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.clients import connect as client_module
from controlplane.clients import connectors as api
from controlplane.clients.connect import (
    UNREACHABLE_SECONDS,
    ConnectClient,
    ConnectRejected,
    ConnectUnavailable,
    ConnectUnknown,
    ConnectUnreachable,
)
from tests.cluster.local import free_port
from tests.unit.connect_server import WorkerState, running_worker

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def state() -> Iterator[WorkerState]:
    with running_worker() as found:
        yield found


def client_of(*addresses: str) -> ConnectClient:
    return ConnectClient("etl", addresses)


def test_a_request_that_the_first_worker_did_not_receive_is_sent_to_the_next(state: WorkerState) -> None:
    client = client_of(NOBODY, state.url)
    state.add("a")
    api.pause(client, "a")
    assert state.states["a"] == "PAUSED"
    assert api.worker_info(client).version == "4.3.1"


def test_a_change_without_a_response_is_not_sent_again(state: WorkerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CHANGE_SECONDS", 0.2)
    with running_worker() as second:
        second.add("a")
        state.add("a")
        state.waiting = True
        with pytest.raises(ConnectUnreachable) as error:
            api.pause(client_of(state.url, second.url), "a")
        assert error.value.sent and second.requests == []


def test_a_worker_that_did_not_respond_gets_no_request_for_some_seconds(
    state: WorkerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "READ_SECONDS", 0.2)
    now = [100.0]
    client = ConnectClient("etl", (state.url,), clock=lambda: now[0])
    state.waiting = True
    for _ in range(2):
        with pytest.raises(ConnectUnreachable, match="Connect cluster etl did not respond"):
            api.worker_info(client)
    assert len(state.requests) == 1
    state.waiting = False
    state.released.set()
    now[0] += UNREACHABLE_SECONDS
    assert api.worker_info(client).version == "4.3.1"


def test_user_and_password_are_sent_and_never_shown(state: WorkerState) -> None:
    host = state.url.removeprefix("http://")
    client = client_of(f"http://reader:s3%40cret@{host}")
    api.worker_info(client)
    assert state.authorization == "Basic cmVhZGVyOnMzQGNyZXQ="
    state.statuses["/"] = (401, {"message": "User cannot access the resource."})
    with pytest.raises(ConnectRejected) as error:
        api.worker_info(client)
    assert state.url in str(error.value) and "s3" not in str(error.value)
    with pytest.raises(ConnectUnreachable) as unreachable:
        api.worker_info(client_of("http://reader:s3cret@127.0.0.1:9"))
    assert "127.0.0.1:9" in str(unreachable.value) and "s3cret" not in str(unreachable.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (409, ConnectRejected),
        (400, ConnectRejected),
        (404, ConnectUnknown),
        (405, ConnectUnknown),
        (500, ConnectUnavailable),
    ],
)
def test_a_rejection_of_the_worker_has_its_reason(
    state: WorkerState, status: int, kind: type[ConnectUnavailable]
) -> None:
    state.statuses["/connectors/a/pause"] = (
        status,
        {"error_code": status, "message": "Cannot complete request momentarily"},
    )
    with pytest.raises(kind, match="Cannot complete request momentarily"):
        api.pause(client_of(state.url), "a")


def test_a_redirect_is_not_followed(state: WorkerState) -> None:
    state.statuses["/"] = (302, {"message": "elsewhere"})
    with pytest.raises(ConnectUnavailable):
        api.worker_info(client_of(state.url))


def test_a_port_that_is_no_worker_is_named() -> None:
    port = free_port()
    with pytest.raises(ConnectUnreachable, match=str(port)):
        api.worker_info(client_of(f"http://127.0.0.1:{port}"))
