"""Client side of a SASL authentication: request and response frames, without a socket.

No other request is sent on the connection before the authentication is complete.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator

from brokerd.security import scram
from brokerd.wire import framing
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

MECHANISMS = ("PLAIN", *scram.ALGORITHMS)
_OPTION = re.compile(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"')


class SaslClientError(Exception):
    """The broker rejected the authentication."""


class Login:
    """User and password of `sasl.jaas.config`. The repr does not contain the password."""

    __slots__ = ("password", "user")

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    __str__ = __repr__


def parse_login(text: str) -> Login:
    """`org.apache.kafka...LoginModule required username="u" password="p";` -> Login. Errors do not contain the text."""
    options = {k: re.sub(r"\\(.)", r"\1", v) for k, v in _OPTION.findall(text)}
    if any(k.startswith("user_") for k in options):
        raise ValueError(
            "user_... entries are not supported; create SCRAM credentials (kafka-configs), which PLAIN uses too"
        )
    if not options.get("username") or not options.get("password"):
        raise ValueError('expected ... required username="..." password="...";')
    return Login(options["username"], options["password"])


class SaslClientExchange:
    """`begin()` returns the first frame, `on_frame(frame)` the next one, or None when the authentication is complete. Raises SaslClientError."""

    def __init__(self, mechanism: str, login: Login) -> None:
        self._mechanism = mechanism
        self._steps = self._client_messages(mechanism, login)
        self._server_message = b""
        self._handshake_done = False
        self.lifetime_ms = 0
        """Lifetime of the authentication in ms (KIP-368). 0: unlimited."""

    def begin(self) -> bytes:
        return framing.encode_request(
            ApiKey.SASL_HANDSHAKE, 1, 0, "broker", SaslHandshakeRequest(mechanism=self._mechanism)
        )

    def on_frame(self, frame: memoryview) -> bytes | None:
        try:
            return self._next_message(frame)
        except (framing.WireError, scram.ScramError, ValueError) as e:
            raise SaslClientError(str(e)) from e

    def _next_message(self, frame: memoryview) -> bytes | None:
        if not self._handshake_done:
            handshake: SaslHandshakeResponse = framing.decode_response(ApiKey.SASL_HANDSHAKE, 1, frame)[1]
            if handshake.error_code:
                raise SaslClientError(
                    f"mechanism {self._mechanism} is not enabled; enabled are {', '.join(handshake.mechanisms)}"
                )
            self._handshake_done = True
            return self._token(next(self._steps))
        response: SaslAuthenticateResponse = framing.decode_response(ApiKey.SASL_AUTHENTICATE, 2, frame)[1]
        if response.error_code:
            raise SaslClientError(response.error_message or f"error {response.error_code}")
        self._server_message, self.lifetime_ms = bytes(response.auth_bytes), response.session_lifetime_ms
        token = next(self._steps, None)
        return None if token is None else self._token(token)

    @staticmethod
    def _token(token: bytes) -> bytes:
        return framing.encode_request(
            ApiKey.SASL_AUTHENTICATE, 2, 0, "broker", SaslAuthenticateRequest(auth_bytes=token)
        )

    def _client_messages(self, mechanism: str, login: Login) -> Iterator[bytes]:
        if mechanism == "PLAIN":
            yield f"\0{login.user}\0{login.password}".encode()
            return
        client = scram.Client(mechanism, login.user, login.password, secrets.token_urlsafe(18))
        yield client.first_message()
        yield client.final_message(self._server_message)
        client.confirm(self._server_message)
