"""Half messages: the first decision wins, checks at 6 s and then every 30 s, expiry after the fifteenth, the same after a leader change."""

from __future__ import annotations

import random

import pytest

from brokerd.delivery import half_messages as h
from brokerd.delivery.half_messages import HalfDecision, HalfRefusal


def appended(offset: int, half_id: bytes = b"a", at_ms: int = 0) -> h.HalfAppended:
    return h.HalfAppended(half_id, offset, at_ms)


def test_a_commit_delivers_when_it_is_replicated() -> None:
    half = h.HalfMessages()
    half.handle(appended(0), 0)
    assert half.handle(h.DecisionAppended(b"a", 1, HalfDecision.COMMIT), 0) == []
    assert half.handle(h.HalfMessagesReplicated(1), 0) == [], "the message, not the decision"
    assert half.handle(h.HalfMessagesReplicated(2), 0) == [h.Deliver(0)]
    assert half.handle(h.HalfMessagesReplicated(3), 0) == [] and half.wake_at_ms is None and len(half) == 0


def test_a_rollback_discards() -> None:
    half = h.HalfMessages()
    half.handle(appended(0), 0)
    half.handle(h.DecisionAppended(b"a", 1, HalfDecision.ROLLBACK), 0)
    assert half.handle(h.HalfMessagesReplicated(2), 0) == [h.Discard(0)]


@pytest.mark.parametrize(
    ("first", "refusal"),
    [(HalfDecision.COMMIT, HalfRefusal.ALREADY_COMMITTED), (HalfDecision.ROLLBACK, HalfRefusal.ALREADY_ROLLED_BACK)],
)
def test_the_first_decision_wins_and_the_second_names_it(first: HalfDecision, refusal: HalfRefusal) -> None:
    half = h.HalfMessages()
    assert half.refusal(b"a", HalfDecision.COMMIT) is HalfRefusal.UNKNOWN_ID
    assert half.refusal(b"a", None) is None
    half.handle(appended(0), 0)
    assert half.refusal(b"a", None) is HalfRefusal.ID_IN_USE and half.refusal(b"a", HalfDecision.COMMIT) is None
    half.handle(h.DecisionAppended(b"a", 1, first), 0)
    for second in (HalfDecision.COMMIT, HalfDecision.ROLLBACK):
        assert half.refusal(b"a", second) is refusal
        half.handle(h.DecisionAppended(b"a", 2, second), 0)
    assert half.refusal(b"a", None) is HalfRefusal.ID_IN_USE
    assert len(half.handle(h.HalfMessagesReplicated(9), 0)) == 1


def test_checks_come_after_6_s_and_then_every_30_s_and_the_message_expires_after_fifteen() -> None:
    half = h.HalfMessages()
    half.handle(appended(0, at_ms=1_000), 1_000)
    half.handle(h.HalfMessagesReplicated(1), 1_000)
    seen = []
    while (at := half.wake_at_ms) is not None:
        assert half.handle(h.HalfMessagesTick(), at - 1) == []
        seen += [(at - 1_000, effect) for effect in half.handle(h.HalfMessagesTick(), at)]
    checks = [(6_000 + 30_000 * n, h.CheckProducers(b"a", 0, n + 1)) for n in range(15)]
    assert seen == [*checks, (6_000 + 30_000 * 15, h.Expire(0))]
    assert half.refusal(b"a", HalfDecision.COMMIT) is HalfRefusal.ALREADY_EXPIRED


def test_a_message_that_is_not_replicated_is_not_checked() -> None:
    half = h.HalfMessages()
    half.handle(appended(0), 0)
    assert half.handle(h.HalfMessagesTick(), 7_000) == []
    half.handle(h.HalfMessagesReplicated(1), 7_000)
    assert half.handle(h.HalfMessagesTick(), 7_000) == [h.CheckProducers(b"a", 0, 1)]


@pytest.mark.parametrize(("now_ms", "number"), [(6_000, 1), (35_999, 1), (36_000, 2), (426_000, 15), (10**9, 15)])
def test_a_new_leader_continues_the_checks_with_the_last_one_that_was_due(now_ms: int, number: int) -> None:
    half = h.HalfMessages()
    half.handle(appended(0), now_ms)
    half.handle(h.HalfMessagesReplicated(1), now_ms)
    assert half.handle(h.HalfMessagesTick(), now_ms)[0] == h.CheckProducers(b"a", 0, number)


def test_the_oldest_undecided_message_bounds_the_deletion_of_the_log() -> None:
    half = h.HalfMessages()
    assert half.oldest_offset is None
    for i, half_id in enumerate((b"a", b"b", b"c")):
        half.handle(appended(i, half_id), 0)
    half.handle(h.DecisionAppended(b"a", 3, HalfDecision.COMMIT), 0)
    assert half.oldest_offset == 1


def test_only_the_latest_decided_ids_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h, "DECIDED_MAX", 2)
    half = h.HalfMessages()
    for i in range(3):
        half.handle(appended(2 * i, b"%d" % i), 0)
        half.handle(h.DecisionAppended(b"%d" % i, 2 * i + 1, HalfDecision.COMMIT), 0)
    refusals = [half.refusal(b"%d" % i, HalfDecision.COMMIT) for i in range(3)]
    assert refusals == [HalfRefusal.UNKNOWN_ID, HalfRefusal.ALREADY_COMMITTED, HalfRefusal.ALREADY_COMMITTED]


@pytest.mark.parametrize("seed", range(100))
def test_each_message_has_one_fate_and_a_new_leader_with_the_same_log_agrees(seed: int) -> None:
    rng, half, log, now_ms = random.Random(seed), h.HalfMessages(), list[h.HalfEvent](), 0
    fates: dict[int, h.HalfEffect] = {}

    def run(event: h.HalfEvent) -> None:
        for effect in half.handle(event, now_ms):
            if not isinstance(effect, h.CheckProducers):
                assert effect.offset not in fates
                fates[effect.offset] = effect

    for offset in range(300):
        half_id = b"%d" % rng.randrange(60)
        decision = rng.choice([None, HalfDecision.COMMIT, HalfDecision.ROLLBACK])
        if half.refusal(half_id, decision) is None:
            event = (
                h.HalfAppended(half_id, offset, now_ms)
                if decision is None
                else h.DecisionAppended(half_id, offset, decision)
            )
            log.append(event)
            run(event)
        if rng.random() < 0.3:
            run(h.HalfMessagesReplicated(offset + 1))
        if rng.random() < 0.3:
            now_ms += rng.choice((10, 1_000, 40_000))
            run(h.HalfMessagesTick())
    run(h.HalfMessagesReplicated(300))
    again = h.HalfMessages()
    later: list[h.HalfEffect] = []
    for event in log:
        again.handle(event, now_ms)
    later += again.handle(h.HalfMessagesReplicated(300), now_ms)
    decided = {e.offset: e for e in later if isinstance(e, h.Deliver | h.Discard)}
    expired = {o for o, fate in fates.items() if isinstance(fate, h.Expire)}
    assert {o: fate for o, fate in fates.items() if o not in expired} == decided
