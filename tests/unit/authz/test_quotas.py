"""Quotas: the most specific entity applies, all users of an entity share one bucket, and throttle times equal Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.quotas import QuotasApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.quotas import Quotas, Rate
from brokerd.cluster.model import Now
from brokerd.cluster.quota_entities import CONNECTIONS, FETCH, PRODUCE, TIME, entity_key, entity_of
from brokerd.cluster.typed_json import encode
from brokerd.net.request import Request, Session
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey


def quotas(**by_entity: Any) -> Quotas:
    """`user_alice__client_a=5`: bytes per second; `default` for the default entity."""
    it = Quotas()
    entries = []
    for name, limit in by_entity.items():
        entity: dict[str, str | None] = {}
        for part in name.split("__"):
            kind, _, who = part.partition("_")
            entity["client-id" if kind == "client" else kind] = None if who == "default" else who
        entries.append((entity_key(entity), {PRODUCE: limit, FETCH: limit}))
    it.set(entries)
    return it


ALL = {
    "user_alice__client_a": 1,
    "user_alice__client_default": 2,
    "user_alice": 3,
    "user_default__client_a": 4,
    "user_default__client_default": 5,
    "user_default": 6,
    "client_a": 7,
    "client_default": 8,
}


def test_the_most_specific_quota_applies_in_kafkas_order() -> None:
    names = list(ALL)
    for n in range(len(names)):
        found = quotas(**{k: ALL[k] for k in names[n:]}).limit(PRODUCE, "alice", "a")
        assert found is not None
        assert found[1] == n + 1
    assert quotas().limit(PRODUCE, "alice", "a") is None
    assert quotas(user_alice=1).limit(PRODUCE, "bob", "a") is None


def test_clients_of_one_quota_entity_share_its_bucket_and_a_default_applies_to_each() -> None:
    def bucket(it: Quotas, user: str, client: str) -> str:
        found = it.limit(PRODUCE, user, client)
        assert found is not None
        return found[0]

    shared = quotas(user_alice=1)
    assert bucket(shared, "alice", "a") == bucket(shared, "alice", "b")
    each = quotas(user_default=1)
    assert bucket(each, "alice", "a") == bucket(each, "alice", "b") != bucket(each, "bob", "a")
    pair = quotas(user_default__client_default=1)
    assert bucket(pair, "alice", "a") != bucket(pair, "alice", "b")


def test_a_rate_is_averaged_over_ten_seconds_and_the_throttle_time_compensates() -> None:
    rate = Rate()
    rate.add(10_000, 50_000)
    assert rate.throttle_ms(1_000, 50_000) == 0, "ten seconds' worth at once is within it"
    rate.add(5_000, 50_000)
    assert rate.throttle_ms(1_000, 50_000) == 5_000, "half more: half of the window"
    rate.add(1_000_000, 50_000)
    assert rate.throttle_ms(1_000, 50_000) == 1_005_000, "no bound: what was too much is waited for in full"
    assert rate.throttle_ms(1_000, 62_000) == 0, "forgotten"


class FakeConnection:
    def __init__(self) -> None:
        self.peer, self.closed, self.muted, self.parts = "10.0.0.1:5", False, 0, None

    def respond(self, slot: Any, parts: Any) -> None:
        self.parts = parts

    def close(self) -> None:
        self.closed = True

    def mute(self, ms: int) -> None:
        self.muted = ms


def call(key: int, version: int, body: Any) -> tuple[Request, FakeConnection]:
    caller = FakeConnection()
    header = framing.RequestHeader(key, version, 7, "a")
    return Request(caller, None, header, body, Session("PLAINTEXT", "User:alice")), caller  # type: ignore[arg-type]


def decode_reply(caller: FakeConnection, key: int, version: int) -> Any:
    assert caller.parts is not None
    return framing.decode_response(key, version, memoryview(b"".join(map(bytes, caller.parts)))[4:])[1]


def test_a_producer_above_its_quota_is_answered_with_a_throttle_time_and_muted() -> None:
    it = quotas(user_alice=1_000)
    for size, wait in ((10_000, 0), (5_000, 5_000)):
        requested, caller = call(ApiKey.PRODUCE, 9, m.ProduceRequest(acks=1))
        it.watch(requested, size, lambda: Now(100_000, 0))
        requested.reply(m.ProduceResponse())
        assert (decode_reply(caller, ApiKey.PRODUCE, 9).throttle_time_ms, caller.muted) == (wait, wait)


def test_a_consumer_above_its_quota_gets_an_empty_response_and_retries() -> None:
    it, r = quotas(user_alice=1_000), m.FetchResponse

    def fetch(size: int, replica: int = -1) -> tuple[Any, FakeConnection, m.FetchRequest]:
        body = m.FetchRequest(replica_id=replica, max_bytes=50_000_000)
        requested, caller = call(ApiKey.FETCH, 11, body)
        it.watch(requested, 100, lambda: Now(100_000, 0))
        part = r.PartitionData(partition_index=0, records=b"x" * size)
        requested.reply(r(responses=[r.FetchableTopicResponse(topic="t", partitions=[part])]))
        return decode_reply(caller, ApiKey.FETCH, 11), caller, body

    response, caller, body = fetch(9_000)
    assert (len(response.responses), caller.muted, body.max_bytes) == (1, 0, 10_000)
    for _ in range(2):
        response, caller, _ = fetch(6_000)
        assert (response.responses, response.throttle_time_ms, caller.muted) == ([], 5_000, 5_000), (
            "not counted, as not sent"
        )
    response, caller, _ = fetch(6_000, replica=2)
    assert (len(response.responses), caller.muted) == (1, 0), "a follower is no client"


def test_a_client_above_its_request_quota_is_throttled_for_at_most_a_second() -> None:
    it = Quotas()
    it.set([(entity_key({"user": "alice"}), {TIME: 10.0})])
    requested, caller = call(ApiKey.HEARTBEAT, 3, m.HeartbeatRequest())
    it.watch(requested, 10, lambda: Now(100_000, 0))
    it.count_loop_time(requested, 5.0, 100_000)
    requested.reply(m.HeartbeatResponse())
    assert (decode_reply(caller, ApiKey.HEARTBEAT, 3).throttle_time_ms, caller.muted) == (1_000, 1_000)


@pytest.mark.parametrize(
    ("entity", "key", "value", "fine"),
    [
        ({"user": "a"}, PRODUCE, 5.0, True),
        ({"user": None, "client-id": "x"}, TIME, 200.0, True),
        ({"ip": "1.2.3.4"}, PRODUCE, 5.0, False),
        ({}, PRODUCE, 5.0, False),
        ({"user": "a"}, "nonsense", 5.0, False),
        ({"user": "a"}, PRODUCE, 0.0, False),
        ({"user": ""}, PRODUCE, 1.0, False),
        ({"user": "a"}, PRODUCE, float("nan"), False),
        ({"ip": "1.2.3.4"}, CONNECTIONS, 5.0, True),
        ({"ip": None}, CONNECTIONS, 5.0, True),
        ({"ip": "::1"}, CONNECTIONS, 5.0, True),
        ({"ip": "a.host"}, CONNECTIONS, 5.0, False),
        ({"user": "a"}, CONNECTIONS, 5.0, False),
        ({"ip": "1.2.3.4", "user": "a"}, CONNECTIONS, 5.0, False),
    ],
)
def test_an_invalid_quota_is_rejected(entity: dict[str, str | None], key: str, value: float, fine: bool) -> None:
    forwarded: list[Any] = []
    api = QuotasApi(Quotas(), lambda payload, timeout, done: forwarded.append(encode(payload)), ALLOW_ALL)
    r = m.AlterClientQuotasRequest
    entry = r.EntryData(
        entity=[r.EntityData(entity_type=k, entity_name=v) for k, v in entity.items()],
        ops=[r.OpData(key=key, value=value)],
    )
    requested, caller = call(ApiKey.ALTER_CLIENT_QUOTAS, 1, r(entries=[entry]))
    api.alter(requested)
    if fine:
        (item,) = forwarded[0]["topics"]
        assert (entity_of(item["name"]), item["value"]) == (entity, {key: value})
    else:
        assert not forwarded
        assert decode_reply(caller, ApiKey.ALTER_CLIENT_QUOTAS, 1).entries[0].error_code == 42
