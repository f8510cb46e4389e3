"""The preview of an election of preferred leaders, and the counts of the overview."""

from __future__ import annotations

import pytest

from controlplane.models import Broker, ObservedPartition
from controlplane.selectors import leader_elections as selectors
from controlplane.selectors.leader_elections import election_preview, live_brokers
from controlplane.selectors.overview import overview
from controlplane.selectors.topics import topic_row
from controlplane.services import brokers
from tests.unit.controlplane.election_responses import electing
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    electing(monkeypatch, found)
    return found


def verdicts(topic: str = "", partition: int | None = None) -> dict[str, str]:
    preview = election_preview(topic, partition)
    assert preview is not None
    return {f"{r.topic}-{r.index}": r.verdict for r in preview.rows}


def test_a_topic_names_the_change_or_the_reason_of_each_partition(world: World) -> None:
    preview = election_preview("orders")
    assert preview is not None
    assert [(r.index, r.leader, r.preferred, r.verdict) for r in preview.rows] == [
        (0, 2, 1, "electable"),
        (1, 2, 3, "electable"),
        (2, 2, 1, "not_in_isr"),
    ]
    assert (preview.electable, preview.blocked_total, preview.partitions_more) == (2, 1, 0)
    assert preview.rows[2].reason == "The replica on broker 1 is not in the ISR." and preview.age_s is not None
    assert verdicts("orders", 3) == {"orders-3": "preferred_leads"}
    assert election_preview("none") is None and election_preview("orders", 9) is None


def test_the_cluster_contains_all_topics_and_partitions_without_a_leader_are_not_counted(world: World) -> None:
    world.topic("clicks", (3, 1), (2, 1))
    world.put("clicks", 0, leader=1, leader_broker_epoch=101)
    world.offline("clicks", 1)
    assert set(verdicts()) == {"clicks-0", "orders-0", "orders-1", "orders-2"}
    assert verdicts("clicks", 1) == {"clicks-1": "no_leader"}
    assert overview().not_preferred == 4 and topic_row("clicks").not_preferred == 1  # type: ignore[union-attr]
    assert ObservedPartition.objects.filter(leader_not_preferred=True).count() == 4


def test_a_dead_or_demoted_broker_is_the_reason(world: World) -> None:
    brokers.demote(1, actor="alice")
    world.apply_rows()
    assert verdicts("orders", 0) == {"orders-0": "leadership_disabled"}
    world.down(3)
    assert verdicts("orders", 1) == {"orders-1": "broker_offline"}
    assert [b.broker_id for b in live_brokers()] == [1, 2]


def test_an_early_hand_over_is_a_reason(world: World) -> None:
    world.put("orders", 0, adding=(1,), handover_offset=40, history_replicas=(2,))
    assert verdicts("orders", 0) == {"orders-0": "handing_over"}


def test_a_large_cluster_is_elected_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "CONSIDERED_MAX", 2)
    preview = election_preview()
    assert preview is not None and (len(preview.rows), preview.partitions_more) == (2, 1)


def test_brokers_that_did_not_respond_are_asked_last(world: World) -> None:
    Broker.objects.filter(pk=1).update(answered=False)
    assert [b.broker_id for b in live_brokers()] == [2, 3, 1]
