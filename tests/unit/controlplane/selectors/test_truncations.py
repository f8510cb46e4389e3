"""Truncations of a partition: known losses of acknowledged records, and the approved election before them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import Change, Proposal, ReplicaTruncation
from controlplane.selectors import truncations
from tests.unit.controlplane.world import World

NOW = timezone.now()


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("flights", (1, 2))


def create_truncation(first: int, end: int, high_watermark: int, minutes_ago: int) -> None:
    ReplicaTruncation.objects.create(
        topic_id="00000000-0000-0000-0000-000000000001",
        topic_name="flights",
        partition=0,
        broker_id=2,
        first_offset=first,
        end_offset=end,
        high_watermark=high_watermark,
        leader_epoch=3,
        truncated_at=NOW - timedelta(minutes=minutes_ago),
    )


def election(minutes_ago: int, target: str = "flights-0", state: str = "done") -> int:
    at = NOW - timedelta(minutes=minutes_ago)
    return Proposal.objects.create(
        kind="election.unclean", target=target, shown={}, shown_hash="", state=state, expires_at=at, decided_at=at
    ).pk


@pytest.mark.parametrize(
    ("high_watermark", "acknowledged"), [(500, 0), (538, 0), (539, 1), (1_000, 462), (1_038, 500), (2_000, 500)]
)
def test_records_below_the_high_watermark_were_acknowledged(high_watermark: int, acknowledged: int) -> None:
    create_truncation(538, 1_038, high_watermark, 1)
    (row,) = truncations.partition_truncations("flights", 0)
    assert (row.first_offset, row.last_offset, row.records, row.acknowledged) == (538, 1_037, 500, acknowledged)
    assert row.is_recent_loss is (acknowledged > 0)
    assert truncations.partition_truncations("flights", 1) == []


def test_a_loss_names_the_last_approved_election_before_it() -> None:
    create_truncation(538, 1_038, 1_038, 10)
    assert truncations.partition_truncations("flights", 0)[0].approval_request is None
    election(30)
    before = election(20)
    election(5)
    election(15, target="flights-1")
    election(15, state="rejected")
    assert truncations.partition_truncations("flights", 0)[0].approval_request == before


def test_the_first_truncation_after_an_election_is_its_effect_and_later_ones_are_usual() -> None:
    """The high watermark on the disk of a killed leader is some seconds old: it does not know that the records were acknowledged."""
    request = election(20)
    create_truncation(1, 9, 1, 30)
    create_truncation(10, 19, 10, 10)
    create_truncation(20, 29, 20, 5)
    found = {row.first_offset: row for row in truncations.partition_truncations("flights", 0)}
    assert {first: row.approval_request for first, row in found.items()} == {1: None, 10: request, 20: None}
    assert found[10].is_recent_loss and not found[20].is_recent_loss
    at = NOW - timedelta(minutes=20)
    assert [r.first_offset for r in truncations.truncations_after_election("flights", 0, at, request)] == [10]
    assert truncations.truncations_after_election("flights", 0, at, request + 1) == []


def test_a_truncation_after_an_automatic_election_names_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica deletes its records before the controller has written the row. Other partitions of the topic had no election."""
    create_truncation(10, 19, 10, 10)
    create_truncation(20, 29, 20, 5)
    recorded = NOW - timedelta(minutes=10) + timedelta(seconds=5)
    monkeypatch.setattr("django.db.models.fields.timezone.now", lambda: recorded)
    for index in (1, 0):
        change = Change.objects.create(
            actor="controller",
            verb="topic.elect_unclean_automatically",
            object_kind="topic",
            object_name="flights",
            outcome="confirmed",
            after={str(index): {"leader": 2, "isr": [2]}},
        )
    own = change.pk
    monkeypatch.undo()
    found = {r.first_offset: r for r in truncations.partition_truncations("flights", 0)}
    assert {first: row.automatic_election for first, row in found.items()} == {10: own, 20: None}
    assert found[10].is_recent_loss and found[10].approval_request is None and not found[20].is_recent_loss


def test_a_loss_is_shown_first_for_some_days_only() -> None:
    create_truncation(538, 1_038, 1_038, 8 * 24 * 60)
    (row,) = truncations.partition_truncations("flights", 0)
    assert row.acknowledged == 500 and not row.is_recent_loss
