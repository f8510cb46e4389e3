"""With WEIR_VIEW_BY_ROLE a user sees the resources of their role bindings only: every page and every list of the REST API, generated from the URLs."""

from __future__ import annotations

import itertools
import re
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
from console.address_access import missing_role
from console.cells import page_update
from console.sockets import LiveSocket, _cluster_cells, _visible_moves
from controlplane.api import access_rules as api_rules
from controlplane.api import urls as api_urls
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import Alert, Broker, Change, GroupPartition, ObservedPartition, ObservedTopic, RoleBinding
from controlplane.monitoring.visible_updates import visible_update
from controlplane.selectors import shared_rows
from controlplane.selectors.topics import topic_list
from controlplane.selectors.visibility import limited, seen_by
from controlplane.services import acls, quotas, role_bindings, routes
from controlplane.services.api_tokens import create_token
from controlplane.services.authorization import visibility_of
from controlplane.services.move_planning import parse_scope, plan_move
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
def team(seeded_cluster: dict[str, Any], settings: Any) -> Client:
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


def test_pages_of_one_second_share_no_rows_with_a_user_who_sees_less(
    team: Client, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rows, "SHARED_SECONDS", 600.0)
    bind("alice", ("cluster", "literal", "kafka-cluster"))
    ObservedTopic.objects.update(offline=1)
    ObservedPartition.objects.update(leader=None, in_trouble=True)
    shared_rows.set_sharing(True)
    try:
        for first, second in ((operator, team), (team, operator)):
            for client in (first, second, first):
                text = client.get("/").content.decode()
                assert ("flights" in text, "orders" in text) == (client is operator, True)
            shared_rows.set_sharing(True)  # begins again without rows
    finally:
        shared_rows.set_sharing(False)


def test_pages_and_routes_about_the_whole_cluster_are_rejected(team: Client) -> None:
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
        response = team.get(address)
        assert response.status_code == 403 and "role viewer on the cluster" in response.content.decode(), address
    bind("team", ("cluster", "literal", "kafka-cluster"))
    assert team.get("/audit/").status_code == 200
    assert "flights" in team.get("/topics/").content.decode()


def test_a_rejection_about_an_object_does_not_name_its_topics(team: Client) -> None:
    for response in (team.get("/moves/1/"), team.get("/api/v1/moves/1"), team.post("/moves/1/cancel/")):
        assert response.status_code == 403 and "There is no object of this number" in response.content.decode()


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
    team: Client, operator: Client, seeded_cluster: dict[str, Any]
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
    history = "/api/v1/history?metric=size_bytes&subject=broker:1"
    assert [c.get(history).status_code for c in (team, operator)] == [200, 200]
    RoleBinding.objects.filter(resource_type="broker").update(resource_name="2")
    assert [c.get(history).status_code for c in (team, operator)] == [404, 200]


def test_a_token_of_the_scope_read_of_an_operator_sees_everything(
    seeded_cluster: dict[str, Any], settings: Any
) -> None:
    view_by_role(settings)
    for name in ("ada", "bea"):
        get_user_model().objects.create_user(name, is_staff=name == "ada")
    bind("bea", ("topic", "literal", "orders"), role="owner")
    for name, topics in (("ada", {"flights", "orders", "payments.audit", "ledger", "fresh"}), ("bea", {"orders"})):
        _, secret = create_token("read", actor=name, scope=TokenScope.READ, limit=TokenScope.READ)
        response = Client().get("/api/v1/topics", headers={"Authorization": f"Token {secret}"}).json()
        assert {t["name"] for t in response["rows"]} == topics


def test_without_the_setting_every_user_sees_everything(seeded_cluster: dict[str, Any]) -> None:
    client = client_of("team")
    bind("team", ("topic", "literal", "orders"))
    assert "flights" in client.get("/topics/").content.decode() and client.get("/audit/").status_code == 200


def test_the_filter_holds_in_the_asynchronous_server(seeded_cluster: dict[str, Any], settings: Any) -> None:
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


