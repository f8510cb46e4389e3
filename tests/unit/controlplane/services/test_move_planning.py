"""Plans of moves: every problem at once, malformed scopes, and a preview that writes nothing."""

from __future__ import annotations

import pytest

from controlplane.models import Move
from controlplane.services import Rejected, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.services.test_move_worker import TO_23
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_plan_names_every_problem_at_once(world: World) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    world.down(3)
    with pytest.raises(Rejected) as rejection:
        moves.plan_move(
            parse_scope(
                {
                    "kind": "partitions",
                    "partitions": [
                        {"topic": "flights", "partition": 0, "replicas": [3]},
                        {"topic": "nope", "partition": 0, "replicas": [1]},
                    ],
                }
            ),
            actor="alice",
        )
    assert "broker 3, which is not alive" in rejection.value.reason
    assert "fewer than its min.insync.replicas 2" in rejection.value.reason
    assert "Partition nope-0 does not exist" in rejection.value.reason


@pytest.mark.parametrize("scope", [{}, {"kind": "sideways"}, {"kind": "drain"}, {"kind": "drain", "broker": "x"}])
def test_a_malformed_scope_is_rejected(world: World, scope: dict[str, object]) -> None:
    with pytest.raises(Rejected):
        moves.plan_move(parse_scope(scope), actor="alice")


def test_the_preview_writes_nothing_and_shows_the_plan(world: World) -> None:
    world.topic("flights", (1, 2))
    preview = moves.preview_move(parse_scope(TO_23))
    assert not Move.objects.exists()
    assert (preview.parts[0].replicas_to, preview.bytes_to_copy, preview.problems) == ([2, 3], 1000, [])
