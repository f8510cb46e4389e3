"""Statistics of measurements in pairs: the median of the ratios, and its 95 % bootstrap interval."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 10_000


class MedianInterval(NamedTuple):
    """The median of the values, and the bounds of its 95 % interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} (95 % interval {self.low:.3f} to {self.high:.3f})"


def in_order(first: str, second: str, pair: int) -> tuple[str, str]:
    """The order within this pair. Pairs alternate (ABBA), so that a steady drift of the machine's speed does not favour one of the two."""
    return (second, first) if pair % 2 else (first, second)


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def bootstrap_median(values: Sequence[float], resamples: int = RESAMPLES, seed: int = 1) -> MedianInterval:
    """The percentile bootstrap: the medians of `resamples` samples of the same size, drawn with replacement."""
    rng = random.Random(seed)
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(resamples))
    outside = int(resamples * 0.025)
    return MedianInterval(median(values), medians[outside], medians[-1 - outside])
