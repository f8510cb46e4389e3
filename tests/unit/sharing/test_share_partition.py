"""The records in flight of a share partition: the cases of Kafka's SharePartitionTest, and random histories against a model with one entry per record."""

from __future__ import annotations

import random

import pytest

from brokerd.coordinator.share_state.state import NO_START, ShareState, StateBatch, apply_update
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, Acquired, FailedRun, LogBatch, RecordState
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.errors import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LOCK_MS = 30_000


def share_partition(
    start: int = 0, *, deliveries_max: int = 5, locks_max: int = 200, batches: tuple[StateBatch, ...] = ()
) -> SharePartition:
    state = ShareState(1, 0, start, batches)
    return SharePartition.load(state, 0, start, lock_ms=LOCK_MS, deliveries_max=deliveries_max, locks_max=locks_max)


def take(
    s: SharePartition,
    member: str,
    *batches: tuple[int, int],
    n: int = 500,
    now: int = 0,
    exact: bool = False,
    size: int = 0,
) -> list[Acquired]:
    offset = s.fetch_offset()
    if offset is None:
        return []
    found = [LogBatch(*b) for b in batches if b[1] >= offset]
    out = s.acquire(member, offset, found, n, now, exact=exact, batch_size=size)
    s.validate()
    return out


def ack(
    s: SharePartition, member: str, first: int, last: int, *types: int, now: int = 0, renew: bool = False
) -> ErrorCode:
    error = s.acknowledge(member, [Acknowledgement(first, last, types)], now, renew=renew)
    s.validate()
    return error


def states(s: SharePartition) -> list[tuple[int, int, RecordState, int]]:
    return [(r.first, r.last, r.state, r.count) for r in s.runs]


def test_an_accepted_batch_moves_the_start_offset() -> None:
    s = share_partition()
    assert take(s, "a", (0, 9)) == [Acquired(0, 9, 1)]
    assert s.fetch_offset() == 10
    assert ack(s, "a", 0, 9, ACCEPT) == ErrorCode.NONE
    assert (s.start, s.end, s.runs) == (10, 10, [])
    update = s.begin_write()
    assert update is not None
    assert (update.start, update.batches, update.complete_count) == (10, (), 0)


def test_two_members_get_different_records() -> None:
    s = share_partition()
    assert take(s, "a", (0, 4), (5, 9), n=5) == [Acquired(0, 4, 1)]
    assert take(s, "b", (0, 4), (5, 9)) == [Acquired(5, 9, 1)]
    assert take(s, "b", (0, 4), (5, 9)) == []


def test_a_whole_batch_is_acquired_above_the_record_limit_unless_the_limit_is_exact() -> None:
    s = share_partition()
    assert take(s, "a", (0, 9), n=3) == [Acquired(0, 9, 1)]
    s = share_partition()
    assert take(s, "a", (0, 9), n=3, exact=True) == [Acquired(0, 2, 1)]
    assert take(s, "b", (0, 9), n=3, exact=True) == [Acquired(3, 5, 1)]


def test_acquired_records_are_divided_near_the_batch_size() -> None:
    s = share_partition()
    assert take(s, "a", (0, 4), (5, 9), (10, 14), size=8) == [Acquired(0, 9, 1), Acquired(10, 14, 1)]


def test_acknowledgements_by_record() -> None:
    s = share_partition()
    take(s, "a", (0, 5))
    assert ack(s, "a", 0, 5, ACCEPT, RELEASE, REJECT, ACCEPT, GAP, RELEASE) == ErrorCode.NONE
    assert states(s) == [
        (1, 1, RecordState.AVAILABLE, 1),
        (2, 2, RecordState.ARCHIVED, 1),
        (3, 3, RecordState.ACKNOWLEDGED, 1),
        (4, 4, RecordState.ARCHIVED, 1),
        (5, 5, RecordState.AVAILABLE, 1),
    ]
    assert take(s, "b", (0, 5)) == [Acquired(1, 1, 2), Acquired(5, 5, 2)]


