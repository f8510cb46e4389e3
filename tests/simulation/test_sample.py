"""A fixed sample of seeds, and the check that a seed always gives the same run. `make simulate` runs thousands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.cluster.local import ROOT
from tests.simulation.run import Outcome, run

SEEDS = range(1, 13)


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_keeps_the_invariants(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_hard_states() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "truncation by epoch",
        "session lost",
        "zombie leader",
        "rejected ISR proposal",
        "controller deposed",
    ):
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"


def test_the_same_seed_gives_the_same_fingerprint_in_another_process() -> None:
    fingerprints = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from tests.simulation.run import Outcome, run; print(run(3, faults_s=8).fingerprint)",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashing},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hashing in ("0", "0", "7")
    }
    assert len(fingerprints) == 1, fingerprints