def test_the_page_of_a_user_lists_the_visible_acls_only(team: Client, operator: Client) -> None:
    for resource in ("flights", "orders"):
        acls.create_acl(
            resource_type="topic",
            resource_name=resource,
            principal="User:billing",
            operation="write",
            permission="allow",
            actor="a",
        )
    own, all_of = (c.get("/api/v1/users/billing").json() for c in (team, operator))
    assert {a["resource_name"] for a in own["acls"]} == {"orders"} and own["acl_count"] == len(own["acls"])
    assert {a["resource_name"] for a in all_of["acls"]} == {"flights", "orders"}
    assert "flights" not in team.get("/users/billing/").content.decode()
    RoleBinding.objects.filter(resource_type="acl").delete()
    sentence = "No ACL names this user. You see only the resources of your role bindings."
    assert sentence in team.get("/users/billing/").content.decode()
    assert "of your role bindings." not in operator.get("/users/").content.decode()


def test_a_limited_user_sees_who_changed_a_topic_and_not_the_values(team: Client, operator: Client) -> None:
    """The values of a change are on the page of the change, which is of the whole cluster."""
    values = {"before": {"configs": {"retention.ms": "5"}}, "after": {"configs": {"retention.ms": "secret-of-change"}}}
    Change.objects.create(actor="ann", verb="topic.alter", object_kind="topic", object_name="orders", **values)
    alert = Alert.objects.create(
        kind="broker_down", subject="1", severity="degraded", text="x", do="", since=timezone.now()
    )
    for address in (f"/alerts/{alert.pk}/", f"/api/v1/alerts/{alert.pk}", "/topics/orders/?tab=changes"):
        of_team, of_all = (c.get(address).content.decode() for c in (team, operator))
        assert "ann" in of_team, "the change is listed"
        assert "secret-of-change" in of_all and "secret-of-change" not in of_team, address


def test_a_search_in_alerts_finds_no_word_that_is_not_shown(team: Client, operator: Client) -> None:
    Alert.objects.create(
        kind="disk_low", subject="1", severity="degraded", text="flights fills broker 1", do="", since=timezone.now()
    )
    found = {q: len(team.get(f"/api/v1/alerts?query={q}").json()["rows"]) for q in ("flights", "disk_low", "1")}
    assert found["flights"] == 0 and found["disk_low"] == 1 and found["1"] >= 1
    assert len(operator.get("/api/v1/alerts?query=flights").json()["rows"]) >= 1


def test_a_filter_by_a_hidden_topic_finds_no_group(team: Client, operator: Client) -> None:
    GroupPartition.objects.create(
        group_id="billing", topic="flights", index=0, committed=1, end_offset=2, observed_at=timezone.now()
    )
    for address in ("/api/v1/groups?topic=flights", "/api/v1/groups?topic=orders"):
        assert operator.get(address).json()["total"] >= 1
    assert team.get("/api/v1/groups?topic=flights").json()["total"] == 0
    assert team.get("/api/v1/groups?topic=orders").json()["total"] == 1


def test_an_alert_about_a_disk_offers_no_hidden_move_and_no_channel(
    team: Client, operator: Client, seeded_cluster: dict[str, Any]
) -> None:
    low = Alert.objects.create(
        kind="disk_low", subject="4", severity="degraded", text="low", do="", since=timezone.now()
    )
    page = f"/alerts/{low.pk}/"
    assert f"/moves/{seeded_cluster['move']}/" in operator.get(page).content.decode(), (
        "move 1 copies flights-0 to broker 4"
    )
    text = team.get(page).content.decode()
    assert "/moves/" not in text.split("<main", 1)[1].split("</main>")[0].replace("/moves/new/", "")
    assert 'id="sent"' not in text and 'id="sent"' in operator.get(page).content.decode()


STEPS = {
    "disk_low": ("1", "4"),
    "disk_slow": ("1",),
    "broker_down": ("1", "4"),
    "partitions_under_replicated": ("",),
    "partitions_offline": ("",),
    "copies_damaged": ("",),
    "group_retention": ("billing",),
    "unclean_election": ("flights", "orders"),
    "group_stalled": ("billing",),
    "group_stopped": ("billing",),
    "share_group_stopped": ("billing",),
    "move_failed": ("1",),
    "client_refused": ("User:x: unauthorized",),
    "connect_silent": ("etl",),
    "changes_unknown": ("",),
    "document_drift": ("payments",),
    "transaction_hanging": ("",),
    "archive_failed": ("1",),
}
"""Subjects of alerts that have next steps."""


