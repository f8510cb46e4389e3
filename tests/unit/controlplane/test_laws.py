"""Laws of the control plane (docs/laws.md) that no other test holds by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.models import Change, Topic
from controlplane.moves import next_steps
from tests.unit.controlplane.test_moves_core import move, part
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_looking_at_the_cluster_writes_no_wish_and_no_record(world: World) -> None:
    world.topic("flights", (1, 2))
    world.topic("strange", (1, 2), row=False)
    before = list(Topic.objects.order_by("name").values())
    wish = ("name", "configs", "overlay", "assignment", "generation", "applied_generation", "note", "deleted_at")
    assert [tuple(t[f] for f in wish) for t in before] == [("flights", {}, None, None, 1, 1, "", None)], (
        "as it was asked for"
    )
    world.begin_move("flights", 0, (2, 3))
    world.down(1)
    world.image.topics.pop(world.image.topic_ids.pop("strange"))
    world.look()
    assert list(Topic.objects.order_by("name").values()) == before
    assert not Change.objects.exists()


def test_an_order_that_nobody_read_back_keeps_its_place_and_no_other_begins_in_it() -> None:
    ordered, waiting = part(1, "ordered", ordered_at=0.0), part(2)
    view = replace(move(ordered, waiting), parts_in_flight_max=1)
    for now in (1.0, 60.0, 86_400.0):
        steps = next_steps(view, now)
        assert [s.state for s in steps.parts if s.part_id == 2] == []
        assert steps.state is None
