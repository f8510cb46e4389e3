"""A fixed sample of worlds in which all loads and all faults are together. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=combined` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.simulation import test_mutations as mutations
from tests.simulation import test_route_changes as route_changes
from tests.simulation.combined import live
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run

SEEDS = (1, 3, 8)
"""The third one has nearly all loads. In the first one a log directory fails, and in the second one a preferred leader is elected."""
SEEDS_MAX = 6
FAULTS_S = 5
"""Shorter worlds than those of `make simulate`."""


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, faults_s=FAULTS_S, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_of_all_loads_hold_together(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_every_load() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "records carried",
        "generations of classic",
        "generations of modern",
        "records of the share group",
        "half message: commit",
        "delayed batch",
        "records in renamed",
        "preferred election: NONE",
        "replica moved between directories",
        "topic grows",
        "log directory failed",
        "vote started",
        "look-up with an index and matches",
        "look-up with matches in the remote store",
        "local log start checked against the store",
        "removal applied by all brokers",
        "producers compared",
    ):
        assert reached[state], f"{state}: {reached}"


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (mutations.the_high_watermark_is_the_leaders_log_end_offset, 5),
        (mutations.read_committed_goes_to_the_high_watermark, 1),
        (route_changes.records_of_aborted_transactions_are_routed, 5),
        (mutations.a_producer_is_never_fenced, 8),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
