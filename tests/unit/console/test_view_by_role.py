"""With WEIR_VIEW_BY_ROLE a user sees the resources of their role bindings only: every page and every list of the REST API, generated from the URLs."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse
from django.utils import timezone

from console import access_rules, urls
from console.sockets import LiveSocket
from controlplane.api import access_rules as api_rules
from controlplane.api import urls as api_urls
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import Broker, ObservedTopic, RoleBinding
from controlplane.selectors.topics import topic_list
from controlplane.selectors.visibility import limited, seen_by
from controlplane.services import acls, quotas, role_bindings, routes
from controlplane.services.api_tokens import create_token
from controlplane.services.authorization import visibility_of
from tests.unit.console.test_pages import PAGES

EXAMPLES = {"/moves/new/?kind=plan"}
"""Pages whose texts have a topic of the demo as an example."""
HIDDEN = ("flights", "payments", "slow-reader", "nightly", "ledger", "__consumer_offsets")
"""Names, or parts of names, of seeded topics and groups that the user has no role for."""
VALUES: dict[str, tuple[Any, ...]] = {
    "name": ("orders", "billing"),
    "topic": ("orders", "flights"),
    "group_id": ("billing", "slow-reader"),
    "verb": ("cancel",),
    "offset": (0,),
    "partition": (0,),
    "index": (0,),
    "template": ("consumer",),
}
SHOWN_TO_ALL = {"api-reference", "schema", "index", "runbook", "theme"}
"""Pages and routes without data of the cluster."""
SHOWN = {
    n for n in access_rules.VIEWS | {k: 0 for k, rule in access_rules.RULES.items() if rule} if n not in SHOWN_TO_ALL
}
ROUTES_SHOWN = set(api_rules.VIEWS) - SHOWN_TO_ALL


ROUTE = {"start": "latest", "bindings": [{"target": "ledger", "match": {"kind": "all"}}]}


def addresses(patterns: Iterable[Any], prefix: str, names: set[str]) -> Iterator[str]:
    for pattern in patterns:
        if getattr(pattern, "name", None) in names:
            parameters = list(pattern.pattern.converters)
            for values in itertools.product(*(VALUES.get(p, (1, 2)) for p in parameters)):
                yield reverse(f"{prefix}{pattern.name}", kwargs=dict(zip(parameters, values, strict=True)))


def view_by_role(settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, view_by_role=True)


def bind(user: str, *bindings: tuple[str, str, str], role: str = "viewer") -> None:
    for kind, pattern, name in bindings:
        role_bindings.create_binding(
            user=user, role=role, resource_type=kind, pattern_type=pattern, resource_name=name, actor="root"
        )


def client_of(name: str, **flags: bool) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user(name, **flags))
    return client


@pytest.fixture
def team(seeded: dict[str, Any], settings: Any) -> Client:
    """An operator of the topics `orders*`, of the group and of the SCRAM user `billing`, of broker 1 and of the ACLs, quotas and routes of `orders`."""
    client = client_of("team")
    quotas.set_quota({"user": "orders"}, {"producer_byte_rate": 1_000_000.0}, actor="bob")
    routes.create_route("ledger-by-kind", {**ROUTE, "source": "flights"}, actor="ada")
    for resource in ("flights", "orders", "orders-2"):
        acls.create_acl(
            resource_type="topic",
            resource_name=resource,
            principal="User:x",
            operation="read",
            permission="allow",
            actor="a",
        )
    names = (
        ("topic", "prefixed", "orders"),
        ("group", "literal", "billing"),
        ("user", "literal", "billing"),
        ("broker", "literal", "1"),
        ("acl", "literal", "topic:orders"),
        ("quota", "prefixed", "user orders"),
        ("route", "literal", "orders-by-kind"),
        ("route", "literal", "ledger-by-kind"),
    )
    bind("team", *names, role="operator")
    view_by_role(settings)
    return client


def leaks(client: Client, address: str) -> list[str]:
    """Hidden names in the response that the address does not have."""
    response = client.get(address)
    assert response.status_code < 500, address
    text = response.content.decode()
    return [name for name in HIDDEN if name in text and name not in address]


def test_no_page_and_no_list_has_a_name_without_a_role(team: Client) -> None:
    pages = {
        *addresses(urls.urlpatterns, "", SHOWN),
        *(a for a in PAGES if resolve(a.partition("?")[0]).url_name in SHOWN),
    }
    routes = set(addresses(api_urls.urlpatterns, "api:", ROUTES_SHOWN))
    assert len(pages) > 100 and len(routes) > 50
    assert {a: names for a in sorted((pages | routes) - EXAMPLES) if (names := leaks(team, a))} == {}


def test_pages_and_routes_about_the_whole_cluster_are_refused(team: Client) -> None:
    for address in (
        "/audit/",
        "/top/",
        "/time-travel/",
        "/brokers/restarts/",
        "/brokers/1/log-directories/",
        "/brokers/1/drain/",
        "/plans/",
        "/api/v1/metrics",
        "/api/v1/top",
        "/api/v1/restarts",
        "/api/v1/brokers/1/log-directories",
    ):
        answer = team.get(address)
        assert answer.status_code == 403 and "role viewer on the cluster" in answer.content.decode(), address
    bind("team", ("cluster", "literal", "kafka-cluster"))
    assert team.get("/audit/").status_code == 200
    assert "flights" in team.get("/topics/").content.decode()


def test_a_refusal_about_an_object_does_not_name_its_topics(team: Client) -> None:
    for answer in (team.get("/moves/1/"), team.get("/api/v1/moves/1"), team.post("/moves/1/cancel/")):
        assert answer.status_code == 403 and "There is no object of this number" in answer.content.decode()


SHOWN_NAMES: list[tuple[str, tuple[str, ...]]] = [
    ("/topics/", ("orders",)),
    ("/groups/", ("billing",)),
    ("/users/", ("billing",)),
    ("/search/?q=", ("orders", "billing")),
    ("/palette/?q=orders", ("orders",)),
    ("/", ("orders", "billing")),
    ("/moves/?tab=damage", ("orders",)),
    ("/brokers/", ("Broker", "/brokers/1/")),
    ("/brokers/1/", ("orders-0", "orders-2")),
    ("/acls/", ("orders",)),
    ("/quotas/", ("user orders",)),
    ("/palette/?q=broker", ("/brokers/1/",)),
    ("/api/v1/topics", ("orders",)),
    ("/api/v1/partitions", ("orders",)),
    ("/api/v1/groups", ("billing",)),
    ("/api/v1/users", ("billing",)),
    ("/api/v1/changes", ("orders",)),
    ("/api/v1/damage-reports", ("orders",)),
    ("/api/v1/recoveries", ("orders",)),
]


def test_each_list_has_what_the_roles_permit(team: Client) -> None:
    for address, names in SHOWN_NAMES:
        text = team.get(address).content.decode()
        assert all(name in text for name in names), address


def test_totals_count_what_the_user_sees(team: Client, operator: Client) -> None:
    own, all_of = (c.get("/api/v1/overview").json() for c in (team, operator))
    assert (own["topics"], own["partitions"], own["groups"], own["moves_working"]) == (1, 3, 1, 0)
    assert all_of["topics"] > 3 and all_of["groups"] == 4
    assert team.get("/api/v1/topics?internal=true").json()["total"] == 1


@pytest.mark.parametrize(
    ("path", "name", "own", "others"),
    [
        ("brokers", "broker_id", [1], 4),
        ("acls", "resource_name", ["orders", "orders"], 4),
        ("quotas", "name", ["user orders"], 3),
        ("routes", "name", [], 2),
    ],
)
def test_access_lists_and_brokers_have_what_the_roles_permit(
    team: Client, operator: Client, path: str, name: str, own: list[Any], others: int
) -> None:
    def rows(client: Client) -> list[dict[str, Any]]:
        found = client.get(f"/api/v1/{path}").json()
        return found if isinstance(found, list) else found["rows"]

    assert [r[name] for r in rows(team)] == own and len(rows(operator)) == others
    for row in rows(operator):
        key = row[name] if path in ("brokers", "routes") else row["id"]
        for address in (f"/api/v1/{path}/{key}", f"/{path}/{key}/"):
            seen = team.get(address)
            expected = (200, 405, 404) if row[name] in own else (403, 404)
            assert seen.status_code in expected, address
    if path != "brokers":
        assert team.get(f"/api/v1/{path}").json()["total"] == len(own)


def test_a_route_is_visible_with_its_source_and_all_its_targets(team: Client) -> None:
    for row in RoleBinding.objects.filter(resource_type="topic"):
        row.delete()
    assert team.get("/api/v1/routes").json()["total"] == 0
    bind("team", ("topic", "literal", "*"))
    assert {r["name"] for r in team.get("/api/v1/routes").json()["rows"]} == {"orders-by-kind", "ledger-by-kind"}


def test_a_broker_shows_no_partition_and_no_share_of_hidden_resources(
    team: Client, operator: Client, seeded: dict[str, Any]
) -> None:
    Broker.objects.filter(pk=1).update(
        restart_blocked=3, restart_blockers=[["orders", 0, [1], 1], ["flights", 1, [1], 1], ["ledger", 0, [1], 1]]
    )
    blockers = team.get("/api/v1/brokers/1/restart").json()["blockers"]
    assert any("orders-0" in b for b in blockers) and any("2 more partitions" in b for b in blockers)
    replicas = team.get("/api/v1/brokers/1/replicas").json()
    assert {r["topic"] for r in replicas["rows"]} == {"orders"} and replicas["total"] == len(replicas["rows"])
    own, all_of = (c.get("/api/v1/brokers/1").json() for c in (team, operator))
    assert (own["leaders_skew_pct"], own["replicas_skew_pct"]) == (None, None) != (all_of["leaders_skew_pct"], 0)
    csv = team.get("/brokers/?format=csv").content.decode().splitlines()
    assert len(csv) == 2 and csv[1].startswith("1,")
    history = "/api/v1/history?figure=size_bytes&subject=broker:1"
    assert [c.get(history).status_code for c in (team, operator)] == [200, 200]
    RoleBinding.objects.filter(resource_type="broker").update(resource_name="2")
    assert [c.get(history).status_code for c in (team, operator)] == [404, 200]


def test_a_token_of_the_scope_read_of_an_operator_sees_everything(seeded: dict[str, Any], settings: Any) -> None:
    view_by_role(settings)
    for name in ("ada", "bea"):
        get_user_model().objects.create_user(name, is_staff=name == "ada")
    bind("bea", ("topic", "literal", "orders"), role="owner")
    for name, topics in (("ada", {"flights", "orders", "payments.audit", "ledger", "fresh"}), ("bea", {"orders"})):
        _, secret = create_token("read", actor=name, scope=TokenScope.READ, limit=TokenScope.READ)
        answer = Client().get("/api/v1/topics", headers={"Authorization": f"Token {secret}"}).json()
        assert {t["name"] for t in answer["rows"]} == topics


def test_without_the_setting_every_user_sees_everything(seeded: dict[str, Any]) -> None:
    client = client_of("team")
    bind("team", ("topic", "literal", "orders"))
    assert "flights" in client.get("/topics/").content.decode() and client.get("/audit/").status_code == 200


def test_the_filter_holds_in_the_asynchronous_server(seeded: dict[str, Any], settings: Any) -> None:
    """Middleware, view and selectors have contexts of their own there."""
    view_by_role(settings)
    client = AsyncClient()
    client.force_login(get_user_model().objects.create_user("team"))
    bind("team", ("topic", "literal", "orders"))
    for address in ("/topics/", "/api/v1/topics"):
        text = async_to_sync(client.get)(address).content.decode()
        assert "orders" in text and "flights" not in text
    assert not limited()


def test_a_page_of_ten_thousand_topics_needs_only_the_roles_of_the_user_besides(db: None, settings: Any) -> None:
    ObservedTopic.objects.bulk_create(
        ObservedTopic(
            id=uuid.uuid4(),
            name=f"{'orders' if n % 4 == 0 else 'app'}-{n:05}",
            generation=1,
            configs={},
            partition_count=3,
            replication_factor=3,
            ready=True,
            internal=False,
            observed_at=timezone.now(),
        )
        for n in range(10_000)
    )
    get_user_model().objects.create_user("team")
    bind("team", ("topic", "prefixed", "orders-"), *(("topic", "literal", f"app-{n:05}") for n in range(1, 100)))
    with CaptureQueriesContext(connection) as unlimited:
        topic_list(per_page=50)
    user = get_user_model().objects.get(username="team")
    view_by_role(settings)
    with CaptureQueriesContext(connection) as of_roles:
        seen = visibility_of(user)
    with CaptureQueriesContext(connection) as filtered, seen_by(seen):
        found = topic_list(per_page=50)
    assert len(filtered) == len(unlimited) and len(of_roles) <= 3
    assert found.total == 2_500 + 75


def test_a_socket_gets_the_updates_of_visible_subjects_and_none_after_a_withdrawal(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a server the thread of a query ends an unusable connection after it. Here the query runs in the transaction of the test.
    monkeypatch.setattr("channels.db.close_old_connections", lambda: None)
    view_by_role(settings)
    user = get_user_model().objects.create_user("team")
    bind("team", ("topic", "prefixed", "orders"), ("broker", "literal", "1"), role="operator")
    socket = LiveSocket()
    socket.scope = {"user": user}
    socket.requested = frozenset(
        {"topic:orders", "partition:orders:0", "topic:flights", "cluster", "topics", "move:1", "broker:1", "broker:2"}
    )
    async_to_sync(socket._limit_subjects)()
    assert socket.subjects == {"topic:orders", "partition:orders:0", "broker:1", "topics"}
    RoleBinding.objects.all().delete()
    async_to_sync(socket._limit_subjects)()
    assert socket.subjects == {"topics"}
