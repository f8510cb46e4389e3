"""Safety rules that two operators can override: the shown effects, the execution, and proposals that are no longer allowed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.models import Broker, Change
from controlplane.services import Rejected, overrides, proposals
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world_with_offline_partition(world: World) -> World:
    world.topic("orders", (1, 2, 3))
    world.offline("orders", 0)
    world.down(1)
    return world


@pytest.mark.parametrize(
    ("response", "outcome", "state"),
    [
        (True, "confirmed", "done"),
        (False, "unchanged", "done"),
        (NoResponse("gone"), "unknown", "failed"),
        (Declined("no"), "refused", "failed"),
    ],
)
def test_an_unclean_election_requested_by_two_people_reaches_the_controller(
    world_with_offline_partition: World, monkeypatch: pytest.MonkeyPatch, response: Any, outcome: str, state: str
) -> None:
    asked = []

    def elect(topic: str, partition: int) -> bool:
        asked.append((topic, partition))
        if isinstance(response, Exception):
            raise response
        return bool(response)

    monkeypatch.setattr(kafka, "elect_uncleanly", elect)
    row = proposals.propose("election.unclean", "orders-0", actor="alice", comment="broker 1 burnt")
    assert "in-sync replicas 1 is alive" in row.shown["lines"][0] and row.shown["facts"]["alive"] == [2, 3]
    assert asked == []
    assert proposals.approve(row.pk, actor="bea").state == state
    assert asked == [("orders", 0)]
    assert Change.objects.get(verb="topic.elect").outcome == outcome
    assert Change.objects.get(verb="proposal.propose").outcome == outcome


def test_an_unclean_election_says_until_when_the_console_knows_the_records(world_with_offline_partition: World) -> None:
    """500 records that the last leader had acknowledged in its last second were lost, and the request said "0 of 1038 known records"."""
    Broker.objects.filter(broker_id=1).update(sampled_at=datetime(2026, 11, 29, 7, 30, 38, tzinfo=UTC))
    row = proposals.propose("election.unclean", "orders-0", actor="alice", comment="broker 1 burnt")
    assert "last response to the console, 2026-11-29 07:30:38 UTC" in row.shown["lines"][-1]
    assert "brokers [1]" in row.shown["lines"][-1]


def test_an_election_is_not_approved_if_a_clean_leader_is_available(
    world_with_offline_partition: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "elect_uncleanly", lambda *a: pytest.fail("elected"))
    row = proposals.propose("election.unclean", "orders-0", actor="alice", comment="broker 1 burnt")
    world_with_offline_partition.down(2)
    with pytest.raises(Rejected, match=r"alive was \[2, 3\], now \[3\]"):
        proposals.approve(row.pk, actor="bea")
    world_with_offline_partition.put("orders", 0, isr=(3,), leader=3, leader_broker_epoch=103)
    with pytest.raises(Rejected, match="has leader 3"):
        proposals.approve(row.pk, actor="bea")


def test_every_kind_of_proposal_can_be_shown_and_carried_out() -> None:
    for name, kind in overrides.KINDS.items():
        assert kind.label and callable(kind.show) and callable(kind.carry_out), name


@pytest.mark.parametrize("facts", [{}, {"deleted_below": None}, {"deleted_below": {"flights-0": "500"}}])
def test_a_deletion_without_offsets_in_its_facts_is_rejected(facts: dict[str, object]) -> None:
    with pytest.raises(Rejected, match="does not say which records"):
        overrides._deleted_below(facts)
    assert overrides._deleted_below({"deleted_below": {"flights-0": 500}}) == {"flights-0": 500}
