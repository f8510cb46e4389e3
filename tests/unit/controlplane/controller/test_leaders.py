"""Placement and leader elections with cordoned and demoted brokers."""

from __future__ import annotations

from brokerd.cluster.cordons import CORDONED, LEADERSHIP
from brokerd.cluster.metadata import BrokerConfigChanged, PartitionChanged, TopicCreated
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation
from controlplane.controller.events import AppendMetadata, ControllerTick, DesiredRead, DesiredTopic, Report
from tests.unit.controlplane.controller.test_elections import ALL, NOW, TOPIC, CoreHarness

LED_BY_1 = PartitionState((1, 2, 3), ALL, 1, 101, 5, 9)
LATER = Now(NOW.mono_ms + 10_000, NOW.wall_ms + 10_000)


def set_aside(core_harness: CoreHarness, broker_id: int, name: str, value: str) -> None:
    core_harness.image.apply(BrokerConfigChanged(broker_id, 1, {name: value}))


def leaders(effects: list[object]) -> list[int]:
    records = [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]
    return [r.state.leader for r in records if isinstance(r, PartitionChanged)]


def run_tick(core_harness: CoreHarness) -> list[object]:
    core_harness.core.in_flight, core_harness.core._dirty = False, True
    return list(core_harness.core.handle(ControllerTick(), LATER))


def test_a_demoted_broker_loses_its_leaderships_and_gets_none_back() -> None:
    core_harness = CoreHarness(LED_BY_1)
    set_aside(core_harness, 1, LEADERSHIP, "false")
    effects = run_tick(core_harness)
    assert leaders(effects) == [2]
    (moved,) = [
        r.state for e in effects if isinstance(e, AppendMetadata) for r in e.records if isinstance(r, PartitionChanged)
    ]
    assert (moved.isr, moved.replicas) == (ALL, (1, 2, 3)), "it stays in sync, and first of the replicas"
    for e in effects:
        if isinstance(e, AppendMetadata):
            for record in e.records:
                core_harness.image.apply(record)
    assert leaders(run_tick(core_harness)) == [], (
        "the first of the replicas is preferred, and is not elected all the same"
    )
    set_aside(core_harness, 1, LEADERSHIP, "true")
    core_harness.core.preferred_at_ms = 0
    assert leaders(run_tick(core_harness)) == [1]


def test_a_demoted_broker_keeps_leading_as_the_only_in_sync_replica() -> None:
    core_harness = CoreHarness(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), 1, 101, 5, 9))
    set_aside(core_harness, 1, LEADERSHIP, "false")
    assert leaders(run_tick(core_harness)) == []


def test_a_leaderless_partition_elects_a_demoted_broker_only_without_another_candidate() -> None:
    leaderless = PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101), ReplicaIncarnation(3, 103)), -1, -1, 5, 9)
    core_harness = CoreHarness(leaderless, alive=(1, 3))
    set_aside(core_harness, 1, LEADERSHIP, "false")
    assert leaders(run_tick(core_harness)) == [3]
    alone = CoreHarness(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), -1, -1, 5, 9), alive=(1,))
    set_aside(alone, 1, LEADERSHIP, "false")
    assert leaders(run_tick(alone)) == [1]


def test_a_demoted_isr_member_is_elected_before_the_elr() -> None:
    core_harness = CoreHarness(PartitionState((1, 2, 3), (ReplicaIncarnation(1, 101),), -1, -1, 5, 9, elr=(2,)))
    set_aside(core_harness, 1, LEADERSHIP, "false")
    assert leaders(run_tick(core_harness)) == [1], "2 may lack what 1 acknowledged"


def test_a_preferred_election_of_a_demoted_broker_is_rejected_as_not_available() -> None:
    core_harness = CoreHarness(PartitionState((1, 2, 3), ALL, 2, 102, 5, 9))
    set_aside(core_harness, 1, LEADERSHIP, "false")
    effects = core_harness.request_election(0)
    assert leaders(effects) == []


def test_a_new_topic_has_no_replica_on_a_cordoned_broker() -> None:
    core_harness = CoreHarness(LED_BY_1)
    set_aside(core_harness, 2, CORDONED, "*")
    new = DesiredTopic(TOPIC.__class__(int=8), "new", 1, False, 4, 2)
    effects = core_harness.core.handle(DesiredRead((new,)), NOW)
    records = [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]
    assert any(isinstance(r, TopicCreated) for r in records)
    placed = [r.state.replicas for r in records if isinstance(r, PartitionChanged) and r.topic_id != TOPIC]
    assert len(placed) == 4 and not any(2 in replicas for replicas in placed)
    more = DesiredTopic(TOPIC.__class__(int=9), "three", 1, False, 1, 3)
    core_harness.core.in_flight = False
    reported = core_harness.core.handle(DesiredRead((more,)), NOW)
    assert any(isinstance(e, Report) and "larger than the number of available brokers, 2" in e.text for e in reported)
