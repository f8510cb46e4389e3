"""The filter in the database: names with their case, moves with hidden topics, alerts without other names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.utils import timezone

from controlplane.domain.access import AclPattern
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.roles import AccessRole, Grant, RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.models import (
    Alert,
    Broker,
    ConsumerGroup,
    GroupPartition,
    Move,
    MovePartition,
    ObservedTopic,
)
from controlplane.selectors import alerts, groups, incidents, moves, overview, partitions, topics
from controlplane.selectors.visibility import limited, seen_by, sees, visible, visible_names
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TOPIC, GROUP = RoleResource.TOPIC, RoleResource.GROUP


@contextmanager
def team(*names: tuple[RoleResource, str]) -> Iterator[None]:
    """Sees the resources whose name begins with one of these names."""
    with seen_by(Visibility(tuple(Grant(AccessRole.VIEWER, kind, AclPattern.PREFIXED, n) for kind, n in names))):
        yield


def names_of(page: Any) -> set[str]:
    return {row.name for row in page.rows}


def test_names_are_compared_with_their_case(world: World) -> None:
    for name in ("orders-a", "ORDERS-b", "orders_c", "order", "x"):
        world.topic(name, (1, 2))
    with team((TOPIC, "orders-"), (TOPIC, "x")):
        assert names_of(topics.topic_list()) == {"orders-a", "x"} and topics.topic_list().total == 2
        assert topics.topic_row("ORDERS-b") is None and topics.topic_detail("order") is None
        assert {p.topic for p in partitions.partition_list().rows} == {"orders-a", "x"}
        assert overview.overview().topics == 2
    assert topics.topic_list().total == 5 and not limited()


def test_rows_without_a_resource_are_hidden_and_an_empty_list_of_bindings_shows_nothing(world: World) -> None:
    world.topic("orders", (1, 2))
    with team((TOPIC, "")):
        assert not visible(Broker.objects.all()).exists()
    with seen_by(Visibility(())):
        assert not visible(ObservedTopic.objects.all()).exists() and not sees(TOPIC, "orders")
        assert not ObservedTopic.objects.filter(visible_names(TOPIC, "name")).exists()


def test_a_move_is_visible_if_all_its_topics_are(world: World) -> None:
    ids = {name: world.topic(name, (1, 2)) for name in ("orders", "flights")}
    assert set(ids) == {"orders", "flights"}
    for number, of in ((1, ("orders",)), (2, ("orders", "flights")), (3, ())):
        move = Move.objects.create(pk=number, actor="root")
        for index, name in enumerate(of):
            MovePartition.objects.create(
                move=move,
                topic_id=world.image.topic_ids[name],
                topic_name=name,
                partition=number + index,
                replicas_from=[1],
                replicas_to=[2],
                read_generation=1,
                desired_replicas=[2],
                before=PlacementBefore((1,), 1, (1,)),
            )
        Alert.objects.create(
            kind=AlertKind.MOVE_STUCK,
            subject=str(number),
            severity="degraded",
            text="flights-0",
            do="",
            since=timezone.now(),
        )
    with team((TOPIC, "orders")):
        assert [m.id for m in moves.move_list().rows] == [1] and moves.move_row(2) is None
        assert [(a.subject, a.text) for a in alerts.alert_list().rows] == [("1", "Move 1 is stuck.")]
        assert alerts.counts()[0] == 1 and [i.cause.subject for i in incidents.incident_list()] == ["1"]
    assert len(moves.move_list().rows) == 3 and alerts.counts()[0] == 3


def test_a_visible_group_does_not_show_the_other_topics_that_it_reads(db: None) -> None:
    group = ConsumerGroup.objects.create(
        group_id="billing",
        state="Stable",
        member_count=1,
        members=[{"member_id": "m", "client_id": "c", "host": "h", "partitions": [["orders", 0], ["flights", 0]]}],
        retention_partition="flights-0",
        observed_at=timezone.now(),
    )
    for name in ("orders", "flights"):
        GroupPartition.objects.create(group=group, topic=name, index=0, observed_at=timezone.now())
    with team((TOPIC, "orders"), (GROUP, "bill")):
        detail = groups.group_detail("billing")
        assert detail is not None and [p.topic for p in detail.partitions] == ["orders"]
        assert detail.members[0]["partitions"] == [["orders", 0]] and detail.row.retention_partition == ""
    with team((TOPIC, "orders")):
        assert groups.group_detail("billing") is None and groups.group_list().total == 0
