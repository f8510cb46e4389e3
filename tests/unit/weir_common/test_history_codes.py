"""The stored form of values and of chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weir_common.history_codes import CHUNK_VALUES, MISSING, code_of, minute_codes, pack, unpack, value_of


@given(st.floats(min_value=0, max_value=1e18))
def test_a_value_keeps_three_significant_digits(value: float) -> None:
    kept = value_of(code_of(value))
    assert kept is not None
    assert abs(kept - value) <= max(0.0501, value * 0.00501)


@given(st.integers(min_value=0, max_value=999))
def test_small_counts_are_exact(value: int) -> None:
    assert value_of(code_of(value)) == value


@given(st.floats(min_value=0, max_value=1e18), st.floats(min_value=0, max_value=1e18))
def test_codes_have_the_order_of_their_values(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert MISSING < code_of(low) <= code_of(high) < 1 << 15


def test_unknown_is_not_zero() -> None:
    assert [value_of(code_of(v)) for v in (None, float("nan"), 0, -3)] == [None, None, 0, 0]


@given(st.lists(st.integers(min_value=0, max_value=20_000), min_size=CHUNK_VALUES, max_size=CHUNK_VALUES))
def test_a_chunk_is_unpacked_as_it_was_packed(codes: list[int]) -> None:
    assert list(unpack(pack(codes))) == codes


def test_a_constant_costs_little() -> None:
    assert len(pack([code_of(5_000)] * CHUNK_VALUES)) < 20


def test_minutes_are_averages_of_the_known_values() -> None:
    codes = [code_of(v) for v in (1, 2, 3, 4, 5, 6)] + [MISSING] * 6 + [MISSING] * 5 + [code_of(80)]
    assert [value_of(c) for c in minute_codes(codes)] == [3.5, None, 80]
