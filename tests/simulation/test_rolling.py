"""A fixed sample of worlds whose group goes over to the other protocol and back, and the rules that they miss when they are taken out.
`make simulate WORLD=rolling` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.coordinator import conversion, embedded
from brokerd.coordinator.consumer_events import Change, Fact
from tests.simulation.rolling import live
from tests.simulation.run import Outcome, run

SEEDS = (2, 6, 7, 9, 16, 17)
SEEDS_MAX = 30


@cache
def ran(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_of_rolling_members_runs_clean(seed: int) -> None:
    outcome = ran(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "the load hardly ran: nothing was shown"


def test_the_sample_goes_over_and_back_many_times() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += ran(seed).reached
    for state in ("group gone over", "group gone back"):
        assert reached[state] >= 5, f"{state}: {reached[state]}"
    assert reached["classic member given its share"] > 100


def who_comes_along_brings_nothing(patch: pytest.MonkeyPatch) -> None:
    brought = conversion.brought

    def nothing(*old: Any) -> list[Change]:
        facts = brought(*old)
        return [
            replace(c, value=replace(c.value, assigned=frozenset())) if c.fact is Fact.STANDING else c for c in facts
        ]

    patch.setattr(conversion, "brought", nothing)


def what_a_cooperative_member_has_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    read = embedded.read_subscription

    def owning_nothing(data: bytes) -> Any:
        said = read(data)
        said.owned_partitions = []
        return said

    patch.setattr("brokerd.coordinator.mixed_group.embedded.read_subscription", owning_nothing)


@pytest.mark.parametrize(
    "mutation",
    [who_comes_along_brings_nothing, what_a_cooperative_member_has_is_not_asked],
    ids=lambda m: m.__name__,
)
def test_a_rule_taken_out_is_missed(mutation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(6, 6 + SEEDS_MAX):
        found = run(seed, life=live).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds found nothing wrong")
