"""A fixed sample of worlds of routes. Also: such worlds fail when a rule of the routes is removed from the product.
`make simulate WORLD=routes` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.apis import local_append
from brokerd.apis.local_append import LocalAppender, RouteConflict
from brokerd.delivery.route_partition import RoutePartition
from brokerd.delivery.route_port import RoutePosition
from brokerd.delivery.route_producer import last_source_offset
from brokerd.runtime.front_delivery import ReplicaFrontLog
from brokerd.runtime.routing import Routing
from brokerd.wire.errors import ErrorCode
from tests.simulation.detection import expect_detection
from tests.simulation.routes import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_in_its_targets_once_and_in_order(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_conflicts_and_errors() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "routed batch",
        "routed batch in conflict",
        "routed batch not accepted",
        "records in late",
        "routed batch compressed",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached[state]}"


def a_target_appends_whatever_the_sender_expects(patch: pytest.MonkeyPatch) -> None:
    append = LocalAppender.append_routed

    def mutated_append_routed(self: LocalAppender, replica: Any, data: Any, expected: int) -> Any:
        found = append(self, replica, data, expected)
        return append(self, replica, data, found.found) if isinstance(found, RouteConflict) else found

    patch.setattr(LocalAppender, "append_routed", mutated_append_routed)


def a_target_forgets_the_higher_bits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local_append, "last_source_offset", lambda epoch, sequence: last_source_offset(epoch, sequence) // 2)


def a_conflict_counts_as_an_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    acknowledged = RoutePartition._on_acknowledged

    def all_there(self: RoutePartition, queue: Any, last: int, appended: int) -> None:
        acknowledged(self, queue, last, appended)
        if not appended:
            acknowledged(self, queue, self._next_offset - 1, 0)
            queue.last = last

    patch.setattr(RoutePartition, "_on_acknowledged", all_there)


def the_position_is_ahead_of_the_targets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoutePartition, "position", property(lambda self: self._next_offset))


def a_new_leader_ignores_the_committed_position(patch: pytest.MonkeyPatch) -> None:
    found = RoutePartition._on_position
    patch.setattr(
        RoutePartition,
        "_on_position",
        lambda self, error, position, now: found(self, error, RoutePosition(-1, ""), now),
    )


def a_response_is_never_an_error(patch: pytest.MonkeyPatch) -> None:
    send = Routing.send

    def mutated_send(self: Routing, target: Any, batch: bytes, query: Any, done: Any) -> None:
        def on_response(error: ErrorCode, found: int, at: Any) -> None:
            done(error if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else ErrorCode.NONE, found, at)

        send(self, target, batch, query, on_response)

    patch.setattr(Routing, "send", mutated_send)


def records_are_routed_before_they_are_replicated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaFrontLog, "last_stable_offset", property(lambda self: self.end_offset))


def a_queue_is_sent_from_its_end(patch: pytest.MonkeyPatch) -> None:
    batch = RoutePartition._batch

    def last_only(queue: Any, most: int) -> Any:
        return batch(queue, most)[-1:]

    patch.setattr(RoutePartition, "_batch", staticmethod(last_only))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_target_appends_whatever_the_sender_expects, 1),
        (a_target_forgets_the_higher_bits, 1),
        (a_conflict_counts_as_an_acknowledgement, 1),
        (the_position_is_ahead_of_the_targets, 1),
        (a_new_leader_ignores_the_committed_position, 3),
        (a_response_is_never_an_error, 1),
        (records_are_routed_before_they_are_replicated, 5),
        (a_queue_is_sent_from_its_end, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
