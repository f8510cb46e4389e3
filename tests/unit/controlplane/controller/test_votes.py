"""Votes in the controller: which reports count, how long a vote waits, and which changes of a partition start one (decision 102)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster.cordons import LEADERSHIP
from brokerd.cluster.majority import start_vote
from brokerd.cluster.model import NO_LEADER, Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.requests import NewTopic
from brokerd.cluster.znodes import LogEndReport, Registration
from brokerd.wire.errors import ErrorCode
from controlplane.controller import partition_changes, request_validation
from controlplane.controller.core import PREFERRED_EVERY_MS as CHECK_MS
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    ControllerTick,
    Event,
    IsrProposed,
    ReplicasOffline,
)
from controlplane.controller.votes import PREFERRED_EVERY_MS, WAIT_MS_MAX
from tests.unit.controlplane.controller.test_elections import ALL, TOPIC, CoreHarness, verdicts

TP = TopicPartition(TOPIC, 0)
LED = PartitionState((1, 2, 3), ALL, 1, 101, 5, 9, voters=(1, 2, 3))
VOTE = start_vote(LED)


class VoteHarness(CoreHarness):
    """A controller of one partition with majority acknowledgements. Its records are applied at once."""

    def __init__(self, state: PartitionState, alive: tuple[int, ...] = (1, 2, 3)) -> None:
        super().__init__(state, alive=alive)

    def apply(self, effects: list[object]) -> None:
        while any(isinstance(e, AppendMetadata) for e in effects):
            effects = self.apply_appended(effects)

    def deliver(self, event: Event) -> PartitionState:
        self.apply(self.core.handle(event, self.now))
        return self.state

    def reports(
        self, broker_id: int, log_end: int, last_epoch: int = 5, *, broker_epoch: int = 0, vote: int = 6
    ) -> int:
        report = LogEndReport(*TP, vote, last_epoch, log_end)
        return self.deliver(IsrProposed(broker_id, broker_epoch or 100 + broker_id, (), log_ends=(report,))).leader

    def advance(self, ms: int) -> PartitionState:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        return self.deliver(ControllerTick())

    def lose_brokers(self, *brokers: int) -> PartitionState:
        seen = {b: r for b, r in (self.core.registrations or {}).items() if b not in brokers}
        return self.deliver(BrokersSeen(seen))

    @property
    def state(self) -> PartitionState:
        state = self.image.partition(TP)
        assert state is not None
        return state


def test_a_dead_leader_is_replaced_when_enough_electors_have_reported() -> None:
    harness = VoteHarness(LED)
    vote = harness.lose_brokers(1)
    assert (vote.leader, vote.leader_epoch, vote.isr_ids, vote.elr) == (NO_LEADER, 6, (2, 3), (1,))
    assert harness.reports(2, 100) == NO_LEADER
    assert harness.reports(3, 120) == 3
    assert (harness.state.leader_epoch, harness.state.isr_ids) == (7, (2, 3))


@pytest.mark.parametrize(
    "invalid", [{"broker_epoch": 7}, {"vote": 5}, {"vote": 7}], ids=["incarnation", "earlier vote", "later vote"]
)
def test_a_report_of_another_incarnation_or_vote_does_not_count(invalid: dict[str, int]) -> None:
    harness = VoteHarness(VOTE, alive=(2, 3))
    assert harness.reports(2, 100) == NO_LEADER
    assert harness.reports(3, 120, **invalid) == NO_LEADER
    assert harness.reports(3, 120) == 3


def test_a_report_of_an_offline_replica_does_not_count() -> None:
    harness = VoteHarness(VOTE, alive=(2, 3))
    harness.deliver(ReplicasOffline(3, 103, frozenset({TP})))
    assert harness.reports(3, 120) == NO_LEADER and harness.reports(2, 100) == NO_LEADER


def test_a_vote_waits_a_moment_for_a_preferred_broker_that_is_alive() -> None:
    harness = VoteHarness(VOTE)
    assert harness.reports(2, 100) == NO_LEADER
    assert harness.reports(3, 100) == NO_LEADER, "broker 1 is alive and precedes them"
    assert harness.advance(WAIT_MS_MAX - 1).leader == NO_LEADER
    assert harness.advance(1).leader == 2
    assert not harness.core.votes.overdue(Now(10**9, 0)), "the vote has ended"


def test_a_vote_that_nobody_can_win_does_not_start_a_pass_at_each_tick() -> None:
    harness = VoteHarness(VOTE, alive=(2,))
    harness.reports(2, 100)
    harness.advance(WAIT_MS_MAX)
    assert not harness.core.votes.overdue(Now(10**9, 0))


def test_the_preferred_leader_gets_one_vote_in_some_minutes() -> None:
    harness = VoteHarness(replace(LED, leader=2, leader_broker_epoch=102))
    assert harness.advance(CHECK_MS).leader == NO_LEADER
    assert harness.reports(2, 100) == NO_LEADER and harness.reports(3, 100) == NO_LEADER
    assert harness.reports(1, 99) == 2, "the log of broker 1 is behind those of two electors"
    assert harness.advance(CHECK_MS).leader == 2
    assert harness.advance(PREFERRED_EVERY_MS).leader == NO_LEADER


def test_a_leader_that_no_vote_can_replace_stays() -> None:
    led_by_2 = replace(LED, leader=2, leader_broker_epoch=102, isr=ALL[:2])
    harness = VoteHarness(led_by_2, alive=(1, 2))
    assert harness.advance(CHECK_MS).leader == NO_LEADER, "brokers 1 and 2 can elect"
    alone = VoteHarness(replace(led_by_2, isr=(ALL[1],)), alive=(2,))
    assert alone.advance(CHECK_MS).leader == 2
    off = frozenset({2})
    assert partition_changes.moved_off(led_by_2, {1: 101, 2: 102}.get, off, 1) is None, "without 2 nobody can elect"
    vote = partition_changes.moved_off(LED, {1: 101, 2: 102, 3: 103}.get, off, 1)
    assert vote is not None and vote.leader == NO_LEADER


def test_a_demoted_broker_is_elected_last() -> None:
    harness = VoteHarness(VOTE)
    harness.image.broker_configs[1] = (1, {LEADERSHIP: "false"})
    for broker_id in (1, 2, 3):
        leader = harness.reports(broker_id, 100)
    assert leader == 2


def test_clients_start_a_vote_for_the_preferred_leader() -> None:
    harness = VoteHarness(replace(LED, leader=2, leader_broker_epoch=102))
    effects = harness.request_election(0)
    assert verdicts(effects) == [[0, 0]]
    harness.apply(effects)
    assert harness.state.leader == NO_LEADER
    assert harness.reports(1, 100) == NO_LEADER and harness.reports(2, 100) == 1


def test_an_unclean_election_takes_the_latest_reported_log_and_is_reported() -> None:
    harness = VoteHarness(replace(VOTE, isr=(), elr=(1,)), alive=(2, 3))
    harness.reports(2, 90)
    harness.reports(3, 100)
    effects = harness.request_election(0, unclean=True)
    assert verdicts(effects) == [[0, 0]]
    assert any("unclean leader election: broker 3" in getattr(e, "text", "") for e in effects)


def test_the_end_of_a_reassignment_makes_its_target_the_voters() -> None:
    moving = replace(
        LED,
        replicas=(4, 2, 3, 1),
        isr=(*ALL, ReplicaIncarnation(4, 104)),
        adding=(4,),
        removing=(1,),
    )
    harness = VoteHarness(moving, alive=(1, 2, 3, 4))
    state = harness.advance(1)
    assert (state.replicas, state.voters, state.leader) == ((4, 2, 3), (4, 2, 3), NO_LEADER), "the leader is removed"
    epoch = state.leader_epoch
    assert harness.reports(2, 100, vote=epoch) == NO_LEADER
    assert harness.reports(4, 100, vote=epoch) == 4


def test_the_number_of_replicas_cannot_fall() -> None:
    rejected = partition_changes.start_reassignment(LED, (1, 2), LED.assignment_generation, {1: 1, 2: 1}.get)
    assert isinstance(rejected, str) and "3 replicas, which cannot become 2" in rejected


def test_a_replica_without_which_nobody_can_lead_is_not_reset() -> None:
    serving = {1: 101, 2: 102}.get
    led = replace(LED, isr=ALL[:2])
    assert "cannot elect a leader" in str(partition_changes.with_replica_reset(led, 1, 1, serving))
    reset = partition_changes.with_replica_reset(led, 2, 1, serving)
    assert isinstance(reset, PartitionState) and (reset.leader, reset.isr_ids, reset.elr) == (1, (1,), ())


def test_a_topic_with_majority_acknowledgements_needs_three_replicas_and_the_level() -> None:
    harness = VoteHarness(LED)
    new = NewTopic("new", 1, 2, None, {"weir.majority.acks.enable": "true"})
    live = [b for b in harness.image.brokers.values() if b.alive]

    def verdict(topic: NewTopic) -> int:
        return request_validation._create(topic, harness.image, live).error

    harness.image.metadata_version = 9
    assert verdict(new) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert verdict(replace(new, replication_factor=3)) == ErrorCode.UNSUPPORTED_VERSION
    harness.image.metadata_version = 10
    assert verdict(replace(new, replication_factor=3)) == ErrorCode.NONE
    assert verdict(replace(new, assignment={0: (1, 2)})) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_registration_of_a_broker_that_lost_its_tail_takes_its_vote() -> None:
    harness = VoteHarness(LED)
    seen = dict(harness.core.registrations or {})
    seen[3] = Registration(3, "u3", "h", 3, None, None, False, None, 203)
    state = harness.deliver(BrokersSeen(seen))
    assert (state.leader, state.isr_ids, state.elr) == (1, (1, 2), ())
    assert harness.lose_brokers(1).leader == NO_LEADER
    assert harness.reports(2, 100) == NO_LEADER
    assert harness.reports(3, 90, broker_epoch=203) == NO_LEADER
