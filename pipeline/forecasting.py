"""Forecast of the time at which a series reaches a level: quantiles of the time by a bootstrap of the changes of the series, and the accuracy of earlier
forecasts. Pure, with numpy.

A metric such as used disk space or lag is the sum of increases and decreases, so its changes are resampled, not its values. Blocks of consecutive
changes keep
their correlation, for example the cycle of a day. Each path has a separate mean, resampled from the same changes, because the true mean is not known.
Does
not contain: clocks, rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

PATHS = 500
"""Resampled futures of a series. The limits of the interval then vary by about 2 percent points of probability."""

VALUES_MIN = 24
"""Values of a series below which there is no forecast."""

CONFIDENCE = 0.8
"""Part of the forecasts whose interval has the true time: from the 10 % to the 90 % quantile."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Passage:
    """Seconds until the level is reached: limits of the interval and median. None: later than the horizon."""

    low_s: float | None
    median_s: float | None
    high_s: float | None


def passage(values: Sequence[float], step_s: float, level: float, horizon_s: float, seed: int = 0) -> Passage | None:
    """The time from the last value to the first one at or beyond `level`, which is above or below it. `values`: one every `step_s` seconds. None with too
    few values."""
    if len(values) < VALUES_MIN:
        return None
    series: Floats = np.asarray(values, dtype=np.float64)
    distance = level - series[-1]
    if distance == 0:
        return Passage(0.0, 0.0, 0.0)
    paths = _paths(np.diff(series), max(1, int(horizon_s // step_s)), np.random.default_rng(seed))
    reached = paths >= distance if distance > 0 else paths <= distance
    first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf) * step_s
    tail = (1 - CONFIDENCE) / 2
    found = np.quantile(first, [tail, 0.5, 1 - tail], method="inverted_cdf")
    return Passage(*(None if np.isinf(t) else float(t) for t in found))


def _paths(changes: Floats, steps: int, random: np.random.Generator) -> Floats:
    """PATHS sums of resampled changes over `steps` steps."""
    block = max(1, round(len(changes) ** 0.5))
    means = _resample(changes, len(changes), block, random).mean(axis=1, keepdims=True) - changes.mean()
    # A resampled mean varies too little when there are few blocks.
    means *= np.sqrt(len(changes) / max(1.0, len(changes) - block))
    paths: Floats = np.cumsum(_resample(changes, steps, block, random) + means, axis=1)
    return paths


def _resample(changes: Floats, count: int, block: int, random: np.random.Generator) -> Floats:
    """PATHS rows of `count` changes in blocks that begin anywhere."""
    blocks = -(-count // block)
    begins = random.integers(0, len(changes), (PATHS, blocks, 1))
    places = (begins + np.arange(block)) % len(changes)
    found: Floats = changes[places].reshape(PATHS, -1)[:, :count]
    return found


def evenly(values: Iterable[tuple[int, float]], since_s: int, until_s: int, step_s: int) -> list[float]:
    """The average of each step of [since_s, until_s) from the first step with a value to the last one. A step without a value has one on the line between
    its neighbours."""
    sums: dict[int, list[float]] = {}
    for at, value in values:
        if since_s <= at < until_s:
            sums.setdefault((at - since_s) // step_s, []).append(value)
    if not sums:
        return []
    known = sorted(sums)
    averages = [sum(sums[k]) / len(sums[k]) for k in known]
    return [float(v) for v in np.interp(np.arange(known[0], known[-1] + 1), known, averages)]


class ForecastOutcome(StrEnum):
    """The outcome of a forecast."""

    OPEN = "open"
    INSIDE = "inside"
    EARLIER = "earlier"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Stated:
    """An earlier forecast, in Unix seconds. None: later than `until_s`."""

    made_s: float
    value: float
    level: float
    low_s: float | None
    median_s: float | None
    high_s: float | None
    until_s: float


def outcome(stated: Stated, values: Sequence[tuple[int, float]], now_s: float) -> tuple[ForecastOutcome, float | None]:
    """The outcome, and the time at which the level was reached (None: not yet). `values`: (time, value), in the order of time."""
    is_rising = stated.level > stated.value
    reached = next(
        (
            at
            for at, value in values
            if stated.made_s < at <= stated.until_s and (value >= stated.level if is_rising else value <= stated.level)
        ),
        None,
    )
    if reached is None:
        if stated.high_s is not None and now_s > stated.high_s:
            return ForecastOutcome.LATER, None
        return (ForecastOutcome.INSIDE if now_s > stated.until_s else ForecastOutcome.OPEN), None
    if stated.low_s is None or reached < stated.low_s:
        return ForecastOutcome.EARLIER, reached
    return (
        ForecastOutcome.LATER if stated.high_s is not None and reached > stated.high_s else ForecastOutcome.INSIDE
    ), reached
