"""The partitions of a move: those that an operator looks for are first, and the order has pages."""

from __future__ import annotations

import uuid

import pytest

from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.progress import StallCause
from controlplane.domain.scope import DrainScope
from controlplane.models import Move, MovePartition
from controlplane.models.move import PartState
from controlplane.selectors import move_parts as selectors
from controlplane.selectors.paging import PageCursor

pytestmark = pytest.mark.django_db

PARTS = {
    "a": (PartState.DONE, ""),
    "b": (PartState.WAITING, ""),
    "c": (PartState.COPYING, ""),
    "d": (PartState.COPYING, StallCause.TARGET_DOWN),
    "e": (PartState.CATCHING_UP, ""),
    "f": (PartState.REJECTED, ""),
    "g": (PartState.SKIPPED, StallCause.NO_SPACE),
    "h": (PartState.REVERTED, ""),
    "i": (PartState.WAITING, StallCause.NO_SPACE),
}


@pytest.fixture
def move_id() -> int:
    move = Move.objects.create(scope=DrainScope(broker=1), actor="alice", comment="test")
    for place, (topic, (state, cause)) in enumerate(reversed(PARTS.items())):
        MovePartition.objects.create(
            move=move,
            topic_id=uuid.UUID(int=place),
            topic_name=topic,
            partition=0,
            before=PlacementBefore((1, 2), 1, (1, 2)),
            replicas_from=[1, 2],
            replicas_to=[3, 2],
            desired_replicas=[3, 2],
            read_generation=1,
            state=state,
            cause=cause,
        )
    return int(move.pk)


def test_blocked_partitions_are_first_then_active_waiting_and_ended_ones_by_name(move_id: int) -> None:
    page = selectors.move_parts(move_id)
    assert ("".join(p.topic for p in page.rows), page.sort) == ("dficebagh", "state")


def test_the_order_by_state_has_pages_by_number_and_by_cursor(move_id: int) -> None:
    numbered = "".join(p.topic for n in (1, 2, 3) for p in selectors.move_parts(move_id, page=n, per_page=4).rows)
    after: PageCursor | None = PageCursor()
    found = ""
    while after is not None:
        page = selectors.part_page(selectors.parts_of_move(move_id), sort="state", page=after, per_page=2)
        found += "".join(p.topic for p in page.rows)
        after = page.window.after
    assert numbered == found == "dficebagh"


def test_the_other_orders_remain_and_a_state_limits_the_partitions(move_id: int) -> None:
    assert "".join(p.topic for p in selectors.move_parts(move_id, sort="topic").rows) == "abcdefghi"
    assert "".join(p.topic for p in selectors.move_parts(move_id, sort="-state").rows) == "aghbcedfi"
    assert "".join(p.topic for p in selectors.move_parts(move_id, state=PartState.WAITING).rows) == "ib"
