"""Copy speeds, remaining times and verdicts: arithmetic over samples."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import progress
from controlplane.domain.progress import Sample


def steady_samples(rate: int, whole: int, until: int, grows: int = 0, every: int = 3) -> tuple[Sample, ...]:
    """A copy of `whole` bytes at `rate` bytes/s of a log that grows by `grows` bytes/s."""
    return tuple(Sample(float(t), whole + grows * t - rate * t, rate * t) for t in range(0, until + 1, every))


def test_the_speed_covers_the_last_seconds_and_becomes_zero_without_progress() -> None:
    copy = steady_samples(1_000, 10**6, 60)
    assert progress.speed(copy, 60.0) == pytest.approx(1_000)
    assert progress.speed(copy, 300.0) == pytest.approx(0, abs=20)
    assert progress.speed(copy[:1], 0.0) is None


def test_nothing_is_averaged_over_a_gap() -> None:
    """After the cluster had been down for half an hour, the speed of a copy was its average over it."""
    copy = steady_samples(1_000, 10**7, 60)
    last = copy[-1]
    resumed = (*copy, Sample(last.at + 1800, last.left - 9_000, last.done + 9_000))
    assert progress.speed(resumed, resumed[-1].at) is None
    later = (*resumed, *(Sample(resumed[-1].at + t, 10**7 - 1_000 * (69 + t), 1_000 * (69 + t)) for t in (3, 6, 9, 12)))
    assert progress.speed(later, later[-1].at) == pytest.approx(1_000)
    short = (Sample(0.0, 10**6, 0), Sample(61.0, 10**6, 0), Sample(64.0, 10**6 - 3_000, 3_000))
    assert progress.rates(short, 64.0) == [1_000.0]


def test_a_growth_rate_needs_seconds_of_samples() -> None:
    assert progress.growth(steady_samples(1_000, 10**6, 9, grows=300), 9.0) is None
    assert progress.growth(steady_samples(1_000, 10**6, 12, grows=300), 12.0) == pytest.approx(300)


def test_a_copy_slower_than_the_incoming_data_is_reported_after_a_delay() -> None:
    losing = steady_samples(1_000, 10**6, 60, grows=1_500)
    assert progress.production_surplus(losing[:10], 27.0) is None
    assert progress.production_surplus(losing, 60.0) == pytest.approx(1_500)
    assert progress.production_surplus(steady_samples(1_000, 10**6, 60, grows=900), 60.0) is None
    # A part that copies nothing has another cause.
    assert progress.production_surplus(steady_samples(0, 10**6, 60, grows=900), 60.0) is None


def test_the_eta_range_of_a_steady_copy_contains_the_end() -> None:
    copy = steady_samples(1_000, 300_000, 60)
    soonest, latest = progress.ends_in(copy, 60.0) or (0, 0)
    assert soonest < 240 < latest < 3 * 240


def test_no_eta_before_ten_seconds_of_real_copying() -> None:
    """Thirty seconds of empty partitions: 120 kB of 230 MB. Their speed gave an ETA of five days for two minutes of work."""
    empty = [Sample(float(t), 230_000_000 - 4_000 * t, 4_000 * t, 0) for t in range(0, 31, 3)]
    assert progress.ends_in(empty, 30.0) is None
    done = empty[-1].done
    real = [
        Sample(30.0 + t, 230_000_000 - done - 2_000_000 * t, done + 2_000_000 * t, 2_000_000 * t) for t in (3, 6, 9, 12)
    ]
    assert progress.ends_in([*empty, *real[:3]], 39.0) is None
    end = progress.ends_in([*empty, *real], 42.0, throttle=2_000_000, busiest=real[-1].left, parts_left=20)
    assert end is not None
    true = real[-1].left / 2_000_000
    assert true <= end[0] + 1 and end[0] < 1.1 * true < end[1] < 4 * true


def test_the_eta_is_not_before_the_end_that_the_throttle_allows() -> None:
    copy = steady_samples(1_000_000, 300_000_000, 60)
    free = progress.ends_in(copy, 60.0)
    held = progress.ends_in(copy, 60.0, throttle=100_000, busiest=240_000_000)
    assert free is not None and free[0] < 240
    assert held is not None and held[0] >= 2_400 and held[1] > held[0]


def test_a_copy_without_progress_or_with_one_sample_has_no_eta() -> None:
    assert progress.ends_in(steady_samples(1_000, 10**6, 60, grows=1_500), 60.0) is None
    assert progress.ends_in(steady_samples(1_000, 10**6, 0), 0.0) is None
    assert progress.ends_in((), 0.0) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_eta_range_of_an_uneven_copy_contains_the_end_in_four_of_five_samples(seed: int) -> None:
    """Checks the arithmetic on generated copies whose rate varies by half. The moves' matrix measures real runs."""
    rng = random.Random(seed)
    whole, done, t = 50_000_000, 0.0, 0.0
    samples: list[Sample] = []
    looks: list[tuple[float, tuple[float, float] | None]] = []
    while done < whole:
        samples = list(progress.add_sample(samples, Sample(t, int(whole - done), int(done))))
        if done >= whole / 10:
            looks.append((t, progress.ends_in(samples, t)))
        t += 3
        done += 3 * 100_000 * rng.uniform(0.5, 1.5)
    hits = sum(1 for at, end in looks if end is not None and end[0] <= t - at <= end[1])
    assert hits >= 0.8 * len(looks)


def test_a_long_history_keeps_its_first_sample_and_is_bounded() -> None:
    samples: tuple[Sample, ...] = ()
    for t in range(5_000):
        samples = progress.add_sample(samples, Sample(float(t), 5_000 - t, t))
    assert samples[0].at == 0 and samples[-1].at == 4_999
    assert len(samples) <= progress.SAMPLES_MAX
    assert [s.at for s in samples] == sorted(s.at for s in samples)
    assert progress.from_json(progress.to_json(samples)) == samples


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10**12), st.integers(0, 10**12)), max_size=30),
    st.integers(0, 400),
)
def test_no_estimate_is_negative(steps: list[tuple[int, int, int]], wait: int) -> None:
    at, samples = 0.0, []
    for dt, left, done in steps:
        at += dt
        samples.append(Sample(at, left, done))
    now = at + wait
    assert (progress.speed(samples, now) or 0) >= 0
    assert (progress.growth(samples, now) or 0) >= 0
    end = progress.ends_in(samples, now)
    assert end is None or 0 <= end[0] <= end[1]


def test_the_needed_rate_is_that_of_the_busiest_broker_with_headroom() -> None:
    assert progress.required_throttle([((3,), 100.0), ((3, 4), 60.0)]) == 200
    assert progress.copies_that_outgrow_throttle({1: ((3,), 100.0), 2: ((4,), 50.0)}, 90) == {1}


def test_the_rate_after_late_reports_is_the_average_of_the_whole_time() -> None:
    steady_copy = steady_samples(3_000_000, 10**9, 30)
    assert progress.sample_rates(steady_copy) == [None, *[3_000_000.0] * 10]
    late = [Sample(float(t), 0, 0 if t < 27 else 3_000_000 * t) for t in range(0, 34, 3)]
    rates = progress.sample_rates(late)
    assert rates[1:9] == [0.0] * 8 and rates[9:] == [3_000_000.0] * 3, "not 27 MB/s"
    assert progress.sample_rates([Sample(0.0, 5, 9), Sample(0.0, 5, 9), Sample(3.0, 9, 5)]) == [None, None, 0.0]
    assert progress.sample_rates([]) == []
