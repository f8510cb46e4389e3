"""A fixed sample of worlds whose group changes to the other protocol and back. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=rolling` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.coordinator.consumer import consumer_protocol, migration
from brokerd.coordinator.consumer.events import ConsumerGroupChange, GroupRecordKey
from tests.simulation.detection import expect_detection
from tests.simulation.rolling import live
from tests.simulation.run import Outcome, run

SEEDS = (2, 6, 7, 9, 16, 17)
SEEDS_MAX = 30


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulation_of_rolling_protocol_changes_keeps_the_invariants(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "too few acknowledgements: the run shows nothing"


def test_the_sample_converts_groups_in_both_directions_many_times() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in ("group upgraded", "group downgraded"):
        assert reached[state] >= 5, f"{state}: {reached[state]}"
    assert reached["classic member got its assignment"] > 100


def converted_members_lose_their_assignment(patch: pytest.MonkeyPatch) -> None:
    brought = migration.changes_from_classic

    def mutated_changes_from_classic(*old: Any) -> list[ConsumerGroupChange]:
        facts = brought(*old)
        return [
            replace(c, value=replace(c.value, assigned=frozenset()))
            if c.fact is GroupRecordKey.CURRENT_ASSIGNMENT
            else c
            for c in facts
        ]

    patch.setattr(migration, "changes_from_classic", mutated_changes_from_classic)


def owned_partitions_of_cooperative_members_are_ignored(patch: pytest.MonkeyPatch) -> None:
    read = consumer_protocol.read_subscription

    def owning_nothing(data: bytes) -> Any:
        said = read(data)
        said.owned_partitions = []
        return said

    patch.setattr("brokerd.coordinator.consumer.mixed_group.consumer_protocol.read_subscription", owning_nothing)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [(converted_members_lose_their_assignment, 8), (owned_partitions_of_cooperative_members_are_ignored, 15)],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
