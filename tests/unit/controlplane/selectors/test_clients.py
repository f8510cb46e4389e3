"""Connected clients over all brokers: rows, filters, sort order, and silent brokers by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from django.utils import timezone

from brokerd.cluster.sasl_failures import SaslFailure
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connected_clients import ConnectedClients, connected_clients
from controlplane.domain.login_advice import LOGIN_ADVICE
from controlplane.models import ConsumerGroup, GroupPartition
from controlplane.selectors import clients as selectors
from controlplane.selectors.clients import ClientRates
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def client(client_id: str, sent: float = 0, **more: Any) -> DescribeLogDirsResponse.ConnectedClient:
    given = {
        "listener": "CLIENT",
        "principal": "User:shop",
        "host": "10.0.0.1",
        "connections": 1,
        "connected_ms": 60_000,
    }
    return DescribeLogDirsResponse.ConnectedClient(client_id=client_id, sent_bytes_per_second=sent, **{**given, **more})


def patch_responses(
    monkeypatch: pytest.MonkeyPatch,
    clients: dict[int, list[DescribeLogDirsResponse.ConnectedClient]],
    silent: Iterable[int] = (),
    count: int = 0,
    rejections: Mapping[int, list[DescribeLogDirsResponse.Rejection]] | None = None,
    logins: Mapping[int, list[DescribeLogDirsResponse.FailedLogin]] | None = None,
) -> None:
    def call_brokers(brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        return [
            BrokerResponse(b.broker_id, None, "it is frozen")
            if b.broker_id in silent
            else BrokerResponse(
                b.broker_id,
                ConnectedClients(
                    clients.get(b.broker_id, []),
                    max(count, len(clients.get(b.broker_id, []))),
                    (rejections or {}).get(b.broker_id, []),
                    (logins or {}).get(b.broker_id, []),
                ),
            )
            for b in brokers
        ]

    monkeypatch.setattr(selectors, "call_brokers", call_brokers)


@pytest.fixture(autouse=True)
def world() -> World:
    return World()


def test_a_client_of_several_brokers_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    java = {"software_name": "apache-kafka-java", "software_version": "4.1.0"}
    one = client(
        "orders", 500.04, connections=2, idle_ms=9_000, received_bytes_per_second=10, requests_per_second=3, **java
    )
    patch_responses(monkeypatch, {1: [one], 3: [client("orders", 100, connected_ms=90_000, idle_ms=500, **java)]})
    page = selectors.client_list()
    (row,) = page.rows
    assert (row.client_id, row.principal, row.host, row.software) == (
        "orders",
        "User:shop",
        "10.0.0.1",
        "apache-kafka-java 4.1.0",
    )
    assert (row.brokers, row.connections, row.connected_s, row.idle_s) == ([1, 3], 3, 90, 0.5)
    assert (row.bytes_per_s, row.sent_bytes_per_s, row.received_bytes_per_s, row.requests_per_s) == (610, 600, 10, 3)
    assert (page.total, page.brokers_responded, page.brokers_asked, page.first, page.last, page.not_listed) == (
        1,
        3,
        3,
        1,
        1,
        0,
    )


def test_clients_with_the_most_traffic_are_first(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_responses(monkeypatch, {1: [client("a", 1), client("b", 3), client("c", 2)]})
    assert [r.client_id for r in selectors.client_list().rows] == ["b", "c", "a"]
    assert [r.client_id for r in selectors.client_list(sort="client_id").rows] == ["a", "b", "c"]
    assert [r.client_id for r in selectors.client_list(sort="nonsense").rows] == ["b", "c", "a"]
    page = selectors.client_list(sort="-client_id", per_page=2, page=2)
    assert ([r.client_id for r in page.rows], page.pages, page.first, page.last) == (["a"], 2, 3, 3)


def test_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = client("broker-2", 9, is_broker=True, principal="User:ANONYMOUS", listener="BROKER")
    go = client("Billing", host="10.9.9.9", software_name="sarama", principal="User:ann")
    patch_responses(monkeypatch, {1: [broker, client("shop")], 2: [go]})
    for options, expected in (
        ({}, {"shop", "Billing"}),
        ({"with_brokers": True}, {"shop", "Billing", "broker-2"}),
        ({"query": "BILL"}, {"Billing"}),
        ({"query": "10.9"}, {"Billing"}),
        ({"query": "sarama"}, {"Billing"}),
        ({"query": "user:ann"}, {"Billing"}),
        ({"broker": 1}, {"shop"}),
        ({"broker": 99}, set()),
    ):
        assert {r.client_id for r in selectors.client_list(**options).rows} == expected, options  # type: ignore[arg-type]


def test_silent_brokers_and_clients_that_are_not_listed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_responses(monkeypatch, {1: [client("a")]}, silent=[2], count=5)
    page = selectors.client_list()
    assert [(s.broker_id, s.problem) for s in page.brokers_silent] == [(2, "it is frozen")]
    assert (page.brokers_responded, page.brokers_asked, page.not_listed) == (2, 3, 4 + 5)


def test_the_brokers_are_asked_at_their_addresses() -> None:
    """No broker listens at these addresses: each is reported as silent, with the reason."""
    page = selectors.client_list()
    assert page.rows == [] and len(page.brokers_silent) == page.brokers_asked == 3


def test_clients_that_read_from_the_disk_are_counted_as_lagging_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    live, first = client("live", 9), client("replay", 5, cold_bytes_per_second=3.0)
    second, other = client("replay", 5, cold_bytes_per_second=4.0), client("export", 1, cold_bytes_per_second=10.0)
    patch_responses(monkeypatch, {1: [live, first], 2: [second, other]})
    page = selectors.client_list(sort="-cold_bytes_per_s")
    assert [(r.client_id, r.cold_bytes_per_s) for r in page.rows] == [("export", 10), ("replay", 7), ("live", 0)]
    assert (page.lagging_readers, page.lagging_bytes_per_s) == (2, 17)


def rejection(
    host: str, client_id: str, reason: str, count: int, ago_ms: int, **more: str
) -> DescribeLogDirsResponse.Rejection:
    return DescribeLogDirsResponse.Rejection(
        host=host, client_id=client_id, reason=reason, count=count, ago_ms=ago_ms, **more
    )


WRITE = {"principal": "User:x", "operation": "WRITE", "resource_type": "TOPIC", "resource_name": "orders"}


def test_rejected_clients_are_summed_over_brokers_the_latest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    one = [rejection("10.0.0.1", "shop", "throttled", 3, 9_000), rejection("10.0.0.2", "", "tls_failed", 1, 500)]
    other = [
        rejection("10.0.0.1", "shop", "throttled", 4, 2_000),
        rejection("10.0.0.1", "shop", "unauthorized", 1, 2_000, **WRITE),
    ]
    patch_responses(monkeypatch, {}, rejections={1: one, 3: other})
    found = [(r.host, r.client_id, r.reason, r.count, r.brokers, r.ago_s) for r in selectors.client_list().refused]
    assert found == [
        ("10.0.0.2", "", "tls_failed", 1, [1], 0.5),
        ("10.0.0.1", "shop", "throttled", 7, [1, 3], 2.0),
        ("10.0.0.1", "shop", "unauthorized", 1, [3], 2.0),
    ]
    assert [r.reason for r in selectors.client_list(query="0.0.2").refused] == ["tls_failed"]
    (denied,) = selectors.client_list(query="user:x").refused
    assert (denied.principal, denied.operation, denied.resource_type) == ("User:x", "write", "topic")
    assert denied.resource_name == "orders"
    many = {1: [rejection("10.0.0.1", f"c{n}", "throttled", 1, n) for n in range(3 * selectors.REJECTED_MAX)]}
    patch_responses(monkeypatch, {}, rejections=many)
    assert len(selectors.client_list().refused) == selectors.REJECTED_MAX


def failed_login(
    user: str, failure: str, count: int, ago_ms: int, client_id: str = "shop", host: str = "10.0.0.1"
) -> DescribeLogDirsResponse.FailedLogin:
    return DescribeLogDirsResponse.FailedLogin(
        host=host, client_id=client_id, user=user, mechanism="PLAIN", failure=failure, count=count, ago_ms=ago_ms
    )


def test_failed_logins_are_summed_over_brokers_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = rejection("10.0.0.1", "shop", "authentication_failed", 3, 500)
    too_large = rejection("10.0.0.1", "shop", "too_large", 1, 500)
    one = [failed_login("bob", "wrong_password", 2, 900), failed_login("eve", "unknown_user", 1, 500)]
    other = [failed_login("bob", "wrong_password", 4, 700), failed_login("x", "of_a_newer_broker", 1, 9_000)]
    patch_responses(monkeypatch, {}, rejections={1: [rejected, too_large], 3: [rejected]}, logins={1: one, 3: other})
    by_reason = {r.reason: r for r in selectors.client_list().refused}
    logins = by_reason["authentication_failed"].logins
    assert [(x.user, x.failure, x.count, x.ago_s) for x in logins] == [
        ("eve", "unknown_user", 1, 0.5),
        ("bob", "wrong_password", 6, 0.7),
        ("x", "of_a_newer_broker", 1, 9.0),
    ]
    assert (
        "Create the user" in logins[0].advice and "Correct the password" in logins[1].advice and logins[2].advice == ""
    )
    assert by_reason["too_large"].logins == []
    assert [r.reason for r in selectors.client_list(query="eve").refused] == ["authentication_failed"]


def test_every_failure_of_a_login_has_advice() -> None:
    assert LOGIN_ADVICE.keys() == set(SaslFailure)


def test_the_producers_of_a_topic_have_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = client("shop", produced_bytes=900, produced_bytes_per_second=4.5)
    other = client("audit", produced_bytes=2_000, produced_bytes_per_second=1)
    patch_responses(monkeypatch, {1: [shop, other], 2: [shop]})
    found = selectors.client_list(topic="orders", sort="-produced_bytes_per_s")
    assert [(r.client_id, r.produced_bytes_per_s, r.produced_bytes) for r in found.rows] == [
        ("shop", 9.0, 1_800),
        ("audit", 1.0, 2_000),
    ]
    everyone = selectors.client_list(sort="-produced_bytes_per_s")
    assert everyone.sort == "-bytes_per_s" and {r.produced_bytes for r in everyone.rows} == {None}


def test_the_readers_of_a_topic_have_its_bytes_and_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    at = timezone.now()
    for group_id, topic, client_id, host in (
        ("billing", "orders", "app", "10.0.0.1"),
        ("audit", "orders", "app", "10.0.0.1"),
        ("other-host", "orders", "app", "10.0.0.2"),
        ("other-topic", "payments", "app", "10.0.0.1"),
    ):
        group = ConsumerGroup.objects.create(group_id=group_id, observed_at=at)
        for index in range(2):
            GroupPartition.objects.create(
                group=group,
                topic=topic,
                index=index,
                member_id=group_id,
                client_id=client_id,
                host=host,
                observed_at=at,
            )
    app = client("app", fetched_bytes=900, fetched_bytes_per_second=4.5)
    tool = client("tool", fetched_bytes=2_000, fetched_bytes_per_second=20)
    shop = client("shop", produced_bytes=10, produced_bytes_per_second=1)
    patch_responses(monkeypatch, {1: [app, shop, tool], 2: [app]})
    found = selectors.client_list(topic="orders", sort="-fetched_bytes_per_s")
    assert [(r.client_id, r.fetched_bytes_per_s, r.fetched_bytes, r.groups) for r in found.rows] == [
        ("tool", 20.0, 2_000, []),
        ("app", 9.0, 1_800, ["audit", "billing"]),
        ("shop", 0.0, 0, []),
    ]
    assert [r.client_id for r in selectors.client_list(topic="orders", sort="-produced_bytes_per_s").rows] == [
        "shop",
        "tool",
        "app",
    ]

    def clients_using(use: str) -> set[str]:
        return {r.client_id for r in selectors.client_list(topic="orders", topic_use=use).rows}

    assert (clients_using("fetched"), clients_using("produced")) == ({"app", "tool"}, {"shop"})
    everyone = selectors.client_list(sort="-fetched_bytes_per_s")
    assert everyone.sort == "-bytes_per_s" and {r.groups for r in everyone.rows} == {None}


def test_the_topic_is_asked_of_each_broker() -> None:
    asked: list[DescribeLogDirsRequest] = []

    class Connection:
        def call(self, api: object, version: int, body: DescribeLogDirsRequest, seconds: float) -> Any:
            asked.append(body)
            return DescribeLogDirsResponse()

    connected_clients(Connection(), "orders")  # type: ignore[arg-type]
    connected_clients(Connection())  # type: ignore[arg-type]
    assert [body.clients_of for body in asked] == ["orders", ""]


def test_the_rates_of_an_entity_are_by_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, more = client("shop", 4, received_bytes_per_second=1), client("shop", 2, principal="User:ann")
    replication = client("shop", 100, is_broker=True)
    patch_responses(monkeypatch, {1: [shop, more, replication], 2: [client("other", 7)]}, silent=[3])
    assert selectors.client_rates({"client-id": "shop"}) == ClientRates({1: 1.0}, {1: 6.0}, [3], 2)
    assert selectors.client_rates({"user": "ann"}) == ClientRates({1: 0.0}, {1: 2.0}, [3], 2)
    assert selectors.client_rates({"user": "shop", "client-id": "other"}) == ClientRates({2: 0.0}, {2: 7.0}, [3], 2)


@pytest.mark.parametrize("entity", [{}, {"ip": "10.0.0.1"}, {"client-id": None}, {"user": "ann", "client-id": None}])
def test_an_address_and_a_default_have_no_rates(entity: dict[str, str | None]) -> None:
    assert selectors.client_rates(entity) is None
