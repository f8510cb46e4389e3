"""Brokers that are set aside: what the controller does about it."""

from __future__ import annotations

from brokerd.cluster.cordons import CORDONED, LEADERSHIP
from brokerd.cluster.metadata import BrokerConfigChanged, PartitionChanged, TopicCreated
from brokerd.cluster.model import Now, PartitionState, Seat
from controlplane.controller.events import AppendMetadata, DesiredRead, DesiredTopic, Report, Tick
from tests.unit.controlplane.test_elections_core import ALL, NOW, TOPIC, Desk

LED_BY_1 = PartitionState((1, 2, 3), ALL, 1, 101, 5, 9)
LATER = Now(NOW.mono_ms + 10_000, NOW.wall_ms + 10_000)


def set_aside(desk: Desk, broker_id: int, name: str, value: str) -> None:
    desk.image.apply(BrokerConfigChanged(broker_id, 1, {name: value}))


def leaders(effects: list[object]) -> list[int]:
    records = [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]
    return [r.state.leader for r in records if isinstance(r, PartitionChanged)]


def look(desk: Desk) -> list[object]:
    desk.core.in_flight, desk.core._stirred = False, True
    return list(desk.core.handle(Tick(), LATER))


def test_leadership_leaves_a_broker_that_it_was_taken_from_and_does_not_come_back() -> None:
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


def test_who_alone_is_in_sync_keeps_leading_whatever_is_set() -> None:
    desk = Desk(PartitionState((1, 2, 3), (Seat(1, 101),), 1, 101, 5, 9))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == []


def test_a_partition_without_a_leader_prefers_who_is_not_set_aside_and_takes_who_is_before_nobody() -> None:
    leaderless = PartitionState((1, 2, 3), (Seat(1, 101), Seat(3, 103)), -1, -1, 5, 9)
    desk = Desk(leaderless, alive=(1, 3))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == [3]
    alone = Desk(PartitionState((1, 2, 3), (Seat(1, 101),), -1, -1, 5, 9), alive=(1,))
    set_aside(alone, 1, LEADERSHIP, "false")
    assert leaders(look(alone)) == [1]


def test_the_elr_is_not_asked_while_a_broker_of_the_isr_that_is_set_aside_lives() -> None:
    desk = Desk(PartitionState((1, 2, 3), (Seat(1, 101),), -1, -1, 5, 9, elr=(2,)))
    set_aside(desk, 1, LEADERSHIP, "false")
    assert leaders(look(desk)) == [1], "2 may lack what 1 acknowledged"


def test_a_client_is_told_that_such_a_preferred_leader_is_not_available() -> None:
    desk = Desk(PartitionState((1, 2, 3), ALL, 2, 102, 5, 9))
    set_aside(desk, 1, LEADERSHIP, "false")
    effects = desk.ask(0)
    assert leaders(effects) == []


def test_a_new_topic_goes_nowhere_near_a_cordoned_broker() -> None:
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
    told = desk.core.handle(DesiredRead((more,)), NOW)
    assert any(isinstance(e, Report) and "larger than the 2 brokers" in e.text for e in told)
