"""A fixed sample of worlds of transactions. `make simulate WORLD=transactions` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.simulation.exactly_once import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2, 3, 28)
"""The last seed failed before: a coordinator that had just thawed returned an old offset."""


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulation_with_transactions_keeps_the_invariants(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_difficult_transaction_states() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "zombie producer fenced",
        "transaction left to its time-out",
        "transactions aborted",
        "records carried",
        "truncation by epoch",
    ):
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"
