"""Requests over HTTP to a real server: headers, problems, lost connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from weir.cli import client
from weir.cli.client import NoServer, RequestRejected, RestClient, default_client


class Handler(BaseHTTPRequestHandler):
    responses: ClassVar[list[tuple[int, str, bytes] | None]]
    """If None, the connection is closed without a response."""
    seen: ClassVar[list[tuple[str, str, dict[str, str], bytes]]]

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self._respond()

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, dict(self.headers), body))
        response = self.responses.pop(0)
        if response is None:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(response[0])
        self.send_header("Content-Type", response[1])
        self.send_header("Content-Length", str(len(response[2])))
        self.end_headers()
        self.wfile.write(response[2])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[RestClient]:
    Handler.responses, Handler.seen = [], []
    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield RestClient(f"http://127.0.0.1:{http.server_port}/", "secret")
        http.shutdown()
        thread.join()


def test_a_request_has_the_token_and_its_body(server: RestClient) -> None:
    Handler.responses = [(200, "application/json", b'{"id": 1}'), (204, "text/plain", b"")]
    assert server.send("POST", "/topics", {"a": "b c"}, {"name": "t"}).data == {"id": 1}
    assert server.send("DELETE", "/topics/t").status == 204
    method, path, headers, body = Handler.seen[0]
    assert (method, path, json.loads(body)) == ("POST", "/api/v1/topics?a=b+c", {"name": "t"})
    assert headers["Authorization"] == "Token secret"


def test_a_request_is_sent_again_with_the_same_key_after_a_lost_connection(
    server: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0)
    Handler.responses = [None, (200, "application/json", b"{}")]
    server.send("POST", "/topics", body={})
    keys = [headers["Idempotency-Key"] for _, _, headers, _ in Handler.seen]
    assert len(keys) == 2 and keys[0] == keys[1]


def test_a_problem_is_raised_with_its_fields(server: RestClient) -> None:
    problem = {"detail": "name: required", "code": "invalid"}
    Handler.responses = [(400, "application/problem+json", json.dumps(problem).encode()), (502, "text/html", b"<p>no")]
    with pytest.raises(RequestRejected, match="name: required") as failed:
        server.send("POST", "/topics", body={})
    assert (failed.value.status, failed.value.problem) == (400, problem)
    with pytest.raises(RequestRejected, match="<p>no"):
        server.send("GET", "/topics")


def test_a_missing_server_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0)
    with pytest.raises(NoServer, match="WEIR_URL"):
        RestClient("http://127.0.0.1:1", "").send("GET", "/topics")


def test_the_local_cluster_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "local-cluster.json").write_text('{"port_base": 21000, "console_port": 21009}')
    (tmp_path / "operator.token").write_text("abc\n")
    found = default_client(None, None, str(tmp_path))
    assert (found.server, found.token) == ("http://127.0.0.1:21009", "abc")
    assert default_client("http://x", "t", str(tmp_path)) == RestClient("http://x", "t")
