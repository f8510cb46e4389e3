"""Half messages: the first decision wins, checks at 6 s and then every 30 s, expiry after the fifteenth, the same after a leader change."""

from __future__ import annotations

import random

import pytest

from brokerd.delivery import half_messages as h
from brokerd.delivery.half_messages import HalfDecision, HalfRejection
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits

COMMIT, ROLLBACK = HalfDecision.COMMIT, HalfDecision.ROLLBACK
ROOM = h.HalfMessagesTick(1_000, 1_000)


def half_appended(offset: int, half_id: bytes = b"a", at_ms: int = 0) -> h.HalfAppended:
    return h.HalfAppended(half_id, offset, at_ms)


def test_a_commit_delivers_and_a_rollback_discards() -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0), 0)
    half.handle(half_appended(1, b"b"), 0)
    assert half.handle(h.DecisionAppended(b"a", 2, COMMIT), 0) == [h.Deliver(0)]
    assert half.handle(h.DecisionAppended(b"b", 3, ROLLBACK), 0) == [h.Discard(1)]
    assert half.wake_at_ms is None and len(half) == 0


@pytest.mark.parametrize(
    ("first", "rejection"),
    [(COMMIT, HalfRejection.ALREADY_COMMITTED), (ROLLBACK, HalfRejection.ALREADY_ROLLED_BACK)],
)
def test_the_first_decision_wins_and_the_second_names_it(first: HalfDecision, rejection: HalfRejection) -> None:
    half = h.HalfMessages()
    assert half.rejection(b"a", COMMIT) is HalfRejection.UNKNOWN_ID
    assert half.rejection(b"a", None) is None
    half.handle(half_appended(0), 0)
    assert half.rejection(b"a", None) is HalfRejection.ID_IN_USE and half.rejection(b"a", COMMIT) is None
    assert len(half.handle(h.DecisionAppended(b"a", 1, first), 0)) == 1
    for second in (COMMIT, ROLLBACK):
        assert half.rejection(b"a", second) is rejection
        assert half.handle(h.DecisionAppended(b"a", 2, second), 0) == []
    assert half.rejection(b"a", None) is HalfRejection.ID_IN_USE


def test_a_second_record_is_retriable_until_the_first_one_is_stable() -> None:
    half = h.HalfMessages()
    half.handle(h.HalfPending(b"a", 0), 0)
    assert half.rejection(b"a", None) is HalfRejection.NOT_STABLE
    assert half.rejection(b"a", COMMIT) is None, "the decision follows its message in the log"
    half.handle(h.HalfPending(b"a", 1, COMMIT), 0)
    assert half.rejection(b"a", ROLLBACK) is HalfRejection.NOT_STABLE
    half.handle(half_appended(0), 0)
    assert half.rejection(b"a", ROLLBACK) is HalfRejection.NOT_STABLE
    half.handle(h.DecisionAppended(b"a", 1, COMMIT), 0)
    assert half.rejection(b"a", ROLLBACK) is HalfRejection.ALREADY_COMMITTED


def test_a_decision_of_an_aborted_transaction_was_never_made() -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0), 0)
    half.handle(h.HalfPending(b"a", 1, COMMIT, 7), 0)
    half.handle(h.HalfAborted(b"a", 1), 0)
    assert half.rejection(b"a", ROLLBACK) is None and len(half) == 1


def test_a_message_of_an_ongoing_transaction_is_decided_in_it_only() -> None:
    half = h.HalfMessages()
    half.handle(h.HalfPending(b"a", 0, None, 7), 0)
    assert half.rejection(b"a", COMMIT) is HalfRejection.NOT_STABLE
    assert half.rejection(b"a", COMMIT, 8) is HalfRejection.NOT_STABLE
    assert half.rejection(b"a", COMMIT, 7) is None


def test_records_that_a_client_deleted_do_not_block_their_ids() -> None:
    half = h.HalfMessages()
    half.handle(h.HalfPending(b"a", 0), 0)
    half.handle(h.HalfPending(b"b", 5), 0)
    half.handle(h.HalfDeleted(5), 0)
    assert half.rejection(b"a", None) is None and half.rejection(b"b", None) is HalfRejection.NOT_STABLE


def test_checks_come_after_6_s_and_then_every_30_s_and_the_message_expires_after_fifteen() -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0, at_ms=1_000), 1_000)
    seen = []
    while (at := half.wake_at_ms) is not None:
        assert half.handle(ROOM, at - 1) == []
        seen += [(at - 1_000, effect) for effect in half.handle(ROOM, at)]
    checks = [(6_000 + 30_000 * n, h.CheckProducers(b"a", 0, n + 1)) for n in range(15)]
    assert seen == [*checks, (6_000 + 30_000 * 15, h.Expire(0))]
    assert half.rejection(b"a", COMMIT) is HalfRejection.NOT_STABLE, "its journal entry is not stable"
    half.handle(h.ExpiryAppended(0), 0)
    assert half.rejection(b"a", COMMIT) is HalfRejection.ALREADY_EXPIRED and len(half) == 0


