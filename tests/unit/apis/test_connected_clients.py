"""Connections are counted by client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.connected_clients import connected_clients
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.fair_scheduler import BROKERS
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response, encode_response
from brokerd.wire.messages import DescribeLogDirsResponse
from tests.unit.net.test_client_traffic import produce_body

NOW_MS = 100_000


def connection(
    client_id: str,
    size: int,
    *,
    address: str = "10.0.0.1",
    principal: str | None = None,
    since_ms: int = 95_000,
    **more: Any,
) -> tuple[str, Any]:
    traffic = ClientTraffic(since_ms)
    traffic.software = more.get("software", ("", ""))
    if size:
        traffic.add_request(client_id, size, since_ms)
        traffic.sent_bytes = 10 * size
        traffic.add_cold(2 * size)
    session = None if principal is None else SimpleNamespace(principal=principal)
    return "CLIENT", SimpleNamespace(
        address=address,
        session=session,
        traffic=traffic,
        owner=more.get("owner", address),
        since_ms=since_ms,
        last_active_ms=more.get("last_active_ms", since_ms),
    )


def test_connections_of_a_client_are_one_entry() -> None:
    java = {"software": ("apache-kafka-java", "4.1.0"), "principal": "User:shop"}
    found, total = connected_clients(
        [
            connection("orders", 500, **java),
            connection("orders", 1_000, **java, since_ms=90_000, last_active_ms=99_000),
        ],
        NOW_MS,
        10,
    )
    assert total == 1 and len(found) == 1
    c = found[0]
    assert (c.listener, c.principal, c.client_id, c.host) == ("CLIENT", "User:shop", "orders", "10.0.0.1")
    assert (c.software_name, c.software_version, c.is_broker) == ("apache-kafka-java", "4.1.0", False)
    assert (c.connections, c.connected_ms, c.idle_ms) == (2, 10_000, 1_000)
    assert (c.received_bytes_per_second, c.sent_bytes_per_second) == (500 / 5 + 1_000 / 10, 5_000 / 5 + 10_000 / 10)
    assert c.requests_per_second == 1 / 5 + 1 / 10
    assert c.cold_bytes_per_second == 1_000 / 5 + 2_000 / 10


def test_different_principals_addresses_and_software_are_different_clients() -> None:
    rows = [
        connection("a", 1),
        connection("a", 1, principal="User:ann"),
        connection("a", 1, address="10.0.0.2"),
        connection("a", 1, software=("librdkafka", "2.0")),
        connection("b", 1),
        connection("a", 1, owner=BROKERS),
        connection("silent", 0),
    ]
    found, total = connected_clients(rows, NOW_MS, 100)
    assert total == len(found) == 6, "a connection without a request is no client yet"
    assert {c.principal for c in found} == {"User:ANONYMOUS", "User:ann"}
    assert [c.is_broker for c in found].count(True) == 1


def test_the_clients_with_the_most_traffic_are_returned_with_the_number_of_all() -> None:
    found, total = connected_clients([connection(f"c{n}", n + 1) for n in range(50)], NOW_MS, 3)
    assert ([c.client_id for c in found], total) == (["c49", "c48", "c47"], 50)
    response = DescribeLogDirsResponse(clients=found, client_count=total)
    frame = b"".join(bytes(p) for p in encode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, 7, response))  # type: ignore[arg-type]
    assert decode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, memoryview(frame)[4:]) == (7, response)


def test_only_producers_of_a_topic_are_returned() -> None:
    topic_id = UUID(int=5)
    rows = [connection("idle", 1), connection("billing", 1), connection("shop", 1), connection("shop", 1)]
    for (_, c), names in zip(rows[1:], (["payments"], ["orders", "payments"], ["orders"]), strict=True):
        for name in names:
            c.traffic.add_produced(produce_body(1_000, topic=name), 95_000)
    rows[3][1].traffic.add_produced(produce_body(500, topic="", topic_id=topic_id), 96_000)
    found, total = connected_clients(rows, NOW_MS, 10, ("orders", topic_id))
    assert total == 1
    (shop,) = found
    assert (shop.client_id, shop.connections, shop.produced_bytes) == ("shop", 2, 2_500)
    assert shop.produced_bytes_per_second == 1_000 / 5 + 1_500 / 5
    found, total = connected_clients(rows, NOW_MS, 1, ("payments",))
    assert total == 2 and len(found) == 1
    everyone, _ = connected_clients(rows, NOW_MS, 10)
    assert len(everyone) == 3 and not any(c.produced_bytes for c in everyone)


def test_readers_of_a_topic_are_returned_with_its_bytes() -> None:
    topic_id = UUID(int=5)
    rows = [connection("idle", 1), connection("audit", 1), connection("both", 1), connection("other", 1)]
    rows[1][1].traffic.add_fetched("orders", 4_000, 95_000)
    rows[2][1].traffic.add_fetched("orders", 1_000, 95_000)
    rows[2][1].traffic.add_produced(produce_body(500), 95_000)
    rows[3][1].traffic.add_fetched("payments", 9_000, 95_000)
    found, total = connected_clients(rows, NOW_MS, 10, ("orders", topic_id))
    assert total == 2
    assert [(c.client_id, c.produced_bytes, c.fetched_bytes) for c in found] == [
        ("audit", 0, 4_000),
        ("both", 500, 1_000),
    ]
    assert [(c.produced_bytes_per_second, c.fetched_bytes_per_second) for c in found] == [(0, 800), (100, 200)]
    everyone, _ = connected_clients(rows, NOW_MS, 10)
    assert len(everyone) == 4 and not any(c.fetched_bytes for c in everyone)
