"""How a broker says to another one who it is: frames out, frames in, without a socket.

Law: nothing is asked on the connection before it is over. Called by `peers`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator

from brokerd.access import scram
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


class NotIntroduced(Exception):
    """The other end did not take it."""


class Login:
    """User and password out of `sasl.jaas.config`. Never shown."""

    __slots__ = ("password", "user")

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    __str__ = __repr__


def parse_login(text: str) -> Login:
    """`org.apache.kafka...LoginModule required username="u" password="p";` -> Login. The text is never repeated in an error."""
    options = {k: re.sub(r"\\(.)", r"\1", v) for k, v in _OPTION.findall(text)}
    if any(k.startswith("user_") for k in options):
        raise ValueError(
            "user_... entries are not read: passwords are not kept in files; make SCRAM credentials, PLAIN takes them too"
        )
    if not options.get("username") or not options.get("password"):
        raise ValueError('expected ... required username="..." password="...";')
    return Login(options["username"], options["password"])


class Introduction:
    """`begin()` gives the first frame; `heard(frame)` the next one, or None when it is over. Raises NotIntroduced."""

    def __init__(self, mechanism: str, login: Login) -> None:
        self._mechanism = mechanism
        self._steps = self._talk(mechanism, login)
        self._answer = b""
        self._begun = False
        self.lifetime_ms = 0
        """After this long the other end wants it proved anew; 0: never."""

    def begin(self) -> bytes:
        return framing.encode_request(
            ApiKey.SASL_HANDSHAKE, 1, 0, "broker", SaslHandshakeRequest(mechanism=self._mechanism)
        )

    def heard(self, frame: memoryview) -> bytes | None:
        try:
            return self._next(frame)
        except (framing.WireError, scram.ScramError, ValueError) as e:
            raise NotIntroduced(str(e)) from e

    def _next(self, frame: memoryview) -> bytes | None:
        if not self._begun:
            shaken: SaslHandshakeResponse = framing.decode_response(ApiKey.SASL_HANDSHAKE, 1, frame)[1]
            if shaken.error_code:
                raise NotIntroduced(f"{self._mechanism} is not among {', '.join(shaken.mechanisms)}")
            self._begun = True
            return self._token(next(self._steps))
        told: SaslAuthenticateResponse = framing.decode_response(ApiKey.SASL_AUTHENTICATE, 2, frame)[1]
        if told.error_code:
            raise NotIntroduced(told.error_message or f"error {told.error_code}")
        self._answer, self.lifetime_ms = bytes(told.auth_bytes), told.session_lifetime_ms
        token = next(self._steps, None)
        return None if token is None else self._token(token)

    @staticmethod
    def _token(token: bytes) -> bytes:
        return framing.encode_request(
            ApiKey.SASL_AUTHENTICATE, 2, 0, "broker", SaslAuthenticateRequest(auth_bytes=token)
        )

    def _talk(self, mechanism: str, login: Login) -> Iterator[bytes]:
        if mechanism == "PLAIN":
            yield f"\0{login.user}\0{login.password}".encode()
            return
        client = scram.Client(mechanism, login.user, login.password, secrets.token_urlsafe(18))
        yield client.first()
        yield client.answer(self._answer)
        client.confirm(self._answer)
