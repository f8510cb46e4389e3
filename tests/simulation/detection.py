"""Whether the worlds detect a mutation: a rule of the product that a test has removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class WorldResult(Protocol):
    @property
    def violation(self) -> str | None: ...


def expect_detection(run: Callable[[int], WorldResult], first: int, seeds_max: int) -> None:
    """Run the worlds of the seeds from `first` on, until one has a violation. Raises AssertionError if `seeds_max` worlds have none."""
    for seed in range(first, first + seeds_max):
        violation = run(seed).violation
        if violation is not None:
            print(f"seed {seed}: {violation}")
            return
    raise AssertionError(f"{seeds_max} seeds did not detect the mutation")
