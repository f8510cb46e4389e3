"""Client of the REST API of Kafka Connect: the clusters of WEIR_CONNECT_URLS, each with one or several workers.

Invariants: a response is limited in bytes and time, and redirects are not followed. The next worker gets the request if one does not respond; a change only
if the first worker cannot have received it. A worker that did not respond gets no request for some seconds, so that no page waits for it again. Errors
never contain users and passwords of addresses. Does not contain: paths and bodies of requests (`controlplane.clients.connectors`).
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from django.conf import settings

from weir_common.phrases import joined, reason_of, sentence

READ_SECONDS = 2.0
"""Time limit of a request that reads. A page waits for it."""

CHANGE_SECONDS = 10.0
"""Time limit of a request that changes or validates: connectors look at external systems to validate their config."""

FAILOVER_SECONDS = 3.0
"""After this time no further worker is tried."""

UNREACHABLE_SECONDS = 10.0
"""A worker that did not respond gets no request for this time."""

RESPONSE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum number of bytes of one response: it is in memory as a whole. A list of connectors has the config of each and the traces of failed tasks."""

MESSAGE_BYTES_MAX = 256 * 1024
"""Maximum number of bytes of the body of an error. A proxy may answer with a page."""

MESSAGE_CHARS_MAX = 2_000
"""Maximum number of characters of the reason of a worker, which may name each invalid config."""

REJECTIONS = (400, 403, 409, 422)
"""Statuses of a request that the worker does not carry out. 409: the workers rebalance, or the connector exists."""

NOT_CARRIED_OUT = (404, 405, 501)


class ConnectUnavailable(Exception):
    """A Connect cluster cannot respond; the text names it and the reason."""


class ConnectUnreachable(ConnectUnavailable):
    """No worker answered. A change may have been carried out unless `sent` is False."""

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.sent = sent


class ConnectUnknown(ConnectUnavailable):
    """The worker does not have this connector, task or operation."""


class ConnectRejected(ConnectUnavailable):
    """The worker does not carry out the request. The text is the worker's."""


class _ConnectRedirectsRejected(HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class ConnectWorker:
    """One address of a cluster. `label`: the address without user and password."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        self.label = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self.headers = {"Accept": "application/json"}
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self.retry_at = 0.0
        self.reason = ""


class ConnectClient:
    """Thread-safe. `addresses`: workers of the cluster, which may contain user and password."""

    def __init__(self, name: str, addresses: tuple[str, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.workers = [ConnectWorker(address) for address in addresses]
        self.secret_configs: dict[str, frozenset[str]] = {}
        """Configs of the type PASSWORD of each plugin class that was read."""
        self._clock = clock
        self._opener = build_opener(_ConnectRedirectsRejected)

    def request(self, method: str, path: str, what: str, body: object = None) -> object:
        """The body of a response, None if it is empty. `what`: the object in errors. Raises ConnectUnavailable."""
        started, reasons = self._clock(), []
        for worker in self.workers:
            if self._clock() < worker.retry_at:
                reasons.append(worker.reason)
                continue
            if reasons and self._clock() - started > FAILOVER_SECONDS:
                break
            try:
                return self._send(worker, method, path, what, body)
            except ConnectUnreachable as error:
                if error.sent and method != "GET":
                    raise
                reasons.append(reason_of(error))
        raise ConnectUnreachable(joined(dict.fromkeys(reasons)), sent=False)

    def _send(self, worker: ConnectWorker, method: str, path: str, what: str, body: object) -> object:
        headers = worker.headers | ({} if body is None else {"Content-Type": "application/json"})
        data = None if body is None else json.dumps(body).encode()
        request = Request(worker.label + path, data, headers, method=method)  # noqa: S310 - the setting allows http and https only.
        timeout = READ_SECONDS if method == "GET" else CHANGE_SECONDS
        try:
            with self._opener.open(request, timeout=timeout) as response:
                received = response.read(RESPONSE_BYTES_MAX + 1)
            if len(received) > RESPONSE_BYTES_MAX:
                raise ConnectUnavailable(
                    sentence(
                        "Connect cluster {cluster}: the response for {what} is larger than {max} bytes.",
                        cluster=self.name,
                        what=what,
                        max=RESPONSE_BYTES_MAX,
                    )
                )
            return json.loads(received) if received.strip() else None
        except HTTPError as error:
            raise self._failure(worker, error, what) from None
        except (OSError, ValueError, RecursionError) as error:
            cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
            worker.reason = sentence(
                "Worker {worker} of Connect cluster {cluster} did not respond ({error}).",
                worker=worker.label,
                cluster=self.name,
                error=type(cause).__name__,
            )
            worker.retry_at = self._clock() + UNREACHABLE_SECONDS
            raise ConnectUnreachable(worker.reason, sent=not isinstance(cause, ConnectionRefusedError)) from None

    def _failure(self, worker: ConnectWorker, error: HTTPError, what: str) -> ConnectUnavailable:
        message = _message(error)
        if error.code in NOT_CARRIED_OUT:
            missing = sentence("Connect cluster {cluster} has no {what}.", cluster=self.name, what=what)
            return ConnectUnknown(message or missing)
        if error.code in REJECTIONS:
            rejected = sentence(
                "Connect cluster {cluster} rejected the request ({status}).", cluster=self.name, status=error.code
            )
            return ConnectRejected(message or rejected)
        if error.code == HTTPStatus.UNAUTHORIZED:
            return ConnectRejected(
                sentence(
                    "Worker {worker} of Connect cluster {cluster} rejected user and password (401).",
                    worker=worker.label,
                    cluster=self.name,
                )
            )
        status_text = sentence(
            "Worker {worker} of Connect cluster {cluster} answered with status {status} for {what}.",
            worker=worker.label,
            cluster=self.name,
            status=error.code,
            what=what,
        )
        return ConnectUnavailable(joined([status_text, message]) if message else status_text)


_clients: dict[tuple[str, tuple[str, ...]], ConnectClient] = {}
"""One client per cluster. It is reused, because it remembers which workers do not respond."""


def clients() -> list[ConnectClient]:
    """The clusters of WEIR_CONNECT_URLS in their order."""
    given: tuple[tuple[str, tuple[str, ...]], ...] = settings.WEIR.connect_urls
    return [_clients.setdefault(cluster, ConnectClient(*cluster)) for cluster in given]


def _message(error: HTTPError) -> str:
    """The reason in the body of an error, "" if there is none."""
    try:
        body = json.loads(error.read(MESSAGE_BYTES_MAX))
        return str(body["message"])[:MESSAGE_CHARS_MAX]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return ""
