"""From a received frame to its handler: unsupported requests, failures of handlers, principals of certificates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.config.broker import BrokerConfig
from brokerd.net.client_traffic import ClientTraffic
from brokerd.server.dispatch import Dispatch
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.net.test_client_traffic import produce_body


@pytest.mark.parametrize(("name", "received"), [("CN=alice,O=a", True), ("CN=alice,O=b", False), (None, True)])
def test_a_certificate_without_a_matching_rule_closes_the_connection(name: str | None, received: bool) -> None:
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "SSL://127.0.0.1:0",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*),O=a$/$1/",
        }
    )
    dispatch = Dispatch(config, lambda: Now(0, 0))
    principals: list[str] = []
    dispatch.handlers = {18: lambda request: principals.append(request.principal)}
    ended: list[bool] = []
    caller: Any = SimpleNamespace(
        session=None,
        address="h",
        owner="h",
        distinguished_name=name,
        peer="h:1",
        traffic=ClientTraffic(0),
        open_slot=lambda: 1,
        close=lambda: ended.append(True),
    )
    dispatch.frame_handler(config.listeners[0])(caller, memoryview(bytes.fromhex("00120000000000050000")))
    assert (principals, ended) == (
        [f"User:{'alice' if name else 'ANONYMOUS'}"] if received else [],
        [] if received else [True],
    )


class FakeConnection:
    """A connection that records its responses."""

    address = "h"

    def __init__(self) -> None:
        self.peer, self.owner, self.session, self.distinguished_name = "h:1", "h", None, None
        self.traffic, self.responses, self.closed = ClientTraffic(0), list[bytes](), False

    def open_slot(self) -> int:
        return 1

    def respond(self, slot: int, parts: Any) -> None:
        self.responses.append(b"".join(map(bytes, parts)))

    def close(self) -> None:
        self.closed = True


def dispatch_frame(frame: bytes, *, handlers: dict[int, Any] | None = None) -> tuple[Dispatch, FakeConnection]:
    config = BrokerConfig.parse({"broker.id": "1", "log.dirs": "/x", "listeners": "PLAINTEXT://127.0.0.1:0"})
    dispatch, caller = Dispatch(config, lambda: Now(0, 0)), FakeConnection()
    connection: Any = caller
    dispatch.handlers = handlers or {}
    dispatch.frame_handler(config.listeners[0])(connection, memoryview(frame))
    return dispatch, caller


def heartbeat(version: int = 0) -> bytes:
    body = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return framing.encode_request(ApiKey.HEARTBEAT, version, 5, "c", body)[4:]


def test_a_handler_gets_the_decoded_request_and_its_response_is_sent() -> None:
    seen: list[Any] = []

    def handler(request: Any) -> None:
        seen.append((request.body.group_id, request.client_id, request.listener, request.principal))
        request.reply(m.HeartbeatResponse(error_code=27))

    dispatch, caller = dispatch_frame(heartbeat(), handlers={ApiKey.HEARTBEAT: handler})
    assert seen == [("g", "c", "PLAINTEXT", "User:ANONYMOUS")]
    (sent,) = caller.responses
    assert framing.decode_response(ApiKey.HEARTBEAT, 0, memoryview(sent)[4:])[1].error_code == 27
    assert (dispatch.requests, dispatch.failures, dispatch.malformed) == (1, 0, 0)


def test_a_newer_version_of_api_versions_is_answered_in_version_0() -> None:
    """KIP-511: the client then retries with a version that the response contains."""
    _, caller = dispatch_frame(bytes.fromhex("0012 03e7 00000007 ffff"))
    (sent,) = caller.responses
    header, response = framing.decode_response(ApiKey.API_VERSIONS, 0, memoryview(sent)[4:])
    assert (header, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION) and response.api_keys


@pytest.mark.parametrize(
    "frame",
    [bytes.fromhex("000c 03e7 00000007 ffff"), heartbeat(), b"\0", heartbeat()[:-1]],
    ids=["unsupported version", "unsupported API", "no header", "cut off"],
)
def test_other_invalid_requests_close_the_connection(frame: bytes) -> None:
    dispatch, caller = dispatch_frame(frame)
    assert caller.closed and not caller.responses and dispatch.malformed == 1


def test_a_failed_handler_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    def raise_zero_division(request: Any) -> None:
        raise ZeroDivisionError

    dispatch, caller = dispatch_frame(heartbeat(), handlers={ApiKey.HEARTBEAT: raise_zero_division})
    assert caller.closed and dispatch.failures == 1 and "request handler failed" in caplog.text
    closed: list[bool] = []
    dispatch.handle_loopback(ApiKey.HEARTBEAT, SimpleNamespace(close=lambda: closed.append(True)))
    assert closed == [True] and dispatch.failures == 2


def reasons(dispatch: Dispatch) -> list[tuple[str, str]]:
    """(client ID, reason) of the clients with rejections."""
    return [(client.client_id, str(r)) for client, found in dispatch.rejections.latest(9) for r in found.counts]


def test_rejected_requests_are_counted_by_reason_and_client() -> None:
    assert reasons(dispatch_frame(heartbeat())[0]) == [("c", "unsupported_api")]
    unknown = bytes(ApiKey.HEARTBEAT.to_bytes(2, "big")) + (99).to_bytes(2, "big") + heartbeat()[4:]
    assert [reason for _, reason in reasons(dispatch_frame(unknown)[0])] == ["unsupported_version"]
    assert [reason for _, reason in reasons(dispatch_frame(b"\x00")[0])] == ["malformed"]
    served = dispatch_frame(heartbeat(), handlers={ApiKey.HEARTBEAT: lambda request: None})[0]
    assert reasons(served) == [] and served.rejections.counts == {}


def test_produce_requests_are_counted_by_topic() -> None:
    frame = framing.encode_request(ApiKey.PRODUCE, 9, 1, "shop", produce_body(100, 20))[4:]
    _, caller = dispatch_frame(frame, handlers={0: lambda request: None})
    assert caller.traffic.produced is not None and caller.traffic.produced.bytes == {"orders": 120}
