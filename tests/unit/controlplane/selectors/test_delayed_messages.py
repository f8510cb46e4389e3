"""Pending delayed messages of all partitions, in the order of delivery, with the partitions that are missing."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.domain.errors import Rejected
from controlplane.selectors import delayed_messages as selectors
from tests.unit.controlplane.delayed_responses import HOUR_MS, NOW_MS, DelayedResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DelayedResponses:
    return patch_responses(monkeypatch, world)


def test_metrics_of_all_partitions(responses: DelayedResponses) -> None:
    responses.blocked = ErrorCode.MESSAGE_TOO_LARGE
    found = selectors.delayed_messages("orders")
    assert found is not None and found.front_topic == "orders.delay" and not found.missing
    assert found.pending == 5 == sum(bar.records for bar in found.histogram)
    assert [(p.partition, p.pending, p.delivered, p.blocked) for p in found.partitions] == [
        (0, 4, 7, "MESSAGE_TOO_LARGE"),
        (1, 1, 7, "MESSAGE_TOO_LARGE"),
    ]
    assert found.earliest_at == found.partitions[1].earliest_at


def test_pages_continue_where_the_last_one_ended(responses: DelayedResponses) -> None:
    found, token = [], ""
    for _ in range(9):
        page = selectors.look_up("orders", limit=2, token=token)
        assert page is not None
        found += [(r.partition, r.offset, r.cancelled) for r in page.rows]
        token = page.token
        if page.complete:
            break
    assert found == [(1, 5, False), (0, 3, False), (0, 6, False), (0, 7, True), (0, 4, False)] and not token


def test_a_look_up_by_key_time_and_partition(responses: DelayedResponses) -> None:
    for asked, offsets in (
        ({"key": b"a"}, [3, 4]),
        ({"key": b"a", "from_ms": NOW_MS + 2 * HOUR_MS}, [4]),
        ({"to_ms": NOW_MS + HOUR_MS}, [5]),
        ({"partition": 1}, [5]),
    ):
        page = selectors.look_up("orders", **asked)  # type: ignore[arg-type]
        assert page is not None and [r.offset for r in page.rows] == offsets and page.complete


def test_partitions_without_a_response_are_named(responses: DelayedResponses) -> None:
    responses.rejected, responses.silent = {0}, {2}
    expected = [(0, "Its leader rejected the request: NOT_LEADER_OR_FOLLOWER."), (1, "it is frozen")]
    found, page = selectors.delayed_messages("orders"), selectors.look_up("orders")
    assert found is not None and [(m.partition, m.problem) for m in found.missing] == expected
    assert page is not None and [(m.partition, m.problem) for m in page.missing] == expected
    assert not found.partitions and found.pending == 0 and found.earliest_at is None


def test_arguments_out_of_range_are_rejected(responses: DelayedResponses) -> None:
    for asked, name in (
        ({"limit": 0}, "limit"),
        ({"limit": selectors.ROWS_MAX + 1}, "limit"),
        ({"from_ms": 5, "to_ms": 5}, "from_ms"),
        ({"key": b"k" * (selectors.KEY_BYTES_MAX + 1)}, "key"),
        ({"partition": 9}, "partition"),
        ({"token": "x"}, "token"),
    ):
        with pytest.raises(Rejected) as rejection:
            selectors.look_up("orders", **asked)  # type: ignore[arg-type]
        assert rejection.value.field == name


def test_a_topic_without_delayed_messages_has_none(responses: DelayedResponses, world: World) -> None:
    world.topic("plain.delay", (1, 2))
    world.project()
    assert selectors.delayed_messages("plain") is None and selectors.look_up("plain") is None
