"""The token of a look-up: what was encoded is decoded, everything else is rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.errors import Rejected
from controlplane.domain.lookup_token import decode_token, encode_token


@given(st.dictionaries(st.integers(0, 10_000), st.integers(-1, 2**63 - 1), min_size=1))
def test_a_token_names_each_partition_with_its_offset(before: dict[int, int]) -> None:
    assert decode_token(encode_token(before)) == before


def test_a_complete_look_up_has_no_token() -> None:
    assert encode_token({}) == ""


@pytest.mark.parametrize("text", ["nonsense", "ÿ", "e30", "bnVsbA", "W10", "W1sxLCJhIl1d", "W1tbXSwxXV0", "=", "A"])
def test_any_other_text_is_rejected(text: str) -> None:
    with pytest.raises(Rejected) as rejection:
        decode_token(text)
    assert rejection.value.field == "token"


@pytest.mark.parametrize("before", [{-1: 3}, {1: -2}, {1: 2**63}])
def test_offsets_out_of_range_are_rejected(before: dict[int, int]) -> None:
    with pytest.raises(Rejected):
        decode_token(encode_token(before))


def test_a_token_that_is_too_long_is_rejected() -> None:
    with pytest.raises(Rejected):
        decode_token("A" * 200_000)
