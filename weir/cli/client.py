"""HTTP requests of the command line to the REST API, and where the console is.

A request that changes something has an Idempotency-Key, so that the client can repeat it after a lost connection and the console executes it only once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from weir.devcluster import read_local_cluster
from weir_common.rest_operations import PREFIX

TIMEOUT_S = 60
ATTEMPTS = 3
PAUSE_S = 1.0
TOKEN_FILE = "operator.token"
DATA_DIR = "data"
PROBLEM = "application/problem+json"


class RequestRejected(Exception):
    """The request was rejected. `problem`: the body of the response (docs/rest.md, Errors)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
        self.status = status
        self.problem = problem


class NoServer(Exception):
    """No response."""


@dataclass(frozen=True, slots=True)
class Response:
    """`data`: the decoded JSON, or the text of another content type."""

    status: int
    data: Any


@dataclass(frozen=True, slots=True)
class RestClient:
    """`server`: for example http://127.0.0.1:19090, without a path. `token`: "" sends none."""

    server: str
    token: str

    def send(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any | None = None) -> Response:
        """Send a request. `path`: below PREFIX. Raises RequestRejected for a status of 400 or more, and NoServer."""
        headers = {"Accept": f"application/json, {PROBLEM}, */*;q=0.5"}
        if self.token:
            headers["Authorization"] = f"Token {self.token}"
        if method != "GET":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        url = f"{self.server.rstrip('/')}{PREFIX}{path}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                got = requests.request(method, url, params=query, json=body, headers=headers, timeout=TIMEOUT_S)
                return _response(got)
            except (requests.ConnectionError, requests.Timeout) as e:
                if attempt == ATTEMPTS:
                    raise NoServer(
                        f"{self.server} did not respond to {ATTEMPTS} attempts ({_cause(e)}). Check that the console runs, or name its address with --server or WEIR_URL."
                    ) from e
                time.sleep(PAUSE_S)
        raise AssertionError("the last attempt returns or raises")


def _response(got: requests.Response) -> Response:
    kind = got.headers.get("Content-Type", "").partition(";")[0]
    data: object = got.json() if kind in ("application/json", PROBLEM) and got.content else got.text
    if got.status_code >= 400:
        raise RequestRejected(got.status_code, data if isinstance(data, dict) else {"detail": got.text[:500]})
    return Response(got.status_code, data)


def _cause(e: Exception) -> str:
    reason = getattr(e.args[0], "reason", e) if e.args else e
    return str(reason).rpartition(": ")[2] or type(e).__name__


def default_client(server: str | None, token: str | None, data_dir: str | None) -> RestClient:
    """The given address and token, else those of the local cluster in the data directory. Raises ValueError if its file is not readable."""
    folder = Path(data_dir or DATA_DIR)
    file = folder / TOKEN_FILE
    return RestClient(
        server or f"http://127.0.0.1:{read_local_cluster(folder).console_port}",
        token if token is not None else (file.read_text().strip() if file.exists() else ""),
    )
