"""How fast a copy may go beside producers who must not feel it: pure. Faster while their p99 is what it was, half as fast each second while it is not.

Laws: a step is taken from what was measured, never from what was hoped; who cannot see goes at the floor; the baseline is what producers wait while the
copy is too slow to be felt, and is never raised by what it does. Called by `services.speeds`. Must not come in: clocks (now is passed in), rows, brokers.
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
OUT_MS = 25.0
"""What a producer feels: the quarter of a tenth of a second, below which an answer is at once. Of a baseline of some ms a neighbour's
compiler makes the double, and less than this is nobody's harm."""
HARM_SECONDS = 2
"""Seconds in a row out of the baseline until it is the copy's doing: its harm lasts as long as it goes on, a machine's noise comes and goes. Until then
it goes no faster."""
FIRST_SECONDS = 5
"""Of producers' times that are heard at the floor before it goes faster: one second may be any."""
SETTLED_SECONDS = 5
"""At the floor for so long, what it did before has drained: what producers wait now is their own, however much."""
LEARN = 0.05
"""Of a second's p99 into the baseline: some twenty seconds are remembered."""
OWN_MS_MAX = 100.0
"""What the producers' own may be raised to while it goes on: whoever waits longer than that and did not when it began is in trouble of his own, and gets no
copy at full speed beside it."""
BLIND_SECONDS = 4.0
"""Without an answer for longer, the floor: with the look of each second it is in force within five."""
CHANGE = 0.1
"""A rate that differs by less is not written down: each one is an entry of the metadata log."""


@dataclass(frozen=True, slots=True)
class Speed:
    """`rate` in bytes/s per broker; `baseline` in ms, None = not learned yet; `heard`: when producers' times were told last (Unix seconds). `own`: what they
    waited while it was too slow to be felt, which the baseline never exceeds. Seconds: `learned` in the baseline, `harmed` out of it and `slow` at the
    floor, both in a row until now."""

    rate: float
    baseline: float | None
    heard: float
    own: float | None = None
    learned: int = 0
    harmed: int = 0
    slow: int = 0


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
    slow = speed.slow + 1 if speed.rate <= floor else 0
    if not heard:
        blind = now - speed.heard >= BLIND_SECONDS
        return replace(speed, rate=floor if blind else speed.rate, harmed=0, slow=slow)
    if worst_ms is None:
        return replace(speed, rate=_faster(speed.rate, floor, cap), heard=now, harmed=0, slow=slow)
    if speed.learned <= FIRST_SECONDS and not slow:
        return replace(
            speed, rate=floor, heard=now, slow=0
        )  # nobody had produced until now: at what speed, says nothing of them
    harmed = speed.harmed + 1 if speed.baseline is not None and suffers(worst_ms, speed.baseline) else 0
    after = replace(_learned(speed, worst_ms, slow), heard=now, harmed=harmed, slow=slow)
    if after.learned <= FIRST_SECONDS:
        return replace(after, rate=floor)
    if harmed:
        return replace(after, rate=max(floor, speed.rate * (SHRINK if harmed >= HARM_SECONDS else 1.0)))
    return replace(after, rate=_faster(speed.rate, floor, cap))


def _faster(rate: float, floor: float, cap: float) -> float:
    return min(cap, max(floor, rate * GROW))


def _learned(speed: Speed, worst_ms: float, slow: int) -> Speed:
    """Each second counts, a harmed one too, or noise would make the baseline that of its calm moments; but only seconds in which the copy could not be
    felt raise what it may come to."""
    weight = max(LEARN, 1 / (speed.learned + 1))
    mean = worst_ms if speed.baseline is None else speed.baseline + weight * (worst_ms - speed.baseline)
    own = worst_ms if speed.own is None else speed.own
    if speed.learned <= FIRST_SECONDS:
        own += weight * (worst_ms - own)
    elif slow > SETTLED_SECONDS:
        own = min(own + weight * (worst_ms - own), max(own, OWN_MS_MAX))
    return replace(speed, baseline=min(mean, own), own=own, learned=speed.learned + 1)


def worth_writing(now: float, then: float) -> bool:
    return abs(now - then) > CHANGE * then
