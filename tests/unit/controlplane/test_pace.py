"""Speeds, ends and verdicts of copies: arithmetic over samples."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane import pace
from controlplane.pace import Sample


def steady(rate: int, whole: int, until: int, grows: int = 0, every: int = 3) -> tuple[Sample, ...]:
    """A copy of `whole` bytes at `rate` bytes/s of a log that grows by `grows` bytes/s."""
    return tuple(Sample(float(t), whole + grows * t - rate * t, rate * t) for t in range(0, until + 1, every))


def test_a_speed_is_of_the_last_seconds_and_falls_to_nothing_when_nothing_comes() -> None:
    copy = steady(1_000, 10**6, 60)
    assert pace.speed(copy, 60.0) == pytest.approx(1_000)
    assert pace.speed(copy, 300.0) == pytest.approx(0, abs=20)
    assert pace.speed(copy[:1], 0.0) is None


def test_growth_wants_some_seconds_of_samples() -> None:
    assert pace.growth(steady(1_000, 10**6, 9, grows=300), 9.0) is None
    assert pace.growth(steady(1_000, 10**6, 12, grows=300), 12.0) == pytest.approx(300)


def test_an_outrun_copy_is_named_after_its_time_and_not_before() -> None:
    losing = steady(1_000, 10**6, 60, grows=1_500)
    assert pace.outrun(losing[:10], 27.0) is None
    assert pace.outrun(losing, 60.0) == pytest.approx(1_500)
    assert pace.outrun(steady(1_000, 10**6, 60, grows=900), 60.0) is None
    assert pace.outrun(steady(0, 10**6, 60, grows=900), 60.0) is None  # what copies nothing has another cause


def test_an_end_is_a_range_around_the_truth_for_a_steady_copy() -> None:
    copy = steady(1_000, 300_000, 60)
    soonest, latest = pace.ends_in(copy, 60.0) or (0, 0)
    assert soonest < 240 < latest < 3 * 240


def test_no_end_is_told_of_a_copy_that_loses_or_was_seen_once() -> None:
    assert pace.ends_in(steady(1_000, 10**6, 60, grows=1_500), 60.0) is None
    assert pace.ends_in(steady(1_000, 10**6, 0), 0.0) is None
    assert pace.ends_in((), 0.0) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_true_end_lies_in_the_range_of_four_looks_in_five_of_an_uneven_copy(seed: int) -> None:
    """Checks the arithmetic on made copies whose rate wanders by half; real runs are measured by the moves' matrix."""
    rng = random.Random(seed)
    whole, done, t = 50_000_000, 0.0, 0.0
    samples: list[Sample] = []
    looks: list[tuple[float, tuple[float, float] | None]] = []
    while done < whole:
        samples = list(pace.added(samples, Sample(t, int(whole - done), int(done))))
        if done >= whole / 10:
            looks.append((t, pace.ends_in(samples, t)))
        t += 3
        done += 3 * 100_000 * rng.uniform(0.5, 1.5)
    hits = sum(1 for at, end in looks if end is not None and end[0] <= t - at <= end[1])
    assert hits >= 0.8 * len(looks)


def test_a_long_life_keeps_its_first_sample_and_a_bounded_number() -> None:
    samples: tuple[Sample, ...] = ()
    for t in range(5_000):
        samples = pace.added(samples, Sample(float(t), 5_000 - t, t))
    assert samples[0].at == 0 and samples[-1].at == 4_999
    assert len(samples) <= pace.SAMPLES_MAX
    assert [s.at for s in samples] == sorted(s.at for s in samples)
    assert pace.from_json(pace.to_json(samples)) == samples


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10**12), st.integers(0, 10**12)), max_size=30),
    st.integers(0, 400),
)
def test_nothing_is_ever_foretold_below_zero(steps: list[tuple[int, int, int]], wait: int) -> None:
    at, samples = 0.0, []
    for dt, left, done in steps:
        at += dt
        samples.append(Sample(at, left, done))
    now = at + wait
    assert (pace.speed(samples, now) or 0) >= 0
    assert (pace.growth(samples, now) or 0) >= 0
    end = pace.ends_in(samples, now)
    assert end is None or 0 <= end[0] <= end[1]


def test_what_is_needed_is_the_sum_on_the_busiest_broker_with_headroom() -> None:
    assert pace.needed([((3,), 100.0), ((3, 4), 60.0)]) == 200
    assert pace.foretold({1: ((3,), 100.0), 2: ((4,), 50.0)}, 90) == {1}