@pytest.mark.parametrize(
    ("acknowledgement", "error"),
    [
        (Acknowledgement(0, 4, (ACCEPT,)), ErrorCode.NONE),
        (Acknowledgement(0, 4, (ACCEPT, ACCEPT)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(0, 4, ()), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(4, 0, (ACCEPT,)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(0, 4, (5,)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(0, 4, (-1,)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(5, 10, (ACCEPT,)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(0, 4, (RENEW,)), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(5, 9, (ACCEPT,)), ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_acknowledgements_are_checked(acknowledgement: Acknowledgement, error: ErrorCode) -> None:
    s = share_partition()
    take(s, "a", (0, 4), n=5)
    take(s, "b", (5, 9))
    assert s.acknowledge("a", [acknowledgement], 0) == error


def test_a_rejected_acknowledgement_changes_nothing() -> None:
    s = share_partition()
    take(s, "a", (0, 4), n=5)
    take(s, "b", (5, 9))
    before = states(s)
    both = [Acknowledgement(0, 4, (ACCEPT,)), Acknowledgement(5, 9, (ACCEPT,))]
    assert s.acknowledge("a", both, 0) == ErrorCode.INVALID_RECORD_STATE
    assert s.acknowledge("a", both[::-1], 0) == ErrorCode.INVALID_REQUEST, "the order is wrong"
    assert states(s) == before


def test_a_second_acknowledgement_is_rejected_and_one_below_the_start_offset_is_ignored() -> None:
    s = share_partition()
    take(s, "a", (0, 9))
    assert ack(s, "a", 5, 9, ACCEPT) == ErrorCode.NONE
    assert ack(s, "a", 5, 9, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert ack(s, "a", 0, 4, ACCEPT) == ErrorCode.NONE
    take(s, "a", (10, 19))
    assert ack(s, "a", 0, 4, REJECT) == ErrorCode.NONE


def test_a_lock_ends_and_another_member_gets_the_record() -> None:
    s = share_partition()
    take(s, "a", (0, 9))
    assert not s.expire(LOCK_MS - 1)
    assert s.expire(LOCK_MS)
    assert ack(s, "a", 0, 9, ACCEPT, now=LOCK_MS) == ErrorCode.INVALID_RECORD_STATE
    assert take(s, "b", (0, 9), now=LOCK_MS) == [Acquired(0, 9, 2)]
    assert ack(s, "a", 0, 9, ACCEPT, now=LOCK_MS) == ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_lock_ends_later() -> None:
    s = share_partition()
    take(s, "a", (0, 9))
    assert ack(s, "a", 0, 4, RENEW, now=20_000, renew=True) == ErrorCode.NONE
    assert s.pending_write is None, "a renewal is not stored"
    assert s.expire(LOCK_MS)
    assert [(r.first, r.last) for r in s.runs if r.state is RecordState.ACQUIRED] == [(0, 4)]
    assert not s.expire(20_000 + LOCK_MS - 1)
    assert s.expire(20_000 + LOCK_MS)
    s.renew = False
    take(s, "a", (0, 9), now=60_000)
    assert ack(s, "a", 0, 4, RENEW, now=60_000, renew=True) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("by_lock", [True, False])
def test_a_record_is_archived_after_the_last_delivery(by_lock: bool) -> None:
    s = share_partition(deliveries_max=2)
    now = 0
    for n in (1, 2):
        assert take(s, "a", (0, 0), now=now) == [Acquired(0, 0, n)]
        now += LOCK_MS
        if by_lock:
            assert s.expire(now)
        else:
            assert ack(s, "a", 0, 0, RELEASE, now=now) == ErrorCode.NONE
    assert (s.start, s.available) == (1, 0)


def test_the_end_of_a_session_gives_the_delivery_back() -> None:
    s = share_partition(deliveries_max=2)
    for _ in range(5):
        assert take(s, "a", (0, 9)) == [Acquired(0, 9, 1)]
        assert s.release("a")
    assert not s.release("a")
    assert take(s, "b", (0, 9)) == [Acquired(0, 9, 1)]


def test_the_number_of_records_in_flight_is_limited() -> None:
    s = share_partition(locks_max=15)
    assert take(s, "a", (0, 9), (10, 19)) == [Acquired(0, 14, 1)]
    assert s.fetch_offset() is None
    assert ack(s, "a", 5, 9, ACCEPT) == ErrorCode.NONE
    assert s.fetch_offset() is None, "the limit counts from the start offset"
    assert ack(s, "a", 0, 4, ACCEPT) == ErrorCode.NONE
    assert take(s, "a", (0, 9), (10, 19)) == [Acquired(15, 19, 1)]


def test_records_that_the_log_does_not_have_are_archived() -> None:
    s = share_partition()
    out = s.acquire("a", 0, [LogBatch(3, 4), LogBatch(8, 8, False), LogBatch(9, 9)], 500, 0)
    assert out == [Acquired(3, 4, 1), Acquired(9, 9, 1)]
    assert states(s) == [
        (3, 4, RecordState.ACQUIRED, 1),
        (5, 7, RecordState.ARCHIVED, 0),
        (8, 8, RecordState.ARCHIVED, 0),
        (9, 9, RecordState.ACQUIRED, 1),
    ]
    s.validate()


def test_many_aborted_records_do_not_exceed_the_limit_of_records_in_flight() -> None:
    s = share_partition(locks_max=100)
    assert take(s, "a", (0, 9), n=1) == [Acquired(0, 9, 1)]
    assert s.acquire("a", 10, [LogBatch(10, 5_000, False), LogBatch(5_001, 5_001)], 500, 0) == []
    assert ack(s, "a", 0, 9, ACCEPT) == ErrorCode.NONE
    assert s.start == 5_001
    assert take(s, "a", (5_001, 5_001)) == [Acquired(5_001, 5_001, 1)]


def test_deleted_records_end_also_those_that_a_member_holds() -> None:
    s = share_partition()
    take(s, "a", (0, 4), n=5)
    take(s, "b", (5, 9))
    ack(s, "b", 5, 9, RELEASE)
    take(s, "c", (5, 6), n=2)
    assert s.raise_start(3)
    assert states(s) == [
        (3, 4, RecordState.ACQUIRED, 1),
        (5, 6, RecordState.ACQUIRED, 2),
        (7, 9, RecordState.AVAILABLE, 1),
    ]
    assert s.raise_start(20)
    assert (s.start, s.end, s.runs, s.available) == (20, 20, [], 0)
    assert not s.raise_start(20) and not s.raise_start(7)
    update = s.begin_write()
    assert update is not None and update.start == 20


def test_a_deleted_record_makes_room_in_flight() -> None:
    s = share_partition(locks_max=10)
    take(s, "a", (0, 9))
    assert s.fetch_offset() is None
    assert s.raise_start(4)
    assert take(s, "b", (10, 19)) == [Acquired(10, 13, 1)]


def test_an_acknowledgement_of_deleted_records_has_no_effect() -> None:
    s = share_partition()
    s.dead_letters = True
    take(s, "a", (0, 9))
    ack(s, "a", 0, 1, REJECT)
    s.raise_start(6)
    assert states(s) == [
        (0, 1, RecordState.ARCHIVING, 1),
        (2, 5, RecordState.ARCHIVED, 1),
        (6, 9, RecordState.ACQUIRED, 1),
    ]
    assert ack(s, "a", 2, 9, REJECT) == ErrorCode.NONE
    assert (s.archiving, s.start) == (6, 0), "the dead letters of 0 and 1 are due, those of the deleted records are not"
    s.archive(0, 1)
    assert (s.start, s.archiving) == (6, 4)


def test_a_loaded_share_partition_continues_with_the_stored_states() -> None:
    s = share_partition(
        5,
        batches=(
            StateBatch(0, 6, RecordState.ACKNOWLEDGED, 1),
            StateBatch(10, 12, RecordState.AVAILABLE, 2),
            StateBatch(15, 16, RecordState.ARCHIVED, 5),
        ),
    )
    assert (s.start, s.end) == (7, 17)
    assert take(s, "a", (0, 20)) == [Acquired(7, 9, 1), Acquired(10, 12, 3), Acquired(13, 14, 1), Acquired(17, 20, 1)]


def test_an_initial_start_offset_is_stored() -> None:
    s = SharePartition.load(ShareState(1, 0, NO_START), 0, 40, lock_ms=1, deliveries_max=5, locks_max=9)
    update = s.begin_write()
    assert update is not None and update.start == 40


def test_a_required_write_is_made_without_changes_and_begins_after_the_call() -> None:
    s = share_partition()
    assert s.begin_write() is None
    assert s.require_write() == 1
    update = s.begin_write()
    assert update is not None and (update.start, update.batches) == (0, ())
    assert s.require_write() == s.require_write() == 2, "the write in progress may have begun too early"
    assert s.begin_write() is None
    s.end_write()
    assert (s.writes_done, s.pending_write) == (1, 2)


def test_changes_during_a_write_go_into_the_next_one() -> None:
    s = share_partition()
    take(s, "a", (0, 9))
    ack(s, "a", 2, 3, ACCEPT)
    first = s.begin_write()
    assert first is not None and first.batches == (StateBatch(2, 3, RecordState.ACKNOWLEDGED, 1),)
    assert s.pending_write == 1
    ack(s, "a", 6, 7, RELEASE)
    assert (s.pending_write, s.begin_write()) == (2, None)
    s.end_write()
    second = s.begin_write()
    assert second is not None and second.batches == (StateBatch(6, 7, RecordState.AVAILABLE, 1),)
    s.end_write()
    assert s.pending_write is None


class History:
    """Random calls of a share partition, and one entry per record: the definition that the runs implement."""

    DELIVERIES_MAX = 3

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.now = 0
        self.share = share_partition(deliveries_max=self.DELIVERIES_MAX, locks_max=60)
        self.stored = ShareState(1, 0, 0)
        self.state: dict[int, RecordState] = {}
        self.count: dict[int, int] = {}
        self.holder: dict[int, tuple[str, int]] = {}
        self.held: dict[str, list[tuple[int, int]]] = {"a": [], "b": [], "c": []}
        self.log: list[LogBatch] = []
        at = 0
        while at < 400:
            at += self.r.choice((0, 0, 0, 1, 4))
            last = at + self.r.randrange(8)
            self.log.append(LogBatch(at, last, self.r.random() < 0.9))
            at = last + 1

    def step(self) -> None:
        self.now += self.r.randrange(4_000)
        member = self.r.choice("abc")
        act = self.r.choice((self.acquire, self.acquire, self.acknowledge, self.acknowledge, self.expire, self.leave))
        act(member)
        self.share.validate()
        self.write()
        for run in self.share.runs:
            for o in range(run.first, run.last + 1):
                assert run.state in (RecordState.ARCHIVED, self.state.get(o, RecordState.AVAILABLE)), o

    def acquire(self, member: str) -> None:
        offset = self.share.fetch_offset()
        if offset is None:
            return
        found = [b for b in self.log if b.last >= offset][: self.r.randrange(1, 5)]
        n, exact = self.r.randrange(1, 20), self.r.random() < 0.5
        for a in self.share.acquire(member, offset, found, n, self.now, exact=exact, batch_size=5):
            self.held[member].append((a.first, a.last))
            for o in range(a.first, a.last + 1):
                assert self.state.get(o, RecordState.AVAILABLE) is RecordState.AVAILABLE, f"{o} has two holders"
                assert any(b.first <= o <= b.last and b.deliver for b in self.log)
                self.state[o], self.holder[o] = RecordState.ACQUIRED, (member, self.now + LOCK_MS)
                self.count[o] = self.count.get(o, 0) + 1
                assert self.count[o] == a.deliveries <= self.DELIVERIES_MAX

    def acknowledge(self, member: str) -> None:
        if not self.held[member]:
            return
        first, last = self.held[member].pop(self.r.randrange(len(self.held[member])))
        types = tuple(self.r.choice((ACCEPT, RELEASE, REJECT, GAP)) for _ in range(first, last + 1))
        mine = [self.holder.get(o, ("", 0))[0] == member for o in range(first, last + 1) if o >= self.share.start]
        error = self.share.acknowledge(member, [Acknowledgement(first, last, types)], self.now)
        assert error == (ErrorCode.NONE if all(mine) else ErrorCode.INVALID_RECORD_STATE)
        for o, kind in zip(range(first, last + 1), types, strict=True):
            if not error and self.holder.get(o, ("", 0))[0] == member:
                self.end_lock(o, kind)

    def expire(self, member: str) -> None:
        self.share.expire(self.now)
        for o in [o for o, (_, until) in self.holder.items() if until <= self.now]:
            self.end_lock(o, RELEASE)

    def leave(self, member: str) -> None:
        self.share.release(member)
        for o in [o for o, (who, _) in self.holder.items() if who == member]:
            del self.holder[o]
            self.state[o] = RecordState.AVAILABLE
            self.count[o] -= 1

    def end_lock(self, offset: int, kind: AcknowledgeType) -> None:
        del self.holder[offset]
        if kind is RELEASE:
            archived = self.count[offset] >= self.DELIVERIES_MAX
            self.state[offset] = RecordState.ARCHIVED if archived else RecordState.AVAILABLE
        else:
            self.state[offset] = RecordState.ACKNOWLEDGED if kind is ACCEPT else RecordState.ARCHIVED

    def write(self) -> None:
        update = self.share.begin_write()
        if update is not None:
            self.stored = apply_update(self.stored, update, 0)
            if self.r.random() < 0.7:
                self.share.end_write()


@pytest.mark.parametrize("seed", range(40))
def test_random_histories_agree_with_a_model_and_with_the_stored_state(seed: int) -> None:
    h = History(seed)
    for _ in range(200):
        h.step()
    while h.share.pending_write is not None:
        h.share.end_write()
        h.write()
    again = SharePartition.load(h.stored, 1, h.stored.start, lock_ms=LOCK_MS, deliveries_max=3, locks_max=60)
    again.validate()
    assert again.start == h.share.start
    for run in again.runs:
        for o in range(run.first, run.last + 1):
            accepted = h.state.get(o) is RecordState.ACKNOWLEDGED
            assert accepted == (run.state is RecordState.ACKNOWLEDGED), f"{o} is lost or would be delivered again"


def with_dead_letters(*batches: StateBatch) -> SharePartition:
    s = share_partition(deliveries_max=2, batches=batches)
    s.dead_letters = True
    return s


def write_batches(s: SharePartition) -> tuple[StateBatch, ...]:
    """The batches of the next write, which then ends."""
    update = s.begin_write()
    s.end_write()
    return update.batches if update is not None else ()


def test_a_rejected_record_waits_for_its_dead_letter() -> None:
    s = with_dead_letters()
    take(s, "a", (0, 4))
    ack(s, "a", 1, 2, REJECT)
    assert s.next_failed(10) is None, "another leader would deliver it again"
    assert write_batches(s) == (StateBatch(1, 2, RecordState.ARCHIVING, 1),)
    assert s.next_failed(10) == FailedRun(1, 2, 1, True) and s.next_failed(1) == FailedRun(1, 1, 1, True)
    ack(s, "a", 0, 0, ACCEPT)
    assert s.start == 1 and ack(s, "a", 1, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    s.archive(1, 1)
    s.validate()
    assert (s.start, s.archiving) == (2, 1)
    s.begin_write()
    assert s.next_failed(10) is None, "a write is in progress"
    s.end_write()
    assert s.next_failed(10) == FailedRun(2, 2, 1, True)


def test_a_record_without_deliveries_left_waits_for_its_dead_letter() -> None:
    s = with_dead_letters()
    for now in (0, LOCK_MS):
        take(s, "a", (0, 0), now=now)
        s.expire(now + LOCK_MS)
    write_batches(s)
    assert s.next_failed(10) == FailedRun(0, 0, 2, False)
    s.archive(0, 5)
    assert s.start == 1 and s.begin_write() is not None


def test_gaps_and_groups_without_a_topic_have_no_dead_letters() -> None:
    s = with_dead_letters()
    take(s, "a", (0, 4))
    ack(s, "a", 0, 1, GAP)
    assert (s.start, s.archiving) == (2, 0)
    s.dead_letters = False
    ack(s, "a", 2, 2, REJECT)
    assert (s.start, s.archiving) == (3, 0)


def test_a_new_leader_writes_the_dead_letters_that_are_not_known_to_be_written() -> None:
    s = with_dead_letters(StateBatch(0, 1, RecordState.ARCHIVING, 1), StateBatch(2, 2, RecordState.ARCHIVING, 2))
    s.validate()
    assert s.next_failed(10) == FailedRun(0, 1, 1, True)
    s.archive(0, 1)
    write_batches(s)
    assert s.next_failed(10) == FailedRun(2, 2, 2, False), "the cause is not stored: the deliveries are used up"
