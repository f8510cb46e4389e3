"""A small Kafka Connect worker on loopback for tests: the REST interface of a worker for connectors, plugins, validation and offsets.

The plugin `shop.JdbcSink` needs `connection.url`, and `tasks.max` has to be a number. While `waiting` is set, no request is answered until `released`. `statuses`
replaces the response of a path: (status, body).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WORKER = "10.0.0.1:8083"
TRACE = "org.apache.kafka.connect.errors.ConnectException: no route to db with s3cr3t-password\n\tat shop.JdbcSink.put(JdbcSink.java:7)"
PLUGINS = {
    "shop.JdbcSink": "sink",
    "shop.FileSource": "source",
    "org.apache.kafka.connect.mirror.Transform": "transformation",
}
DEFINITIONS = [
    # name, type, required, default, importance, documentation
    ("name", "STRING", True, None, "HIGH", "Name of the connector."),
    ("connector.class", "STRING", True, None, "HIGH", "Class of the connector."),
    ("tasks.max", "INT", False, "1", "HIGH", "Tasks at most."),
    ("topics", "LIST", False, "", "HIGH", "Topics that are read."),
    ("connection.url", "STRING", True, None, "HIGH", "Address of the database."),
    ("connection.auth", "PASSWORD", False, None, "MEDIUM", "Password of the database."),
    ("auto.create", "BOOLEAN", False, "false", "LOW", "Create tables."),
    ("insert.mode", "STRING", False, "insert", "LOW", "How rows are written."),
]


@dataclass
class WorkerState:
    """`connectors`: configs by name. `states`: of connectors and, by (name, number), of tasks. `requests`: (method, path) of each. `authorization`: of the last
    request."""

    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[Any, str] = field(default_factory=dict)
    traces: dict[Any, str] = field(default_factory=dict)
    topics: dict[str, list[str]] = field(default_factory=dict)
    offsets: dict[str, list[Any]] = field(default_factory=dict)
    statuses: dict[str, tuple[int, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    authorization: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    waiting: bool = False
    url: str = ""
    cluster_id: str = "test"

    def add(self, name: str, class_name: str = "shop.JdbcSink", tasks: int = 1, **config: str) -> None:
        given = {n.replace("_", "."): v for n, v in config.items()}
        self.connectors[name] = {"name": name, "connector.class": class_name, "tasks.max": str(tasks), **given}

    def fail_task(self, name: str, task: int = 0, trace: str = TRACE) -> None:
        self.states[name, task], self.traces[name, task] = "FAILED", trace

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        at = urlsplit(path)
        if at.path in self.statuses:
            return self.statuses[at.path]
        match method, [unquote(p) for p in at.path.strip("/").split("/")]:
            case "GET", [""]:
                return 200, {"version": "4.3.1", "commit": "1", "kafka_cluster_id": self.cluster_id}
            case "GET", ["connectors"]:
                assert parse_qs(at.query) == {"expand": ["status", "info"]}
                return 200, {n: {"status": self.status(n), "info": self.info(n)} for n in self.connectors}
            case "POST", ["connectors"]:
                if body["name"] in self.connectors:
                    return 409, {"error_code": 409, "message": f"Connector {body['name']} already exists"}
                self.connectors[body["name"]] = {**body["config"], "name": body["name"]}
                return 201, self.info(body["name"])
            case "GET", ["connector-plugins"]:
                return 200, [{"class": c, "type": t, "version": "1.2"} for c, t in PLUGINS.items()]
            case "GET", ["connector-plugins", class_name, "config"] if class_name in PLUGINS:
                return 200, [{"name": n, "type": t} for n, t, *_ in DEFINITIONS]
            case "PUT", ["connector-plugins", class_name, "config", "validate"] if class_name in PLUGINS:
                configs = [self.validate_config(d, body) for d in DEFINITIONS]
                return 200, {"name": class_name, "error_count": 0, "groups": [], "configs": configs}
            case _, ["connectors", name, *rest] if name in self.connectors:
                return self.handle_connector(method, name, rest, parse_qs(at.query), body)
        return 404, {"error_code": 404, "message": "Connector or plugin not found"}

    def handle_connector(self, method: str, name: str, rest: list[str], query: Any, body: Any) -> tuple[int, Any]:
        count = int(self.connectors[name].get("tasks.max", "1"))
        match method, rest:
            case "GET", []:
                return 200, self.info(name)
            case "GET", ["config"]:
                return 200, self.connectors[name]
            case "GET", ["status"]:
                return 200, self.status(name)
            case "GET", ["topics"]:
                return 200, {name: {"topics": self.topics.get(name, [])}}
            case "GET", ["offsets"]:
                return 200, {"offsets": self.offsets.get(name, [])}
            case "PUT", ["config"]:
                self.connectors[name] = body
                return 200, self.info(name)
            case "PUT", ["pause" | "resume" | "stop" as verb]:
                self.states[name] = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[verb]
                return (204 if verb == "stop" else 202), None
            case "POST", ["restart"]:
                assert set(query) == {"includeTasks", "onlyFailed"}
                if query["includeTasks"] == ["true"]:
                    self.states = {k: s for k, s in self.states.items() if not (isinstance(k, tuple) and k[0] == name)}
                return 202, self.status(name)
            case "POST", ["tasks", number, "restart"] if int(number) < count:
                self.states.pop((name, int(number)), None)
                return 204, None
            case "DELETE", []:
                del self.connectors[name]
                return 204, None
        return 404, {"error_code": 404, "message": f"Unknown task or operation of {name}"}

    def info(self, name: str) -> dict[str, Any]:
        config = self.connectors[name]
        return {"name": name, "config": config, "tasks": [], "type": PLUGINS.get(config["connector.class"], "unknown")}

    def status(self, name: str) -> dict[str, Any]:
        config = self.connectors[name]
        tasks = []
        for number in range(int(config.get("tasks.max", "1"))):
            task = {"id": number, "state": self.states.get((name, number), "RUNNING"), "worker_id": WORKER}
            if trace := self.traces.get((name, number)):
                task["trace"] = trace
            tasks.append(task)
        own = {"state": self.states.get(name, "RUNNING"), "worker_id": WORKER}
        return {"name": name, "connector": own, "tasks": tasks, "type": self.info(name)["type"]}

    def validate_config(self, definition: Any, config: dict[str, str]) -> dict[str, Any]:
        name, kind, required, default, importance, documentation = definition
        value = config.get(name, default)
        errors = []
        if required and not value:
            errors.append(f'Missing required configuration "{name}" which has no default value.')
        if kind == "INT" and value and not value.isdecimal():
            errors.append(f"Invalid value {value} for configuration {name}: Not a number of type INT")
        known = {"name": name, "type": kind, "required": required, "default_value": default, "importance": importance}
        recommended = ["insert", "upsert"] if name == "insert.mode" else []
        shown = {"name": name, "value": value, "recommended_values": recommended, "errors": errors, "visible": True}
        return {"definition": {**known, "documentation": documentation, "group": "Database"}, "value": shown}


@contextmanager
def running_worker() -> Iterator[WorkerState]:
    state = WorkerState()

    class WorkerHandler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            state.requests.append((self.command, self.path))
            state.authorization = self.headers.get("Authorization", "")
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            if state.waiting:
                state.released.wait(30)
            status, response = state.respond(self.command, self.path, body)
            self.send_response(status)
            self.end_headers()
            if response is not None:
                self.wfile.write(json.dumps(response).encode())

        def do_GET(self) -> None:
            self.handle_any()

        def do_POST(self) -> None:
            self.handle_any()

        def do_PUT(self) -> None:
            self.handle_any()

        def do_DELETE(self) -> None:
            self.handle_any()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), WorkerHandler)
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
