"""Arbitrary bytes from unauthenticated clients. They never authenticate, never reach a handler, and cost bounded time
and memory.

Does not test OpenSSL's own handshake: its records are bounded, and tests/unit/net/test_tls.py closes connections
whose handshake takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.apis.security import SecurityApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.sasl_server import BEFORE, Authenticator
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.config.broker import BrokerConfig
from brokerd.config.security import MECHANISMS
from brokerd.net.client_traffic import ClientTraffic
from brokerd.security import scram
from brokerd.server.dispatch import Dispatch
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import APIS, ApiKey
from tests.protocol.generate import Generator

SECONDS_MAX = 2.0
"""Limit of CPU seconds for the whole exchange of one unauthenticated client. It takes some milliseconds."""


class FakeConnection:
    address = "10.0.0.1"

    def __init__(self) -> None:
        self.peer, self.closed, self.session, self.slots, self.proven = "10.0.0.1:5", False, None, 0, False
        self.traffic, self.sent = ClientTraffic(0), list[bytes]()

    def open_slot(self) -> int:
        self.slots += 1
        return self.slots

    def respond(self, slot: Any, parts: Any) -> None:
        self.sent.append(b"".join(map(bytes, parts)))

    def mark_authenticated(self) -> None:
        self.proven = True

    def close(self) -> None:
        self.closed = True


class Jobs:
    """Runs jobs at once."""

    def submit(self, run: Any, done: Any, *, urgent: bool = False) -> None:
        run()
        done(None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    keys: Path = tmp_path_factory.mktemp("jwks") / "keys.json"
    keys.write_text('{"keys": []}')
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        }
    )
    known = scram.credential("SCRAM-SHA-256", scram.salt_password("SCRAM-SHA-256", "pw", b"salt", 4096), b"salt", 4096)
    authenticator = Authenticator(
        config.values,
        frozenset(MECHANISMS),
        lambda mechanism, user: known if (mechanism, user) == ("SCRAM-SHA-256", "u") else None,
        lambda name, threads: Jobs(),
        lambda: Now(1, 1),
        lambda ms, callback: callback(Now(1, 1)),
    )
    dispatch = Dispatch(config, lambda: Now(1, 1), authenticator=authenticator)
    api = SecurityApi(Image, lambda *a: None, None, ALLOW_ALL)  # type: ignore[arg-type]

    def reject_unauthenticated(request: Any) -> None:
        raise AssertionError(f"API {request.header.api_key} was handled for an unauthenticated client")

    dispatch.handlers = dict.fromkeys(APIS, reject_unauthenticated)
    dispatch.handlers |= {
        ApiKey.SASL_HANDSHAKE: api.handshake,
        ApiKey.SASL_AUTHENTICATE: api.authenticate,
        ApiKey.API_VERSIONS: lambda r: r.reply(m.ApiVersionsResponse()),
    }
    return dispatch, dispatch.frame_handler(config.listeners[0])


def frame_of(key: int, version: int, body: Any) -> bytes:
    return framing.encode_request(key, version, 1, "c", body)[4:]


def sasl_handshake(mechanism: str, version: int) -> bytes:
    return frame_of(ApiKey.SASL_HANDSHAKE, version, m.SaslHandshakeRequest(mechanism=mechanism))


TOKENS = st.one_of(
    st.binary(max_size=400),
    st.sampled_from(
        [
            b"\0u\0pw!",
            b"\0u\0",
            b"u\0u\0x",
            b"\0\0\0",
            b"n,,n=u,r=abc",
            b"n,,n=nobody,r=abc",
            b"y,a=u,n=u,r=x",
            b"c=biws,r=abc,p=AAAA",
            b"n,,\x01auth=Bearer a.b.c\x01\x01",
            b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.\x01\x01",
            b"\x01",
            b"",
            b"\xff" * 5000,
        ]
    ),
)
FRAMES = st.one_of(
    st.binary(max_size=600),
    st.builds(lambda token: frame_of(ApiKey.SASL_AUTHENTICATE, 2, m.SaslAuthenticateRequest(auth_bytes=token)), TOKENS),
    TOKENS,
    st.builds(sasl_handshake, st.sampled_from((*MECHANISMS, "GSSAPI", "")), st.integers(0, 1)),
    st.builds(
        lambda key, seed: frame_of(
            key, APIS[key].max_version, Generator(seed, plain=True).message(APIS[key].request, APIS[key].max_version)
        ),
        st.sampled_from([k for k in APIS if k not in BEFORE]),
        st.integers(0, 1_000),
    ),
)


@settings(
    deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from((*MECHANISMS, None)), st.integers(0, 1), st.lists(FRAMES, max_size=12))
def test_only_correct_credentials_authenticate(
    server: Any, mechanism: str | None, version: int, frames: list[bytes]
) -> None:
    dispatch, on_frame = server
    failures, caller = dispatch.failures, FakeConnection()
    began = time.thread_time()
    for frame in ([sasl_handshake(mechanism, version)] if mechanism else []) + frames:
        if caller.closed:
            break
        on_frame(caller, memoryview(bytearray(frame)))
    assert time.thread_time() - began < SECONDS_MAX
    assert not caller.proven
    assert caller.session is None or caller.session.principal == "User:ANONYMOUS"
    assert dispatch.failures == failures, "a handler was reached, or a fault of ours ended the connection"
    checks = dispatch.authenticator.checks("SASL_PLAINTEXT")
    assert (checks.waiting, checks.running) == (0, 0)


def test_correct_credentials_authenticate(server: Any) -> None:
    """A valid exchange succeeds. Otherwise the test above could not fail."""
    _, on_frame = server
    for mechanism, token in (("PLAIN", b"\0u\0pw"),):
        caller = FakeConnection()
        on_frame(caller, memoryview(bytearray(sasl_handshake(mechanism, 1))))
        on_frame(
            caller,
            memoryview(bytearray(frame_of(ApiKey.SASL_AUTHENTICATE, 2, m.SaslAuthenticateRequest(auth_bytes=token)))),
        )
        assert caller.proven
        assert caller.session.principal == "User:u"  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_raw_sasl_token_after_a_rejected_one_closes_only_its_connection(server: Any, mechanism: str) -> None:
    """The tokens arrived while the error response was delayed. The second token met an unfinished exchange, and its exception ended the process."""
    dispatch, on_frame = server
    later, dispatch.authenticator.later = dispatch.authenticator.later, lambda ms, callback: None
    failures, caller = dispatch.failures, FakeConnection()
    try:
        # Malformed OAUTHBEARER data is answered. The next token ends the connection.
        for frame in (
            sasl_handshake(mechanism, 0),
            b"nonsense",
            *[b"c=biws,r=abc,p=AAAA"] * (1 + (mechanism == "OAUTHBEARER")),
        ):
            assert not caller.closed
            on_frame(caller, memoryview(bytearray(frame)))
    finally:
        dispatch.authenticator.later = later
    assert caller.closed
    assert dispatch.failures == failures


def test_an_internal_error_on_a_raw_sasl_token_closes_only_its_connection(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch, on_frame = server
    caller, failures = FakeConnection(), dispatch.failures
    on_frame(caller, memoryview(bytearray(sasl_handshake("PLAIN", 0))))
    monkeypatch.setattr(type(caller.session.sasl), "on_raw_token", lambda self, frame: 1 / 0)  # type: ignore[attr-defined]
    on_frame(caller, memoryview(bytearray(b"x")))
    assert caller.closed
    assert dispatch.failures == failures + 1
    dispatch.failures = failures


def scram_proof(password: str, user: str, mechanism: str = "SCRAM-SHA-256") -> Callable[[Any, Any], None]:
    """Sends both messages of a SCRAM login."""

    def login(on_frame: Any, caller: Any) -> None:
        client = scram.Client(mechanism, user, password, "n")
        authenticate(on_frame, caller, client.first_message())
        challenge = framing.decode_response(ApiKey.SASL_AUTHENTICATE, 2, memoryview(caller.sent[-1])[4:])[1].auth_bytes
        authenticate(on_frame, caller, client.final_message(challenge))

    return login


def authenticate(on_frame: Any, caller: Any, token: bytes) -> None:
    body = m.SaslAuthenticateRequest(auth_bytes=token)
    on_frame(caller, memoryview(bytearray(frame_of(ApiKey.SASL_AUTHENTICATE, 2, body))))


def token(data: bytes) -> Callable[[Any, Any], None]:
    return lambda on_frame, caller: authenticate(on_frame, caller, data)


@pytest.mark.parametrize(
    ("mechanism", "login", "user", "failure"),
    [
        ("PLAIN", token(b"\0u\0secret!"), "u", "wrong_password"),
        ("PLAIN", token(b"\0nobody\0secret!"), "nobody", "unknown_user"),
        ("PLAIN", token(b"secret!"), "", "malformed"),
        ("SCRAM-SHA-256", scram_proof("secret!", "u"), "u", "wrong_password"),
        ("SCRAM-SHA-256", scram_proof("secret!", "nobody"), "nobody", "unknown_user"),
        ("SCRAM-SHA-512", scram_proof("pw", "u", "SCRAM-SHA-512"), "u", "other_mechanism"),
        ("SCRAM-SHA-256", token(b"secret!"), "", "malformed"),
        ("GSSAPI", None, "", "mechanism_not_enabled"),
    ],
)
def test_a_failed_login_is_recorded_with_user_mechanism_and_reason(
    server: Any, mechanism: str, login: Any, user: str, failure: str
) -> None:
    dispatch, on_frame = server
    dispatch.rejections._addresses.clear()
    caller = FakeConnection()
    on_frame(caller, memoryview(bytearray(sasl_handshake(mechanism, 1))))
    if login is not None:
        login(on_frame, caller)
    assert caller.closed and not caller.proven
    ((_, found),) = dispatch.rejections.latest(9)
    assert list(found.logins) == [(user, mechanism, failure)]
    assert "secret" not in repr(dispatch.rejections.latest(9)), "no part of a password is stored"


def test_the_response_is_the_same_for_an_unknown_user_and_a_wrong_password(server: Any) -> None:
    _, on_frame = server
    responses = []
    for mechanism, login in (
        ("PLAIN", token(b"\0u\0wrong")),
        ("PLAIN", token(b"\0nobody\0wrong")),
        ("SCRAM-SHA-256", scram_proof("wrong", "u")),
        ("SCRAM-SHA-256", scram_proof("wrong", "nobody")),
    ):
        caller = FakeConnection()
        on_frame(caller, memoryview(bytearray(sasl_handshake(mechanism, 1))))
        login(on_frame, caller)
        responses.append(bytes(caller.sent[-1]))
    assert responses[0] == responses[1] and responses[2] == responses[3]


def test_a_broker_that_does_not_follow_the_metadata_log_says_that_its_credentials_are_outdated(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch, _ = server
    assert dispatch.authenticator.failure("PLAIN", "u") == "wrong_password"
    monkeypatch.setattr(dispatch.authenticator, "_up_to_date", lambda: False)
    assert dispatch.authenticator.failure("PLAIN", "nobody") == "credentials_outdated"
