"""SASL authentication of a connection: SaslHandshake, SaslAuthenticate, and tokens without a header from the oldest clients.

Invariants: until authentication succeeds, only ApiVersions is accepted in addition. A failure is answered with a delay and without details,
and closes the connection. Operators see the user, the mechanism and the reason of a failure (`net.rejections`). Re-authentication (KIP-368) must keep
the principal. PLAIN passwords are checked against SCRAM keys in other threads
(`login_queue`): no password is stored, and overload is never answered as a wrong password. Does not authorize requests.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.authz.login_queue import LoginCheck, PasswordChecks
from brokerd.cluster.model import Now
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.sasl_failures import SaslFailure
from brokerd.net.connection import Connection
from brokerd.net.rejections import FailedLogin, Rejections
from brokerd.net.request import Request, Session
from brokerd.security import scram
from brokerd.security.oauth import TokenError, Tokens, bearer_token
from brokerd.storage.jobs import Runner
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

log = logging.getLogger(__name__)

CLIENT_THREADS, BROKER_THREADS = 2, 1
"""Numbers of threads that check PLAIN passwords, for the inter-broker listener and for all other listeners. So brokers never wait for clients, and flushes wait
for neither."""
FAILED_DELAY_MS = 100
"""Delay of the response to a failed authentication (Kafka's connection.failed.authentication.delay.ms)."""
BEFORE = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
TOKENS_MAX = 8
"""Maximum number of messages of one authentication: SCRAM takes two."""

Know = Callable[[str, str], scram.Credential | None]
"""(mechanism, user) -> the stored credential of the user."""


@dataclass(slots=True)
class SaslOutcome:
    """The result of one token: the bytes to send; `user` as soon as the authentication is complete."""

    auth_bytes: bytes
    user: str | None = None
    ends_wall_ms: int | None = None


class SaslRejected(Exception):
    """The authentication failed."""

    def __init__(self, reason: str, failure: SaslFailure = SaslFailure.MALFORMED) -> None:
        super().__init__(reason)
        self.failure = failure


class Authenticator:
    """The objects that all SASL exchanges of a broker share. `settings`: the broker's settings. `know` returns credentials."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        mechanisms: frozenset[str],
        know: Know,
        lane: Callable[[str, int], Runner],
        clock: Callable[[], Now],
        later: Callable[[int, Callable[[Now], None]], object],
        broker_listener: str = "",
        *,
        up_to_date: Callable[[], bool] = lambda: True,
    ) -> None:
        """`lane(name, threads)` returns separate threads. `broker_listener` is the name of the inter-broker listener. `up_to_date()`: the broker follows
        the metadata log, which has the credentials."""
        self.know, self.clock, self.later, self._up_to_date = know, clock, later, up_to_date
        self._broker_listener, self.rejections = broker_listener, Rejections(lambda: clock().mono_ms)
        self._client_checks = PasswordChecks(lane("client logins", CLIENT_THREADS), CLIENT_THREADS)
        self._broker_checks = PasswordChecks(lane("broker logins", BROKER_THREADS), BROKER_THREADS)
        self.reauth_ms: int = settings["connections.max.reauth.ms"]
        self.tokens = Tokens(settings) if "OAUTHBEARER" in mechanisms else None
        self.secret = secrets.token_bytes(32)
        self.succeeded = self.failed = self.dropped = 0

    def failure(self, mechanism: str, user: str) -> SaslFailure:
        """The reason for a wrong proof or password of this user."""
        if not self._up_to_date():
            return SaslFailure.CREDENTIALS_OUTDATED
        usable = scram.ALGORITHMS if mechanism == "PLAIN" else (mechanism,)
        if any(self.know(m, user) is not None for m in usable):
            return SaslFailure.WRONG_PASSWORD
        other = any(self.know(m, user) is not None for m in scram.ALGORITHMS)
        return SaslFailure.OTHER_MECHANISM if other else SaslFailure.UNKNOWN_USER

    def checks(self, listener: str) -> PasswordChecks:
        return self._broker_checks if listener == self._broker_listener else self._client_checks


class SaslServerExchange:
    """The authentication of one connection. `session` is filled in after success."""

    __slots__ = (
        "_auth",
        "_busy",
        "_connection",
        "_enabled",
        "_mechanism",
        "_scram",
        "_session",
        "_tokens",
        "_tried",
        "_user",
        "ends_mono_ms",
        "over",
        "raw_tokens",
    )

    def __init__(self, auth: Authenticator, connection: Connection, session: Session, enabled: tuple[str, ...]) -> None:
        self._auth, self._connection, self._session, self._enabled = auth, connection, session, enabled
        self._mechanism: str | None = None
        self._user: str | None = (
            None  # the principal and the mechanism of the first authentication; they must not change later
        )
        self._scram: scram.Server | None = None
        self._tokens, self._busy, self._tried = 0, False, ""
        self.raw_tokens = False
        """The next frames are tokens without a header (SaslHandshake 0)."""
        self.over = False
        self.ends_mono_ms: int | None = None

    def accepts(self, api_key: int, now: Now) -> bool:
        """Return whether a request is accepted in this state."""
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
            offered = body.mechanism in self._enabled
            failure = SaslFailure.REAUTHENTICATION_CHANGED if offered else SaslFailure.MECHANISM_NOT_ENABLED
            self._count_failure(FailedLogin("", body.mechanism, failure))
            request.close()
            return
        self._mechanism, self._scram, self._tokens, self._tried, self.over = body.mechanism, None, 0, "", False
        self.raw_tokens = request.header.api_version == 0

    def authenticate(self, request: Request) -> None:
        body: SaslAuthenticateRequest = request.body
        if self._mechanism is None or self.over or self.raw_tokens:
            request.reply(
                SaslAuthenticateResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE,
                    error_message="SaslAuthenticate requires an earlier SaslHandshake",
                )
            )
            request.close()
            return

        def done(outcome: SaslOutcome | None) -> None:
            if outcome is None:
                error_message = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self._mechanism}"
                request.reply(
                    SaslAuthenticateResponse(
                        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=error_message
                    )
                )
                request.close()
                return
            lifetime = 0
            if self.over and self.ends_mono_ms is not None:
                lifetime = max(1, self.ends_mono_ms - self._auth.clock().mono_ms)
            request.reply(SaslAuthenticateResponse(auth_bytes=outcome.auth_bytes, session_lifetime_ms=lifetime))

        self._on_token(bytes(body.auth_bytes), done)

    def on_raw_token(self, frame: memoryview) -> None:
        """Handle a token without a header. The response is also a raw token."""
        connection = self._connection
        if self._busy:  # the previous request is still being checked, or its failure is answered after the delay
            connection.close()
            return
        slot = connection.open_slot()

        def done(outcome: SaslOutcome | None) -> None:
            if outcome is None:
                connection.close()
                return
            if self.over:
                self.raw_tokens = False
            connection.respond(slot, [len(outcome.auth_bytes).to_bytes(4, "big") + outcome.auth_bytes])

        self._on_token(bytes(frame), done)

    # -- tokens --------------------------------------------------------------------------------------------------------
    def _on_token(self, token: bytes, done: Callable[[SaslOutcome | None], None]) -> None:
        self._tokens += 1
        try:
            if self._tokens > TOKENS_MAX:
                raise SaslRejected("too many messages")
            if self._mechanism == "PLAIN":
                self._plain(token, done)
                return
            outcome = self._oauth(token) if self._mechanism == "OAUTHBEARER" else self._scram_step(token)
        except scram.WrongProof as e:
            assert self._mechanism is not None
            self._reject(str(e), self._auth.failure(self._mechanism, self._tried), done)
        except SaslRejected as e:
            self._reject(str(e), e.failure, done)
        except scram.ScramError as e:
            self._reject(str(e), SaslFailure.MALFORMED, done)
        else:
            self._proceed(outcome, done)

    def _proceed(self, outcome: SaslOutcome, done: Callable[[SaslOutcome | None], None]) -> None:
        if outcome.user is not None:
            if self._user not in (None, outcome.user):
                self._tried = outcome.user
                self._reject(
                    "re-authentication requires the user of the connection", SaslFailure.REAUTHENTICATION_CHANGED, done
                )
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
        self._connection.mark_authenticated()

    def _count_failure(self, login: FailedLogin) -> None:
        auth, connection = self._auth, self._connection
        auth.failed += 1
        client_id = connection.traffic.client_id
        auth.rejections.add(RejectionReason.AUTHENTICATION_FAILED, connection.address, client_id, login=login)

    def _reject(self, reason: str, failure: SaslFailure, done: Callable[[SaslOutcome | None], None]) -> None:
        self._count_failure(FailedLogin(self._tried, self._mechanism or "", failure))
        self._busy = True
        log.info(
            "authentication failed: address=%s mechanism=%s reason=%s",
            self._connection.peer,
            self._mechanism,
            reason or "rejected",
        )
        self._auth.later(FAILED_DELAY_MS, lambda now: None if self._connection.closed else done(None))

    def _scram_step(self, token: bytes) -> SaslOutcome:
        assert self._mechanism is not None
        if self._scram is None:
            self._scram = scram.Server(self._mechanism, secrets.token_urlsafe(18))
            self._scram.parse_first(token)
            user = self._tried = self._scram.user
            known = self._auth.know(self._mechanism, user) or scram.decoy_credential(
                self._mechanism, user, self._auth.secret
            )
            return SaslOutcome(self._scram.challenge(known))
        return SaslOutcome(self._scram.final_message(token), self._scram.user)

    def _plain(self, token: bytes, done: Callable[[SaslOutcome | None], None]) -> None:
        """RFC 4616: authorization id, user and password, separated by bytes 0."""
        parts = token.split(b"\0")
        if len(parts) != 3 or len(token) > scram.MESSAGE_BYTES_MAX:
            raise SaslRejected("malformed PLAIN message")
        try:
            acting, user, password = (p.decode() for p in parts)
        except UnicodeDecodeError as e:
            raise SaslRejected("PLAIN message is not UTF-8") from e
        if not user or not password or acting not in ("", user):
            raise SaslRejected("user or password missing, or unsupported authorization id")
        auth, self._tried = self._auth, user
        found = ((m, k) for m in reversed(scram.ALGORITHMS) if (k := auth.know(m, user)) is not None)
        mechanism, known = next(found, ("SCRAM-SHA-512", scram.decoy_credential("SCRAM-SHA-512", user, auth.secret)))
        fits: list[bool] = []

        connection = self._connection

        def on_checked(error: BaseException | None) -> None:
            self._busy = False
            if connection.closed:
                return
            if error is not None or not fits[0]:
                self._reject("unknown user or wrong password", auth.failure("PLAIN", user), done)
            else:
                self._proceed(SaslOutcome(b"", user), done)

        def drop() -> None:
            auth.dropped += 1
            log.warning(
                "connection closed, queue of password checks is full: peer=%s waiting=%d",
                connection.peer,
                queue.waiting,
            )
            connection.close()

        self._busy = True
        address = connection.peer.rpartition(":")[0]
        queue = auth.checks(self._session.listener)
        run = lambda: fits.append(scram.password_fits(mechanism, password, known))  # noqa: E731
        queue.add(LoginCheck(address, run, on_checked, lambda: connection.closed, drop))

    def _oauth(self, token: bytes) -> SaslOutcome:
        if self._tokens > 1:
            raise SaslRejected("invalid token", SaslFailure.INVALID_TOKEN)
        assert self._auth.tokens is not None
        try:
            user, ends = self._auth.tokens.check(bearer_token(token))
        except TokenError as e:
            log.info("OAUTHBEARER authentication failed: peer=%s reason=%s", self._connection.peer, e)
            return SaslOutcome(
                b'{"status":"invalid_token"}'
            )  # the client answers with a byte of value 1; then the error is sent
        return SaslOutcome(b"", user, ends)
