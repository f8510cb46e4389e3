"""The metrics endpoint of a broker: `GET /metrics` over HTTP, on a thread of its own.

Invariants: the event loop does no work for it. One request at a time, with a time-out; a text is used for INTERVAL_S. Without authentication and TLS: the
setting says who can reach it. Does not contain: figures (`metrics`).
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

from brokerd.runtime.exposition import CONTENT_TYPE, Family, lines
from brokerd.runtime.metrics import yielding

log = logging.getLogger(__name__)

PATH = "/metrics"
TIMEOUT_S = 5.0
"""Seconds that a client may leave its connection without a byte."""
BACKLOG = 5
"""Connections that wait for the one that is served. More are refused by the kernel."""
INTERVAL_S = 1.0
"""Seconds for which a text is used again: many scrapers cost no more CPU than one."""


class MetricsServer:
    """Listens from the start on. Raises OSError if the address cannot be bound."""

    def __init__(self, host: str, port: int, families: Callable[[], Iterator[Family]]) -> None:
        self._families = families
        self._text, self._text_s = b"", -INTERVAL_S
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT_S

            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, text: str, *args: object) -> None:
                """Nothing: a line per scrape would be most of the log."""

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
        """Only after `start`."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Send the metrics, or 404 for another path."""
        found = request.path.partition("?")[0] == PATH
        body = self._fresh() if found else f"Metrics are at {PATH}.\n".encode()
        request.send_response(200 if found else 404)
        request.send_header("Content-Type", CONTENT_TYPE if found else "text/plain; charset=utf-8")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _fresh(self) -> bytes:
        if time.monotonic() - self._text_s >= INTERVAL_S:
            self._text = "".join(yielding(lines(self._families()))).encode()
            self._text_s = time.monotonic()
        return self._text
