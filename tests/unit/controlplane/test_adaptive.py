"""Copies beside producers in a toy: a broker answers as a queue that is as full as what comes in and what is copied fill it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane import adaptive
from controlplane.adaptive import BOUNDS_MS, Speed, bucket, p99, stepped

MB = 1_000_000
FLOOR, CAP = 1 * MB, 200 * MB


@dataclass
class Toy:
    """A broker that can carry `capacity` bytes/s. What it does not show: disks that stall, producers that slow down by themselves."""

    capacity: float = 100 * MB
    ingest: float = 40 * MB
    answers: bool = True
    speed: Speed = Speed(FLOOR, None, 0.0)
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    now: float = 0.0

    def latency_ms(self) -> float:
        load = min(0.999, (self.ingest + self.speed.rate) / self.capacity)
        return 1.5 / (1 - load)

    def second(self) -> float:
        """One look; the p99 of that second."""
        before, mean = list(self.counts), self.latency_ms()
        if self.ingest:
            for _ in range(400):
                self.counts[bucket(min(9_000.0, self.rng.expovariate(1 / mean)))] += 1
        worst = p99(before, self.counts)
        self.now += 1
        self.speed = stepped(self.speed, worst, heard=self.answers, floor=FLOOR, cap=CAP, now=self.now)
        return worst or 0.0

    def run(self, seconds: int) -> list[tuple[float, float]]:
        return [(self.second(), self.speed.rate) for _ in range(seconds)]


def test_free_bandwidth_is_used_and_producers_keep_their_p99() -> None:
    toy = Toy()
    toy.run(10)
    calm = toy.speed.baseline or 0
    seen = toy.run(120)
    assert sum(rate for _, rate in seen[30:]) / 90 > 0.3 * (toy.capacity - toy.ingest), "of 60 MB/s that are free"
    bad = [p for p, _ in seen if p > 4 * calm]
    assert len(bad) < 0.1 * len(seen)


def test_a_burst_of_the_producers_halves_it_each_second_and_within_five_it_is_out_of_their_way() -> None:
    toy = Toy()
    toy.run(60)
    fast = toy.speed.rate
    toy.ingest = 85 * MB
    seen = toy.run(5)
    assert fast > 15 * MB and seen[-1][1] + toy.ingest < toy.capacity
    assert min(rate for _, rate in seen) <= fast / 4
    toy.ingest = 40 * MB
    assert toy.run(40)[-1][1] > 10 * MB, "and it comes back"


def test_where_nobody_produces_it_goes_at_its_cap_and_not_above() -> None:
    toy = Toy(ingest=0)
    assert toy.run(60)[-1][1] == CAP


def test_who_cannot_see_goes_at_the_floor_within_five_seconds() -> None:
    toy = Toy()
    toy.run(60)
    toy.answers = False
    rates = [rate for _, rate in toy.run(5)]
    assert rates[-1] == FLOOR and rates[0] > FLOOR, "one answer that is late is no blindness"


def told(series: Iterable[float | None], speed: Speed | None = None, cap: float = CAP) -> list[Speed]:
    """What becomes of it where producers wait so long each second, whatever it does."""
    speed, out = speed or Speed(FLOOR, None, 0.0), []
    for now, worst in enumerate(series):
        speed = stepped(speed, worst, heard=True, floor=FLOOR, cap=cap, now=float(now))
        out.append(speed)
    return out


LEARNT = Speed(50 * MB, 5.0, 0.0, own=5.0, learned=60)
"""It goes fast, and producers wait 5 ms."""


def test_a_baseline_is_not_learned_from_the_copys_own_harm() -> None:
    seen = told([500.0] * 60, LEARNT)
    fast = [s for s in seen if s.rate > FLOOR]
    assert len(fast) == 6 and {s.baseline for s in fast} == {5.0}
    assert {s.rate for s in seen[10:]} == {FLOOR}, "nor does it go on beside producers in such trouble, whosever it is"
    assert seen[-1].own == adaptive.OWN_MS_MAX


def test_a_harm_just_too_small_to_be_seen_does_not_raise_the_baseline_second_by_second() -> None:
    """Half an hour of 29 ms where 5 were: calm by the rule, and calm learned from calm would allow more and more."""
    seen = told([29.0] * 1800, LEARNT)
    assert (seen[-1].baseline, seen[-1].rate) == (5.0, CAP)
    assert seen[-1].own == 5.0


def test_a_second_out_of_the_baseline_holds_it_and_the_next_one_halves_it() -> None:
    rates = [s.rate / MB for s in told([180.0, 180.0, 180.0, 5.0, 180.0, 5.0], LEARNT)]
    assert rates == [50, 25, 12.5, 15.625, 15.625, 19.53125]


def test_some_milliseconds_more_are_nobodys_harm_though_they_are_many_times_the_baseline() -> None:
    assert told([20.0] * 20, LEARNT)[-1].rate == CAP, "four times 5 ms"
    assert told([50.0] * 20, LEARNT)[9].rate == FLOOR


NOISES = {
    "few": [3, 3, 5, 5, 5, 7, 7, 10, 15, 30],
    "many": [7, 10, 15, 15, 20, 20, 30, 50, 70, 100],
    "spikes": [5, 5, 5, 5, 5, 5, 5, 7, 70, 200],
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", NOISES)
def test_a_busy_machines_own_noise_does_not_keep_a_copy_slow(noise: str, seed: int) -> None:
    """p99 of seconds that have nothing to do with the copy. Until 22 November five milliseconds over a small baseline were a harm, and one second of them."""
    draw = random.Random(seed)
    seen = told([float(draw.choice(NOISES[noise])) for _ in range(180)], cap=50 * MB)
    assert sum(s.rate for s in seen[30:]) / 150 > 0.5 * 50 * MB


def test_producers_who_wait_longer_by_themselves_are_learned_anew_at_the_floor() -> None:
    """A second service began to write: 60 ms instead of 5, at whatever speed the copy goes."""
    seen = told([60.0] * 60, LEARNT)
    floor = [n for n, s in enumerate(seen) if s.rate == FLOOR]
    assert floor[0] < 8 and len(floor) < 30
    assert seen[-1].rate > 10 * FLOOR
    again = told([5.0] * 60, seen[-1])
    assert (again[-1].baseline or 0) < 10, "and forgotten when it is over"
    assert again[-1].own == seen[-1].own


def test_the_first_seconds_of_producers_are_learned_at_the_floor_whenever_they_come() -> None:
    idle = told([None] * 40)
    assert idle[-1].rate == CAP
    busy = told([90.0, 30.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0], idle[-1])
    assert [s.rate for s in busy[:6]] == [FLOOR] * 6 and busy[7].rate > FLOOR
    assert busy[0].baseline is None, "the copy was at its cap in that second"


@pytest.mark.parametrize(
    ("values", "expected"), [([1] * 99 + [400], 1), ([1] * 98 + [400, 400], 500), ([50_000], 20_000)]
)
def test_the_p99_of_a_histogram_is_the_bound_of_its_bucket(values: list[int], expected: float) -> None:
    counts = [0] * (len(BOUNDS_MS) + 1)
    for value in values:
        counts[bucket(value)] += 1
    assert p99([0] * len(counts), counts) == expected


def test_a_broker_that_began_anew_says_nothing_about_its_earlier_life() -> None:
    counts = [0] * (len(BOUNDS_MS) + 1)
    assert p99([5, *counts[1:]], counts) is None
    assert p99(counts, counts) is None


@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 20_000)), st.booleans()), max_size=80))
def test_no_story_leads_out_of_its_bounds(story: list[tuple[float | None, bool]]) -> None:
    speed = Speed(FLOOR, None, 0.0)
    for now, (worst, heard) in enumerate(story):
        speed = stepped(speed, worst, heard=heard, floor=FLOOR, cap=CAP, now=float(now))
        assert FLOOR <= speed.rate <= CAP


def test_the_buckets_are_those_of_the_brokers() -> None:
    from brokerd import produce_times

    assert produce_times.BOUNDS_MS == adaptive.BOUNDS_MS
