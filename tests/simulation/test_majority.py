"""A fixed sample of worlds of topics with majority acknowledgements. Also: such worlds fail when a rule of decision 102 is removed from the product.
`make simulate WORLD=majority` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster import majority as rules
from brokerd.cluster.majority import LogEnd
from brokerd.cluster.model import PartitionState
from brokerd.replication import partition, quorum
from tests.simulation.detection import expect_detection
from tests.simulation.majority import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2, 3)
SEEDS_MAX = 40


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_committed_record_is_lost(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_votes() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "vote for a member of the ISR",
        "vote for a member of the ELR",
        "truncation by epoch",
        "zombie leader",
    ):
        assert reached[state], f"{state}: {reached}"


def the_first_report_decides(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "electors_needed", lambda state: 1)


def any_log_may_lead(patch: pytest.MonkeyPatch) -> None:
    def candidates(state: PartitionState, log_ends: dict[int, LogEnd]) -> set[int]:
        able = {b for b in log_ends if b in rules.electors(state)}
        return able if len(able) >= rules.electors_needed(state) else set()

    patch.setattr(rules, "candidates", candidates)


def a_minority_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quorum, "majority", SimpleNamespace(quorum=lambda voters: len(voters) // 2))


def replicas_that_are_added_do_not_count(patch: pytest.MonkeyPatch) -> None:
    committed_end = quorum.committed_end
    patch.setattr(partition, "committed_end", lambda *a: committed_end(*a[:-1], ()))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (the_first_report_decides, 1),
        (any_log_may_lead, 1),
        (a_minority_commits, 2),
        (replicas_that_are_added_do_not_count, 18),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
