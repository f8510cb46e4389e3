"""A connection's talk about who is at the other end: SaslHandshake, SaslAuthenticate, and the bare tokens of the oldest clients.

Laws: before it is over nothing else is heard but ApiVersions; a failure is told late, without a reason that helps to guess, and ends the connection; who proves anew (KIP-368)
stays who he was. PLAIN is held against the keys of SCRAM, in another thread: no password is kept. Called by `dispatch`. Must not come in: what anybody may do.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerd.access import scram
from brokerd.access.oauth import TokenError, Tokens, bearer_token
from brokerd.cluster.model import Now
from brokerd.storage.jobs import Runner
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from brokerd.dispatch import Request, Session
    from brokerd.net.connection import Connection

log = logging.getLogger(__name__)

PLAIN_CHECKS_MAX = 64
"""Passwords under comparison at once (some milliseconds each, in another thread); one more is refused as if it were wrong."""
FAILED_DELAY_MS = 100
"""How late a failure is told (Kafka's connection.failed.authentication.delay.ms)."""
BEFORE = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
TOKENS_MAX = 8
"""Messages of one talk: SCRAM takes two."""

Know = Callable[[str, str], scram.Credential | None]
"""(mechanism, user) -> what is kept of the user's password."""


@dataclass(slots=True)
class Outcome:
    """Of one token: what to say; `user` once it is over."""

    say: bytes
    user: str | None = None
    ends_wall_ms: int | None = None


class Refused(Exception):
    """The talk is over and has failed. `say`: what the mechanism wants said first."""


class Authenticator:
    """What all talks of a broker share. `settings`: the broker's; `know` looks up credentials."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        mechanisms: frozenset[str],
        know: Know,
        jobs: Runner,
        clock: Callable[[], Now],
        later: Callable[[int, Callable[[Now], None]], object],
    ) -> None:
        self.know, self.jobs, self.clock, self.later = know, jobs, clock, later
        self.reauth_ms: int = settings["connections.max.reauth.ms"]
        self.tokens = Tokens(settings) if "OAUTHBEARER" in mechanisms else None
        self.secret = secrets.token_bytes(32)
        self.checks = 0
        self.succeeded = self.failed = 0


class Talk:
    """One connection's. `session` is filled in when it has succeeded."""

    __slots__ = ("_auth", "_busy", "_connection", "_enabled", "_heard", "_mechanism", "_scram", "_session", "_user",
                 "bare", "ends_mono_ms", "over")  # fmt: skip

    def __init__(self, auth: Authenticator, connection: Connection, session: Session, enabled: tuple[str, ...]) -> None:
        self._auth, self._connection, self._session, self._enabled = auth, connection, session, enabled
        self._mechanism: str | None = None
        self._user: str | None = None  # of the first success, and its mechanism: neither may change later
        self._scram: scram.Server | None = None
        self._heard, self._busy = 0, False
        self.bare = False
        """The next frames are tokens without a header (SaslHandshake 0)."""
        self.over = False
        self.ends_mono_ms: int | None = None

    def may(self, api_key: int, now: Now) -> bool:
        """Whether a request is heard at all at this point."""
        if self._busy:
            return False
        if not self.over:
            return (
                api_key in BEFORE
                if self._user is None
                else api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
            )
        if self.ends_mono_ms is None or now.mono_ms < self.ends_mono_ms:
            return True
        return api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

    # -- requests ------------------------------------------------------------------------------------------------------
    def handshake(self, request: Request) -> None:
        body: SaslHandshakeRequest = request.body
        known = body.mechanism in self._enabled and (self._user is None or body.mechanism == self._mechanism)
        error = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        request.reply(SaslHandshakeResponse(error_code=error, mechanisms=list(self._enabled)))
        if not known:
            self._auth.failed += 1
            request.close()
            return
        self._mechanism, self._scram, self._heard, self.over = body.mechanism, None, 0, False
        self.bare = request.header.api_version == 0

    def authenticate(self, request: Request) -> None:
        body: SaslAuthenticateRequest = request.body
        if self._mechanism is None or self.over or self.bare:
            request.reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="no SaslHandshake came before"))  # fmt: skip
            request.close()
            return

        def done(outcome: Outcome | None) -> None:
            if outcome is None:
                told = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self._mechanism}"
                request.reply(
                    SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
                )
                request.close()
                return
            lifetime = 0
            if self.over and self.ends_mono_ms is not None:
                lifetime = max(1, self.ends_mono_ms - self._auth.clock().mono_ms)
            request.reply(SaslAuthenticateResponse(auth_bytes=outcome.say, session_lifetime_ms=lifetime))

        self._hear(bytes(body.auth_bytes), done)

    def hear_bare(self, frame: memoryview) -> None:
        """A token on its own; the answer is one too."""
        connection = self._connection
        if self._busy:  # the one before is still looked at, or was refused and is told so in a moment
            connection.close()
            return
        slot = connection.open_slot()

        def done(outcome: Outcome | None) -> None:
            if outcome is None:
                connection.close()
                return
            if self.over:
                self.bare = False
            connection.answer(slot, [len(outcome.say).to_bytes(4, "big") + outcome.say])

        self._hear(bytes(frame), done)

    # -- tokens --------------------------------------------------------------------------------------------------------
    def _hear(self, token: bytes, done: Callable[[Outcome | None], None]) -> None:
        self._heard += 1
        try:
            if self._heard > TOKENS_MAX:
                raise Refused
            if self._mechanism == "PLAIN":
                self._plain(token, done)
                return
            outcome = self._oauth(token) if self._mechanism == "OAUTHBEARER" else self._scram_step(token)
        except (Refused, scram.ScramError, TokenError) as e:
            self._refuse(str(e), done)
            return
        self._proceed(outcome, done)

    def _proceed(self, outcome: Outcome, done: Callable[[Outcome | None], None]) -> None:
        if outcome.user is not None:
            if self._user not in (None, outcome.user):
                self._refuse("another user than before", done)
                return
            self._succeed(outcome.user, outcome.ends_wall_ms)
        done(outcome)

    def _succeed(self, user: str, ends_wall_ms: int | None) -> None:
        auth, now = self._auth, self._auth.clock()
        self._user, self.over = user, True
        self._session.principal = f"User:{user}"
        left = [auth.reauth_ms] if auth.reauth_ms > 0 else []
        if ends_wall_ms is not None:
            left.append(max(1, ends_wall_ms - now.wall_ms))
        self.ends_mono_ms = now.mono_ms + min(left) if left else None
        auth.succeeded += 1
        self._connection.proved()

    def _refuse(self, why: str, done: Callable[[Outcome | None], None]) -> None:
        self._auth.failed += 1
        self._busy = True
        log.info("%s has not proved who it is (%s): %s", self._connection.peer, self._mechanism, why or "refused")
        self._auth.later(FAILED_DELAY_MS, lambda now: None if self._connection.closed else done(None))

    def _scram_step(self, token: bytes) -> Outcome:
        assert self._mechanism is not None
        if self._scram is None:
            self._scram = scram.Server(self._mechanism, secrets.token_urlsafe(18))
            self._scram.first(token)
            user = self._scram.user
            known = self._auth.know(self._mechanism, user) or scram.decoy(self._mechanism, user, self._auth.secret)
            return Outcome(self._scram.challenge(known))
        return Outcome(self._scram.last(token), self._scram.user)

    def _plain(self, token: bytes, done: Callable[[Outcome | None], None]) -> None:
        """RFC 4616: whom to act for, user, password, between bytes 0."""
        parts = token.split(b"\0")
        if len(parts) != 3 or len(token) > scram.MESSAGE_BYTES_MAX:
            raise Refused("a message that is not PLAIN")
        try:
            acting, user, password = (p.decode() for p in parts)
        except UnicodeDecodeError as e:
            raise Refused("a message that is not UTF-8") from e
        if not user or not password or acting not in ("", user):
            raise Refused("no user, no password, or another to act for")
        auth = self._auth
        if auth.checks >= PLAIN_CHECKS_MAX:
            raise Refused("too many passwords under comparison")
        found = ((m, k) for m in reversed(scram.ALGORITHMS) if (k := auth.know(m, user)) is not None)
        mechanism, known = next(found, ("SCRAM-SHA-512", scram.decoy("SCRAM-SHA-512", user, auth.secret)))
        fits: list[bool] = []

        def heard(error: BaseException | None) -> None:
            auth.checks -= 1
            self._busy = False
            if self._connection.closed:
                return
            if error is not None or not fits[0]:
                self._refuse("a wrong user or password", done)
            else:
                self._proceed(Outcome(b"", user), done)

        auth.checks += 1
        self._busy = True
        auth.jobs.submit(lambda: fits.append(scram.password_fits(mechanism, password, known)), heard, urgent=True)

    def _oauth(self, token: bytes) -> Outcome:
        if self._heard > 1:
            raise Refused("the token does not count")
        assert self._auth.tokens is not None
        try:
            user, ends = self._auth.tokens.check(bearer_token(token))
        except TokenError as e:
            log.info("%s: %s", self._connection.peer, e)
            return Outcome(b'{"status":"invalid_token"}')  # the client answers with a byte 1, and hears the failure
        return Outcome(b"", user, ends)
