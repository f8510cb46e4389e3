"""One partition's machine: who may stand in the ISR, and how far the watermark may go. (The rest of its laws: tests/simulation.)"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, PartitionState, Seat, TopicPartition
from brokerd.partition import Partition, Role
from brokerd.partition_events import (
    Appended,
    Changed,
    Event,
    Follow,
    FollowerFetched,
    LogStartRaised,
    ProposeIsr,
    RaiseLowWatermark,
    StopFollowing,
    Tick,
)

SEATS = (Seat(1, 11), Seat(2, 12), Seat(3, 13))
LAG_MS = 1000


class Leader:
    """Broker 1 leads 1, 2 and 3 from offset 0."""

    def __init__(self, min_insync: int = 1) -> None:
        self.machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
        self.min_insync, self.ms, self.end = min_insync, 10_000, 0
        self.accepted(SEATS)

    def hears(self, event: Event) -> list[object]:
        return list(self.machine.handle(event, Now(self.ms, 0)))

    def accepted(self, isr: tuple[Seat, ...]) -> list[object]:
        epoch = self.machine.state.partition_epoch + 1 if self.machine.state is not None else 0
        state = PartitionState((1, 2, 3), isr, 1, 11, 5, epoch)
        return self.hears(Changed(state, True, self.min_insync, self.end, 0))

    def appends(self, count: int) -> None:
        self.end += count
        self.hears(Appended(self.end))

    def fetched(self, seat: Seat, offset: int) -> list[object]:
        return self.hears(FollowerFetched(seat, offset, 0))

    def passes(self, ms: int, *following: Seat) -> list[object]:
        """Time; `following` go on fetching all there is, the third asks for offset 10 over and over."""
        said: list[object] = []
        for _ in range(ms // 100):
            self.ms += 100
            for seat in following:
                said += self.fetched(seat, self.end)
            said += self.fetched(SEATS[2], 10)
            said += self.hears(Tick())
        return said


def stuck(min_insync: int) -> Leader:
    """Broker 3 has 10 records of 20 and takes no more (its disk is full); it has just been put out."""
    leader = Leader(min_insync)
    leader.appends(10)
    for seat in SEATS[1:]:
        leader.fetched(seat, 10)
    assert leader.machine.high_watermark == 10
    leader.appends(10)
    said = leader.passes(LAG_MS + 500, SEATS[1])
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == [SEATS[:2]]
    assert leader.machine.high_watermark == 10
    return leader


def test_the_watermark_rises_when_who_held_it_has_left_and_does_not_let_it_in_again() -> None:
    leader = stuck(min_insync=2)
    said = leader.accepted(SEATS[:2])
    assert leader.machine.high_watermark == 20
    assert not [e for e in said + leader.passes(5_000, SEATS[1]) if isinstance(e, ProposeIsr)]


def test_who_takes_no_records_stays_out_even_at_a_watermark_that_cannot_rise() -> None:
    """Below min.insync.replicas the watermark stands still, and the stuck one stands at it."""
    leader = stuck(min_insync=3)
    said = leader.accepted(SEATS[:2])
    assert leader.machine.high_watermark == 10
    assert not [e for e in said + leader.passes(5_000, SEATS[1]) if isinstance(e, ProposeIsr)]


def test_who_is_in_step_again_comes_in() -> None:
    leader = stuck(min_insync=2)
    leader.accepted(SEATS[:2])
    assert [e.isr for e in leader.fetched(SEATS[2], 20) if isinstance(e, ProposeIsr)] == [SEATS]


def test_a_leader_is_followed_once_all_who_may_lead_next_have_asked_from_its_epochs_start_on() -> None:
    leader = Leader()
    leader.appends(10)
    for seat in SEATS[1:]:
        leader.fetched(seat, 10)
    assert leader.machine.followed
    leader.hears(Changed(PartitionState((1, 2, 3), SEATS, 1, 11, 6, 9), True, 1, 10, 0))
    assert leader.machine.high_watermark == 10 and not leader.machine.followed, (
        "all is replicated, but of this epoch they have not heard"
    )
    leader.fetched(SEATS[1], 10)
    leader.fetched(SEATS[2], 9)
    assert not leader.machine.followed
    leader.fetched(SEATS[2], 10)
    assert leader.machine.followed
    leader.fetched(Seat(3, 14), 10)
    assert not leader.machine.followed, "another life than the one that may lead"
    leader.hears(Changed(PartitionState((1, 2, 3), SEATS[:1], 1, 11, 7, 10), True, 1, 10, 0))
    assert leader.machine.followed, "nobody else may lead"


def test_an_observer_counts_for_nothing_and_what_it_said_is_not_remembered() -> None:
    leader = Leader(min_insync=2)
    observer = Seat(4, 14)

    def said(**more: object) -> list[object]:
        epoch = leader.machine.state.partition_epoch + 1 if leader.machine.state is not None else 0
        state = PartitionState((1, 2, 3), SEATS[:2], 1, 11, 5, epoch)
        return leader.hears(Changed(replace(state, **more), True, 2, leader.end, 0))  # type: ignore[arg-type]

    said(observers=(4,))
    leader.appends(20)
    assert leader.fetched(observer, 20) == [], "neither proposed nor counted"
    assert leader.machine.high_watermark == 0
    leader.fetched(SEATS[1], 20)
    leader.appends(5)
    leader.fetched(SEATS[1], 25)
    assert leader.machine.high_watermark == 25, "nobody waits for an observer"
    leader.fetched(observer, 25)
    assert not [e for e in said(replicas=(4, 1, 2, 3), adding=(4,)) if isinstance(e, ProposeIsr)]
    (proposed,) = [e for e in leader.fetched(observer, 25) if isinstance(e, ProposeIsr)]
    assert observer in proposed.isr


ARCHIVE = 50


@pytest.mark.parametrize(
    ("leader_start", "follower", "start", "enters"),
    [
        (0, 3, 50, True),  # who is new begins where the archive ends
        (0, 3, 51, False),
        (0, 2, 0, True),
        (0, 2, 50, False),  # a holder has what the leader has
        (50, 2, 49, True),
        (50, 2, 50, False),  # also under a leader that has not
        (50, 3, 50, True),
        (60, 2, 60, True),  # what lies below was let go by all
    ],
)
def test_who_is_new_may_begin_where_an_archive_ends_and_a_holder_has_all(
    leader_start: int, follower: int, start: int, enters: bool
) -> None:
    machine = Partition(1, TopicPartition(UUID(int=7), 0), LAG_MS)
    holders = (1, 2) if leader_start == 0 else (2, 4)
    state = PartitionState((1, 2, 3), SEATS[:1], 1, 11, 5, archive_start=ARCHIVE, archive_epoch=4, holders=holders)
    now = Now(10_000, 0)
    machine.handle(Changed(state, True, 1, 100, leader_start), now)
    said = machine.handle(FollowerFetched(SEATS[follower - 1], 100, start), now)
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == ([(SEATS[0], SEATS[follower - 1])] if enters else [])


def test_who_holds_and_is_no_replica_follows_nobody_until_it_is_one() -> None:
    machine = Partition(3, TopicPartition(UUID(int=7), 0), LAG_MS)
    state = PartitionState((1, 2, 3), SEATS, 1, 11, 5)
    now = Now(10_000, 0)
    assert [type(e) for e in machine.handle(Changed(state, False, 1, 100, 0), now)] == [Follow]
    held = replace(
        state, replicas=(1, 2), isr=SEATS[:2], partition_epoch=1, archive_start=ARCHIVE, archive_epoch=4, holders=(3,)
    )
    assert [type(e) for e in machine.handle(Changed(held, False, 1, 100, 0), now)] == [StopFollowing]
    assert machine.role is Role.HOLDER
    back = replace(held, replicas=(1, 2, 3), partition_epoch=2)
    assert [type(e) for e in machine.handle(Changed(back, False, 1, 100, 0), now)] == [Follow]


def late(leader: Leader, ms: int, start: int = 5, leader_start: int = 0) -> tuple[Seat, ...]:
    """Whose copy is to be begun anew, after broker 3 has held all there is for `ms`, its log starting at `start`."""
    leader.hears(LogStartRaised(leader_start))
    for _ in range(ms // 100):
        leader.ms += 100
        leader.fetched(SEATS[1], leader.end)
        leader.hears(FollowerFetched(SEATS[2], leader.end, start))
        leader.hears(Tick())
    return leader.machine.late


def put_out() -> Leader:
    leader = Leader()
    leader.machine.late_ms_max = 3_000
    leader.appends(10)
    leader.accepted(SEATS[:2])
    return leader


def test_who_lacks_nothing_but_old_records_is_begun_anew_once_retention_has_had_its_turn() -> None:
    leader = put_out()
    assert late(leader, 3_000) == ()
    assert late(leader, 200) == (SEATS[2],)
    leader.hears(Changed(PartitionState((1, 2, 3), SEATS[:2], 1, 11, 6, 9), True, 1, leader.end, 0))
    assert leader.machine.late == (), "asked for in a leader epoch, and answered by the next"


def test_nobody_is_begun_anew_where_retention_has_passed_or_who_is_not_in_step() -> None:
    leader = put_out()
    assert late(leader, 2_900) == ()
    said = leader.hears(LogStartRaised(5)) + leader.hears(FollowerFetched(SEATS[2], leader.end, 5))
    assert [e.isr for e in said if isinstance(e, ProposeIsr)] == [SEATS], "it comes in by itself"
    leader = put_out()
    assert late(leader, 2_900) == ()
    leader.appends(1)
    leader.machine.handle(FollowerFetched(SEATS[2], 3, 5), Now(leader.ms, 0))
    leader.hears(Tick())
    assert late(leader, 2_900) == (), "from when it was in step again"
    leader = put_out()
    leader.accepted(SEATS)
    assert late(leader, 10_000) == (), "who is in the ISR may lead with the start that it has"


def test_the_low_watermark_is_that_of_who_may_lead_next() -> None:
    leader = Leader()
    leader.appends(10)
    leader.hears(LogStartRaised(6))
    assert leader.machine.low_watermark == -1, "nobody has been heard in this epoch"
    leader.hears(FollowerFetched(SEATS[1], 10, 6))
    assert not [e for e in leader.hears(FollowerFetched(SEATS[2], 10, 2)) if isinstance(e, ProposeIsr)]
    assert leader.machine.low_watermark == 2
    assert any(isinstance(e, RaiseLowWatermark) for e in leader.hears(FollowerFetched(SEATS[2], 10, 6)))
    assert leader.machine.low_watermark == 6
    assert leader.hears(FollowerFetched(SEATS[2], 10, 6)) == [], "told once"
    leader.hears(LogStartRaised(8))
    leader.accepted(SEATS[:2])
    said = leader.hears(FollowerFetched(SEATS[2], 10, 6))
    assert not [e for e in said if isinstance(e, ProposeIsr)], "it has not let go what the others have"
    assert [e.isr for e in leader.hears(FollowerFetched(SEATS[2], 10, 8)) if isinstance(e, ProposeIsr)] == [SEATS]
