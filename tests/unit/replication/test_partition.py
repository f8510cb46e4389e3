"""The state machine of one partition: the ISR and the high watermark. The other invariants are checked in tests/simulation."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.replication.partition import Partition, Role
from brokerd.replication.partition_events import (
    Event,
    FetchSessionDropped,
    Follow,
    FollowerFetched,
    LeaderAppended,
    LogStartRaised,
    PartitionStateChanged,
    PartitionTick,
    ProposeIsr,
    RaiseLowWatermark,
    SessionLiveness,
    StopFollowing,
)

ISR_MEMBERS = (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12), ReplicaIncarnation(3, 13))
LAG_MS = 1000


class Leader:
    """Broker 1 leads; brokers 1, 2 and 3 are replicas from offset 0 on."""

    def __init__(self, min_insync: int = 1) -> None:
        self.machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
        self.min_insync, self.ms, self.end = min_insync, 10_000, 0
        self.accept_isr(ISR_MEMBERS)

    def effects_of(self, event: Event) -> list[object]:
        return list(self.machine.handle(event, Now(self.ms, 0)))

    def accept_isr(self, isr: tuple[ReplicaIncarnation, ...]) -> list[object]:
        epoch = self.machine.state.partition_epoch + 1 if self.machine.state is not None else 0
        state = PartitionState((1, 2, 3), isr, 1, 11, 5, epoch)
        return self.effects_of(PartitionStateChanged(state, True, self.min_insync, self.end, 0))

    def appends(self, count: int) -> None:
        self.end += count
        self.effects_of(LeaderAppended(self.end))

    def follower_fetched(self, isr_member: ReplicaIncarnation, offset: int) -> list[object]:
        return self.effects_of(FollowerFetched(isr_member, offset, 0))

    def advance(self, ms: int, *following: ReplicaIncarnation) -> list[object]:
        """Advance the clock by `ms`. The followers in `following` fetch everything, the third requests offset 10 again and again."""
        said: list[object] = []
        for _ in range(ms // 100):
            self.ms += 100
            for isr_member in following:
                said += self.follower_fetched(isr_member, self.end)
            said += self.follower_fetched(ISR_MEMBERS[2], 10)
            said += self.effects_of(PartitionTick())
        return said


def leader_with_stuck_follower(min_insync: int) -> Leader:
    """Broker 3 has 10 records of 20 and appends no more (its disk is full). It has just been removed from the ISR."""
    leader = Leader(min_insync)
    leader.appends(10)
    for isr_member in ISR_MEMBERS[1:]:
        leader.follower_fetched(isr_member, 10)
    assert leader.machine.high_watermark == 10
    leader.appends(10)
    said = leader.advance(LAG_MS + 500, ISR_MEMBERS[1])
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == [ISR_MEMBERS[:2]]
    assert leader.machine.high_watermark == 10
    return leader


def test_the_high_watermark_rises_after_a_lagging_member_left_and_does_not_readmit_it() -> None:
    leader = leader_with_stuck_follower(min_insync=2)
    said = leader.accept_isr(ISR_MEMBERS[:2])
    assert leader.machine.high_watermark == 20
    assert not [e for e in said + leader.advance(5_000, ISR_MEMBERS[1]) if isinstance(e, ProposeIsr)]


def test_a_follower_that_appends_no_records_does_not_join_the_isr() -> None:
    """Below min.insync.replicas the high watermark does not advance, and the log end of the follower without progress is equal to it."""
    leader = leader_with_stuck_follower(min_insync=3)
    said = leader.accept_isr(ISR_MEMBERS[:2])
    assert leader.machine.high_watermark == 10
    assert not [e for e in said + leader.advance(5_000, ISR_MEMBERS[1]) if isinstance(e, ProposeIsr)]


def test_a_caught_up_follower_joins_the_isr() -> None:
    leader = leader_with_stuck_follower(min_insync=2)
    leader.accept_isr(ISR_MEMBERS[:2])
    assert [e.isr for e in leader.follower_fetched(ISR_MEMBERS[2], 20) if isinstance(e, ProposeIsr)] == [ISR_MEMBERS]


def test_followers_are_current_when_all_eligible_ones_fetch_from_the_epoch_start() -> None:
    leader = Leader()
    leader.appends(10)
    for isr_member in ISR_MEMBERS[1:]:
        leader.follower_fetched(isr_member, 10)
    assert leader.machine.all_followers_caught_up_to_epoch
    leader.effects_of(PartitionStateChanged(PartitionState((1, 2, 3), ISR_MEMBERS, 1, 11, 6, 9), True, 1, 10, 0))
    assert leader.machine.high_watermark == 10 and not leader.machine.all_followers_caught_up_to_epoch, (
        "all is replicated, but of this epoch they have not heard"
    )
    leader.follower_fetched(ISR_MEMBERS[1], 10)
    leader.follower_fetched(ISR_MEMBERS[2], 9)
    assert not leader.machine.all_followers_caught_up_to_epoch
    leader.follower_fetched(ISR_MEMBERS[2], 10)
    assert leader.machine.all_followers_caught_up_to_epoch
    leader.follower_fetched(ReplicaIncarnation(3, 14), 10)
    assert not leader.machine.all_followers_caught_up_to_epoch, "another life than the one that may lead"
    leader.effects_of(PartitionStateChanged(PartitionState((1, 2, 3), ISR_MEMBERS[:1], 1, 11, 7, 10), True, 1, 10, 0))
    assert leader.machine.all_followers_caught_up_to_epoch, "nobody else may lead"


def test_an_observer_does_not_count_and_its_fetches_are_not_stored() -> None:
    leader = Leader(min_insync=2)
    observer = ReplicaIncarnation(4, 14)

    def change_state(**more: object) -> list[object]:
        epoch = leader.machine.state.partition_epoch + 1 if leader.machine.state is not None else 0
        state = PartitionState((1, 2, 3), ISR_MEMBERS[:2], 1, 11, 5, epoch)
        return leader.effects_of(PartitionStateChanged(replace(state, **more), True, 2, leader.end, 0))  # type: ignore[arg-type]

    change_state(observers=(4,))
    leader.appends(20)
    assert leader.follower_fetched(observer, 20) == [], "neither proposed nor counted"
    assert leader.machine.high_watermark == 0
    leader.follower_fetched(ISR_MEMBERS[1], 20)
    leader.appends(5)
    leader.follower_fetched(ISR_MEMBERS[1], 25)
    assert leader.machine.high_watermark == 25, "nobody waits for an observer"
    leader.follower_fetched(observer, 25)
    assert not [e for e in change_state(replicas=(4, 1, 2, 3), adding=(4,)) if isinstance(e, ProposeIsr)]
    (proposed,) = [e for e in leader.follower_fetched(observer, 25) if isinstance(e, ProposeIsr)]
    assert observer in proposed.isr


ARCHIVE = 50


@pytest.mark.parametrize(
    ("leader_start", "follower", "start", "enters"),
    [
        (0, 3, 50, True),  # a new replica starts at the hand-over offset
        (0, 3, 51, False),
        (0, 2, 0, True),
        (0, 2, 50, False),  # a history replica needs the same records as the leader
        (0, 2, 10, False),
        (50, 2, 49, True),
        (50, 2, 50, False),  # also under a leader without them
        (50, 3, 50, True),
        (60, 2, 60, True),  # all history replicas deleted the records below
    ],
)
def test_a_new_replica_may_start_at_the_handover_offset_and_a_history_replica_has_all_records(
    leader_start: int, follower: int, start: int, enters: bool
) -> None:
    machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
    holders = (1, 2) if leader_start == 0 else (2, 4)
    state = PartitionState(
        (1, 2, 3), ISR_MEMBERS[:1], 1, 11, 5, handover_offset=ARCHIVE, handover_epoch=4, history_replicas=holders
    )
    now = Now(10_000, 0)
    machine.handle(PartitionStateChanged(state, True, 1, 100, leader_start), now)
    said = machine.handle(FollowerFetched(ISR_MEMBERS[follower - 1], 100, start), now)
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == (
        [(ISR_MEMBERS[0], ISR_MEMBERS[follower - 1])] if enters else []
    )


def test_a_history_replica_fetches_only_after_it_becomes_a_replica() -> None:
    machine = Partition(3, TopicPartition(UUID(int=7), 0), LAG_MS)
    state = PartitionState((1, 2, 3), ISR_MEMBERS, 1, 11, 5)
    now = Now(10_000, 0)
    assert [type(e) for e in machine.handle(PartitionStateChanged(state, False, 1, 100, 0), now)] == [Follow]
    held = replace(
        state,
        replicas=(1, 2),
        isr=ISR_MEMBERS[:2],
        partition_epoch=1,
        handover_offset=ARCHIVE,
        handover_epoch=4,
        history_replicas=(3,),
    )
    assert [type(e) for e in machine.handle(PartitionStateChanged(held, False, 1, 100, 0), now)] == [StopFollowing]
    assert machine.role is Role.HISTORY
    back = replace(held, replicas=(1, 2, 3), partition_epoch=2)
    assert [type(e) for e in machine.handle(PartitionStateChanged(back, False, 1, 100, 0), now)] == [Follow]


def replicas_to_reset(leader: Leader, ms: int, start: int = 5, leader_start: int = 0) -> tuple[ReplicaIncarnation, ...]:
    """The replicas to reset, after broker 3 has been at the log end for `ms` with a log that starts at `start`."""
    leader.effects_of(LogStartRaised(leader_start))
    for _ in range(ms // 100):
        leader.ms += 100
        leader.follower_fetched(ISR_MEMBERS[1], leader.end)
        leader.effects_of(FollowerFetched(ISR_MEMBERS[2], leader.end, start))
        leader.effects_of(PartitionTick())
    return leader.machine.followers_to_reset


def put_out() -> Leader:
    leader = Leader()
    leader.machine.late_ms_max = 3_000
    leader.appends(10)
    leader.accept_isr(ISR_MEMBERS[:2])
    return leader


def test_a_late_replica_is_reset_after_retention_had_time_to_run() -> None:
    leader = put_out()
    assert replicas_to_reset(leader, 3_100) == (), "since 3,000 ms: the first fetch was after 100 ms"
    assert replicas_to_reset(leader, 100) == (ISR_MEMBERS[2],)
    leader.effects_of(
        PartitionStateChanged(PartitionState((1, 2, 3), ISR_MEMBERS[:2], 1, 11, 6, 9), True, 1, leader.end, 0)
    )
    assert leader.machine.followers_to_reset == (), "asked for in a leader epoch, and answered by the next"


def test_a_replica_is_not_reset_after_retention_or_while_it_lags() -> None:
    leader = put_out()
    assert replicas_to_reset(leader, 2_900) == ()
    said = leader.effects_of(LogStartRaised(5)) + leader.effects_of(FollowerFetched(ISR_MEMBERS[2], leader.end, 5))
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == [ISR_MEMBERS], "it comes in by itself"
    leader = put_out()
    assert replicas_to_reset(leader, 2_900) == ()
    leader.appends(1)
    leader.machine.handle(FollowerFetched(ISR_MEMBERS[2], 3, 5), Now(leader.ms, 0))
    leader.effects_of(PartitionTick())
    assert replicas_to_reset(leader, 2_900) == (), "from when it was in step again"
    leader = put_out()
    assert replicas_to_reset(leader, 10_000, start=0) == (), (
        "it is complete, and the controller has not decided about it yet"
    )
    leader = put_out()
    leader.accept_isr(ISR_MEMBERS)
    assert replicas_to_reset(leader, 10_000) == (), "who is in the ISR may lead with the start that it has"


def test_a_late_replica_of_a_log_without_retention_is_reset_after_the_lag() -> None:
    leader = put_out()
    leader.machine.late_ms_max, leader.machine.retention_deletes = 10 * LAG_MS, False
    assert replicas_to_reset(leader, LAG_MS + 100) == ()
    assert replicas_to_reset(leader, 100) == (ISR_MEMBERS[2],)


def test_the_low_watermark_covers_all_eligible_leaders() -> None:
    leader = Leader()
    leader.appends(10)
    leader.effects_of(LogStartRaised(6))
    assert leader.machine.low_watermark == -1, "nobody has been heard in this epoch"
    leader.effects_of(FollowerFetched(ISR_MEMBERS[1], 10, 6))
    assert not [e for e in leader.effects_of(FollowerFetched(ISR_MEMBERS[2], 10, 2)) if isinstance(e, ProposeIsr)]
    assert leader.machine.low_watermark == 2
    assert any(isinstance(e, RaiseLowWatermark) for e in leader.effects_of(FollowerFetched(ISR_MEMBERS[2], 10, 6)))
    assert leader.machine.low_watermark == 6
    assert leader.effects_of(FollowerFetched(ISR_MEMBERS[2], 10, 6)) == [], "reported one time"
    leader.effects_of(LogStartRaised(8))
    leader.accept_isr(ISR_MEMBERS[:2])
    said = leader.effects_of(FollowerFetched(ISR_MEMBERS[2], 10, 6))
    assert not [e for e in said if isinstance(e, ProposeIsr)], "it has not let go what the others have"
    assert [e.isr for e in leader.effects_of(FollowerFetched(ISR_MEMBERS[2], 10, 8)) if isinstance(e, ProposeIsr)] == [
        ISR_MEMBERS
    ]


def test_the_low_watermark_is_unknown_until_the_present_incarnation_of_each_member_has_fetched() -> None:
    leader = Leader()
    leader.appends(10)
    for isr_member in ISR_MEMBERS[1:]:
        leader.effects_of(FollowerFetched(isr_member, 10, 4))
    leader.effects_of(LogStartRaised(6))
    assert leader.machine.low_watermark == 4
    restarted = ReplicaIncarnation(3, 14)
    leader.accept_isr((*ISR_MEMBERS[:2], restarted))
    assert leader.machine.low_watermark == -1, "its former incarnation has fetched"
    leader.effects_of(FollowerFetched(restarted, 10, 5))
    assert leader.machine.low_watermark == 4
    joined = Leader()
    joined.machine.followers.clear()
    assert joined.machine.low_watermark == -1, "no fetch of a member is known"


def test_only_log_starts_that_keep_a_replica_out_of_the_isr_are_late() -> None:
    leader = put_out()
    assert replicas_to_reset(leader, 100) == () and leader.machine.late_starts == [5], (
        "broker 2 is in sync and has another start"
    )
    leader.accept_isr(ISR_MEMBERS)
    leader.effects_of(PartitionTick())
    assert leader.machine.late_starts == []


def test_a_partition_without_a_state_has_no_leader_and_no_replicas() -> None:
    machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
    assert (machine.leader, machine.leader_epoch, machine.isr_size) == (-1, -1, 0)
    assert not machine.has_other_replicas


def test_other_replicas_are_those_of_the_assignment_and_of_the_isr() -> None:
    leader = Leader()
    for replicas, isr, expected in (
        ((1,), ISR_MEMBERS[:1], False),
        ((1, 2), ISR_MEMBERS[:1], True),
        ((1,), ISR_MEMBERS[:2], True),
    ):
        leader.machine.state = PartitionState(replicas, isr, 1, 11)
        assert leader.machine.has_other_replicas is expected


def test_a_member_is_unresponsive_when_it_has_not_fetched_for_longer_than_the_limit() -> None:
    leader = Leader()
    leader.ms += 100
    leader.follower_fetched(ISR_MEMBERS[1], 0)

    def unresponsive(ms: int, longest_ms: int | None = None) -> list[int]:
        return leader.machine.unresponsive_followers(Now(leader.ms + ms, 0), longest_ms)

    assert unresponsive(LAG_MS - 100) == [] and unresponsive(LAG_MS - 99) == [3], "since broker 1 leads"
    assert unresponsive(LAG_MS) == [3] and unresponsive(LAG_MS + 1) == [2, 3]
    assert unresponsive(50, longest_ms=50) == [3] and unresponsive(LAG_MS + 1, longest_ms=5 * LAG_MS) == []
    del leader.machine.followers[2]
    assert unresponsive(0) == [2], "it has never fetched"


def test_the_latest_offset_is_returned_from_the_start_offset_of_the_epoch_on() -> None:
    leader = Leader()
    leader.appends(10)
    leader.effects_of(PartitionStateChanged(PartitionState((1, 2, 3), ISR_MEMBERS, 1, 11, 6, 9), True, 1, 10, 0))
    assert (leader.machine.high_watermark, leader.machine.epoch_start) == (0, 10)
    assert not leader.machine.serves_latest
    for isr_member in ISR_MEMBERS[1:]:
        leader.follower_fetched(isr_member, 10)
    assert leader.machine.high_watermark == 10 and leader.machine.serves_latest


def test_a_proposed_member_counts_until_the_proposal_is_decided() -> None:
    leader = leader_with_stuck_follower(min_insync=2)
    leader.accept_isr(ISR_MEMBERS[:2])
    assert leader.machine.maximal_isr() == {*ISR_MEMBERS[:2]}
    leader.follower_fetched(ISR_MEMBERS[2], 20)
    assert leader.machine.maximal_isr() == {*ISR_MEMBERS}
    leader.appends(10)
    leader.follower_fetched(ISR_MEMBERS[1], 30)
    assert leader.machine.high_watermark == 20, "broker 3 may be in the ISR already"


def test_a_dropped_fetch_session_of_the_present_incarnation_counts_until_its_end() -> None:
    for dropped, known in (
        (ISR_MEMBERS[1], True),
        (ReplicaIncarnation(2, 99), False),
        (ReplicaIncarnation(9, 99), False),
    ):
        leader, session = Leader(), SessionLiveness()
        leader.effects_of(FollowerFetched(ISR_MEMBERS[1], 0, 0, session))
        session.ms = leader.ms + 700
        assert leader.effects_of(FetchSessionDropped(dropped, session)) == []
        follower = leader.machine.followers[2]
        assert (follower.session_liveness is None) is known
        assert (follower.caught_up_ms == session.ms) is known


def test_a_session_that_drops_a_partition_of_another_session_changes_nothing() -> None:
    """The follower has changed the connection of the partition. The old session may forget it after the new one has fetched it."""
    leader, old, new = Leader(), SessionLiveness(), SessionLiveness()
    leader.effects_of(FollowerFetched(ISR_MEMBERS[1], 0, 0, old))
    leader.effects_of(FollowerFetched(ISR_MEMBERS[1], 0, 0, new))
    leader.effects_of(FetchSessionDropped(ISR_MEMBERS[1], old))
    assert leader.machine.followers[2].session_liveness is new
    leader.effects_of(FetchSessionDropped(ISR_MEMBERS[1], new))
    assert leader.machine.followers[2].session_liveness is None


def test_only_a_leader_uses_appends_and_a_log_start_never_falls() -> None:
    leader = Leader()
    leader.effects_of(LeaderAppended(10, 4))
    assert (leader.machine.log_end, leader.machine.acknowledgeable_end) == (10, 4)
    leader.effects_of(LeaderAppended(12))
    assert (leader.machine.log_end, leader.machine.acknowledgeable_end) == (12, 12)
    for start, expected in ((5, 5), (3, 5)):
        leader.effects_of(LogStartRaised(start))
        assert leader.machine.log_start == expected
    follower = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
    state = PartitionState((1, 2), (ReplicaIncarnation(2, 12),), 2, 12, 5, 0)
    follower.handle(PartitionStateChanged(state, False, 1, 6, 0), Now(0, 0))
    assert follower.handle(LeaderAppended(9), Now(0, 0)) == [] and follower.log_end == 6
    assert follower.handle(PartitionTick(), Now(0, 0)) == []