def steps_of(page: str) -> str:
    """The buttons of an alert's page."""
    return page.split('<div class="acts">', 1)[1].split("</div>", 1)[0]


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_a_limited_user_has_only_the_steps_that_they_may_take(
    team: Client, operator: Client, seeded_cluster: dict[str, Any], role: str
) -> None:
    """Buttons led to pages that answered 403, and buttons that only open a page were disabled for everyone without a role for the whole cluster."""
    if role == "viewer":
        RoleBinding.objects.update(role="viewer")
    links, posted = set[str](), set[str]()
    for kind, subjects in STEPS.items():
        for subject in subjects:
            now = timezone.now()
            alert = Alert.objects.filter(kind=kind, subject=subject, ended_at__isnull=True).first()
            alert = alert or Alert.objects.create(
                kind=kind, subject=subject, severity="degraded", text="x", do="", since=now
            )
            page = team.get(f"/alerts/{alert.pk}/")
            if page.status_code == 404:
                continue
            steps = steps_of(page.content.decode())
            assert "disabled" not in steps, f"{kind} {subject}: a button that the user cannot use"
            links |= set(re.findall(r'href="([^"]+)"', steps.replace("&amp;", "&")))
            posted |= set(re.findall(r'action="([^"]+)"', steps))
    user = get_user_model().objects.get(username="team")
    assert not [address for address in posted if missing_role(user, address, posts=True)]
    assert {link: team.get(link).status_code for link in links} == dict.fromkeys(links, 200)
    assert ("/brokers/1/" in links) and ("/groups/billing/" in links)
    assert not [link for link in links if link.startswith("/messages/")], "neither role permits to read records"
    assert ("/brokers/1/demote/" in posted) == (role == "operator")
    overview = team.get("/").content.decode().split('id="incidents"')[1].split('class="figures')[0]
    assert "aria-disabled" not in overview and "disabled title" not in overview


def test_a_viewer_of_the_whole_cluster_opens_pages_and_sees_which_role_is_missing(
    viewer: Client, seeded_cluster: dict[str, Any]
) -> None:
    alert = Alert.objects.create(
        kind="broker_down", subject="1", severity="degraded", text="x", do="", since=timezone.now()
    )
    steps = steps_of(viewer.get(f"/alerts/{alert.pk}/").content.decode())
    assert 'href="/brokers/1/"' in steps, "to open a page needs no role"
    assert "/brokers/1/drain/" not in steps and "Drain broker 1</span>" in steps and "operator role" in steps


def test_live_updates_name_no_hidden_partition_and_count_what_is_visible(team: Client) -> None:
    user = get_user_model().objects.get(username="team")
    group = {
        "group_id": "billing",
        "state": "Stable",
        "member_count": 2,
        "consumed_per_s": 10.0,
        "produced_per_s": 20.0,
        "lag_records": 900,
        "lag_ms_max": 9_000,
        "lag_at_least": False,
        "status": "falling_behind",
        "retention_in_s": 600.0,
        "retention_limit": "retention.ms",
        "retention_at_most": False,
    }
    seen = visibility_of(user)
    for topic, shown in (("flights", False), ("orders", True)):
        data = {"groups": [{**group, "retention_partition": f"{topic}-1"}], "gone": [], "statuses_changed": False}
        update: Any = {"kind": "groups", "data": data, "run": "r", "seq": 1}
        cell = page_update(visible_update(update, seen), {"group:billing"}).cells["group:billing", "pace"]
        assert ("flights-1" in cell, "orders-1" in cell) == (False, shown) and "10 min" in cell
    cells = _cluster_cells(seen, "en")
    assert cells["cluster", "topics"] == "1" and cells["cluster", "groups"] == "1"


def test_the_help_lists_the_keys_of_pages_that_the_user_may_open(team: Client, operator: Client) -> None:
    keys = {c: c.get("/keyboard-shortcuts/").content.decode() for c in (team, operator)}
    assert "Audit log" in keys[operator] and "Audit log" not in keys[team] and "Topics" in keys[team]


def test_a_move_has_live_updates_for_users_who_see_all_its_topics(team: Client, seeded_cluster: dict[str, Any]) -> None:
    placed = [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]
    own = plan_move(parse_scope({"kind": "partitions", "partitions": placed}), actor="team")
    panels = {f"move-state:{own.pk}", f"move-state:{seeded_cluster['move']}"}
    requested = {f"move:{own.pk}", f"move:{seeded_cluster['move']}", "move:x", "moves", "topic:orders", *panels}
    seen = visibility_of(get_user_model().objects.get(username="team"))
    assert _visible_moves(seen, requested) == {f"move:{own.pk}", f"move-state:{own.pk}"}
