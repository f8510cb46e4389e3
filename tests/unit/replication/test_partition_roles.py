"""The state machine of one partition: changes of its role, when a replica joins and leaves the ISR, and the conditions of a higher high watermark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.model import NO_LEADER, Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.replication.partition import Partition, Role
from brokerd.replication.partition_events import (
    Event,
    FailWaiters,
    Follow,
    FollowerFetched,
    IsrProposalRejected,
    Lead,
    LeaderAppended,
    PartitionStateChanged,
    PartitionTick,
    ProposeIsr,
    RaiseHighWatermark,
    SessionLiveness,
    StopFollowing,
)

ALL = (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12), ReplicaIncarnation(3, 13))
LAG_MS, RETRY_MS = 1_000, 500
LED = PartitionState((1, 2, 3), ALL, 1, 11, 5, 10)
FOLLOWED = replace(LED, leader=2, leader_broker_epoch=12)


class Bench:
    """The state machine of broker 1. Each event happens at `ms`."""

    def __init__(self, state: PartitionState | None = LED, end: int = 0, ms: int = 10_000) -> None:
        self.machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS, RETRY_MS)
        self.ms = ms
        if state is not None:
            self.change_state(state, end=end)

    def deliver(self, event: Event) -> list[Any]:
        effects = list(self.machine.handle(event, Now(self.ms, 0)))
        self.machine.validate()
        return effects

    def change_state(
        self, state: PartitionState, end: int | None = None, min_insync: int = 1, **more: Any
    ) -> list[Any]:
        leads = more.pop("leads", state.leader == 1)
        end = self.machine.log_end if end is None else end
        return self.deliver(PartitionStateChanged(state, leads, min_insync, end, 0, **more))

    def leader_appended(self, end: int) -> list[Any]:
        return self.deliver(LeaderAppended(end))

    def follower_fetched(
        self, broker: int, offset: int, epoch: int = 0, session: SessionLiveness | None = None
    ) -> list[Any]:
        incarnation = ReplicaIncarnation(broker, epoch or 10 + broker)
        return self.deliver(FollowerFetched(incarnation, offset, 0, session))

    def advance(self, ms: int) -> list[Any]:
        self.ms += ms
        return self.deliver(PartitionTick())

    @property
    def state(self) -> PartitionState:
        assert self.machine.state is not None
        return self.machine.state


def proposed_isrs(effects: list[Any]) -> list[list[tuple[int, int]]]:
    return [[(m.broker_id, m.broker_epoch) for m in e.isr] for e in effects if isinstance(e, ProposeIsr)]


def raised_high_watermarks(effects: list[Any]) -> list[int]:
    return [e.offset for e in effects if isinstance(e, RaiseHighWatermark)]


# -- roles -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "effects", "role"),
    [
        (LED, replace(LED, leader_epoch=6), [FailWaiters(), Lead(6, 0)], Role.LEADER),
        (LED, replace(FOLLOWED, leader_epoch=6), [FailWaiters(), Follow(2, 6)], Role.FOLLOWER),
        (LED, replace(LED, leader=NO_LEADER, leader_epoch=6), [FailWaiters()], Role.OFFLINE),
        (FOLLOWED, FOLLOWED, [], Role.FOLLOWER),
        (FOLLOWED, replace(FOLLOWED, leader_epoch=6), [Follow(2, 6)], Role.FOLLOWER),
        (FOLLOWED, replace(FOLLOWED, leader=3, leader_epoch=6), [Follow(3, 6)], Role.FOLLOWER),
        (FOLLOWED, replace(LED, leader_epoch=6), [StopFollowing(), Lead(6, 0)], Role.LEADER),
        (FOLLOWED, replace(FOLLOWED, leader=NO_LEADER), [StopFollowing()], Role.OFFLINE),
    ],
)
def test_a_new_state_ends_the_former_role_before_the_next(
    before: PartitionState, after: PartitionState, effects: list[Any], role: Role
) -> None:
    bench = Bench(before)
    assert bench.change_state(replace(after, partition_epoch=11)) == effects
    assert bench.machine.role is role


def test_a_leader_that_is_dead_or_an_earlier_incarnation_of_this_broker_is_not_followed() -> None:
    bench = Bench(FOLLOWED)
    assert bench.change_state(replace(FOLLOWED, partition_epoch=11), leader_alive=False) == [StopFollowing()]
    assert bench.machine.role is Role.OFFLINE
    assert bench.change_state(replace(FOLLOWED, partition_epoch=12)) == [Follow(2, 5)], (
        "it is back in the same leader epoch"
    )
    earlier = replace(LED, leader_broker_epoch=9, leader_epoch=6, partition_epoch=13)
    assert bench.change_state(earlier, leads=False) == [StopFollowing()]
    assert bench.machine.role is Role.OFFLINE
    now = replace(LED, leader_epoch=6, partition_epoch=14)
    assert bench.change_state(now) == [Lead(6, 0)], "this incarnation leads from here on"
    assert bench.machine.role is Role.LEADER and sorted(bench.machine.followers) == [2, 3]
    assert bench.machine.isr_size == 3


def test_an_older_state_is_not_applied_and_one_of_the_same_epoch_is() -> None:
    bench = Bench(LED)
    assert bench.change_state(replace(FOLLOWED, leader_epoch=4, partition_epoch=9)) == []
    assert bench.state == LED and bench.machine.role is Role.LEADER
    bench.change_state(LED, min_insync=2)
    assert bench.machine.min_insync == 2, "a config has changed"


def test_a_proposal_ends_with_the_partition_epoch_and_not_with_a_changed_config() -> None:
    bench = Bench(LED)
    assert proposed_isrs(bench.advance(LAG_MS + 1)) == [[(1, 11)]]
    bench.change_state(LED, min_insync=2)
    assert bench.machine.proposal is not None
    bench.change_state(replace(LED, partition_epoch=11, isr=ALL[:1]))
    assert bench.machine.proposal is None


def test_records_that_are_not_flushed_do_not_count_after_a_change_of_state() -> None:
    alone = replace(LED, replicas=(1,), isr=ALL[:1])
    bench = Bench(None)
    assert bench.change_state(alone, end=10, acknowledgeable_end=4)[-1] == RaiseHighWatermark(4)
    assert bench.change_state(alone, end=10)[-1] == RaiseHighWatermark(10)


@pytest.mark.parametrize("state", [None, FOLLOWED, replace(LED, leader=NO_LEADER)])
def test_only_a_leader_counts_fetches(state: PartitionState | None) -> None:
    bench = Bench(state)
    assert bench.follower_fetched(2, 5) == [] and not bench.machine.followers


# -- members of the ISR --------------------------------------------------------------------------------------------------
def test_a_follower_leaves_the_isr_after_the_longest_lag_and_not_at_it() -> None:
    bench = Bench()
    assert bench.advance(LAG_MS) == []
    bench.follower_fetched(2, 0)
    assert proposed_isrs(bench.advance(1)) == [[(1, 11), (2, 12)]]


def test_a_follower_of_a_busy_leader_is_caught_up_at_the_end_of_its_previous_fetch() -> None:
    bench = Bench()
    for end in range(10, 10 * LAG_MS // 100, 10):
        bench.leader_appended(end)
        bench.ms += 200
        assert not proposed_isrs(
            bench.follower_fetched(2, end - 10) + bench.follower_fetched(3, end - 10) + bench.deliver(PartitionTick())
        )


def test_a_follower_that_falls_behind_its_previous_fetch_is_not_caught_up() -> None:
    bench = Bench()
    effects = []
    for end in range(10, 100, 10):
        bench.leader_appended(end)
        bench.ms += 200
        effects += bench.follower_fetched(2, end - 10) + bench.follower_fetched(3, end // 2 - 5)
    assert proposed_isrs(effects) == [[(1, 11), (2, 12)]]


def test_the_fetches_of_a_session_keep_a_follower_in_the_isr() -> None:
    bench, session = Bench(), SessionLiveness(10_000)
    bench.follower_fetched(2, 0, session=session)
    session.ms = 10_000 + LAG_MS
    assert proposed_isrs(bench.advance(2 * LAG_MS)) == [[(1, 11), (2, 12)]]
    bench = Bench()
    bench.follower_fetched(2, 0, session=session)
    session.ms = bench.ms = 10_000 + LAG_MS
    bench.leader_appended(5)
    assert bench.machine.followers[2].caught_up_ms == session.ms, "up to the end that the log had then"


def test_a_restarted_follower_joins_as_its_new_incarnation_when_it_is_caught_up() -> None:
    bench = Bench(end=10)
    assert proposed_isrs(bench.follower_fetched(3, 4, epoch=14)) == [[(1, 11), (2, 12)]]
    bench = Bench(end=10)
    assert proposed_isrs(bench.follower_fetched(3, 10, epoch=14)) == [[(1, 11), (2, 12), (3, 14)]]


def bench_with_replica_outside_isr(end: int = 10, ms: int = 10_000) -> Bench:
    """Broker 3 is not in the ISR. Broker 2 has everything."""
    bench = Bench(replace(LED, isr=ALL[:2]), end, ms)
    bench.follower_fetched(2, end)
    return bench


def test_a_follower_that_was_never_caught_up_does_not_join() -> None:
    bench = bench_with_replica_outside_isr(end=0, ms=LAG_MS // 2)
    bench.leader_appended(10)
    assert bench.machine.high_watermark == 0
    assert not proposed_isrs(bench.follower_fetched(3, 5)), (
        "it has more than the high watermark, shortly after the start of the machine"
    )


def reject_proposal(bench: Bench) -> None:
    """The controller rejects the proposal, and the partition epoch changes."""
    proposal = bench.machine.proposal
    assert proposal is not None
    assert bench.deliver(IsrProposalRejected(proposal.leader_epoch, proposal.partition_epoch)) == []
    bench.change_state(replace(bench.state, partition_epoch=bench.state.partition_epoch + 1))


def test_a_rejected_proposal_is_repeated_after_a_while() -> None:
    bench = bench_with_replica_outside_isr()
    assert proposed_isrs(bench.follower_fetched(3, 10))
    reject_proposal(bench)
    assert not proposed_isrs(bench.advance(RETRY_MS - 1))
    assert proposed_isrs(bench.advance(1)) == [[(1, 11), (2, 12), (3, 13)]]


def test_only_the_rejection_of_the_present_proposal_delays_the_next() -> None:
    bench = bench_with_replica_outside_isr()
    assert bench.deliver(IsrProposalRejected(5, 10)) == []
    assert proposed_isrs(bench.follower_fetched(3, 10)), "nothing was proposed before"
    for leader_epoch, partition_epoch in ((4, 10), (5, 9)):
        bench.deliver(IsrProposalRejected(leader_epoch, partition_epoch))
    assert proposed_isrs(bench.change_state(replace(bench.state, partition_epoch=11))), "at once"


@pytest.mark.parametrize(("offset", "joins"), [(20, True), (19, False)])
def test_a_follower_below_the_high_watermark_does_not_join(offset: int, joins: bool) -> None:
    bench = bench_with_replica_outside_isr()
    bench.follower_fetched(3, 10)
    reject_proposal(bench)
    bench.leader_appended(20)
    bench.follower_fetched(2, 20)
    bench.follower_fetched(3, offset)
    assert bench.machine.high_watermark == 20
    bench.ms += RETRY_MS
    assert bool(proposed_isrs(bench.follower_fetched(2, 20))) == joins


@pytest.mark.parametrize(("offset", "joins"), [(10, True), (9, False)])
def test_a_follower_below_the_start_of_the_leader_epoch_does_not_join(offset: int, joins: bool) -> None:
    bench = Bench(replace(LED, isr=ALL[:2]), end=10)
    bench.follower_fetched(3, 10)
    reject_proposal(bench)
    bench.follower_fetched(3, offset)
    assert bench.machine.high_watermark == 0
    assert bool(proposed_isrs(bench.advance(RETRY_MS))) == joins


def test_a_follower_that_stopped_fetching_does_not_join() -> None:
    for since_ms, joins in ((LAG_MS, True), (LAG_MS + 1, False)):
        bench = bench_with_replica_outside_isr()
        bench.follower_fetched(3, 10)
        reject_proposal(bench)
        bench.ms += since_ms
        assert proposed_isrs(bench.follower_fetched(2, 10)) == ([[(1, 11), (2, 12), (3, 13)]] if joins else [])


def test_the_isr_is_not_computed_while_every_replica_is_in_it_and_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs at each fetch of a follower."""
    bench = Bench()

    def fail_on_computation(self: Partition, now: Now) -> tuple[ReplicaIncarnation, ...]:
        raise AssertionError("the ISR was computed")

    monkeypatch.setattr(Partition, "_desired_isr", fail_on_computation)
    bench.leader_appended(10)
    for broker in (2, 3):
        bench.follower_fetched(broker, 10)
    bench.advance(LAG_MS)
    with pytest.raises(AssertionError, match="computed"):
        bench.advance(1)


