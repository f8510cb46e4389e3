"""Whether the worlds detect a mutation: a rule of the product that a test has removed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Protocol

import pytest


class WorldResult(Protocol):
    @property
    def violation(self) -> str | None: ...


def expect_detection(
    mutation: Callable[[pytest.MonkeyPatch], None], run: Callable[[int], WorldResult], first: int, seeds_max: int
) -> None:
    """Run the worlds of the seeds from `first` on with the mutation, until one has a violation. `run` is in `functools.cache`. Only results without a mutation
    are in the cache: several mutations and the tests of the sample use them. Raises AssertionError if `seeds_max` worlds have no violation, or if the world of the
    same seed also has one without the mutation."""
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        seed, violation = _first_violation(inspect.unwrap(run), range(first, first + seeds_max))
    print(f"seed {seed}: {violation}")
    without = run(seed).violation
    assert without is None, f"seed {seed} has a violation without the mutation: {without}"


def _first_violation(run: Callable[[int], WorldResult], seeds: Iterable[int]) -> tuple[int, str]:
    for seed in seeds:
        violation = run(seed).violation
        if violation is not None:
            return seed, violation
    raise AssertionError("no seed detected the mutation")
