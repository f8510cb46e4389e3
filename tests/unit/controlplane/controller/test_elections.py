"""Elections that a client requests: the new leader, the response, and the records in the metadata log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from brokerd.cluster import election
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerUp, PartitionChanged, RequestCompleted, TopicCreated, TopicReady
from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER, Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import IsrProposal, Registration
from controlplane.controller.core import PREFERRED_EVERY_MS, Core
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    Deposed,
    DesiredRead,
    Elected,
    IsrProposed,
    LogEntryAppended,
    LoggedChange,
    Report,
    Requested,
)
from controlplane.controller.reconcile_pass import ReconcilePass
from tests.unit.stored_requests import forwarded_request

TOPIC = UUID(int=7)
NOW = Now(1_000, 2_000)
ALL = (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 102), ReplicaIncarnation(3, 103))
LED_BY_2 = PartitionState((1, 2, 3), ALL, 2, 102, 5, 9)
LOST = PartitionState((3, 1, 2), (), NO_LEADER, NO_BROKER_EPOCH, 5, 9, last_isr=(3,))
"""Broker 3 was the last in sync; its tail is lost or the broker is offline."""


class CoreHarness:
    """An active controller of partitions 0, 1, .. of topic `t`, with `alive` brokers."""

    def __init__(self, *states: PartitionState, alive: tuple[int, ...] = (1, 2, 3)) -> None:
        self.image, self.now = Image(cluster_id="c"), NOW
        for b in alive:
            self.image.apply(BrokerUp(b, 100 + b, f"u{b}", "h", b))
        self.image.apply(TopicCreated(TOPIC, "t", 1, {}, len(states)))
        for i, state in enumerate(states):
            self.image.apply(PartitionChanged(TOPIC, i, state))
        self.image.apply(TopicReady(TOPIC))
        self.core = Core(self.image, "c")
        self.core.handle(Elected(1), NOW)
        self.core.handle(DesiredRead(complete=True), NOW)
        self.core.handle(
            BrokersSeen({b: Registration(b, f"u{b}", "h", b, None, None, True, None, 100 + b) for b in alive}), NOW
        )
        self.core.in_flight = False

    def request_election(self, *partitions: int, unclean: bool = False, topic: str = "t") -> list[Any]:
        payload = {
            "unclean": unclean,
            "principal": "User:ann",
            "topics": [{"name": topic, "partitions": [*partitions]}],
        }
        return self.core.handle(Requested(forwarded_request("r", 1, 101, "elect_leaders", payload)), NOW)

    def apply_appended(self, effects: list[Any]) -> list[Any]:
        """Apply the records that are appended to the log. Returns the effects."""
        (append,) = [e for e in effects if isinstance(e, AppendMetadata)]
        for record in append.records:
            self.image.apply(record)
        self.image.validate()
        return self.core.handle(LogEntryAppended(append.records), self.now)

    def leader(self, index: int = 0) -> int:
        state = self.image.partition(TopicPartition(TOPIC, index))
        assert state is not None
        return state.leader


def verdicts(effects: list[Any]) -> list[list[int]]:
    (append,) = [e for e in effects if isinstance(e, AppendMetadata)]
    assert append.completed == ("r",)
    (response,) = [r for r in append.records if isinstance(r, RequestCompleted)]
    (result,) = response.result["results"]
    return list(result["partitions"])


def test_a_preferred_election_is_immediate_and_answered_in_the_entry_of_its_effect() -> None:
    core_harness = CoreHarness(
        LED_BY_2, replace(LED_BY_2, leader=1, leader_broker_epoch=101), replace(LED_BY_2, isr=ALL[1:])
    )
    effects = core_harness.request_election(0, 1, 2, 9)
    assert verdicts(effects) == [[0, 0], [1, 84], [2, 80], [9, 3]]
    core_harness.apply_appended(effects)
    assert [core_harness.leader(i) for i in range(3)] == [1, 1, 2]
    state = core_harness.image.topics[TOPIC].partitions[0]
    assert (state.leader_broker_epoch, state.leader_epoch, state.isr) == (101, 6, ALL)


def test_a_broker_in_controlled_shutdown_is_not_elected() -> None:
    core_harness = CoreHarness(LED_BY_2)
    core_harness.core.leaving.add(ALL[0])
    assert verdicts(core_harness.request_election(0)) == [[0, 80]]


def test_an_unclean_election_needs_a_leaderless_partition_and_its_loss_is_reported() -> None:
    core_harness = CoreHarness(LOST, LED_BY_2, alive=(1, 2))
    effects = core_harness.request_election(0, 1, unclean=True)
    assert verdicts(effects) == [[0, 0], [1, 84]]
    (report,) = [e for e in effects if isinstance(e, Report)]
    assert (report.kind, report.text) == (
        "unclean",
        "unclean leader election: broker 1 was elected; records that only [3] had are lost",
    )
    core_harness.apply_appended(effects)
    state = core_harness.image.topics[TOPIC].partitions[0]
    assert (state.leader, state.isr, state.last_isr, state.leader_epoch) == (1, (ReplicaIncarnation(1, 101),), (), 6)


def test_an_automatic_unclean_election_has_a_change_row() -> None:
    """Without a row only the log of the controller would have it. A requested election has the row of its request."""
    config = {"unclean.leader.election.enable": "true"}
    core_harness = CoreHarness(LOST, replace(LED_BY_2, leader=NO_LEADER), replace(LOST, last_isr=(2,)), alive=(1, 2))
    core_harness.image.topics[TOPIC].configs = config
    effects = core_harness.core.handle(DesiredRead(), NOW)
    (report,) = [e for e in effects if isinstance(e, Report)]
    assert report.subject.partition == 0, "the others have a complete replica"
    (made,) = [e for e in core_harness.apply_appended(effects) if isinstance(e, LoggedChange)]
    assert made == LoggedChange(
        "controller",
        "topic.elect_unclean_automatically",
        "topic",
        "t",
        before={"0": {"leader": -1, "isr": [3]}},
        after={"0": {"leader": 1, "isr": [1]}},
        detail="unclean.leader.election.enable=true",
    )
    core_harness = CoreHarness(LOST, alive=(1, 2))
    made_by_request = core_harness.apply_appended(core_harness.request_election(0, unclean=True))
    assert [e.verb for e in made_by_request if isinstance(e, LoggedChange)] == ["topic.elect-unclean"]


def test_without_a_live_replica_no_leader_is_elected() -> None:
    core_harness = CoreHarness(LOST, alive=())
    assert verdicts(core_harness.request_election(0, unclean=True)) == [[0, 83]]


def test_a_preferred_election_of_a_leaderless_partition_loses_no_record() -> None:
    core_harness = CoreHarness(LOST, alive=(1, 2))
    assert verdicts(core_harness.request_election(0)) == [[0, 80]]
    assert core_harness.leader() == NO_LEADER


def test_an_early_hand_over_keeps_its_leader_with_the_full_history() -> None:
    state = replace(LED_BY_2, adding=(1,), removing=(3,), handover_offset=40, history_replicas=(2, 3))
    core_harness = CoreHarness(state)
    assert verdicts(core_harness.request_election(0)) == [[0, 80]]
    assert core_harness.leader() == 2


def test_an_unclean_election_chooses_an_adding_replica_last() -> None:
    state = replace(LOST, replicas=(4, 1, 3), adding=(4,), removing=(3,))
    elected = election.elect_leader(state, {1: 101, 4: 104}.get, min_insync=1, unclean=True)
    assert elected is not None
    assert elected.leader == 1
    alone = election.elect_leader(state, {4: 104}.get, min_insync=1, unclean=True)
    assert alone is not None
    assert alone.leader == 4


def test_a_change_row_is_requested_after_the_log_has_the_election() -> None:
    core_harness = CoreHarness(LED_BY_2)
    effects = core_harness.request_election(0)
    assert not [e for e in effects if isinstance(e, LoggedChange)]
    (made,) = [e for e in core_harness.apply_appended(effects) if isinstance(e, LoggedChange)]
    assert made == LoggedChange(
        "User:ann at broker 1", "topic.elect-preferred", "topic", "t", before={"0": 2}, after={"0": 1}
    )
    assert not [e for e in core_harness.core.handle(LogEntryAppended(()), NOW) if isinstance(e, LoggedChange)], (
        "reported one time"
    )


def test_a_rejected_election_has_a_change_row_and_an_unneeded_one_has_none() -> None:
    core_harness = CoreHarness(replace(LED_BY_2, isr=ALL[1:]))
    (made,) = [e for e in core_harness.apply_appended(core_harness.request_election(0)) if isinstance(e, LoggedChange)]
    assert made.rejected
    assert "80" in made.detail
    core_harness = CoreHarness(replace(LED_BY_2, leader=1, leader_broker_epoch=101))
    assert not [e for e in core_harness.apply_appended(core_harness.request_election(0)) if isinstance(e, LoggedChange)]


def test_an_election_that_a_deposed_controller_did_not_log_has_no_change_row() -> None:
    core_harness = CoreHarness(LED_BY_2)
    core_harness.request_election(0)
    core_harness.core.handle(Deposed("another acts"), NOW)
    core_harness.core.handle(Elected(3), NOW)
    assert not [e for e in core_harness.core.handle(LogEntryAppended(()), NOW) if isinstance(e, LoggedChange)]


def test_a_preferred_leader_whose_isr_growth_is_accepted_in_the_same_pass_is_no_unclean_election() -> None:
    core_harness = CoreHarness(replace(LED_BY_2, isr=ALL[1:]))
    grown = IsrProposed(2, 102, (IsrProposal(TOPIC, 0, 5, 9, (*ALL[1:], ALL[0])),))
    core_harness.core.in_flight = True
    core_harness.core.handle(grown, NOW)
    core_harness.core.in_flight = False
    effects = core_harness.core.handle(DesiredRead(), Now(NOW.mono_ms + PREFERRED_EVERY_MS, NOW.wall_ms))
    assert [e for e in effects if isinstance(e, Report)] == []
    core_harness.apply_appended(effects)
    state = core_harness.image.topics[TOPIC].partitions[0]
    assert (state.leader, set(state.isr)) == (1, set(ALL)), "the growth and the election were not decided together"


def test_an_unclean_election_after_another_change_of_the_same_pass_is_reported() -> None:
    """The image still has broker 1 in the ISR. The current pass removed it before the election."""
    core_harness = CoreHarness(replace(LED_BY_2, isr=ALL[:2]))
    look = ReconcilePass(core_harness.image, core_harness.core.registrations or {}, set(), {}, {})
    tp = TopicPartition(TOPIC, 0)
    offline = replace(LED_BY_2, isr=(), last_isr=(2,), leader=NO_LEADER, leader_broker_epoch=NO_BROKER_EPOCH)
    look.put(tp, offline)
    assert look.effects == []
    look.put(tp, replace(offline, isr=ALL[:1], last_isr=(), leader=1, leader_broker_epoch=101, leader_epoch=6))
    assert [(e.kind, e.text) for e in look.effects if isinstance(e, Report)] == [
        ("unclean", "unclean leader election: broker 1 was elected; records that only [2] had are lost")
    ]