def test_a_new_replica_may_keep_records_that_the_leader_deleted_after_a_hand_over_at_offset_0() -> None:
    state = replace(LED, isr=ALL[:2], handover_offset=0, handover_epoch=4, history_replicas=(2,))
    bench = Bench(None)
    bench.deliver(PartitionStateChanged(state, True, 1, 10, 5))
    bench.follower_fetched(2, 10)
    assert proposed_isrs(bench.deliver(FollowerFetched(ALL[2], 10, 3))) == [[(1, 11), (2, 12), (3, 13)]]


# -- the high watermark ----------------------------------------------------------------------------------------------------
def test_the_high_watermark_is_the_smallest_log_end_and_is_raised_once() -> None:
    bench = Bench()
    bench.leader_appended(10)
    bench.follower_fetched(2, 4)
    assert raised_high_watermarks(bench.follower_fetched(3, 10)) == [4]
    assert bench.follower_fetched(3, 10) == bench.follower_fetched(2, 4) == []
    assert bench.follower_fetched(2, 10) == [RaiseHighWatermark(10)]
    assert bench.leader_appended(10) == []


def test_the_high_watermark_waits_for_the_present_incarnation_of_each_member() -> None:
    bench = Bench()
    bench.leader_appended(10)
    bench.follower_fetched(2, 10)
    bench.machine.proposal = ProposeIsr(5, 10, ALL)
    assert not raised_high_watermarks(bench.follower_fetched(3, 10, epoch=14))
    assert raised_high_watermarks(bench.follower_fetched(3, 10)) == [10]
    bench = Bench()
    del bench.machine.followers[3]
    assert not raised_high_watermarks(bench.leader_appended(10) + bench.follower_fetched(2, 10))


