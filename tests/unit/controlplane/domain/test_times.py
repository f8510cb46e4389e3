"""Milliseconds since 1970 and Python's values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.domain.times import ms_of_utc, utc_of_ms


@pytest.mark.parametrize("ms", [0, 1, 999, 1_796_063_414_577, 1_796_063_414_999])
def test_a_time_in_milliseconds_is_the_same_after_both_conversions(ms: int) -> None:
    assert ms_of_utc(utc_of_ms(ms)) == ms


def test_the_time_is_in_utc() -> None:
    assert utc_of_ms(1_500) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
