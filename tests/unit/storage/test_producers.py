"""Idempotent producers: duplicates, gaps, fencing, sequence wrap-around."""

from __future__ import annotations

import json

import pytest

from brokerd.storage.producers import (
    ACCEPTED,
    Duplicate,
    ProducerRejected,
    Producers,
)
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import CONTROL, SEQUENCE_MAX, TRANSACTIONAL, BatchHeader


def header(sequence: int, count: int = 1, epoch: int = 0, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 61, 0, 2, 0, attributes, count - 1, 0, 0, 9, epoch, sequence, count)


def producers_after(*batches: tuple[int, int], epoch: int = 0) -> Producers:
    out, offset = Producers(), 0
    for sequence, count in batches:
        out.on_appended(header(sequence, count, epoch), offset, 50)
        offset += count
    return out


def rejection(verdict: object) -> int:
    assert isinstance(verdict, ProducerRejected)
    return verdict.error


def test_an_unknown_producer_may_start_with_any_sequence() -> None:
    assert Producers().check(header(500)) is ACCEPTED


def test_the_next_sequence_is_accepted_and_a_gap_is_rejected() -> None:
    known = producers_after((0, 3), (3, 2))
    assert known.check(header(5)) is ACCEPTED
    assert rejection(known.check(header(6))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_a_duplicate_with_its_offsets() -> None:
    known = producers_after(*[(i * 2, 2) for i in range(8)])
    for i in range(3, 8):
        assert known.check(header(i * 2, 2)) == Duplicate(i * 2, i * 2 + 1)


def test_an_older_sequence_that_was_certainly_written_is_a_duplicate() -> None:
    known = producers_after(*[(i, 1) for i in range(8)])
    found = known.check(header(1))
    assert rejection(found) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert isinstance(found, ProducerRejected) and found.written_before == 3, "the oldest of the last five"


def test_a_sequence_before_the_known_range_is_no_duplicate() -> None:
    known = producers_after(*[(100 + i, 1) for i in range(8)])
    assert rejection(known.check(header(99))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rejection(known.check(header(100))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_an_overlapping_batch_is_rejected() -> None:
    assert rejection(producers_after((0, 5)).check(header(3, 5))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_part_of_a_remembered_batch_is_not_answered_with_its_offsets() -> None:
    known = producers_after((0, 5), (5, 5))
    assert rejection(known.check(header(5, 3))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert rejection(known.check(header(7, 3))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert known.check(header(5, 5)) == Duplicate(5, 9)


@pytest.mark.parametrize("around", [[(SEQUENCE_MAX, 1), (0, 11)], [(SEQUENCE_MAX, 12)]])
def test_after_a_wrap_an_older_sequence_is_no_duplicate(around: list[tuple[int, int]]) -> None:
    known = producers_after((3, SEQUENCE_MAX - 3), *around, *[(i, 1) for i in range(11, 17)])
    assert rejection(known.check(header(5))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(known.check(header(16)), Duplicate)


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_sequence_zero() -> None:
    known = producers_after((0, 5), epoch=4)
    assert rejection(known.check(header(5, epoch=3))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert rejection(known.check(header(5, epoch=5))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(header(0, epoch=5)) is ACCEPTED
    known.on_appended(header(0, epoch=5), 5, 60)
    assert rejection(known.check(header(0, 5, epoch=4))) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_control_batch_raises_the_epoch_and_uses_no_sequence() -> None:
    known = producers_after((0, 2), epoch=1)
    known.on_appended(header(-1, epoch=1, attributes=CONTROL), 2, 60)
    assert known.check(header(2, epoch=1)) is ACCEPTED
    known.on_appended(header(-1, epoch=2, attributes=CONTROL), 3, 60)
    assert rejection(known.check(header(2, epoch=1))) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("first", [SEQUENCE_MAX - 1, SEQUENCE_MAX])
def test_sequences_wrap_at_the_largest_int(first: int) -> None:
    known = producers_after((first, 4))
    following = (first + 4) - SEQUENCE_MAX - 1
    assert known.check(header(first, 4)) == Duplicate(0, 3)
    assert known.check(header(following)) is ACCEPTED
    known.on_appended(header(following, 2), 4, 60)
    assert known.check(header(following + 2)) is ACCEPTED
    for _ in range(6):
        known.on_appended(header(known.known[9].batches[-1][1] + 1), 10, 60)
    assert rejection(known.check(header(first, 4))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_without_a_producer_id_leave_no_state() -> None:
    known = Producers()
    assert known.on_appended(header(-1)._replace(producer_id=-1), 0, 50) is None
    assert not known.known and known.last_offsets() == {}


def test_the_newest_coordinator_stays_known_after_a_marker_of_an_older_one() -> None:
    known = producers_after((0, 1))
    for coordinator_epoch in (5, 3):
        known.on_appended(header(0, attributes=CONTROL | TRANSACTIONAL), 1, 50, Marker(True, coordinator_epoch))
    assert rejection(known.check_marker(9, 0, 4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert known.check_marker(9, 0, 5) is None


def test_the_last_stable_offset_is_that_of_the_first_open_or_not_yet_replicated_transaction() -> None:
    known = Producers()
    assert known.first_unstable() is None

    def transaction(producer_id: int, at: int) -> None:
        known.on_appended(header(0, attributes=TRANSACTIONAL)._replace(producer_id=producer_id), at, 50)

    def marker(producer_id: int, at: int) -> None:
        ends = header(0, attributes=CONTROL | TRANSACTIONAL)._replace(producer_id=producer_id)
        known.on_appended(ends, at, 50, Marker(True, 1))

    for producer_id in (1, 2, 3):
        transaction(producer_id, producer_id * 10)
    assert known.first_unstable() == 10
    marker(2, 40)
    assert known.first_unstable() == 10, "an open transaction starts below one that ends"
    marker(1, 41)
    assert known.first_unstable() == 10, "its marker is not replicated"
    known.on_replicated(41)
    assert known.first_unstable() == 10
    known.on_replicated(42)
    assert known.first_unstable() == 30
    marker(3, 42)
    assert known.first_unstable() == 30
    known.on_replicated(43)
    assert known.first_unstable() is None


def test_compaction_keeps_the_newest_batch_or_marker_of_each_producer() -> None:
    known = producers_after((0, 3), (3, 2))
    known.on_appended(header(0, attributes=CONTROL | TRANSACTIONAL), 5, 50, Marker(True, 1))
    assert known.last_offsets() == {9: 4}
    known.on_appended(header(0, epoch=1, attributes=CONTROL | TRANSACTIONAL), 6, 50, Marker(True, 1))
    assert known.last_offsets() == {9: 6}, "a new epoch has no batch yet"


def test_a_gap_in_the_log_makes_earlier_sequences_uncertain() -> None:
    known = producers_after(*[(i, 1) for i in range(3)], (50, 1), *[(51 + i, 1) for i in range(6)])
    assert rejection(known.check(header(1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rejection(known.check(header(50))) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_the_producer_state_survives_json() -> None:
    known = producers_after(*[(i, 1) for i in range(8)])
    again = Producers.from_json(json.loads(json.dumps(known.to_json())))
    assert again.known == known.known
    again.expire(50 + 10, 10)
    assert 9 in again.known
    again.expire(50 + 11, 10)
    assert again.known == {}


def test_the_state_at_an_offset_has_the_batches_before_it() -> None:
    known = producers_after(*[(i, 1) for i in range(4)])
    before = Producers.from_json(known.before(3).to_json())
    assert before.check(header(3)) is ACCEPTED and before.check(header(2)) == Duplicate(2, 2)
    assert rejection(before.check(header(4))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in (3, 4):
        before.on_appended(header(sequence), sequence, 50)
    assert before.check(header(0)) == Duplicate(0, 0)


def test_the_state_at_an_offset_lacks_a_producer_whose_remembered_batches_are_later() -> None:
    known = producers_after(*[(i, 1) for i in range(8)])
    assert not known.before(3).known, "its sequence at offset 3 is forgotten: any batch must be accepted"
    assert known.before(4).known[9].batches[-1] == (3, 3, 3, 3)


def test_the_state_at_an_offset_has_a_transaction_that_begins_before_it() -> None:
    known = Producers()
    for sequence in range(2):
        known.on_appended(header(sequence, attributes=TRANSACTIONAL), sequence, 50)
    before = Producers.from_json(known.before(1).to_json())
    assert before.open == {9: 0} and before.first_unstable() == 0
    known.on_appended(header(0, attributes=CONTROL), 2, 50, Marker(True, 4))
    assert known.before(2).known[9].marker_offset == -1 and not known.before(0).known


def test_the_state_at_an_offset_has_a_producer_with_only_a_marker() -> None:
    known = Producers()
    known.on_appended(header(0, attributes=CONTROL, epoch=3), 5, 50, Marker(True, 4))
    assert known.before(6).known[9].coordinator_epoch == 4
    assert not known.before(5).known
