"""From a frame to the handler that answers it.

Laws: every request is answered exactly once, in order; a handler answers now or leaves a promise; what a client did wrong
gets Kafka's error or a closed connection, and the broker lives on. Holds the broad `except`s of the broker: around a handler, and
around writing its answer.
Must not come in: what any request means.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from brokerd.access.authorizer import Authorizer
from brokerd.access.principals import ANONYMOUS, user_of
from brokerd.access.quotas import Quotas
from brokerd.access.sasl import Authenticator, Talk
from brokerd.cluster.model import Now
from brokerd.config import BrokerConfig
from brokerd.listeners import Door
from brokerd.net.connection import Connection, Slot
from brokerd.wire import apis, framing

log = logging.getLogger(__name__)


class Session:
    """What is known of whoever is at the other end of a connection."""

    __slots__ = ("listener", "principal", "talk")

    def __init__(self, listener: str, principal: str = ANONYMOUS) -> None:
        self.listener, self.principal = listener, principal
        self.talk: Talk | None = None
        """Where the listener wants SASL."""


class Request:
    """One request on its way. `reply(body)` exactly once; `reply(None)` for a request that gets no answer (acks=0)."""

    __slots__ = ("_connection", "_slot", "amends", "body", "header", "sees", "session")

    def __init__(self, connection: Connection, slot: Slot, header: Any, body: Any, session: Session) -> None:
        self._connection, self._slot, self.session = connection, slot, session
        self.header, self.body = header, body
        self.amends: list[Callable[[Any], None]] | None = None
        """What becomes of the answer before it is written (access, quotas); of none, too (acks=0: quotas alone)."""
        self.sees: Callable[[str], bool] | None = None
        """Whether whoever asks may see a topic, where it may not see all and the answer speaks of topics it did not name."""

    @property
    def principal(self) -> str:
        return self.session.principal

    @property
    def listener(self) -> str:
        """The name of the one it came by."""
        return self.session.listener

    @property
    def client_host(self) -> str:
        return self._connection.peer.rpartition(":")[0]

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def abandoned(self) -> bool:
        """The client has gone; an answer would reach nobody."""
        return self._connection.closed

    def reply(self, body: Any) -> None:
        header = self.header
        try:
            if self.amends is not None:
                for amend in self.amends:
                    amend(body)
            if body is None:
                self._connection.answer(self._slot, None)
                return
            parts = framing.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        except Exception:
            # Most answers are given later, from a timer or another connection's request: there is nobody to catch this.
            log.exception("the answer to API %d version %d cannot be written", header.api_key, header.api_version)
            self._connection.close()
            return
        self._connection.answer(self._slot, parts)

    def reply_parts(self, parts: list[Any]) -> None:
        """An answer already encoded, its length and header included."""
        self._connection.answer(self._slot, parts)

    def close(self) -> None:
        self._connection.close()

    def mute(self, ms: int) -> None:
        self._connection.mute(ms)


Handler = Callable[[Request], None]


class Dispatch:
    """`handlers` by API key. Counters are plain numbers, read by the metrics."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.handlers: dict[int, Handler] = {}
        self.authenticator: Authenticator | None = None
        self.authorizer: Authorizer | None = None
        self.quotas = Quotas()
        self.clock: Callable[[], Now] = lambda: Now(0, 0)
        self.requests = 0
        self.failures = 0
        self.malformed = 0

    def door(self, door: Door) -> Callable[[Connection, memoryview], None]:
        """What hears the frames that come by this listener."""
        anonymous = Session(door.name)  # without security all its clients are the same to us

        def on_frame(connection: Connection, frame: memoryview) -> None:
            self.on_frame(connection, frame, anonymous)

        def on_sealed_frame(connection: Connection, frame: memoryview) -> None:
            if connection.session is None:
                name = connection.distinguished_name
                user = user_of(name, self._config.of(door, "ssl.principal.mapping.rules"))
                if user is None:  # as in Kafka
                    self._refuse(connection, f"no rule of ssl.principal.mapping.rules speaks of {name}")
                    return
                connection.session = Session(door.name, user)
            self.on_frame(connection, frame, connection.session)

        def on_strangers_frame(connection: Connection, frame: memoryview) -> None:
            session, authenticator = connection.session, self.authenticator
            assert authenticator is not None
            if session is None:
                session = connection.session = Session(door.name)
                mechanisms = self._config.of(door, "sasl.enabled.mechanisms")
                session.talk = Talk(authenticator, connection, session, mechanisms)
            talk = session.talk
            if talk.bare:
                try:
                    talk.hear_bare(frame)
                except Exception:  # told by _failed
                    self._failed(connection, "a bare token")
            elif talk.may(int.from_bytes(frame[:2], "big"), authenticator.clock()):
                self.on_frame(connection, frame, session)
            else:
                self._refuse(connection, "a request before it was proved who asks")

        if door.sasl:
            return on_strangers_frame
        return on_sealed_frame if door.tls else on_frame

    def on_frame(self, connection: Connection, frame: memoryview, session: Session) -> None:
        self.requests += 1
        try:
            header, body = framing.decode_request(frame)
        except framing.UnsupportedVersion as e:
            if e.header.api_key == apis.ApiKey.API_VERSIONS:
                # KIP-511: the client steps down after reading this v0 answer.
                slot = connection.open_slot()
                body = apis.api_versions_response(0, error=35)
                connection.answer(slot, framing.encode_response(18, 0, e.header.correlation_id, body))
                return
            self._refuse(connection, f"API {e.header.api_key} version {e.header.api_version} is not served")
            return
        except framing.WireError as e:
            self._refuse(connection, str(e))
            return
        handler = self.handlers.get(header.api_key)
        if handler is None:
            self._refuse(connection, f"API {header.api_key} is not served here")
            return
        slot = connection.open_slot()
        request = Request(connection, slot, header, body, session)
        try:
            if self.quotas.active:
                self._within_quotas(request, handler, len(frame))
                return
            if self.authorizer is not None and self.authorizer.settled(request):
                return
            handler(request)
        except Exception:  # told by _failed
            self._failed(connection, f"API {header.api_key} version {header.api_version}")

    def _failed(self, connection: Connection, what: str) -> None:
        """A fault of ours must cost one connection, not the broker."""
        self.failures += 1
        log.exception("%s from %s failed", what, connection.peer)
        connection.close()

    def _within_quotas(self, request: Request, handler: Handler, size: int) -> None:
        since: float | None = time.perf_counter()

        def spent() -> float:
            nonlocal since
            if since is None:  # answered later, in another's time
                return 0.0
            before, since = since, time.perf_counter()
            return since - before

        self.quotas.watch(request, size, self.clock, spent)
        try:
            if self.authorizer is None or not self.authorizer.settled(request):
                handler(request)
        finally:
            self.quotas.spent(request, spent(), self.clock().mono_ms)
            since = None

    def own(self, key: int, request: Any) -> None:
        """What this broker asks itself goes through the same doors. `request` looks like a Request."""
        self.requests += 1
        try:
            self.handlers[key](request)
        except Exception:
            self.failures += 1
            log.exception("API %d, asked by this broker itself, failed", key)
            request.close()

    def _refuse(self, connection: Connection, why: str) -> None:
        self.malformed += 1
        log.info("closed %s: %s", connection.peer, why)
        connection.close()
