"""Numbers, sizes and durations in sentences."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.text import coarse_count, coarse_duration, count_text, duration, needed_count, size_text


@pytest.mark.parametrize(
    ("count", "many", "text"),
    [(0, "", "0 copies"), (1, "", "1 copy"), (2_000, "copies", "2,000 copies")],
)
def test_a_count_has_the_singular_for_one_only(count: int, many: str, text: str) -> None:
    assert count_text(count, "copy", many or "copies") == text
    assert count_text(2, "partition") == "2 partitions"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (123_456, "123 kB"),
        (20_000_000, "20.0 MB"),
        (5e15, "5000 TB"),
        (999_400, "999 kB"),
        (999_999, "1.0 MB"),
        (99_960, "100 kB"),
    ],
)
def test_a_size_has_at_most_three_digits_up_to_terabytes(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (601, "10 min"),
        (3_600, "1 h"),
        (5_400, "1 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert str(duration(seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (9, "9 s"),
        (14, "10 s"),
        (16, "20 s"),
        (54.6, "1 min"),
        (110, "2 min"),
        (5_399, "90 min"),
        (5_400, "1.5 h"),
        (7_100, "2 h"),
        (86_400, "24 h"),
        (172_799, "48 h"),
        (172_800, "2 d"),
        (250_000, "3 d"),
    ],
)
def test_a_coarse_duration_is_rounded_to_one_unit(seconds: float, text: str) -> None:
    assert str(coarse_duration(seconds)) == text


def test_a_bound_is_never_passed_by_its_rounding() -> None:
    assert [str(coarse_duration(s, math.floor)) for s in (9.9, 57, 119, 7_100)] == ["9 s", "50 s", "1 min", "1.5 h"]
    assert [str(coarse_duration(s, math.ceil)) for s in (9.1, 51, 61, 5_500)] == ["10 s", "1 min", "2 min", "2 h"]


@given(st.integers(0, 10**12))
def test_a_needed_count_never_understates_and_both_counts_are_close(count: int) -> None:
    needed, coarse = (int(f(count).replace(",", "")) for f in (needed_count, coarse_count))
    assert count <= needed <= count * 1.01 + 1
    assert abs(coarse - count) <= count * 0.05
