"""One client request, from its decoded frame to its response, and the session of its connection.

Invariant: each request is answered exactly once, in order. A handler answers immediately or later: from a timer, a job or another request.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any, Protocol, TypeVar

from brokerd.cluster.model import Now
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.request_buckets import BOUNDS_S
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.connection import Connection
from brokerd.net.fair_scheduler import BROKERS
from brokerd.net.rejections import Denial
from brokerd.net.request_metrics import ApiMetrics
from brokerd.net.slots import Slot
from brokerd.security.principals import ANONYMOUS
from brokerd.wire import framing
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import Struct

log = logging.getLogger(__name__)
T = TypeVar("T")

UNAUTHORIZED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


class SaslExchange(Protocol):
    """The server side of the SASL exchange of a connection, as far as its session needs it."""

    raw_tokens: bool

    def on_raw_token(self, frame: memoryview) -> None: ...

    def accepts(self, api_key: int, now: Now) -> bool: ...

    def handshake(self, request: Request) -> None: ...

    def authenticate(self, request: Request) -> None: ...


class Session:
    """The client of a connection: its listener, its principal and its authentication."""

    __slots__ = ("listener", "owned", "principal", "sasl")

    def __init__(self, listener: str, principal: str = ANONYMOUS) -> None:
        self.listener, self.principal = listener, principal
        self.owned = False
        """The connection uses the time slice of its principal in the iterations of the event loop."""
        self.sasl: SaslExchange | None = None
        """The SASL exchange, if the listener requires SASL."""

    @property
    def proven_principal(self) -> str:
        """The principal, or an empty string before the SASL authentication."""
        return "" if self.sasl is not None and self.principal == ANONYMOUS else self.principal


class Request:
    """A request in progress. Call `reply(body)` exactly once; `reply(None)` for a request without a response (acks=0)."""

    __slots__ = (
        "_connection",
        "_slot",
        "_unauthorized",
        "amends",
        "authorization_pending",
        "began_s",
        "body",
        "denial",
        "header",
        "metrics",
        "session",
    )

    denial: Denial
    """The last operation without authorization. Not set: there is none."""
    from_privileged_listener = False
    """True for a request of this broker to itself, which needs no authorization, as in Kafka."""

    def __init__(
        self,
        connection: Connection,
        slot: Slot,
        header: framing.RequestHeader,
        body: Any,
        session: Session,
        metrics: ApiMetrics | None = None,
    ) -> None:
        self._connection, self._slot, self.session = connection, slot, session
        self.header, self.body = header, body
        self.metrics, self.began_s = metrics, perf_counter()
        # `_unauthorized` is set only if the response has an authorization error, `denial` only if an operation is not authorized.
        self.authorization_pending = False
        """The handler must authorize the request before it replies. Otherwise the connection is closed instead."""
        self.amends: list[Callable[[Struct | None], None]] | None = None
        """Functions that change the response before it is encoded (quotas). With acks=0 they are called with None."""

    @property
    def principal(self) -> str:
        return self.session.principal

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""
        return self.session.listener

    @property
    def client_host(self) -> str:
        return self._connection.peer.rpartition(":")[0]

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def connection(self) -> Hashable:
        """The identity of the connection."""
        return self._connection

    def when_disconnected(self, ended: Callable[[], None]) -> None:
        """Call `ended` when the connection is closed. A connection has one such call; a later one replaces it."""
        self._connection.ended = ended

    @property
    def abandoned(self) -> bool:
        """The client has disconnected, so a response would not be delivered."""
        return self._connection.closed

    def reply(self, body: Struct | None) -> None:
        header = self.header
        if self.authorization_pending:
            log.error("connection closed, request handler has not authorized the request: api_key=%d", header.api_key)
            self._connection.close()
            return
        try:
            if self.amends is not None:
                for amend in self.amends:
                    amend(body)
            if body is None:
                self._connection.respond(self._slot, None)
                if self.metrics is not None:
                    self._count(self.metrics)
                return
            parts = framing.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        except Exception:
            # Most responses are sent from a timer or another connection's request, where no caller handles this error.
            log.exception("response cannot be encoded: api_key=%d version=%d", header.api_key, header.api_version)
            self._connection.close()
            return
        self._connection.respond(self._slot, parts)
        if self.metrics is not None:
            self._count(self.metrics)
            self.metrics.count_errors(body, self)

    def count_error(self, code: int) -> None:
        """Called for each error in the response. A response with several authorization errors is one rejection."""
        metrics = self.metrics
        assert metrics is not None
        metrics.errors[code] = metrics.errors.get(code, 0) + 1
        if code in UNAUTHORIZED and not hasattr(self, "_unauthorized"):
            self._unauthorized = True
            denial: Denial | None = getattr(self, "denial", None)
            self._count_rejection(
                RejectionReason.UNAUTHORIZED, denial if denial is not None and denial.code == code else None
            )

    def _count_rejection(self, reason: RejectionReason, denial: Denial | None = None) -> None:
        if self.metrics is not None:
            self.metrics.rejections.add(reason, self.client_host, self.client_id, self.session.proven_principal, denial)

    def _count(self, metrics: ApiMetrics) -> None:
        seconds = perf_counter() - self.began_s
        metrics.counts[bisect_left(BOUNDS_S, seconds)] += 1
        metrics.sum_s += seconds
        if seconds > metrics.max_s:
            metrics.max_s = seconds

    def close(self) -> None:
        self._connection.close()

    def block(self, *, needs_client: bool, gone: Callable[[], None] | None = None) -> None:
        """Handle no further request of this connection before this request is answered. With `needs_client`, a disconnect of the client ends the
        request and calls `gone`."""
        self._connection.block(self._slot, needs_client=needs_client, gone=gone)

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Run a part of this request's work outside the handler's call, for example from a timer. An unexpected exception closes the connection, and the
        result is None."""
        try:
            return work()
        except Exception:  # from an iteration or a job, where no caller handles it
            log.exception(
                "request failed after its handler had returned: api_key=%d version=%d",
                self.header.api_key,
                self.header.api_version,
            )
            self._connection.close()
            return None

    @property
    def traffic(self) -> ClientTraffic | None:
        """Counters of the client. None for a request of this broker to itself."""
        return self._connection.traffic

    def from_software(self, name: str, version: str) -> None:
        """Record name and version of the client software (KIP-511)."""
        self._connection.traffic.software = name, version

    def from_broker(self) -> None:
        """Mark the request as a request of another broker, so that its connection no longer uses the time slices of clients."""
        self._connection.owner = BROKERS
        if self.metrics is not None:
            self.metrics = self.metrics.of_followers or self.metrics

    @property
    def owner(self) -> Hashable:
        """The owner of the time slice in which the request's work runs."""
        return self._connection.owner

    def mute(self, ms: int) -> None:
        """A quota throttles the client."""
        self._count_rejection(RejectionReason.THROTTLED)
        self._connection.mute(ms)


Handler = Callable[[Request], None]
