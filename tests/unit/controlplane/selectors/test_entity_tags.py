"""Entity tags change with each change of their object."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.models import NotificationChannel, Plan, Topic
from controlplane.selectors.entity_tags import channel_tag, move_tag, plan_tag, topic_tag
from controlplane.services import moves, plans
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
DRAIN = {"kind": "drain", "broker": 1}


def test_a_topic_has_its_generation_also_without_a_row(world: World) -> None:
    world.topic("orders", (1, 2))
    world.topic("foreign", (1, 2), row=False)
    Topic.objects.filter(name="orders").update(generation=7)
    assert (topic_tag("orders"), topic_tag("foreign"), topic_tag("nope")) == ("7", "1", None)


def test_a_move_counts_its_writes(world: World) -> None:
    world.topic("orders", (1, 2))
    move = moves.plan_move(parse_scope(DRAIN), actor="alice", comment="x")
    before = move_tag(move.pk)
    moves.approve_move(move.pk, actor="alice", comment="x")
    assert before is not None and move_tag(move.pk, lock=False) not in (before, None)
    assert move_tag(999) is None


def test_a_plan_changes_with_approval_and_removal(world: World) -> None:
    world.topic("orders", (1, 2))
    plan = plans.save_plan(parse_scope(DRAIN), name="p", actor="alice", comment="x")
    tags = [plan_tag(plan.pk)]
    for column in ("approved_at", "dropped_at"):
        Plan.objects.filter(pk=plan.pk).update(**{column: timezone.now()})
        tags.append(plan_tag(plan.pk))
    assert len(set(tags)) == 3 and None not in tags
    assert plan_tag(999) is None


def test_a_channel_counts_the_changes_of_operators() -> None:
    row = NotificationChannel.objects.create(name="ops", kind="slack", created_by="root")
    assert channel_tag(row.pk, lock=False) == "1" and channel_tag(999) is None
