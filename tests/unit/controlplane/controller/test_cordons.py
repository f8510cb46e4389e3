"""Placement and leader elections with cordoned and demoted brokers."""

from __future__ import annotations

from brokerd.cluster.cordons import CORDONED, LEADERSHIP
from brokerd.cluster.metadata import BrokerConfigChanged, PartitionChanged, TopicCreated
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation
from controlplane.controller.events import AppendMetadata, ControllerTick, DesiredRead, DesiredTopic, Report
from tests.unit.controlplane.controller.test_elections import ALL, NOW, TOPIC, Desk

LED_BY_1 = PartitionState((1, 2, 3), ALL, 1, 101, 5, 9)
LATER = Now(NOW.mono_ms + 10_000, NOW.wall_ms + 10_000)


def set_aside(desk: Desk, broker_id: int, name: str, value: str) -> None:
    desk.image.apply(BrokerConfigChanged(broker_id, 1, {name: value}))


def leaders(effects: list[object]) -> list[int]:
    records = [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]
    return [r.state.leader for r in records if isinstance(r, PartitionChanged)]


def look(desk: Desk) -> list[object]:
    desk.core.in_flight, desk.core._dirty = False, True
    return list(desk.core.handle(ControllerTick(), LATER))


def test_a_demoted_broker_loses_its_leaderships_and_gets_none_back() -> None:
    desk = Desk(LED_BY_1)
    set_aside(desk, 1, LEADERSHIP, "false")
    effects = look(desk)
    assert leaders(effects) == [2]
    (moved,) = [
        r.state for e in effects if isinstance(e, AppendMetadata) for r in e.records if isinstance(r, PartitionChanged)
    ]
    assert (moved.isr, moved.replicas) == (ALL, (1, 2, 3)), "it stays in sync, and first of the replicas"
    for e in effects:
        if isinstance(e, AppendMetadata):
            for record in e.records:
                desk.image.apply(record)
    assert leaders(look(desk)) == [], "the first of the replicas is preferred, and is not elected all the same"
    set_aside(desk, 1, LEADERSHIP, "true")
    desk.core.preferred_at_ms = 0
    assert leaders(look(desk)) == [1]


def test_a_demoted_broker_keeps_leading_as_the_only_in_sync_replica() -> None:
    desk = Desk(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), 1, 101, 5, 9))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == []


def test_a_leaderless_partition_elects_a_demoted_broker_only_without_another_candidate() -> None:
    leaderless = PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101), ReplicaIncarnation(3, 103)), -1, -1, 5, 9)
    desk = Desk(leaderless, alive=(1, 3))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == [3]
    alone = Desk(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), -1, -1, 5, 9), alive=(1,))
    set_aside(alone, 1, LEADERSHIP, "false")
    assert leaders(look(alone)) == [1]


def test_a_demoted_isr_member_is_elected_before_the_elr() -> None:
    desk = Desk(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), -1, -1, 5, 9, elr=(2,)))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == [1], "2 may lack what 1 acknowledged"


def test_a_preferred_election_of_a_demoted_broker_is_rejected_as_not_available() -> None:
    desk = Desk(PartitionState((1, 2, 3), ALL, 2, 102, 5, 9))
    set_aside(desk, 1, LEADERSHIP, "false")
    effects = desk.ask(0)
    assert leaders(effects) == []


def test_a_new_topic_has_no_replica_on_a_cordoned_broker() -> None:
    desk = Desk(LED_BY_1)
    set_aside(desk, 2, CORDONED, "*")
    new = DesiredTopic(TOPIC.__class__(int=8), "new", 1, False, 4, 2)
    effects = desk.core.handle(DesiredRead((new,)), NOW)
    records = [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]
    assert any(isinstance(r, TopicCreated) for r in records)
    placed = [r.state.replicas for r in records if isinstance(r, PartitionChanged) and r.topic_id != TOPIC]
    assert len(placed) == 4 and not any(2 in replicas for replicas in placed)
    more = DesiredTopic(TOPIC.__class__(int=9), "three", 1, False, 1, 3)
    desk.core.in_flight = False
    reported = desk.core.handle(DesiredRead((more,)), NOW)
    assert any(isinstance(e, Report) and "larger than the number of available brokers, 2" in e.text for e in reported)
