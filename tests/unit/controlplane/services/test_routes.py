"""Routes as rows: what is rejected, what never changes, and what the audit log has."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.routes import route_of
from controlplane.models import AccessEntry, Change, Topic
from controlplane.services import Rejected, routes

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def topics() -> None:
    for name in ("orders", "paid", "all"):
        Topic.objects.create(name=name, partitions=3, replication_factor=3)


def definition(source: str = "orders", target: str = "paid", **more: Any) -> dict[str, Any]:
    return {
        "source": source,
        "start": "latest",
        "enabled": True,
        "owner": "payments",
        "description": "",
        "bindings": [{"target": target, "match": {"kind": "key", "value": "paid"}}],
        **more,
    }


def test_a_route_is_a_row_for_the_metadata_log() -> None:
    row = routes.create_route("r", definition(), actor="ada", comment="billing")
    assert row.kind == "route" and row.waiting and row.value is not None
    route = route_of("r", row.generation, row.value)
    assert route.partitions_at_start == 3 and route.route_id and route.targets == ("paid",)
    change = Change.objects.get(verb="route.create")
    assert change.actor == "ada" and change.comment == "billing" and change.object_name == "r"


def test_source_and_start_never_change() -> None:
    routes.create_route("r", definition(), actor="ada")
    row = routes.change_route("r", {"source": "all", "start": "earliest", "owner": "ops"}, actor="ada")
    assert row.value is not None and (row.value["source"], row.value["start"]) == ("orders", "latest")
    assert row.value["owner"] == "ops" and row.generation == 2


def test_a_principal_is_stored_changed_and_removed() -> None:
    row = routes.create_route("r", definition(principal="User:payments"), actor="ada")
    assert row.value is not None and row.value["principal"] == "User:payments"
    assert Change.objects.get(verb="route.create").after["principal"] == "User:payments"
    with pytest.raises(Rejected) as error:
        routes.change_route("r", {"principal": "payments"}, actor="ada")
    assert error.value.field == "principal"
    row = routes.change_route("r", {"principal": ""}, actor="ada")
    assert row.value is not None and "principal" not in row.value, "earlier brokers do not know the field"
    with pytest.raises(Rejected, match="already"):
        routes.change_route("r", {"principal": ""}, actor="ada")


def test_a_deleted_route_is_created_again_with_another_id() -> None:
    first = routes.create_route("r", definition(), actor="ada").value
    routes.delete_route("r", actor="ada", comment="moved")
    assert AccessEntry.objects.get(kind="route").value is None
    again = routes.create_route("r", definition(), actor="ada")
    assert first is not None and again.value is not None and again.value["route_id"] != first["route_id"]
    assert again.generation == 3


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"source": "missing"}, "source"),
        ({"bindings": []}, "bindings"),
        ({"bindings": [{"target": "paid", "match": {"kind": "regex"}}]}, "bindings.0.match.kind"),
        ({"bindings": [{"target": "a/b", "match": {"kind": "all"}}]}, "bindings.0.target"),
        ({"bindings": [{"target": "__consumer_offsets", "match": {"kind": "all"}}]}, "bindings.0.target"),
        (
            {"bindings": [{"target": "paid", "match": {"kind": "all"}, "sample_percent": 0}]},
            "bindings.0.sample_percent",
        ),
        ({"bindings": [{"target": "orders", "match": {"kind": "all"}}]}, "bindings"),
        ({"bindings": [{"target": "orders.delay", "match": {"kind": "all"}}]}, "bindings"),
    ],
)
def test_an_invalid_route_is_rejected_with_the_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as error:
        routes.create_route("r", definition(**given), actor="ada")
    assert error.value.field == field
    assert Change.objects.get().outcome == "refused" and not AccessEntry.objects.exists()


def test_a_loop_over_two_routes_is_rejected_until_one_is_disabled() -> None:
    routes.create_route("there", definition("orders", "paid"), actor="ada")
    with pytest.raises(Rejected, match="paid → orders → paid"):
        routes.create_route("back", definition("paid", "orders"), actor="ada")
    routes.create_route("back", definition("paid", "orders", enabled=False), actor="ada")
    with pytest.raises(Rejected):
        routes.change_route("back", {"enabled": True}, actor="ada")
    routes.change_route("there", {"enabled": False}, actor="ada")
    routes.change_route("back", {"enabled": True}, actor="ada")


def test_names_are_unique_and_old_generations_are_rejected() -> None:
    routes.create_route("r", definition(), actor="ada")
    with pytest.raises(Rejected, match="already"):
        routes.create_route("r", definition(), actor="ada")
    with pytest.raises(Rejected, match="generation 1"):
        routes.change_route("r", {"owner": "x"}, actor="ada", if_generation=7)
    with pytest.raises(Rejected, match="no route"):
        routes.delete_route("x", actor="ada")


def test_a_front_topic_is_no_source() -> None:
    Topic.objects.create(
        name="orders.delay", partitions=3, replication_factor=3, configs={"weir.delay.topic": "orders"}
    )
    with pytest.raises(Rejected, match="front topic"):
        routes.create_route("r", definition("orders.delay", "all"), actor="ada")


def test_a_front_topic_of_half_messages_is_no_target() -> None:
    Topic.objects.create(name="all.half", partitions=3, replication_factor=3, configs={"weir.half.topic": "all"})
    with pytest.raises(Rejected, match="half messages"):
        routes.create_route("r", definition("orders", "all.half"), actor="ada")


def test_a_definition_has_a_limit_of_bytes() -> None:
    import secrets

    bindings = [{"target": "paid", "match": {"kind": "key", "value": secrets.token_hex(60)}} for _ in range(1_000)]
    with pytest.raises(Rejected, match="compressed"):
        routes.create_route("r", definition(bindings=bindings), actor="ada")
