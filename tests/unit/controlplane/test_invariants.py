"""Invariants of the control plane (docs/invariants.md) that no other test covers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.move import next_steps
from controlplane.models import Change, Topic
from tests.unit.controlplane.domain.test_move import move, part_view
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_the_monitor_writes_no_desired_state_and_no_metadata_record(world: World) -> None:
    world.topic("flights", (1, 2))
    world.topic("strange", (1, 2), row=False)
    before = list(Topic.objects.order_by("name").values())
    desired = ("name", "configs", "overlay", "assignment", "generation", "applied_generation", "note", "deleted_at")
    assert [tuple(t[f] for f in desired) for t in before] == [("flights", {}, None, None, 1, 1, "", None)], (
        "as it was asked for"
    )
    world.begin_move("flights", 0, (2, 3))
    world.down(1)
    world.image.topics.pop(world.image.topic_ids.pop("strange"))
    world.project()
    assert list(Topic.objects.order_by("name").values()) == before
    assert not Change.objects.exists()


def test_an_unconfirmed_order_keeps_its_copy_slot() -> None:
    submitted, waiting = part_view(1, "submitted", submitted_at=0.0), part_view(2)
    view = replace(move(submitted, waiting), parts_in_flight_max=1)
    for now in (1.0, 60.0, 86_400.0):
        steps = next_steps(view, now)
        assert [s.state for s in steps.parts if s.part_id == 2] == []
        assert steps.state is None
