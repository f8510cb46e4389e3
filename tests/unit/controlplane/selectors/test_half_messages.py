"""Undecided half messages of all partitions, oldest first, with the partitions that are missing."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.selectors import half_messages as selectors
from tests.unit.controlplane.half_responses import HalfResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> HalfResponses:
    return patch_responses(monkeypatch, world)


def test_the_oldest_of_all_partitions_come_first(responses: HalfResponses) -> None:
    found = selectors.undecided_messages("orders")
    assert found is not None and found.front_topic == "orders.half" and not found.missing
    assert [(r.partition, r.offset, r.half_id, r.checks, r.expiring) for r in found.rows] == [
        (0, 3, "a", 1, False),
        (1, 5, "c", 15, True),
        (0, 9, "\ufffd", 4, False),
    ]
    assert (found.undecided, found.delivered, found.expired, found.checks_sent) == (3, 14, 2, 40)
    assert found.rows[0].target == "orders-0@3" and found.rows[2].half_id_hex == "ff" and found.rows[0].age_ms >= 0


def test_partitions_without_a_response_are_named(responses: HalfResponses) -> None:
    responses.rejected, responses.silent, responses.blocked = {0}, {2}, ErrorCode.MESSAGE_TOO_LARGE
    found = selectors.undecided_messages("orders")
    assert found is not None and not found.rows and not found.blocked
    assert [(m.partition, m.problem) for m in found.missing] == [
        (0, "Its leader rejected the request: NOT_LEADER_OR_FOLLOWER."),
        (1, "it is frozen"),
    ]
    responses.rejected, responses.silent = set(), set()
    found = selectors.undecided_messages("orders", 1)
    assert found is not None and [(b.partition, b.problem) for b in found.blocked] == [(1, "MESSAGE_TOO_LARGE")]


def test_a_topic_without_half_messages_has_none(responses: HalfResponses, world: World) -> None:
    world.topic("plain", (1, 2))
    world.topic("plain.half", (1, 2))
    world.project()
    assert selectors.undecided_messages("plain") is None and selectors.undecided_messages("nothing") is None
