"""A fixed sample of worlds in which the source and the targets of a route change. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=route-changes` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.delivery.route_placement import PartitionCounts
from brokerd.runtime.routing import ReplicaRoutePort
from tests.simulation.detection import expect_detection
from tests.simulation.route_changes import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 12
FAULTS_S = 8
"""Shorter worlds than those of `make simulate`."""


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, faults_s=FAULTS_S, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_in_its_targets_once_while_they_grow(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_growth_deleted_and_aborted_records() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "target grows",
        "aborted records",
        "records in late",
        "records deleted before they were routed",
        "routed batch in conflict",
    ):
        assert reached[state], state


def a_new_leader_uses_the_present_number_of_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCounts, "from_json", classmethod(lambda cls, stored, topics: None))


def a_target_that_grows_moves_records_that_were_read(patch: pytest.MonkeyPatch) -> None:
    adopt = PartitionCounts.adopt
    patch.setattr(PartitionCounts, "adopt", lambda self, topic, count, unread: adopt(self, topic, count, 0))


def records_of_aborted_transactions_are_routed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaRoutePort, "aborted_transactions", lambda self, offset, upto: [])


def records_are_routed_before_their_transaction_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaRoutePort, "last_stable_offset", property(lambda self: self.high_watermark))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_new_leader_uses_the_present_number_of_partitions, 2),
        (a_target_that_grows_moves_records_that_were_read, 1),
        (records_of_aborted_transactions_are_routed, 1),
        (records_are_routed_before_their_transaction_ends, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
