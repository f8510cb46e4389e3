"""Leader election: every case of safety.md section 3, and its invariants under random failures."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.cluster.election import (
    elect_leader,
    remove_offline_replicas,
    with_isr,
    with_new_broker_epoch,
    without_outdated_elr,
)
from brokerd.cluster.model import NO_LEADER, PartitionState, ReplicaIncarnation


def isr_members(*ids: int, broker_epoch: int = 10) -> tuple[ReplicaIncarnation, ...]:
    return tuple(ReplicaIncarnation(i, broker_epoch + i) for i in ids)


def state(isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, **more: object) -> PartitionState:
    base = PartitionState(
        (1, 2, 3), isr_members(*isr), leader, 10 + leader if leader >= 0 else -1, leader_epoch=5, partition_epoch=9
    )
    return PartitionState(**{**{s: getattr(base, s) for s in base.__slots__}, **more})  # type: ignore[arg-type]


def live_broker_epochs(*ids: int) -> dict[int, int]:
    return {i: 10 + i for i in ids}


def test_the_first_live_in_sync_replica_is_elected() -> None:
    now = remove_offline_replicas(state(), (1,), (), live_broker_epochs(2, 3).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_broker_epoch, now.leader_epoch, now.partition_epoch) == (2, 12, 6, 10)
    assert (now.isr_ids, now.elr, now.last_isr) == ((2, 3), (), ())


def test_a_follower_leaves_the_isr_without_an_election() -> None:
    now = remove_offline_replicas(state(), (3,), (), live_broker_epochs(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_epoch, now.isr_ids) == (1, 5, (1, 2))


def test_a_member_that_leaves_below_min_insync_joins_the_elr() -> None:
    now = remove_offline_replicas(state((1, 2)), (2,), (), live_broker_epochs(1).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr, now.leader) == ((1,), (2,), 1)
    later = remove_offline_replicas(now, (1,), (), live_broker_epochs(2).get, min_insync=2, unclean=False)
    assert later is not None
    assert (later.leader, later.isr_ids) == (2, (2,)), "the ELR member is elected after the last ISR member has failed"


def test_a_replica_with_a_lost_tail_is_not_electable() -> None:
    now = remove_offline_replicas(state((1, 2)), (), (2,), live_broker_epochs(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr) == ((1,), ())
    remembered = state((1,), elr=(2,))
    now = remove_offline_replicas(remembered, (), (2,), live_broker_epochs(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert now.elr == ()


def test_the_last_isr_member_stays_in_the_isr_while_it_is_offline() -> None:
    now = remove_offline_replicas(state((1,)), (1,), (), live_broker_epochs(2, 3).get, min_insync=1, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids) == (NO_LEADER, (1,)), "2 and 3 are alive and may lack records"
    assert elect_leader(now, live_broker_epochs(2, 3).get, min_insync=1) is None
    back = elect_leader(now, live_broker_epochs(1, 2, 3).get, min_insync=1)
    assert back is not None
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_the_last_member_with_a_lost_tail_is_stored_in_last_isr_and_can_be_elected() -> None:
    now = remove_offline_replicas(state((1,)), (), (1,), live_broker_epochs(1, 2, 3).get, min_insync=1, unclean=False)
    assert now is not None
    assert now.leader == 1
    gone = remove_offline_replicas(state((1,)), (), (1,), live_broker_epochs(2, 3).get, min_insync=1, unclean=False)
    assert gone is not None
    assert (gone.leader, gone.isr, gone.last_isr) == (NO_LEADER, (), (1,))


def test_unclean_elections_only_if_enabled() -> None:
    offline = state((1,), leader=NO_LEADER)
    assert elect_leader(offline, live_broker_epochs(2, 3).get, min_insync=1) is None
    now = elect_leader(offline, live_broker_epochs(2, 3).get, min_insync=1, unclean=True)
    assert now is not None
    assert (now.leader, now.isr_ids) == (2, (2,))


def test_an_isr_member_with_an_old_broker_epoch_is_not_elected() -> None:
    bounced = {1: 99, 2: 12, 3: 13}
    now = elect_leader(state(leader=NO_LEADER), bounced.get, min_insync=2)
    assert now is not None
    assert now.leader == 2, "broker 1 is in the ISR with an old broker epoch"
    restarted = with_new_broker_epoch(state(), ReplicaIncarnation(1, 99))
    assert restarted is not None
    assert (restarted.leader, restarted.leader_broker_epoch, restarted.leader_epoch) == (1, 99, 6), (
        "the leader epoch increases although the leader stays"
    )


def test_members_that_leave_a_proposed_isr_below_min_insync_join_the_elr() -> None:
    now = with_isr(state(), isr_members(1), min_insync=2)
    assert (now.isr_ids, now.elr) == ((1,), (2, 3))
    assert with_isr(now, isr_members(1, 2), min_insync=2).elr == ()


@given(
    isr=st.sets(st.integers(1, 3), min_size=1),
    elr=st.sets(st.integers(1, 3)),
    living=st.sets(st.integers(1, 3)),
    victim=st.integers(1, 3),
    lost=st.booleans(),
    min_insync=st.integers(1, 3),
)
@settings(max_examples=600, deadline=None)
def test_without_unclean_elections_a_new_leader_is_from_isr_elr_or_last_isr(
    isr: set[int], elr: set[int], living: set[int], victim: int, lost: bool, min_insync: int
) -> None:
    before = state(tuple(sorted(isr)), leader=min(isr), elr=tuple(sorted(elr - isr)))
    living = living | {victim} if lost else living - {victim}
    after = remove_offline_replicas(
        before,
        () if lost else (victim,),
        (victim,) if lost else (),
        live_broker_epochs(*living).get,
        min_insync=min_insync,
        unclean=False,
    )
    if after is None:
        return
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    if after.leader not in (NO_LEADER, before.leader):
        assert after.leader in isr | elr
        assert after.leader in living
        assert after.leader_epoch == before.leader_epoch + 1
        assert not (lost and after.leader == victim and isr != {victim})
    assert after.isr or after.elr or after.last_isr, "no electable replica is left"
    assert after.leader == NO_LEADER or after.leader in after.isr_ids


@given(
    members=st.permutations([1, 2, 3]), whole=st.sets(st.integers(1, 3)), min_insync=st.integers(1, 3), data=st.data()
)
@settings(max_examples=300, deadline=None)
def test_after_all_brokers_have_returned_the_partition_has_a_leader(
    members: list[int], whole: set[int], min_insync: int, data: st.DataObject
) -> None:
    """A power failure of the whole cluster: all brokers stop and return, some of them with lost tails."""
    now = state()
    living: set[int] = set()
    for broker_id in members:
        left = {1, 2, 3} - set(members[: members.index(broker_id) + 1])
        now = (
            remove_offline_replicas(
                now, (broker_id,), (), live_broker_epochs(*left).get, min_insync=min_insync, unclean=False
            )
            or now
        )
    for broker_id in data.draw(st.permutations([1, 2, 3])):
        living.add(broker_id)
        if broker_id not in whole:
            now = (
                remove_offline_replicas(
                    now, (), (broker_id,), live_broker_epochs(*living).get, min_insync=min_insync, unclean=False
                )
                or now
            )
        if now.leader == NO_LEADER:
            now = elect_leader(now, live_broker_epochs(*living).get, min_insync=min_insync) or now
        assert now.isr or now.elr or now.last_isr, "no electable replica is left"
    assert now.leader != NO_LEADER


def test_members_that_leave_the_isr_for_an_elr_member_stay_electable() -> None:
    alone = remove_offline_replicas(state(isr=(1, 2)), (2,), (), live_broker_epochs(1).get, min_insync=2, unclean=False)
    assert alone is not None and (alone.isr_ids, alone.elr) == ((1,), (2,))
    second = remove_offline_replicas(alone, (1,), (), live_broker_epochs(2).get, min_insync=2, unclean=False)
    assert second is not None and (second.leader, second.isr_ids, second.elr) == (2, (2,), (1,))
    back = remove_offline_replicas(second, (), (2,), {1: 21, 2: 22}.get, min_insync=2, unclean=False)
    assert back is not None and (back.leader, back.isr_ids, back.elr) == (1, (1,), ())


def test_members_that_fail_together_stay_electable() -> None:
    nobody = live_broker_epochs().get
    for least in (1, 2, 3):
        now = remove_offline_replicas(state(), (1, 2, 3), (), nobody, min_insync=least, unclean=False)
        assert now is not None
        assert (now.leader, now.isr_ids, now.partition_epoch) == (NO_LEADER, (1, 2, 3), 10)
        assert remove_offline_replicas(now, (1, 2, 3), (), nobody, min_insync=least, unclean=False) is None, (
            "once dead, nothing changes"
        )
        for first in (1, 2, 3):
            restarted = with_new_broker_epoch(now, ReplicaIncarnation(first, 99))
            assert restarted is not None
            back = elect_leader(restarted, {first: 99}.get, min_insync=least)
            assert back is not None
            others = tuple(b for b in (1, 2, 3) if b != first) if least > 1 else ()
            assert (back.leader, back.isr, back.elr) == (first, (ReplicaIncarnation(first, 99),), others)


def test_two_of_three_that_fail_together_join_the_elr_only_below_min_insync() -> None:
    now = remove_offline_replicas(state(), (2, 3), (), live_broker_epochs(1).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids, now.elr) == (1, (1,), (2, 3))
    now = remove_offline_replicas(state(), (2, 3), (), live_broker_epochs(1).get, min_insync=1, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids, now.elr) == (1, (1,), ()), "broker 1 now acknowledges alone"
    alone = remove_offline_replicas(now, (1,), (), live_broker_epochs().get, min_insync=1, unclean=False)
    assert alone is not None
    assert alone.isr_ids == (1,)
    assert elect_leader(alone, live_broker_epochs(2, 3).get, min_insync=1) is None


def test_a_replica_with_a_lost_tail_is_not_elected_while_complete_members_are_offline() -> None:
    """A machine returns from a power failure before its peers, which are complete. When failures were processed one by one, it stayed alone in the
    ISR and became leader."""
    for least in (1, 2):
        now = remove_offline_replicas(state(), (2, 3), (1,), live_broker_epochs(1).get, min_insync=least, unclean=False)
        assert now is not None
        assert (now.leader, now.isr_ids, now.elr, now.last_isr) == (NO_LEADER, (2, 3), (), ())


def test_if_all_tails_are_lost_the_leader_is_stored_in_last_isr() -> None:
    now = remove_offline_replicas(
        state(leader=2), (), (1, 2, 3), live_broker_epochs(1, 3).get, min_insync=2, unclean=False
    )
    assert now is not None
    assert (now.leader, now.isr, now.last_isr) == (NO_LEADER, (), (2,))
    now = remove_offline_replicas(
        state(leader=2), (), (1, 2, 3), live_broker_epochs(1, 2, 3).get, min_insync=2, unclean=False
    )
    assert now is not None
    assert (now.leader, now.isr_ids) == (2, (2,))


def test_a_lowered_minimum_empties_the_elr() -> None:
    now = state((1,), leader=NO_LEADER, elr=(2, 3))
    led = elect_leader(now, live_broker_epochs(2).get, min_insync=1)
    assert led is not None
    assert (led.leader, led.isr_ids, led.elr) == (2, (2,), ())


class Replicas(RuleBasedStateMachine):
    """Three replicas of one partition, each with a number of records, and the partition state. A leader elected from ISR or ELR has all
    acknowledged records, for every combination and order of failures, detections and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.log = dict.fromkeys((1, 2, 3), 0)
        self.lives = {1: 11, 2: 12, 3: 13}
        self.running, self.seen = {1, 2, 3}, {1, 2, 3}
        self.acknowledged = 0
        self.state = state()

    @initialize(least=st.integers(1, 3))
    def draw(self, least: int) -> None:
        self.least = least

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.lives[broker_id] if broker_id in self.seen else None

    def decide(self, after: PartitionState | None) -> None:
        """One pass of the controller, with an election at its end."""
        self.state = after or self.state
        before = self.state
        if before.leader == NO_LEADER:
            self.state = elect_leader(before, self.broker_epoch, min_insync=self.least) or before

    @rule()
    def write(self) -> None:
        """The leader appends a record. It is acknowledged with acks=all if all ISR members are alive and the ISR is large enough."""
        leader, isr = self.state.leader, self.state.isr_ids
        if leader in self.running:
            self.log[leader] += 1
            if set(isr) <= self.running and len(isr) >= self.least:
                for b in isr:
                    self.log[b] = self.log[leader]
                self.acknowledged = self.log[leader]

    @rule(who=st.integers(1, 3))
    def catch_up(self, who: int) -> None:
        leader = self.state.leader
        if {leader, who} <= self.running & self.seen and who not in self.state.isr_ids:
            self.log[who] = self.log[leader]
            self.state = with_isr(
                self.state, (*self.state.isr, ReplicaIncarnation(who, self.lives[who])), min_insync=self.least
            )

    @rule(who=st.sets(st.integers(1, 3), min_size=1))
    def die(self, who: set[int]) -> None:
        self.running -= who

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        """The controller detects some or all of the failed brokers in one pass."""
        if dead := self.seen - self.running:
            found = data.draw(st.sets(st.sampled_from(sorted(dead)), min_size=1))
            self.seen -= found
            self.decide(
                remove_offline_replicas(self.state, found, (), self.broker_epoch, min_insync=self.least, unclean=False)
            )

    @rule(data=st.data(), whole=st.sets(st.integers(1, 3)), short=st.integers(0, 3))
    def return_(self, data: st.DataObject, whole: set[int], short: int) -> None:
        """Some brokers return, complete (`whole`) or without some records. Undetected failures of others are detected in the same pass."""
        if away := {1, 2, 3} - self.running:
            back = data.draw(st.sets(st.sampled_from(sorted(away)), min_size=1))
            found = (self.seen - self.running) - back
            lost = back - whole
            for b in lost:
                self.log[b] = max(0, self.log[b] - short)
            for b in back:
                self.lives[b] += 10
            self.running |= back
            self.seen = (self.seen | back) - found
            proven = {*self.state.isr_ids, *self.state.elr} - lost
            self.state = (
                remove_offline_replicas(
                    self.state, found, lost, self.broker_epoch, min_insync=self.least, unclean=False
                )
                or self.state
            )
            for b in sorted(back - lost):
                self.state = with_new_broker_epoch(self.state, ReplicaIncarnation(b, self.lives[b])) or self.state
            self.decide(None)
            if not proven and self.state.leader != NO_LEADER:
                # The last member of an ISR returns with fewer records. Replication guarantees no more, so the expected
                # records start again from here.
                self.acknowledged = min(self.acknowledged, self.log[self.state.leader])

    @invariant()
    def the_leader_has_all_acknowledged_records(self) -> None:
        if self.state.leader in self.running:
            assert self.log[self.state.leader] >= self.acknowledged
        assert self.state.isr or self.state.elr or self.state.last_isr


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(
    ("configured", "replicas", "adding", "removing", "effective"),
    [
        (1, (1, 2, 3), (), (), 1),
        (2, (1, 2, 3), (), (), 2),
        (2, (1,), (), (), 1),
        (5, (1, 2, 3), (), (), 3),
        (2, (2, 3, 1), (2, 3), (1,), 1),
        (2, (1, 2, 3), (), (2, 3), 1),
        (2, (3, 4, 1, 2), (3, 4), (1, 2), 2),
    ],
)
def test_the_effective_minimum_is_at_most_the_number_of_expected_replicas(
    configured: int, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...], effective: int
) -> None:
    placed = PartitionState(replicas, (ReplicaIncarnation(replicas[0], 11),), adding=adding, removing=removing)
    assert placed.effective_min_insync(configured) == effective


def test_with_a_minimum_above_the_number_of_replicas_a_leaving_member_joins_the_elr() -> None:
    placed = PartitionState((1, 2), (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12)), 1, 11, 5, 7)
    shrunk = with_isr(placed, (ReplicaIncarnation(1, 11),), min_insync=3)
    assert shrunk.elr == (2,), "two of two are required"
    alone = without_outdated_elr(shrunk, min_insync=1)
    assert (alone.isr_ids, alone.elr) == ((1,), ())
    assert without_outdated_elr(shrunk, min_insync=2) is shrunk
