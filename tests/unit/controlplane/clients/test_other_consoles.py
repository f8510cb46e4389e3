"""Requests to another console: what a wrong response is called, and its limits."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.clients import other_consoles
from controlplane.clients.other_consoles import ConsoleUnreadable, read_metrics
from controlplane.domain.other_cluster import ClusterProblem, OtherConsole
from tests.unit.controlplane.domain.test_other_cluster import OVERVIEW


class ScriptedServer:
    """A server that answers with `status`, `headers` and `body`, and sends the body only after `may_send` is set."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 200, {}, json.dumps(OVERVIEW).encode()
        self.may_send = threading.Event()
        self.may_send.set()
        self.seen: list[tuple[str, str | None]] = []
        response = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                response.seen.append((self.path, self.headers["Authorization"]))
                response.may_send.wait(60)
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(response.body)
                except OSError:
                    pass  # the client has read enough

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.console = OtherConsole("b", f"http://127.0.0.1:{self.server.server_port}", "none", "weir_abc", "")
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    running = ScriptedServer()
    yield running
    running.may_send.set()
    running.server.shutdown()
    running.server.server_close()


def test_the_metrics_of_an_overview(server: ScriptedServer) -> None:
    assert read_metrics(server.console).health == "degraded"
    assert server.seen == [("/api/v1/overview", "Token weir_abc")]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (401, b"", ClusterProblem.NOT_PERMITTED),
        (403, b"", ClusterProblem.NOT_PERMITTED),
        (500, b"", ClusterProblem.HTTP_STATUS),
        (200, b"<html>", ClusterProblem.BAD_RESPONSE),
        (200, b"{}", ClusterProblem.BAD_RESPONSE),
        (200, b" " * (other_consoles.RESPONSE_BYTES_MAX + 1), ClusterProblem.BAD_RESPONSE),
    ],
)
def test_a_wrong_response_has_its_cause(
    server: ScriptedServer, status: int, body: bytes, problem: ClusterProblem
) -> None:
    server.status, server.body = status, body
    with pytest.raises(ConsoleUnreadable) as unreadable:
        read_metrics(server.console)
    assert unreadable.value.problem == problem


def test_a_redirect_does_not_get_the_token(server: ScriptedServer) -> None:
    server.status, server.headers = 302, {"Location": f"{server.console.url}/elsewhere"}
    with pytest.raises(ConsoleUnreadable) as unreadable:
        read_metrics(server.console)
    assert unreadable.value.problem == ClusterProblem.HTTP_STATUS and len(server.seen) == 1


def test_a_silent_console_and_none_at_all(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_consoles, "TIMEOUT_SECONDS", 0.05)
    server.may_send.clear()
    with pytest.raises(ConsoleUnreadable) as unreadable:
        read_metrics(server.console)
    assert unreadable.value.problem == ClusterProblem.TIMEOUT
    with pytest.raises(ConsoleUnreadable) as unreadable:
        read_metrics(OtherConsole("c", "http://127.0.0.1:9", "none", "weir_abc", ""))
    assert unreadable.value.problem == ClusterProblem.NO_CONNECTION
