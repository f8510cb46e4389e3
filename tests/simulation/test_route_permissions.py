"""A fixed sample of worlds in which the principal of a route loses and gets its permissions. Also: such worlds fail when a rule is removed from the product.
`make simulate WORLD=route-permissions` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.delivery.route_partition import RoutePartition
from brokerd.delivery.route_principal import RoutePrincipal
from brokerd.runtime.route_principals import RoutePrincipals
from tests.simulation.detection import expect_detection
from tests.simulation.route_permissions import live
from tests.simulation.run import Outcome, run

SEEDS = (1, 2)
SEEDS_MAX = 6


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_routed_without_permission_and_each_one_after_it_is_added(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_removed_permissions_and_faults() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "permission of the source removed",
        "permission of a target removed",
        "removal applied by all brokers",
        "problem source_not_authorized",
        "problem target_not_authorized",
        "routed batch appended",
        "routed batch not accepted",
    ):
        assert reached[state], state


def a_route_writes_without_permission(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoutePrincipal, "may_write", lambda self, topic: True)


def a_route_reads_without_permission(patch: pytest.MonkeyPatch) -> None:
    refresh = RoutePrincipal.refresh

    def mutated_refresh(self: RoutePrincipal, name: str, now: Now) -> None:
        refresh(self, name, now)
        self.may_read = True

    patch.setattr(RoutePrincipal, "refresh", mutated_refresh)


def a_permission_is_determined_once(patch: pytest.MonkeyPatch) -> None:
    allowed, known = RoutePrincipals.allowed, dict[tuple[Any, ...], bool]()

    def mutated_allowed(self: RoutePrincipals, *asked: Any) -> bool:
        return known.get((self, *asked)) or known.setdefault((self, *asked), allowed(self, *asked))

    patch.setattr(RoutePrincipals, "allowed", mutated_allowed)


def a_target_without_permission_is_left_out(patch: pytest.MonkeyPatch) -> None:
    send = RoutePartition._send

    def mutated_send(self: RoutePartition, queue: Any, now: Now) -> None:
        if queue.waiting and not queue.sent and not self._principal.may_write(queue.target):
            self._on_acknowledged(queue, queue.waiting[-1].offset, 0)
        send(self, queue, now)

    patch.setattr(RoutePartition, "_send", mutated_send)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_route_writes_without_permission, 1),
        (a_route_reads_without_permission, 1),
        (a_permission_is_determined_once, 1),
        (a_target_without_permission_is_left_out, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
