"""The schema registry's client, against an HTTP server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from weir_common import schema_registry
from weir_common.schema_formats import Schema, SchemaType, SchemaUnavailable
from weir_common.schema_registry import SchemaRegistryClient


@dataclass
class Registry:
    """`responses`: body or status by path. `seen`: (path, Authorization) of each request."""

    port: int = 0
    responses: dict[str, Any] = field(default_factory=dict)
    seen: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def server() -> Iterator[Registry]:
    state = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.seen.append((self.path, self.headers.get("Authorization")))
            response = state.responses.get(self.path, 404)
            status, body = (response, b"{}") if isinstance(response, int) else (200, response)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/schemas/ids/1")
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = http.server_port
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_schema_is_fetched_one_time(server: Registry) -> None:
    server.responses["/schemas/ids/1"] = {"schema": '"string"'}
    client = SchemaRegistryClient(server.url)
    assert client.schema(1) == client.schema(1) == Schema(1, SchemaType.AVRO, '"string"')
    assert server.seen == [("/schemas/ids/1", None)]


def test_user_and_password_of_the_address_are_sent(server: Registry) -> None:
    server.responses["/base/schemas/ids/1"] = {"schema": "{}", "schemaType": "JSON"}
    client = SchemaRegistryClient(f"http://reader:p%40ss@127.0.0.1:{server.port}/base/")
    assert client.schema(1).type is SchemaType.JSON
    assert server.seen == [("/base/schemas/ids/1", "Basic cmVhZGVyOnBAc3M=")]


def test_references_come_before_the_schemas_that_use_them(server: Registry) -> None:
    a, b = ({"name": n, "subject": f"s/{n}", "version": 2} for n in "ab")
    server.responses |= {
        "/schemas/ids/1": {"schema": "main", "references": [a, b]},
        "/subjects/s%2Fa/versions/2": {"schema": "text of a", "references": [b]},
        "/subjects/s%2Fb/versions/2": {"schema": "text of b", "references": [a]},
    }
    found = SchemaRegistryClient(server.url).schema(1)
    assert found.references == (("b", "text of b"), ("a", "text of a"))


def test_protobuf_is_requested_in_its_serialized_form(server: Registry) -> None:
    reference = {"name": "card.proto", "subject": "card", "version": 1}
    server.responses |= {
        "/schemas/ids/1": {"schema": "source", "schemaType": "PROTOBUF", "references": [reference]},
        "/schemas/ids/1?format=serialized": {"schema": "AAAA"},
        "/subjects/card/versions/1": {"schema": "source"},
        "/subjects/card/versions/1?format=serialized": {"schema": "BBBB"},
    }
    assert SchemaRegistryClient(server.url).schema(1) == Schema(
        1, SchemaType.PROTOBUF, "AAAA", (("card.proto", "BBBB"),)
    )


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (404, "has no schema ID 1"),
        (500, "status 500"),
        (302, "status 302"),
        ([], "not a JSON object"),
        (b"<html>", "did not respond"),
        ({"schema": "", "schemaType": "THRIFT"}, "unknown type 'THRIFT'"),
        (b" " * 101, "larger than 100 bytes"),
    ],
)
def test_a_failure_has_a_reason_and_is_cached(
    server: Registry, monkeypatch: pytest.MonkeyPatch, response: Any, reason: str
) -> None:
    monkeypatch.setattr(schema_registry, "RESPONSE_BYTES_MAX", 100)
    server.responses["/schemas/ids/1"], clock = response, Clock()
    client = SchemaRegistryClient(server.url, clock)
    for _ in range(2):
        with pytest.raises(SchemaUnavailable, match=reason):
            client.schema(1)
    assert len(server.seen) == 1
    clock.now += schema_registry.UNKNOWN_SECONDS
    server.responses["/schemas/ids/1"] = {"schema": "{}"}
    assert client.schema(1).id == 1


def test_one_failed_connection_stops_requests_for_other_schemas(server: Registry) -> None:
    server.responses["/schemas/ids/2"] = {"schema": "{}"}
    server.responses["/schemas/ids/1"], clock = b"<html>", Clock()
    client = SchemaRegistryClient(server.url, clock)
    for schema_id in (1, 2):
        with pytest.raises(SchemaUnavailable, match="did not respond"):
            client.schema(schema_id)
    assert len(server.seen) == 1
    clock.now += schema_registry.UNREACHABLE_SECONDS
    assert client.schema(2).id == 2


def test_a_schema_that_references_too_many_is_rejected(server: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "REFERENCES_MAX", 1)
    references = [{"name": n, "subject": n, "version": 1} for n in "ab"]
    server.responses |= {f"/subjects/{n}/versions/1": {"schema": n} for n in "ab"}
    server.responses["/schemas/ids/1"] = {"schema": "main", "references": references}
    with pytest.raises(SchemaUnavailable, match="references more than 1 others"):
        SchemaRegistryClient(server.url).schema(1)


def test_the_number_of_kept_schemas_is_limited(server: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "SCHEMAS_MAX", 2)
    server.responses |= {f"/schemas/ids/{n}": {"schema": "{}"} for n in (1, 2, 3)}
    client = SchemaRegistryClient(server.url)
    for schema_id in (1, 2, 3, 3, 1):
        client.schema(schema_id)
    assert [path for path, _ in server.seen] == [f"/schemas/ids/{n}" for n in (1, 2, 3, 1)]
