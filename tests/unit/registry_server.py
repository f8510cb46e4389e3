"""A small schema registry on loopback for tests: Confluent's REST interface for subjects, versions, levels and compatibility.

A schema whose text contains "incompatible" is not compatible, one that contains "invalid" is no schema. While `waiting` is set, no request is answered until `released`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class RegistryState:
    """`subjects`: versions of each subject in order, None for a deleted one. `requests`: (method, path) of each."""

    subjects: dict[str, list[dict[str, Any] | None]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    waiting: bool = False
    url: str = ""

    def add(self, subject: str, definition: Any, kind: str = "AVRO", references: Any = ()) -> int:
        versions = self.subjects.setdefault(subject, [])
        number = sum(len(v) for v in self.subjects.values()) + 1
        text = definition if isinstance(definition, str) else json.dumps(definition)
        versions.append({"id": number, "schema": text, "schemaType": kind, "references": list(references)})
        return number

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(p) for p in urlsplit(path).path.strip("/").split("/")]
        living = {s: [n for n, v in enumerate(vs, 1) if v] for s, vs in self.subjects.items()}
        living = {s: numbers for s, numbers in living.items() if numbers}
        text = body.get("schema", "") if body else ""
        if "invalid" in text:
            return 422, {"error_code": 42201, "message": "Input schema is an invalid Avro schema"}
        match method, parts:
            case "GET", ["subjects"]:
                return 200, list(living)
            case "GET", ["config"]:
                return 200, {"compatibilityLevel": "BACKWARD"}
            case "GET", ["config", subject] if subject in self.levels:
                return 200, {"compatibilityLevel": self.levels[subject]}
            case "GET", ["schemas", "ids", number]:
                found = [v for vs in self.subjects.values() for v in vs if v and v["id"] == int(number)]
                return (200, found[0]) if found else (404, {})
            case "POST", ["compatibility", "subjects", subject, "versions", "latest"] if subject in living:
                bad = "incompatible" in text
                return 200, {"is_compatible": not bad, "messages": ["READER_FIELD_MISSING_DEFAULT_VALUE: total"] * bad}
            case "POST", ["subjects", subject, "versions"]:
                if "incompatible" in text:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(subject, text, body["schemaType"], body["references"])}
            case "GET", ["subjects", subject, "versions"] if subject in living:
                return 200, living[subject]
            case "DELETE", ["subjects", subject] if subject in living:
                self.subjects[subject] = [None for _ in self.subjects[subject]]
                return 200, living[subject]
            case _, ["subjects", subject, "versions", number, *rest] if subject in living:
                at = living[subject][-1] if number == "latest" else int(number)
                if at in living[subject]:
                    return 200, self._handle_version(method, subject, at, rest)
        return 404, {"error_code": 40401, "message": "not found"}

    def _handle_version(self, method: str, subject: str, number: int, rest: list[str]) -> Any:
        """A version, or the IDs of the schemas that use it."""
        found = self.subjects[subject][number - 1]
        assert found is not None
        if method == "DELETE":
            self.subjects[subject][number - 1] = None
            return number
        return self._users(subject, number) if rest else {"subject": subject, "version": number, **found}

    def _users(self, subject: str, number: int) -> list[int]:
        used = re.escape(json.dumps(subject)) + r'.*"version": ' + str(number)
        versions = [v for vs in self.subjects.values() for v in vs if v]
        return [v["id"] for v in versions if re.search(used, json.dumps(v["references"]))]


@contextmanager
def running_registry() -> Iterator[RegistryState]:
    state = RegistryState()

    class RegistryHandler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            state.requests.append((self.command, self.path))
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            if state.waiting:
                state.released.wait(30)
            status, response = state.respond(self.command, self.path, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(response).encode())

        def do_GET(self) -> None:
            self.handle_any()

        def do_POST(self) -> None:
            self.handle_any()

        def do_DELETE(self) -> None:
            self.handle_any()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), RegistryHandler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