def test_the_high_watermark_advances_only_with_enough_members_and_without_electable_replicas_outside() -> None:
    bench = Bench(None)
    bench.change_state(replace(LED, isr=ALL[:1]), min_insync=2)
    assert bench.leader_appended(10) == []
    enough = replace(LED, isr=ALL[:2], partition_epoch=11)
    bench.change_state(enough, min_insync=2)
    assert raised_high_watermarks(bench.follower_fetched(2, 10)) == [10], "as many as the minimum"
    eligible = replace(enough, elr=(ALL[2],), partition_epoch=12)
    bench.change_state(eligible, min_insync=2)
    assert bench.leader_appended(20) + bench.follower_fetched(2, 20) == []


def test_a_follower_applies_the_high_watermark_of_its_leader_within_its_own_log() -> None:
    machine = Bench(FOLLOWED).machine
    for offset, log_end, expected in ((8, 5, 5), (3, 10, 5), (7, 10, 7)):
        machine.update_follower_high_watermark(offset, log_end)
        assert (machine.high_watermark, machine.leader_high_watermark) == (expected, offset)
    leader = Bench().machine
    leader.update_follower_high_watermark(8, 8)
    assert (leader.high_watermark, leader.leader_high_watermark) == (0, 0)


def test_a_truncation_never_raises_the_high_watermark() -> None:
    machine = Bench(FOLLOWED).machine
    machine.update_follower_high_watermark(5, 10)
    for log_end, expected in ((7, 5), (3, 3)):
        machine.on_truncated(log_end)
        assert (machine.log_end, machine.high_watermark) == (log_end, expected)
