"""A fixed sample of ordinary worlds whose replicas move between two log directories. Also: such worlds fail when a rule of these moves is removed from the
product. `make simulate WORLD=log-dirs` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.replication.relocations import Relocation, Relocations
from brokerd.storage.producers import Producers
from tests.simulation.detection import expect_detection
from tests.simulation.log_dirs import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2, 3)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_lost_while_replicas_move_between_directories(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_completes_moves() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    assert reached["replica moved between directories"] > 20, reached


def a_truncation_of_the_log_is_ignored(patch: pytest.MonkeyPatch) -> None:
    align = Relocations._align

    def mutated_align(self: Relocations, move: Relocation, now: Now) -> bool:
        if move.cuts >= 0:
            move.cuts = move.replica.log.flushing.cuts
        return align(self, move, now)

    patch.setattr(Relocations, "_align", mutated_align)


def a_moved_log_loses_its_producers(patch: pytest.MonkeyPatch) -> None:
    replace = Relocations._replace_live_log

    def mutated_replace_live_log(self: Relocations, move: Relocation, now: Now) -> None:
        replace(self, move, now)
        if move.replica.log is move.future:
            move.future.producers = Producers()

    patch.setattr(Relocations, "_replace_live_log", mutated_replace_live_log)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [(a_truncation_of_the_log_is_ignored, 277), (a_moved_log_loses_its_producers, 2)],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
