"""A fixed sample of worlds of a share group whose topic gets more partitions. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=share-growth` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.coordinator.share_group.group import ShareGroup
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.shares import live_with_growth

SEEDS = (1, 2)
SEEDS_MAX = 6


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live_with_growth)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_share_group_delivers_the_records_of_added_partitions(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_growth() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    assert reached["topic grows"] >= len(SEEDS), reached


def the_state_of_added_partitions_is_not_initialized(patch: pytest.MonkeyPatch) -> None:
    missing = ShareGroup._uninitialized_partitions

    def only_new_topics(self: ShareGroup) -> Any:
        return {t: found for t, found in missing(self).items() if t not in self.state_partitions.initialized}

    patch.setattr(ShareGroup, "_uninitialized_partitions", only_new_topics)


def added_partitions_are_not_assigned(patch: pytest.MonkeyPatch) -> None:
    assignable = ShareGroup.assignable

    def first_two(self: ShareGroup) -> Any:
        return {t: found & {0, 1} for t, found in assignable(self).items()}

    patch.setattr(ShareGroup, "assignable", first_two)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [(the_state_of_added_partitions_is_not_initialized, 1), (added_partitions_are_not_assigned, 1)],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
