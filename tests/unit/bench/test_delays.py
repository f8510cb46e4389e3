"""The times and the lateness of `bench.delays`."""

from __future__ import annotations

import random

from bench.delays import FAR_MS, SPREAD_MS, Lateness, far_times, near_times


def test_pending_records_are_far_and_measured_ones_are_spread_over_the_window() -> None:
    far = list(far_times(100, 1_000, random.Random(1)))
    assert len(far) == 100 and all(1_000 + FAR_MS <= at < 1_000 + FAR_MS + SPREAD_MS for at in far)
    assert list(near_times(4, 5_000, 2.0)) == [5_000, 5_500, 6_000, 6_500]


def test_an_early_record_is_counted() -> None:
    late = Lateness([-2.0, 10.0, 30.0])
    assert late.early == 1 and "1 early" in late.text() and "max 30" in late.text()
    assert Lateness([0.0]).early == 0
