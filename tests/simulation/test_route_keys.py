"""A fixed sample of worlds of a route that changes keys and reads a compacted source. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=route-keys` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.delivery import route_matcher
from brokerd.delivery.route_partition import RoutePartition
from brokerd.runtime.routing import ReplicaRoutePort
from brokerd.wire import records
from tests.simulation.detection import expect_detection
from tests.simulation.route_keys import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 12
FAULTS_S = 8
"""Shorter worlds than those of `make simulate`."""


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, faults_s=FAULTS_S, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_that_compaction_left_is_in_its_targets_once_with_its_key(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_compacted_records_and_every_target() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "records compacted before they were routed",
        "records that compaction took",
        "records in changed",
        "records in dropped",
        "records in kept",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached}"


def keys_are_not_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(route_matcher, "transform_record", lambda change, record: record)


def a_changed_key_does_not_choose_the_partition(patch: pytest.MonkeyPatch) -> None:
    queue = RoutePartition._queue
    patch.setattr(RoutePartition, "_queue", lambda self, topic, record: queue(self, topic, record._replace(key=None)))


def the_batch_after_compacted_records_is_skipped(patch: pytest.MonkeyPatch) -> None:
    read = ReplicaRoutePort.read

    def without_first(self: ReplicaRoutePort, offset: int, bytes_max: int, upto: int) -> Any:
        data = read(self, offset, bytes_max, upto)
        found = list(records.batches(memoryview(data))) if data else []
        return data[found[1][0] :] if data and len(found) > 1 and found[0][1].base_offset > offset else data

    patch.setattr(ReplicaRoutePort, "read", without_first)


def a_target_that_waits_does_not_hold_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoutePartition, "position", property(lambda self: self._next_offset))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (keys_are_not_changed, 1),
        (a_changed_key_does_not_choose_the_partition, 1),
        (the_batch_after_compacted_records_is_skipped, 1),
        (a_target_that_waits_does_not_hold_the_position, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
