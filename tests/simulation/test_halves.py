"""A fixed sample of worlds of half messages. Also: such worlds fail when a rule of half messages is removed from the product.
`make simulate WORLD=halves` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from brokerd.delivery.front_partition import FrontPartition, FrontState
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.half_messages import DecisionAppended, HalfDecision, HalfMessages, HalfPending
from brokerd.delivery.journal import JournalReplay, JournalState, ProducerIdentity, TransferEntry
from brokerd.delivery.limits import DeliveryLimits
from brokerd.delivery.offset_set import OffsetSet
from brokerd.delivery.transfer_lane import TransferLane
from tests.simulation.detection import expect_detection
from tests.simulation.halves import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 20


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_half_message_has_the_fate_of_its_first_decision(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_every_fate_and_rejects_second_decisions() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for decision in HalfDecision:
        assert reached[f"half message: {decision.value}"] > 5, f"{decision}: {reached}"
        assert reached[f"second decision rejected after {decision.value}"], f"{decision}: {reached}"
    assert reached["metric of half messages"] > 3, "the metrics were compared"
    for state in ("half record not stable", "half batch to topic", "half batch to check", "half batch to expired"):
        assert reached[state], f"{state}: {reached}"


def a_new_leader_ignores_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalReplay, "state", lambda self, log_start: JournalState(None, 0, (), OffsetSet()))


def unconfirmed_entries_are_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    state = JournalReplay.state

    def mutated_state(self: JournalReplay, log_start: int) -> JournalState:
        return replace(state(self, log_start), unconfirmed=())

    patch.setattr(JournalReplay, "state", mutated_state)


def each_leader_is_another_producer(patch: pytest.MonkeyPatch) -> None:
    batch = TransferLane._batch
    numbers = count(1 << 40)

    def mutated_batch(self: TransferLane, entry: Any, now: Any) -> bytes | None:
        producer = ProducerIdentity(self.__dict__.setdefault("own", next(numbers)), 0)
        return batch(self, TransferEntry(producer, entry.base_sequence, entry.offsets), now)

    patch.setattr(TransferLane, "_batch", mutated_batch)


def a_new_leader_loses_the_decisions(patch: pytest.MonkeyPatch) -> None:
    add = HalfFront._add

    def mutated_add(self: HalfFront, record: Any, now: Any) -> None:
        if self.state is not FrontState.RECORDS or all(name != "x-half" for name, _ in record.headers):
            add(self, record, now)

    patch.setattr(HalfFront, "_add", mutated_add)


def rolled_back_messages_are_delivered(patch: pytest.MonkeyPatch) -> None:
    decide = HalfMessages._decide
    patch.setattr(
        HalfMessages,
        "_decide",
        lambda self, event: decide(self, DecisionAppended(event.half_id, event.offset, HalfDecision.COMMIT)),
    )


def second_decisions_are_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfMessages, "rejection", lambda *rest: None)


def records_that_are_not_stable_are_ignored(patch: pytest.MonkeyPatch) -> None:
    handle = HalfMessages.handle

    def mutated_handle(self: HalfMessages, event: Any, now_ms: int) -> Any:
        return [] if isinstance(event, HalfPending) else handle(self, event, now_ms)

    patch.setattr(HalfMessages, "handle", mutated_handle)


def expired_messages_stay_undecided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfFront, "_add_entry", lambda *rest: None)


def checks_come_early(patch: pytest.MonkeyPatch) -> None:
    at_ms = DeliveryLimits.check_at_ms
    patch.setattr(DeliveryLimits, "check_at_ms", lambda self, at, number: at_ms(self, at, number) - 300)


def waiting_records_do_not_keep_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FrontPartition, "_count", lambda self, offsets, change: None)
    patch.setattr(HalfFront, "_deletable_below", lambda self, now: self._next_offset)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_new_leader_ignores_the_journal, 1),
        (unconfirmed_entries_are_not_sent_again, 3),
        (each_leader_is_another_producer, 1),
        (a_new_leader_loses_the_decisions, 1),
        (rolled_back_messages_are_delivered, 1),
        (second_decisions_are_accepted, 1),
        (records_that_are_not_stable_are_ignored, 1),
        (expired_messages_stay_undecided, 1),
        (checks_come_early, 1),
        (waiting_records_do_not_keep_the_log, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
