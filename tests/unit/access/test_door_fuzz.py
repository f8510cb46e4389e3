"""What strangers may send: anything. Nobody gets in by it, no handler hears of it, and it costs a bounded time and memory.

Not looked at: OpenSSL's own handling of a handshake (its records are bounded, and tests/unit/net/test_tls.py cuts off whoever takes too long).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.access import scram
from brokerd.access.sasl import BEFORE, Authenticator
from brokerd.access.settings import MECHANISMS
from brokerd.apis.security import SecurityApi
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.config import BrokerConfig
from brokerd.dispatch import Dispatch
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import APIS, ApiKey
from tests.protocol.generate import Generator

SECONDS_MAX = 2.0
"""Of CPU for one stranger's whole talk; it takes some milliseconds."""


class Caller:
    def __init__(self) -> None:
        self.peer, self.closed, self.session, self.slots, self.proven = "10.0.0.1:5", False, None, 0, False

    def open_slot(self) -> int:
        self.slots += 1
        return self.slots

    def answer(self, slot: Any, parts: Any) -> None:
        pass

    def proved(self) -> None:
        self.proven = True

    def close(self) -> None:
        self.closed = True


class Jobs:
    """At once."""

    def submit(self, run: Any, done: Any, *, urgent: bool = False) -> None:
        run()
        done(None)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Any:
    keys: Path = tmp_path_factory.mktemp("jwks") / "keys.json"
    keys.write_text('{"keys": []}')
    config = BrokerConfig.parse(
        {"broker.id": "1", "log.dirs": "/x", "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": ",".join(MECHANISMS),
         "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    )  # fmt: skip
    dispatch = Dispatch(config)
    known = scram.credential("SCRAM-SHA-256", scram.salted("SCRAM-SHA-256", "pw", b"salt", 4096), b"salt", 4096)
    dispatch.authenticator = Authenticator(
        config.values, frozenset(MECHANISMS), lambda mechanism, user: known if (mechanism, user) == ("SCRAM-SHA-256", "u") else None, Jobs(),
        lambda: Now(1, 1), lambda ms, callback: callback(Now(1, 1)),
    )  # fmt: skip
    api = SecurityApi(Image, lambda *a: None, None)  # type: ignore[arg-type]

    def never(request: Any) -> None:
        raise AssertionError(f"API {request.header.api_key} was handled for a stranger")

    dispatch.handlers = dict.fromkeys(APIS, never)
    dispatch.handlers |= {
        ApiKey.SASL_HANDSHAKE: api.handshake, ApiKey.SASL_AUTHENTICATE: api.authenticate,
        ApiKey.API_VERSIONS: lambda r: r.reply(m.ApiVersionsResponse()),
    }  # fmt: skip
    return dispatch, dispatch.door(config.doors[0])


def frame_of(key: int, version: int, body: Any) -> bytes:
    return framing.encode_request(key, version, 1, "c", body)[4:]


def shake(mechanism: str, version: int) -> bytes:
    return frame_of(ApiKey.SASL_HANDSHAKE, version, m.SaslHandshakeRequest(mechanism=mechanism))


TOKENS = st.one_of(
    st.binary(max_size=400),
    st.sampled_from([
        b"\0u\0pw!", b"\0u\0", b"u\0u\0x", b"\0\0\0", b"n,,n=u,r=abc", b"n,,n=nobody,r=abc", b"y,a=u,n=u,r=x", b"c=biws,r=abc,p=AAAA",
        b"n,,\x01auth=Bearer a.b.c\x01\x01", b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.\x01\x01", b"\x01", b"", b"\xff" * 5000,
    ]),
)  # fmt: skip
FRAMES = st.one_of(
    st.binary(max_size=600),
    st.builds(lambda token: frame_of(ApiKey.SASL_AUTHENTICATE, 2, m.SaslAuthenticateRequest(auth_bytes=token)), TOKENS),
    TOKENS,
    st.builds(shake, st.sampled_from((*MECHANISMS, "GSSAPI", "")), st.integers(0, 1)),
    st.builds(
        lambda key, seed: frame_of(key, APIS[key].max_version, Generator(seed, plain=True).message(APIS[key].request, APIS[key].max_version)),
        st.sampled_from([k for k in APIS if k not in BEFORE]), st.integers(0, 1_000),
    ),
)  # fmt: skip


@settings(
    deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from((*MECHANISMS, None)), st.integers(0, 1), st.lists(FRAMES, max_size=12))
def test_nobody_gets_in_by_anything_but_the_truth(
    door: Any, mechanism: str | None, version: int, frames: list[bytes]
) -> None:
    dispatch, on_frame = door
    failures, caller = dispatch.failures, Caller()
    began = time.thread_time()
    for frame in ([shake(mechanism, version)] if mechanism else []) + frames:
        if caller.closed:
            break
        on_frame(caller, memoryview(bytearray(frame)))
    assert time.thread_time() - began < SECONDS_MAX
    assert not caller.proven
    assert caller.session is None or caller.session.principal == "User:ANONYMOUS"
    assert dispatch.failures == failures, "a handler was reached, or a fault of ours ended the connection"
    assert dispatch.authenticator.checks == 0


def test_the_truth_gets_in(door: Any) -> None:
    """Else the test above could not fail."""
    _, on_frame = door
    for mechanism, token in (("PLAIN", b"\0u\0pw"),):
        caller = Caller()
        on_frame(caller, memoryview(bytearray(shake(mechanism, 1))))
        on_frame(
            caller,
            memoryview(bytearray(frame_of(ApiKey.SASL_AUTHENTICATE, 2, m.SaslAuthenticateRequest(auth_bytes=token)))),
        )
        assert caller.proven
        assert caller.session.principal == "User:u"  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bare_tokens_after_one_that_was_refused_end_the_connection_and_nothing_else(door: Any, mechanism: str) -> None:
    """They came while the refusal waited to be told; the second one met a talk in pieces, and its fault ended the process."""
    dispatch, on_frame = door
    later, dispatch.authenticator.later = dispatch.authenticator.later, lambda ms, callback: None
    failures, caller = dispatch.failures, Caller()
    try:
        # A bearer's nonsense is answered, and ends with the next word.
        for frame in (shake(mechanism, 0), b"nonsense", *[b"c=biws,r=abc,p=AAAA"] * (1 + (mechanism == "OAUTHBEARER"))):
            assert not caller.closed
            on_frame(caller, memoryview(bytearray(frame)))
    finally:
        dispatch.authenticator.later = later
    assert caller.closed
    assert dispatch.failures == failures


def test_a_fault_of_ours_in_a_bare_token_costs_one_connection(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch, on_frame = door
    caller, failures = Caller(), dispatch.failures
    on_frame(caller, memoryview(bytearray(shake("PLAIN", 0))))
    monkeypatch.setattr(type(caller.session.talk), "hear_bare", lambda self, frame: 1 / 0)  # type: ignore[attr-defined]
    on_frame(caller, memoryview(bytearray(b"x")))
    assert caller.closed
    assert dispatch.failures == failures + 1
    dispatch.failures = failures
