"""The metrics endpoint of a broker: `GET /metrics`, and the health checks `/healthz` and `/readyz`, over HTTP, on a separate thread.

Invariants: the event loop does no work for the endpoint. The server answers one request at a time, each with a time-out, and uses a generated text for
INTERVAL_S. The endpoint has neither authentication nor TLS: the address in the setting decides which machines can reach it. `/healthz` shows only that the
process runs, because the watchdog ends a process whose event loop hangs. Does not contain: the metrics (`metrics`), the state of the broker (`readiness`).
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from brokerd.runtime.exposition import CONTENT_TYPE, MetricFamily, lines
from brokerd.runtime.metrics import iterate_with_pauses
from brokerd.runtime.readiness import Readiness, ReadinessState

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""Time-out of a connection in seconds: a client that sends nothing for this time is disconnected."""
BACKLOG = 5
"""Maximum number of connections that wait while another connection is served. The kernel refuses further connections."""
INTERVAL_S = 1.0
"""Seconds for which a generated text is reused, so that many scrapers cost no more CPU than one scraper."""


class Paths:
    METRICS = "/metrics"
    LIVE = "/healthz"
    READY = "/readyz"


class MetricsServer:
    """The server listens as soon as it is constructed. Raises OSError if the address cannot be bound."""

    def __init__(
        self,
        host: str,
        port: int,
        families: Callable[[], Iterator[MetricFamily]],
        readiness: Callable[[], Readiness],
    ) -> None:
        self._families, self._readiness = families, readiness
        self._state, self._state_s = Readiness(ReadinessState.STARTING), -INTERVAL_S
        self._text, self._text_s = b"", -INTERVAL_S
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT_S

            def do_GET(self) -> None:
                server.respond(self)

            def log_message(self, text: str, *args: object) -> None:
                """Do not log requests: most log lines would be about scrapes."""

        class Server(HTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            request_queue_size = BACKLOG

            def handle_error(self, request: object, client_address: object) -> None:
                log.info("metrics request failed: client=%s error=%r", client_address, sys.exception())

        self._server = Server((host, port), Handler)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stop the server. Call it only after `start`."""
        self._server.shutdown()
        self._server.server_close()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Send the metrics or a health check, or 404 for another path."""
        match request.path.partition("?")[0]:
            case Paths.METRICS:
                _respond(request, HTTPStatus.OK, CONTENT_TYPE, self._fresh())
            case Paths.LIVE:
                _respond_json(request, HTTPStatus.OK, {"status": "live"})
            case Paths.READY:
                found = self._fresh_state()
                status = HTTPStatus.OK if found.state is ReadinessState.READY else HTTPStatus.SERVICE_UNAVAILABLE
                behind = found.partitions_out_of_sync
                _respond_json(request, status, {"status": found.state.value, "partitions_out_of_sync": behind})
            case _:
                text = f"Metrics are at {Paths.METRICS}, health checks at {Paths.LIVE} and {Paths.READY}.\n".encode()
                _respond(request, HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", text)

    def _fresh(self) -> bytes:
        if time.monotonic() - self._text_s >= INTERVAL_S:
            self._text = "".join(iterate_with_pauses(lines(self._families()))).encode()
            self._text_s = time.monotonic()
        return self._text

    def _fresh_state(self) -> Readiness:
        if time.monotonic() - self._state_s >= INTERVAL_S:
            self._state = self._readiness()
            self._state_s = time.monotonic()
        return self._state


def _respond(request: BaseHTTPRequestHandler, status: HTTPStatus, content_type: str, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", content_type)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _respond_json(request: BaseHTTPRequestHandler, status: HTTPStatus, values: dict[str, str | int]) -> None:
    _respond(request, status, "application/json", json.dumps(values).encode() + b"\n")
