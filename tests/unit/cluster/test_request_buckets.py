"""Percentiles of histograms of request times."""

from __future__ import annotations

from bisect import bisect_left

from brokerd.cluster.request_buckets import BOUNDS_S, percentile


def count_per_bucket(*seconds: float) -> list[int]:
    counts = [0] * (len(BOUNDS_S) + 1)
    for s in seconds:
        counts[bisect_left(BOUNDS_S, s)] += 1
    return counts


def test_a_percentile_is_the_bound_of_its_bucket() -> None:
    counts = count_per_bucket(*[0.0001] * 50, *[0.002] * 49, 7.0)
    assert percentile(counts, 0.5) == 0.0001
    assert percentile(counts, 0.51) == percentile(counts, 0.99) == 0.0025
    assert percentile(counts, 1.0) == 10.0


def test_times_above_the_last_bound_and_no_requests() -> None:
    assert percentile(count_per_bucket(1e9), 0.5) == BOUNDS_S[-1]
    assert percentile(count_per_bucket(), 0.5) is None
