"""A fixed sample of worlds of delayed messages with growth and changed retention. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=delay-changes` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.simulation.delay_changes import live
from tests.simulation.delays import FRONT
from tests.simulation.detection import expect_detection
from tests.simulation.front_mutations import (
    a_record_of_a_new_partition_goes_to_an_existing_one,
    retention_applies_to_front_topics,
)
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_delayed_record_arrives_once_in_topics_that_grow(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_growth_and_changed_configs() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in ("topic grows", f"config changed: {FRONT}", "delayed batch", "delayed batch not accepted"):
        assert reached[state] > 5, f"{state}: {reached}"


@pytest.mark.parametrize(
    ("mutation", "first"),
    [(retention_applies_to_front_topics, 1), (a_record_of_a_new_partition_goes_to_an_existing_one, 1)],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
