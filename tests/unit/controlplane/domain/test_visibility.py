"""Which names grants make visible."""

from __future__ import annotations

from controlplane.domain.access import AclPattern
from controlplane.domain.roles import AccessRole, Grant, RoleResource
from controlplane.domain.visibility import EVERYTHING, Visibility, subject_visible

TOPIC, GROUP = RoleResource.TOPIC, RoleResource.GROUP


def visibility_of(*names: str, kind: RoleResource = TOPIC, role: AccessRole = AccessRole.OPERATOR) -> Visibility:
    """A name that ends with * is a prefix, and * alone is the literal name for all."""
    prefixed, literal = AclPattern.PREFIXED, AclPattern.LITERAL
    return Visibility(
        tuple(
            Grant(role, kind, prefixed, n[:-1]) if n.endswith("*") and n != "*" else Grant(role, kind, literal, n)
            for n in names
        )
    )


def test_every_role_makes_its_resources_visible() -> None:
    for role in AccessRole:
        team = visibility_of("pay.*", "orders", role=role)
        assert team.sees(TOPIC, "pay.x") and team.sees(TOPIC, "orders")
        assert not team.sees(TOPIC, "orders.x") and not team.sees(TOPIC, "PAY.x") and not team.sees(GROUP, "orders")
    assert not Visibility(()).sees(TOPIC, "orders") and Visibility(()).limited
    assert EVERYTHING.sees(TOPIC, "orders") and EVERYTHING.sees_all(GROUP) and not EVERYTHING.limited


def test_prefixes_that_begin_with_a_shorter_one_are_left_out() -> None:
    team = visibility_of("pay.*", "pay.eu.*", "p*", "orders*", "x")
    assert team.prefixes(TOPIC) == {"p", "orders"} and team.names(TOPIC) == {"x"}
    assert visibility_of("*").sees_all(TOPIC) and not visibility_of("*").sees_all(GROUP) and not team.sees_all(TOPIC)


def test_subjects_of_live_updates_and_histories() -> None:
    team = Visibility((*(visibility_of("orders*").grants or ()), *(visibility_of("a:b", kind=GROUP).grants or ())))
    shown = (
        "topic:orders",
        "messages:orders",
        "partition:orders-1:0",
        "group:a:b",
        "share-group:a:b",
        "lag:a:b:orders:2",
        "topics",
    )
    hidden = (
        "topic:flights",
        "partition:flights:0",
        "group:a",
        "lag:a:b:flights:2",
        "lag:a:orders:2",
        "cluster",
        "move:1",
        "broker:1",
    )
    assert all(subject_visible(team, s) for s in shown)
    assert not any(subject_visible(team, s) for s in hidden)
    assert all(subject_visible(EVERYTHING, s) for s in (*shown, *hidden))
