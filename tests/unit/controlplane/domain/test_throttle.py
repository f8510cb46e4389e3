"""Copies and producers in a simple model: a broker responds like a queue whose load is ingest plus copy rate."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.latency_buckets import BOUNDS_MS
from controlplane.domain import throttle
from controlplane.domain.throttle import Speed, next_speed, p99

MB = 1_000_000
FLOOR, CAP = 1 * MB, 200 * MB


@dataclass
class CopyModel:
    """A broker with a capacity of `capacity` bytes/s. Does not model disk stalls or producers that slow down on their own."""

    capacity: float = 100 * MB
    ingest: float = 40 * MB
    responses: bool = True
    speed: Speed = Speed(FLOOR, None, 0.0)
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    now: float = 0.0

    def latency_ms(self) -> float:
        load = min(0.999, (self.ingest + self.speed.rate) / self.capacity)
        return 1.5 / (1 - load)

    def sample_one_second(self) -> float:
        """One sample. Returns the p99 of that second."""
        before, mean = list(self.counts), self.latency_ms()
        if self.ingest:
            for _ in range(400):
                self.counts[bisect_left(BOUNDS_MS, min(9_000.0, self.rng.expovariate(1 / mean)))] += 1
        worst = p99(before, self.counts)
        self.now += 1
        self.speed = next_speed(self.speed, worst, complete=self.responses, floor=FLOOR, cap=CAP, now=self.now)
        return worst or 0.0

    def run(self, seconds: int) -> list[tuple[float, float]]:
        return [(self.sample_one_second(), self.speed.rate) for _ in range(seconds)]


def test_the_throttle_uses_free_bandwidth_and_keeps_the_produce_p99() -> None:
    model = CopyModel()
    model.run(10)
    quiet_ms = model.speed.baseline or 0
    seen = model.run(120)
    assert sum(rate for _, rate in seen[30:]) / 90 > 0.3 * (model.capacity - model.ingest), "of 60 MB/s that are free"
    bad = [p for p, _ in seen if p > 4 * quiet_ms]
    assert len(bad) < 0.1 * len(seen)


def test_a_produce_burst_halves_the_rate_each_second_down_to_the_floor_within_five() -> None:
    model = CopyModel()
    model.run(60)
    fast = model.speed.rate
    model.ingest = 85 * MB
    seen = model.run(5)
    assert fast > 15 * MB and seen[-1][1] + model.ingest < model.capacity
    assert min(rate for _, rate in seen) <= fast / 4
    model.ingest = 40 * MB
    assert model.run(40)[-1][1] > 10 * MB, "and it comes back"


def test_without_producers_the_rate_is_the_cap() -> None:
    model = CopyModel(ingest=0)
    assert model.run(60)[-1][1] == CAP


def test_without_measurements_the_rate_falls_to_the_floor_within_five_seconds() -> None:
    model = CopyModel()
    model.run(60)
    model.responses = False
    rates = [rate for _, rate in model.run(5)]
    assert rates[-1] == FLOOR and rates[0] > FLOOR, "one response that is late is no blindness"


def resulting_speeds(series: Iterable[float | None], speed: Speed | None = None, cap: float = CAP) -> list[Speed]:
    """The copy rates that result from this producer latency in each second, independent of the copy rate."""
    speed, out = speed or Speed(FLOOR, None, 0.0), []
    for now, worst in enumerate(series):
        speed = next_speed(speed, worst, complete=True, floor=FLOOR, cap=cap, now=float(now))
        out.append(speed)
    return out


BASELINE_KNOWN = Speed(50 * MB, 5.0, 0.0, own_p99=5.0, baseline_seconds=60)
"""The copy is fast, and producers wait 5 ms."""


def test_the_baseline_excludes_the_effect_of_the_copy() -> None:
    seen = resulting_speeds([500.0] * 60, BASELINE_KNOWN)
    fast = [s for s in seen if s.rate > FLOOR]
    assert len(fast) == 6 and {s.baseline for s in fast} == {5.0}
    assert {s.rate for s in seen[10:]} == {FLOOR}, "nor does it go on beside producers in such trouble, whosever it is"
    assert seen[-1].own_p99 == throttle.OWN_MS_MAX


def test_a_small_effect_does_not_raise_the_baseline_step_by_step() -> None:
    """Half an hour of 29 ms with a baseline of 5 ms. The rule accepts 29 ms, so a baseline learned from accepted seconds would grow without limit."""
    seen = resulting_speeds([29.0] * 1800, BASELINE_KNOWN)
    assert (seen[-1].baseline, seen[-1].rate) == (5.0, CAP)
    assert seen[-1].own_p99 == 5.0


def test_one_slow_second_keeps_the_rate_and_the_next_halves_it() -> None:
    rates = [s.rate / MB for s in resulting_speeds([180.0, 180.0, 180.0, 5.0, 180.0, 5.0], BASELINE_KNOWN)]
    assert rates == [50, 25, 12.5, 15.625, 15.625, 19.53125]


def test_a_few_milliseconds_above_a_small_baseline_are_no_harm() -> None:
    assert resulting_speeds([20.0] * 20, BASELINE_KNOWN)[-1].rate == CAP, "four times 5 ms"
    assert resulting_speeds([50.0] * 20, BASELINE_KNOWN)[9].rate == FLOOR


NOISES = {
    "few": [3, 3, 5, 5, 5, 7, 7, 10, 15, 30],
    "many": [7, 10, 15, 15, 20, 20, 30, 50, 70, 100],
    "spikes": [5, 5, 5, 5, 5, 5, 5, 7, 70, 200],
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_a_busy_machine_does_not_slow_a_copy(noise: str, seed: int) -> None:
    """The p99 of each second is independent of the copy. One second of 5 ms above a small baseline once reduced the rate."""
    draw = random.Random(seed)
    seen = resulting_speeds([float(draw.choice(NOISES[noise])) for _ in range(180)], cap=50 * MB)
    assert sum(s.rate for s in seen[30:]) / 150 > 0.5 * 50 * MB


def test_a_higher_latency_without_the_copy_becomes_the_baseline_at_the_floor() -> None:
    """Another application has started to write: 60 ms instead of 5 ms at any copy rate."""
    seen = resulting_speeds([60.0] * 60, BASELINE_KNOWN)
    floor = [n for n, s in enumerate(seen) if s.rate == FLOOR]
    assert floor[0] < 8 and len(floor) < 30
    assert seen[-1].rate > 10 * FLOOR
    again = resulting_speeds([5.0] * 60, seen[-1])
    assert (again[-1].baseline or 0) < 10, "and forgotten when it is over"
    assert again[-1].own_p99 == seen[-1].own_p99


def test_the_baseline_of_new_producers_is_measured_at_the_floor() -> None:
    idle = resulting_speeds([None] * 40)
    assert idle[-1].rate == CAP
    busy = resulting_speeds([90.0, 30.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0], idle[-1])
    assert [s.rate for s in busy[:6]] == [FLOOR] * 6 and busy[7].rate > FLOOR
    assert busy[0].baseline is None, "the copy was at its cap in that second"


@pytest.mark.parametrize(
    ("values", "expected"), [([1] * 99 + [400], 1), ([1] * 98 + [400, 400], 500), ([50_000], 20_000)]
)
def test_the_p99_of_a_histogram_is_the_bound_of_its_bucket(values: list[int], expected: float) -> None:
    counts = [0] * (len(BOUNDS_MS) + 1)
    for value in values:
        counts[bisect_left(BOUNDS_MS, value)] += 1
    assert p99([0] * len(counts), counts) == expected


def test_counters_of_a_restarted_broker_are_not_compared_with_earlier_ones() -> None:
    counts = [0] * (len(BOUNDS_MS) + 1)
    assert p99([5, *counts[1:]], counts) is None
    assert p99(counts, counts) is None


@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 20_000)), st.booleans()), max_size=80))
def test_no_sequence_of_measurements_leaves_the_bounds(story: list[tuple[float | None, bool]]) -> None:
    speed = Speed(FLOOR, None, 0.0)
    for now, (worst, complete) in enumerate(story):
        speed = next_speed(speed, worst, complete=complete, floor=FLOOR, cap=CAP, now=float(now))
        assert FLOOR <= speed.rate <= CAP


def test_the_buckets_are_those_of_the_brokers() -> None:
    from brokerd.replication import produce_latency

    assert produce_latency.BOUNDS_MS == throttle.BOUNDS_MS
