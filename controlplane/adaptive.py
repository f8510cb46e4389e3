"""How fast a copy may go beside producers who must not feel it: pure. Faster while their p99 is what it was, half as fast each second while it is not.

Laws: a step is taken from what was measured, never from what was hoped; who cannot see goes at the floor; the baseline is learned while it is
calm and never from a copy's own harm. Called by `services.speeds`. Must not come in: clocks (now is passed in), rows, brokers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10000)
"""Upper bounds of the brokers' buckets (`brokerd.produce_times`), the last one open."""

GROW = 1.25
"""Per calm second: from the floor to a hundred times of it in twenty."""
SHRINK = 0.5
"""Per second in which producers suffer: a thirty-second of it after five."""
OUT = 2.0
"""So many times its baseline, and OUT_MS more than it, is out of its baseline: buckets are half as wide again as the one before."""
OUT_MS = 5.0
LEARN = 0.05
"""Of a calm second's p99 into the baseline: some twenty seconds are remembered."""
BLIND_SECONDS = 4.0
"""Without an answer for longer, the floor: with the look of each second it is in force within five."""
CHANGE = 0.1
"""A rate that differs by less is not written down: each one is an entry of the metadata log."""


@dataclass(frozen=True, slots=True)
class Speed:
    """`rate` in bytes/s per broker; `baseline` in ms, None = not learned yet; `heard`: when producers' times were told last (Unix seconds)."""

    rate: float
    baseline: float | None
    heard: float


def p99(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Of the requests between two cumulative histograms, the bound in ms below which 99 of 100 were answered; None where there was none, or
    where the broker has begun anew."""
    counts = [b - a for a, b in zip(before, after, strict=True)]
    total = sum(counts)
    if total <= 0 or min(counts) < 0:
        return None
    left = total * 0.99
    for place, count in enumerate(counts):
        left -= count
        if left <= 0:
            return float(BOUNDS_MS[place]) if place < len(BOUNDS_MS) else 2.0 * BOUNDS_MS[-1]
    return 2.0 * BOUNDS_MS[-1]


def bucket(ms: float) -> int:
    return bisect_left(BOUNDS_MS, ms)


def suffers(p99_ms: float, baseline: float) -> bool:
    return p99_ms > baseline * OUT and p99_ms > baseline + OUT_MS


def stepped(speed: Speed, worst_ms: float | None, *, heard: bool, floor: float, cap: float, now: float) -> Speed:
    """The next second's speed. `worst_ms`: the worst p99 of the brokers it burdens, None = nobody produced; `heard` False: some did not answer."""
    if not heard:
        blind = now - speed.heard >= BLIND_SECONDS
        return replace(speed, rate=floor) if blind else speed
    baseline = speed.baseline
    if worst_ms is not None and baseline is not None and suffers(worst_ms, baseline):
        return Speed(max(floor, speed.rate * SHRINK), baseline, now)
    if worst_ms is not None:
        baseline = worst_ms if baseline is None else baseline + LEARN * (worst_ms - baseline)
    return Speed(min(cap, max(floor, speed.rate * GROW)), baseline, now)


def worth_writing(now: float, then: float) -> bool:
    return abs(now - then) > CHANGE * then
