"""Request dispatch: from a received frame to its handler.

Invariants: every request is answered exactly once, in order. A handler answers now or later. A client error leads to Kafka's error code or a
closed connection, and the broker continues. Contains the broad `except`s of the broker: around a handler, and around encoding its
response. Does not contain: the meaning of requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from brokerd.authz.authorizer import Authorizer
from brokerd.authz.quotas import Quotas
from brokerd.authz.sasl_server import Authenticator, SaslServerExchange
from brokerd.cluster.model import Now
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.config.broker import BrokerConfig
from brokerd.config.listeners import ListenerConfig
from brokerd.net.connection import Connection
from brokerd.net.rejections import Rejections
from brokerd.net.request import Handler, Request, Session
from brokerd.net.request_metrics import RequestMetrics
from brokerd.security.principals import ANONYMOUS, owner_of, user_of
from brokerd.wire import apis, framing
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest

log = logging.getLogger(__name__)


class Dispatch:
    """`handlers` by API key. Only listeners with SASL need `authenticator`. The metrics read the counters, which are plain numbers."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], Now],
        authorizer: Authorizer | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._config, self.clock, self.authorizer, self.authenticator = config, clock, authorizer, authenticator
        self.handlers: dict[int, Handler] = {}
        self.rejections = authenticator.rejections if authenticator is not None else Rejections(lambda: clock().mono_ms)
        self.metrics = RequestMetrics((), self.rejections)
        self.quotas = Quotas()
        self.requests = 0
        self.failures = 0
        self.malformed = 0

    def serve(self, handlers: Mapping[int, Handler]) -> None:
        """Handle these APIs, by API key, and measure their requests."""
        self.handlers.update(handlers)
        self.metrics = RequestMetrics(self.handlers, self.rejections)

    def frame_handler(self, listener: ListenerConfig) -> Callable[[Connection, memoryview], None]:
        """The frame handler of a listener's connections."""
        anonymous = Session(listener.name)  # without authentication all clients of an address share one session

        def on_frame(connection: Connection, frame: memoryview) -> None:
            self.on_frame(connection, frame, anonymous)

        def on_tls_frame(connection: Connection, frame: memoryview) -> None:
            if connection.session is None:
                name = connection.distinguished_name
                user = user_of(name, self._config.for_listener(listener, "ssl.principal.mapping.rules"))
                if user is None:  # as in Kafka
                    reason = RejectionReason.CERTIFICATE_NOT_MAPPED
                    self._reject(connection, reason, f"no rule of ssl.principal.mapping.rules matches {name}")
                    return
                connection.session = Session(listener.name, user)
                connection.owner = owner_of(user, connection.owner)
            self.on_frame(connection, frame, connection.session)

        def on_unauthenticated_frame(connection: Connection, frame: memoryview) -> None:
            session, authenticator = connection.session, self.authenticator
            assert authenticator is not None
            if session is None:
                session = connection.session = Session(listener.name)
                mechanisms = self._config.for_listener(listener, "sasl.enabled.mechanisms")
                session.sasl = SaslServerExchange(authenticator, connection, session, mechanisms)
            sasl = session.sasl
            if sasl.raw_tokens:
                try:
                    sasl.on_raw_token(frame)
                except Exception:  # reported by _on_exception
                    self._on_exception(connection, "SASL token without header")
            elif sasl.accepts(int.from_bytes(frame[:2], "big"), authenticator.clock()):
                if not session.owned and session.principal != ANONYMOUS:
                    session.owned, connection.owner = True, owner_of(session.principal, connection.owner)
                self.on_frame(connection, frame, session)
            else:
                self._reject(
                    connection,
                    RejectionReason.NOT_AUTHENTICATED,
                    "request before SASL authentication: set security.protocol and sasl.mechanism of the client",
                )

        if listener.sasl:
            return on_unauthenticated_frame
        return on_tls_frame if listener.tls else on_frame

    def on_frame(self, connection: Connection, frame: memoryview, session: Session) -> None:
        self.requests += 1
        try:
            header, body = framing.decode_request(frame)
        except framing.UnsupportedVersion as unsupported:
            if unsupported.header.api_key == apis.ApiKey.API_VERSIONS:
                # KIP-511: after this response of version 0 the client retries with a version that the broker supports
                slot = connection.open_slot()
                body = apis.api_versions_response(0, error=ErrorCode.UNSUPPORTED_VERSION)
                connection.respond(slot, framing.encode_response(18, 0, unsupported.header.correlation_id, body))
                return
            what = f"unsupported version: api_key={unsupported.header.api_key} version={unsupported.header.api_version}"
            self._reject(connection, RejectionReason.UNSUPPORTED_VERSION, what, unsupported.header.client_id or "")
            return
        except framing.WireError as e:
            self._reject(connection, RejectionReason.MALFORMED, str(e))
            return
        now_ms = self.clock().mono_ms
        connection.traffic.add_request(header.client_id or "", len(frame), now_ms)
        if isinstance(body, ProduceRequest):
            connection.traffic.add_produced(body, now_ms)
        handler = self.handlers.get(header.api_key)
        if handler is None:
            self._reject(connection, RejectionReason.UNSUPPORTED_API, f"unsupported API: api_key={header.api_key}")
            return
        slot = connection.open_slot()
        request = Request(connection, slot, header, body, session, self.metrics.by_key.get(header.api_key))
        try:
            if self.quotas.active:
                self._within_quotas(request, handler, len(frame))
                return
            if self.authorizer is not None:
                self.authorizer.require(request)
            handler(request)
        except Exception:  # reported by _on_exception
            self._on_exception(connection, f"request api_key={header.api_key} version={header.api_version}")

    def _on_exception(self, connection: Connection, what: str) -> None:
        """Log an unexpected exception and close the connection. Other connections are not affected."""
        self.failures += 1
        log.exception("request handler failed: %s peer=%s", what, connection.peer)
        connection.close()

    def _within_quotas(self, request: Request, handler: Handler, size: int) -> None:
        since: float | None = time.perf_counter()

        def spent_seconds() -> float:
            nonlocal since
            if since is None:  # the response is sent later, in another iteration
                return 0.0
            before, since = since, time.perf_counter()
            return since - before

        self.quotas.watch(request, size, self.clock, spent_seconds)
        try:
            if self.authorizer is not None:
                self.authorizer.require(request)
            handler(request)
        finally:
            self.quotas.count_loop_time(request, spent_seconds(), self.clock().mono_ms)
            since = None

    def handle_loopback(self, key: int, request: Any) -> None:
        """Handle a request of this broker to itself. `request` has the interface of Request."""
        self.requests += 1
        try:
            self.handlers[key](request)
        except Exception:
            self.failures += 1
            log.exception("loopback request failed: api_key=%d", key)
            request.close()

    def _reject(self, connection: Connection, reason: RejectionReason, what: str, client_id: str = "") -> None:
        """`client_id`: of this request, if it is known and does not count as one of the connection."""
        self.malformed += 1
        principal = connection.session.proven_principal if connection.session is not None else ""
        self.rejections.add(reason, connection.address, client_id or connection.traffic.client_id, principal)
        log.info("request rejected, connection closed: peer=%s reason=%s", connection.peer, what)
        connection.close()
