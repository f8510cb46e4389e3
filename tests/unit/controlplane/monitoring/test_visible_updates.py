"""Live updates for users who see only some resources."""

from __future__ import annotations

from controlplane.domain.access import AclPattern
from controlplane.domain.roles import AccessRole, Grant, RoleResource
from controlplane.domain.visibility import EVERYTHING, Visibility
from controlplane.monitoring import live_events
from controlplane.monitoring.live_events import LiveUpdate
from controlplane.monitoring.visible_updates import visible_update

ORDERS = Visibility((Grant(AccessRole.VIEWER, RoleResource.TOPIC, AclPattern.LITERAL, "orders"),))


def update(kind: str, partition: str) -> LiveUpdate:
    group = {"group_id": "billing", "retention_partition": partition, "lag_records": 3}
    return {"run": "r", "seq": 4, "kind": kind, "data": {"groups": [group], "gone": []}}


def test_a_partition_of_a_hidden_topic_has_no_name() -> None:
    hidden = visible_update(update(live_events.GROUPS, "flights-3"), ORDERS)
    assert hidden["data"]["groups"] == [{"group_id": "billing", "retention_partition": "", "lag_records": 3}]
    assert hidden["seq"] == 4 and hidden["data"]["gone"] == []


def test_other_updates_and_users_have_all() -> None:
    for partition, kind, seen in (
        ("orders-1", live_events.GROUPS, ORDERS),
        ("", live_events.GROUPS, ORDERS),
        ("flights-3", live_events.GROUPS, EVERYTHING),
        ("flights-3", live_events.CHANGES, ORDERS),
    ):
        assert visible_update(update(kind, partition), seen) == update(kind, partition)