def test_a_message_with_a_pending_decision_does_not_expire() -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0), 10**9)
    assert half.handle(ROOM, 10**9) == [h.CheckProducers(b"a", 0, 15)]
    half.handle(h.HalfPending(b"a", 1, COMMIT, 7), 0)
    assert half.handle(ROOM, 10**9 + 30_000) == []
    half.handle(h.HalfAborted(b"a", 1), 0)
    assert half.handle(ROOM, 10**9 + 31_000) == [h.Expire(0)]


def test_a_check_without_room_does_not_delay_an_expiry_and_the_reverse() -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0), 10**9)
    half.handle(ROOM, 10**9)
    half.handle(half_appended(1, b"b", 10**9), 10**9)
    assert half.handle(h.HalfMessagesTick(0, 1), 10**9 + 30_000) == [h.Expire(0)]
    assert half.handle(h.HalfMessagesTick(1, 0), 10**9 + 31_000) == [h.CheckProducers(b"b", 1, 1)]


def test_an_expiring_message_of_an_earlier_leader_is_not_decided_again() -> None:
    half = h.HalfMessages()
    half.handle(h.HalfAppended(b"a", 0, 0, expiring=True), 10**9)
    assert half.rejection(b"a", COMMIT) is HalfRejection.NOT_STABLE
    assert half.handle(ROOM, 2 * 10**9) == []


@pytest.mark.parametrize(("now_ms", "number"), [(6_000, 1), (35_999, 1), (36_000, 2), (426_000, 15), (10**9, 15)])
def test_a_new_leader_continues_the_checks_with_the_last_one_that_was_due(now_ms: int, number: int) -> None:
    half = h.HalfMessages()
    half.handle(half_appended(0), now_ms)
    assert half.handle(ROOM, now_ms) == [h.CheckProducers(b"a", 0, number)]
    if number == DEFAULT_LIMITS.checks_max:
        assert half.wake_at_ms == now_ms + DEFAULT_LIMITS.check_interval_ms, "time for the response"


def test_undecided_messages_are_listed_by_offset_and_bounded() -> None:
    half = h.HalfMessages(DeliveryLimits(undecided_max=3))
    for i, half_id in enumerate((b"a", b"b", b"c")):
        half.handle(half_appended(i, half_id), 0)
    assert half.rejection(b"d", None) is HalfRejection.TOO_MANY
    half.handle(h.DecisionAppended(b"a", 3, COMMIT), 0)
    half.handle(ROOM, 6_000)
    assert [(u.offset, u.checks) for u in half.undecided_in_order()] == [(1, 1), (2, 1)]
    assert half.rejection(b"d", None) is None


def test_only_the_latest_decided_ids_are_remembered() -> None:
    half = h.HalfMessages(DeliveryLimits(decided_max=2))
    for i in range(3):
        half.handle(half_appended(2 * i, b"%d" % i), 0)
        half.handle(h.DecisionAppended(b"%d" % i, 2 * i + 1, COMMIT), 0)
    rejections = [half.rejection(b"%d" % i, COMMIT) for i in range(3)]
    assert rejections == [HalfRejection.UNKNOWN_ID, HalfRejection.ALREADY_COMMITTED, HalfRejection.ALREADY_COMMITTED]


def test_a_decision_whose_message_was_deleted_is_still_remembered() -> None:
    half = h.HalfMessages()
    assert half.handle(h.DecisionAppended(b"a", 9, ROLLBACK), 0) == []
    assert half.rejection(b"a", COMMIT) is HalfRejection.ALREADY_ROLLED_BACK


@pytest.mark.parametrize("seed", range(100))
def test_each_message_has_one_fate_and_a_new_leader_with_the_same_log_agrees(seed: int) -> None:
    rng, half, log, now_ms = random.Random(seed), h.HalfMessages(), list[h.HalfEvent](), 0
    fates: dict[int, h.HalfEffect] = {}

    def run(event: h.HalfEvent) -> None:
        if not isinstance(event, h.HalfMessagesTick):
            log.append(event)
        for effect in half.handle(event, now_ms):
            if not isinstance(effect, h.CheckProducers):
                assert effect.offset not in fates
                fates[effect.offset] = effect
            if isinstance(effect, h.Expire):
                run(h.ExpiryAppended(effect.offset))

    for offset in range(300):
        half_id = b"%d" % rng.randrange(60)
        decision = rng.choice([None, COMMIT, ROLLBACK])
        if half.rejection(half_id, decision) is None:
            run(h.HalfPending(half_id, offset, decision))
            if decision is None:
                run(h.HalfAppended(half_id, offset, now_ms))
            else:
                run(h.DecisionAppended(half_id, offset, decision))
        if rng.random() < 0.3:
            now_ms += rng.choice((10, 1_000, 40_000))
            run(ROOM)
    again = h.HalfMessages()
    decided = {e.offset: e for event in log for e in again.handle(event, now_ms) if not isinstance(e, h.CheckProducers)}
    assert {o: fate for o, fate in fates.items() if not isinstance(fate, h.Expire)} == decided
    assert [u.offset for u in again.undecided_in_order()] == [u.offset for u in half.undecided_in_order()]
