"""Undecided half messages of all topics: order, filters, what is missing, limits, and topics that the user does not see."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.access import AclPattern
from controlplane.domain.roles import AccessRole, Grant, RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.models import AlertThreshold, AlertThresholdOverride, TopicMessages
from controlplane.selectors import undecided_half_messages as selectors
from controlplane.selectors.paging import PageCursor
from controlplane.selectors.visibility import seen_by
from tests.unit.controlplane.half_responses import HalfResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> HalfResponses:
    """Topics orders and payments, with the same responses. The messages are older than each threshold."""
    found = patch_responses(monkeypatch, world)
    world.topic("payments", (1, 2))
    world.topic("payments.half", (1, 2), configs={"weir.half.topic": "payments"})
    world.project()
    return found


def topics_partitions_and_offsets(**chosen: object) -> list[tuple[str, int, int]]:
    return [(r.topic, r.partition, r.offset) for r in selectors.undecided_page(**chosen).rows]  # type: ignore[arg-type]


def test_the_oldest_of_all_topics_come_first(responses: HalfResponses) -> None:
    assert topics_partitions_and_offsets() == [
        ("orders", 0, 3),
        ("payments", 0, 3),
        ("orders", 1, 5),
        ("orders", 0, 9),
        ("payments", 0, 9),
    ]
    found = selectors.undecided_page()
    assert (found.undecided, found.searched, found.total, found.partitions_asked, found.missing) == (5, 5, 5, 3, [])
    assert [r.state for r in found.rows] == ["overdue", "overdue", "expiring", "overdue", "overdue"]
    assert (found.rows[1].front_topic, found.rows[1].target) == ("payments.half", "payments-0@3")
    first = selectors.undecided_page(page=PageCursor(), per_page=2)
    assert first.window.after is not None
    assert topics_partitions_and_offsets(page=first.window.after, per_page=2) == [("orders", 1, 5), ("orders", 0, 9)]


def test_filters_by_topic_state_and_id(responses: HalfResponses) -> None:
    assert topics_partitions_and_offsets(topic="PAY") == [("payments", 0, 3), ("payments", 0, 9)]
    assert (
        topics_partitions_and_offsets(state="expiring")
        == topics_partitions_and_offsets(query="c")
        == [("orders", 1, 5)]
    )
    assert (
        topics_partitions_and_offsets(sort="-checks")[0] == ("orders", 1, 5)
        and topics_partitions_and_offsets(topic="nothing") == []
    )


def test_silent_and_skipped_partitions_are_reported(responses: HalfResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    responses.silent = {2}
    found = selectors.undecided_page()
    assert [(m.topic, m.partition, m.problem) for m in found.missing] == [("orders", 1, "it is frozen")]
    monkeypatch.setattr(selectors, "PARTITIONS_MAX", 1)
    TopicMessages.objects.create(
        topic="payments", half_undecided=1, half_oldest_at=timezone.now(), sampled_at=timezone.now()
    )
    found = selectors.undecided_page()
    assert (found.partitions_asked, found.partitions_skipped) == (1, 2)
    assert {r.topic for r in found.rows} == {"payments"}, "the topic whose messages are known to be the oldest"
    monkeypatch.setattr(selectors, "MESSAGES_PER_PARTITION", 1)
    assert selectors.undecided_page().searched == 1


def test_topics_without_a_role_are_neither_asked_nor_listed(
    responses: HalfResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    TopicMessages.objects.create(
        topic="orders", half_undecided=1, half_oldest_at=timezone.now() - timedelta(hours=1), sampled_at=timezone.now()
    )
    grant = Grant(AccessRole.VIEWER, RoleResource.TOPIC, AclPattern.LITERAL, "payments")
    with seen_by(Visibility((grant,))):
        found = selectors.undecided_page()
        assert {r.topic for r in found.rows} == {"payments"} and (found.partitions_asked, found.undecided) == (1, 2)
        assert selectors.overdue_topics() == []
    assert selectors.overdue_topics() == ["orders"]


def test_overdue_follows_the_threshold_of_the_topic(responses: HalfResponses) -> None:
    now = timezone.now()
    for topic, age_s in (("orders", 100), ("payments", 50)):
        oldest = now - timedelta(seconds=age_s)
        TopicMessages.objects.create(topic=topic, half_undecided=1, half_oldest_at=oldest, sampled_at=now)
    assert selectors.overdue_topics() == []
    AlertThresholdOverride.objects.create(name="half_undecided", subject="payments", value=40, changed_by="x")
    assert selectors.overdue_topics() == ["payments"]
    AlertThreshold.objects.create(name="half_undecided", value=90, changed_by="x")
    assert selectors.overdue_topics() == ["orders", "payments"]
