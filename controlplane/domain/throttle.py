"""Adaptive throttle of a copy, by the latency of producers: pure. The rate grows while their p99 is normal and is halved each second while it is not.

Invariants: a step depends on measurements only. Without measurements the rate is the floor. The baseline is the p99 of producers while the
copy is too slow to affect them; an effect of the copy never raises it. Does not contain: clocks (now is an argument), rows, brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from brokerd.cluster.latency_buckets import BOUNDS_MS

RAISE_FACTOR = 1.25
"""Factor per second without harm: from the floor to a hundred times the floor in twenty seconds."""
LOWER_FACTOR = 0.5
"""Factor per second with harm: a thirty-second of the rate after five seconds."""
AFFECTED_FACTOR = 2.0
"""Producers are affected if their p99 is this multiple of the baseline and AFFECTED_MS_MIN above it. Each bucket is half as wide again as the one before."""
AFFECTED_MS_MIN = 25.0
"""Minimum increase that a producer notices: a quarter of a tenth of a second, below which a response seems immediate. A compiler on the same
machine doubles a baseline of a few ms; a smaller increase has no effect on producers."""
AFFECTED_SECONDS = 2
"""Consecutive affected seconds until the copy is the cause. The effect of a copy lasts as long as the copy; noise of a machine is short. Until then the
rate does not grow."""
FIRST_SECONDS = 5
"""Seconds with a p99 at the floor before the rate grows. A single second may be an exception."""
SETTLED_SECONDS = 5
"""Seconds at the floor after which earlier effects of the copy are over. The p99 of producers is then their own, however high."""
BASELINE_WEIGHT = 0.05
"""Weight of one second's p99 in the baseline: it covers about twenty seconds."""
OWN_MS_MAX = 100.0
"""Upper limit in ms to which the producers' own p99 may be raised during the copy. Producers with a higher p99 that was not there at the start
have a problem of their own, and get no copy at full rate next to them."""
NO_RESPONSE_SECONDS = 4.0
"""Seconds without a response after which the rate is the floor. With one step per second it applies within five seconds."""
CHANGE = 0.1
"""Minimum relative change of a rate that is written. Each change is an entry of the metadata log."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The adaptive throttle of a move as its row stores it: bounds `cap` and `floor` in bytes/s, and the learned state (`Speed`; None = no step yet).
    `p99`: producers' p99 in ms at the last step, None = unknown."""

    cap: int
    floor: int
    rate: float | None = None
    baseline: float | None = None
    measured_at: float | None = None
    p99: float | None = None
    own_p99: float | None = None
    baseline_seconds: int = 0
    affected_seconds: int = 0
    floor_seconds: int = 0


@dataclass(frozen=True, slots=True)
class ProducerLatency:
    """`counts`: the last cumulative histogram of each broker, by its id as text. `rows`: (Unix seconds, p99 in ms or None), thinned."""

    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rows: tuple[tuple[float, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ThrottlesBefore:
    """Throttles in force at the start of a move: configs by topic name, and by broker id as text. A missing name was not throttled."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Speed:
    """`rate` in bytes/s per broker. `baseline` in ms, None = not learned yet. `measured_at`: time of the last producer latencies (Unix seconds).
    `own_p99`: p99 in ms while the copy was too slow to affect producers; the baseline never exceeds it. `baseline_seconds`: seconds in the
    baseline. `affected_seconds` above it and `floor_seconds` at the floor are consecutive until now."""

    rate: float
    baseline: float | None
    measured_at: float
    own_p99: float | None = None
    baseline_seconds: int = 0
    affected_seconds: int = 0
    floor_seconds: int = 0


def p99(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Upper bound in ms of the p99 of the requests between two cumulative histograms. None without requests, or if the broker restarted
    between them."""
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


def is_latency_affected(p99_ms: float, baseline: float) -> bool:
    return p99_ms > baseline * AFFECTED_FACTOR and p99_ms > baseline + AFFECTED_MS_MIN


def next_speed(speed: Speed, worst_ms: float | None, *, complete: bool, floor: float, cap: float, now: float) -> Speed:
    """The state of the next second. `worst_ms`: the highest p99 of the brokers that the copy uses, None = no produce requests. `complete` False: a
    broker did not respond."""
    floor_seconds = speed.floor_seconds + 1 if speed.rate <= floor else 0
    if not complete:
        blind = now - speed.measured_at >= NO_RESPONSE_SECONDS
        return replace(speed, rate=floor if blind else speed.rate, affected_seconds=0, floor_seconds=floor_seconds)
    if worst_ms is None:
        return replace(
            speed,
            rate=_faster(speed.rate, floor, cap),
            measured_at=now,
            affected_seconds=0,
            floor_seconds=floor_seconds,
        )
    if speed.baseline_seconds <= FIRST_SECONDS and not floor_seconds:
        return replace(
            speed, rate=floor, measured_at=now, floor_seconds=0
        )  # without produce requests, it is unknown whether the current rate affects producers
    affected = (
        speed.affected_seconds + 1
        if speed.baseline is not None and is_latency_affected(worst_ms, speed.baseline)
        else 0
    )
    after = replace(
        _learn(speed, worst_ms, floor_seconds), measured_at=now, affected_seconds=affected, floor_seconds=floor_seconds
    )
    if after.baseline_seconds <= FIRST_SECONDS:
        return replace(after, rate=floor)
    if affected:
        return replace(after, rate=max(floor, speed.rate * (LOWER_FACTOR if affected >= AFFECTED_SECONDS else 1.0)))
    return replace(after, rate=_faster(speed.rate, floor, cap))


def _faster(rate: float, floor: float, cap: float) -> float:
    return min(cap, max(floor, rate * RAISE_FACTOR))


def _learn(speed: Speed, worst_ms: float, floor_seconds: int) -> Speed:
    """Each second counts, also an affected one; otherwise noise would lower the baseline to the p99 of the quietest seconds. Only seconds in which the
    copy could not affect producers raise the limit of the baseline."""
    weight = max(BASELINE_WEIGHT, 1 / (speed.baseline_seconds + 1))
    mean = worst_ms if speed.baseline is None else speed.baseline + weight * (worst_ms - speed.baseline)
    own = worst_ms if speed.own_p99 is None else speed.own_p99
    if speed.baseline_seconds <= FIRST_SECONDS:
        own += weight * (worst_ms - own)
    elif floor_seconds > SETTLED_SECONDS:
        own = min(own + weight * (worst_ms - own), max(own, OWN_MS_MAX))
    return replace(speed, baseline=min(mean, own), own_p99=own, baseline_seconds=speed.baseline_seconds + 1)


def worth_writing(now: float, then: float) -> bool:
    return abs(now - then) > CHANGE * then
