"""A fixed sample of worlds of half messages with growth, changed retention and late repeated records. Also: such worlds fail when a rule is removed from
the product. `make simulate WORLD=half-changes` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.half_messages import DecisionAppended, HalfDecision, HalfMessages
from tests.simulation.detection import expect_detection
from tests.simulation.front_mutations import (
    a_record_of_a_new_partition_goes_to_an_existing_one,
    retention_applies_to_front_topics,
)
from tests.simulation.half_changes import live
from tests.simulation.halves import CHECK, FRONT
from tests.simulation.run import Outcome, run
from tests.simulation.test_mutations import a_follower_does_not_know_the_producers_of_deleted_records

SEEDS = (1, 2)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_repeated_record_is_rejected_with_the_first_decision(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_growth_changed_configs_and_repeated_records() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for decision in HalfDecision:
        assert reached[f"repeated: {decision.value}"] > 20, f"{decision}: {reached}"
    for state in ("topic grows", f"config changed: {FRONT}", f"config changed: {CHECK}", "repeated: half message"):
        assert reached[state] > 5, f"{state}: {reached}"


def decided_records_are_deleted_immediately(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfFront, "_deletable_below", lambda self, now: self._next_offset)


def decided_records_are_kept_too_briefly(patch: pytest.MonkeyPatch) -> None:
    deletable = HalfFront._deletable_below

    def mutated_deletable_below(self: HalfFront, now: Now) -> int:
        return deletable(self, Now(now.mono_ms, now.wall_ms + 8_000))

    patch.setattr(HalfFront, "_deletable_below", mutated_deletable_below)


def a_decision_without_its_message_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    decide = HalfMessages._decide

    def mutated_decide(self: HalfMessages, event: DecisionAppended) -> Any:
        return decide(self, event) if event.half_id in self._undecided else []

    patch.setattr(HalfMessages, "_decide", mutated_decide)


def ids_of_decided_messages_are_free(patch: pytest.MonkeyPatch) -> None:
    rejection = HalfMessages.rejection

    def mutated_rejection(self: HalfMessages, half_id: bytes, decision: Any, *rest: Any) -> Any:
        return None if decision is None and half_id in self._decided else rejection(self, half_id, decision, *rest)

    patch.setattr(HalfMessages, "rejection", mutated_rejection)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (decided_records_are_deleted_immediately, 2),
        (decided_records_are_kept_too_briefly, 7),
        (a_decision_without_its_message_is_forgotten, 10),
        (ids_of_decided_messages_are_free, 1),
        (retention_applies_to_front_topics, 1),
        (a_record_of_a_new_partition_goes_to_an_existing_one, 6),
        (a_follower_does_not_know_the_producers_of_deleted_records, 21),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
