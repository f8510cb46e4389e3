"""One request: it is answered once, authorized before it is answered, and a failure closes its connection only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.request_buckets import BOUNDS_S
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.fair_scheduler import BROKERS
from brokerd.net.rejections import Denial
from brokerd.net.request import Request, Session
from brokerd.net.request_metrics import ApiMetrics, RequestMetrics
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey


class Connection:
    def __init__(self) -> None:
        self.peer, self.owner, self.traffic = "10.0.0.1:5", "alice", ClientTraffic(0)
        self.responses: list[Any] = []
        self.closed = False

    def respond(self, slot: int, parts: Any) -> None:
        self.responses.append(parts)

    def close(self) -> None:
        self.closed = True

    def mute(self, ms: int) -> None:
        self.muted_ms = ms


def request(client_id: str | None = "c") -> tuple[Request, Connection]:
    connection = Connection()
    arguments: Any = (connection, 1, framing.RequestHeader(ApiKey.HEARTBEAT, 3, 7, client_id), None)
    return Request(*arguments, Session("CLIENTS", "User:alice")), connection


def test_the_client_of_a_request() -> None:
    it, _ = request()
    assert (it.principal, it.listener, it.client_host, it.client_id) == ("User:alice", "CLIENTS", "10.0.0.1", "c")
    assert request(None)[0].client_id == ""


def test_a_response_is_encoded_with_the_header_of_the_request() -> None:
    it, connection = request()
    it.reply(m.HeartbeatResponse(error_code=27))
    (parts,) = connection.responses
    data = memoryview(b"".join(map(bytes, parts)))[4:]
    header, body = framing.decode_response(ApiKey.HEARTBEAT, 3, data)
    assert (header, body.error_code) == (7, 27)


def test_amendments_are_made_before_the_response_is_encoded_also_without_a_response() -> None:
    it, connection = request()
    seen: list[Any] = []
    it.amends = [seen.append, lambda body: setattr(body, "error_code", 5) if body is not None else None]
    it.reply(None)
    assert connection.responses == [None] and seen == [None]
    it.reply(m.HeartbeatResponse())
    assert b"\0\5" in b"".join(map(bytes, connection.responses[1]))


def test_an_unauthorized_response_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    it, connection = request()
    it.authorization_pending = True
    it.reply(m.HeartbeatResponse())
    assert (
        connection.closed
        and not connection.responses
        and "request handler has not authorized the request" in caplog.text
    )


def test_a_response_that_cannot_be_encoded_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    it, connection = request()
    it.reply(SimpleNamespace())
    assert connection.closed and not connection.responses and "response cannot be encoded" in caplog.text


def test_work_outside_the_handler_closes_the_connection_when_it_fails() -> None:
    it, connection = request()
    assert it.attempt(lambda: 5) == 5 and not connection.closed
    assert it.attempt(lambda: 1 // 0) is None and connection.closed


def test_a_request_of_a_broker_does_not_use_the_time_of_clients() -> None:
    it, connection = request()
    assert it.owner == "alice"
    it.from_broker()
    assert it.owner == connection.owner == BROKERS


def request_with_metrics() -> tuple[Request, ApiMetrics]:
    metrics = RequestMetrics((ApiKey.FETCH, ApiKey.HEARTBEAT)).by_key[ApiKey.HEARTBEAT]
    arguments: Any = (Connection(), 1, framing.RequestHeader(ApiKey.HEARTBEAT, 3, 7, "c"), None)
    return Request(*arguments, Session("CLIENTS", "User:alice"), metrics), metrics


def test_a_response_is_measured_with_its_errors() -> None:
    it, metrics = request_with_metrics()
    it.began_s -= 2.0
    it.reply(m.HeartbeatResponse(error_code=27))
    (bucket,) = (i for i, count in enumerate(metrics.counts) if count)
    assert metrics.counts[bucket] == 1 and BOUNDS_S[bucket - 1] < 2.1 <= BOUNDS_S[bucket]
    assert 2.0 < metrics.sum_s == metrics.max_s < 2.5 and metrics.errors == {27: 1}


def test_a_request_without_a_response_is_measured_too() -> None:
    it, metrics = request_with_metrics()
    it.reply(None)
    assert sum(metrics.counts) == 1 and metrics.errors == {}


def test_the_fetch_of_a_broker_is_measured_apart() -> None:
    it, heartbeats = request_with_metrics()
    it.from_broker()
    assert it.metrics is heartbeats
    it.metrics = fetches = RequestMetrics((ApiKey.FETCH,)).by_key[ApiKey.FETCH]
    it.from_broker()
    assert it.metrics is fetches.of_followers


def test_a_response_with_authorization_errors_is_one_rejection() -> None:
    metrics = RequestMetrics((ApiKey.PRODUCE,)).by_key[ApiKey.PRODUCE]
    arguments: Any = (Connection(), 1, framing.RequestHeader(ApiKey.PRODUCE, 9, 7, "c"), None)
    r = m.ProduceResponse
    parts = [r.PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate((29, 29, 6))]
    response = r(responses=[r.TopicProduceResponse(name="t", partition_responses=parts)])
    for _ in range(2):
        Request(*arguments, Session("CLIENTS", "User:alice"), metrics).reply(response)
    assert metrics.errors == {29: 4, 6: 2}
    assert metrics.rejections.counts == {RejectionReason.UNAUTHORIZED: 2}
    ((client, found),) = metrics.rejections.latest(2)
    assert client == ("10.0.0.1", "User:alice", "c") and found.counts == {RejectionReason.UNAUTHORIZED: 2}
    assert found.denial is None


def test_the_denial_of_an_authorization_error_is_stored() -> None:
    metrics = RequestMetrics((ApiKey.HEARTBEAT,)).by_key[ApiKey.HEARTBEAT]
    arguments: Any = (Connection(), 1, framing.RequestHeader(ApiKey.HEARTBEAT, 4, 7, "c"), None)
    it = Request(*arguments, Session("CLIENTS", "User:alice"), metrics)
    it.denial = denied = Denial(30, "READ", "GROUP", "billing")
    it.reply(m.HeartbeatResponse(error_code=30))
    assert metrics.rejections.latest(1)[0][1].denial == denied
    it = Request(*arguments, Session("CLIENTS", "User:bob"), metrics)
    it.denial = Denial(29, "DESCRIBE", "TOPIC", "hidden")
    it.reply(m.HeartbeatResponse(error_code=30))
    found = {client.principal: r for client, r in metrics.rejections.latest(9)}
    assert found["User:bob"].denial is None, "a topic that was only left out of the response"


def test_a_throttled_request_is_counted() -> None:
    it, metrics = request_with_metrics()
    it.mute(50)
    it.reply(m.HeartbeatResponse())
    assert metrics.rejections.counts == {RejectionReason.THROTTLED: 1}
