"""A fixed sample of worlds of routes whose source gets more partitions. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=route-growth` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.delivery.route_partition import RoutePartition
from tests.simulation.detection import expect_detection
from tests.simulation.routes import live_with_growth
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 6


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live_with_growth)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_of_an_added_partition_is_in_its_targets_once(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_growth() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    assert reached["topic grows"] >= len(SEEDS), reached


def added_partitions_start_at_their_end(patch: pytest.MonkeyPatch) -> None:
    begin = RoutePartition.__init__

    def mutated_init(self: RoutePartition, *rest: Any, **options: Any) -> None:
        begin(self, *rest, **options)
        self.route = replace(self.route, partitions_at_start=1 << 20)

    patch.setattr(RoutePartition, "__init__", mutated_init)


@pytest.mark.parametrize(
    ("mutation", "first"), [(added_partitions_start_at_their_end, 7)], ids=lambda m: m.__name__ if callable(m) else ""
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
