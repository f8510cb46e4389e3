"""Bytes that were found in the page cache are found again for a short time, and never beyond what was found."""

from __future__ import annotations

import pytest

from brokerd.storage.found_bytes import NOTHING_FOUND, VALID_SECONDS, FoundBytes


def test_nothing_is_found_at_first() -> None:
    assert not NOTHING_FOUND.contains(0, 1, 5.0)


@pytest.mark.parametrize(
    ("position", "length", "later_s", "contained"),
    [
        (100, 50, 0.0, True),
        (120, 30, 0.0, True),
        (99, 10, 0.0, False),
        (140, 11, 0.0, False),
        (100, 50, VALID_SECONDS, False),
    ],
    ids=["all", "a part", "before the start", "beyond the end", "too late"],
)
def test_bytes_within_the_range_are_contained(position: int, length: int, later_s: float, contained: bool) -> None:
    found = NOTHING_FOUND.with_range(100, 50, 5.0)
    assert found.contains(position, length, 5.0 + later_s) is contained


def test_touching_bytes_are_added_and_expire_with_the_first() -> None:
    first = FoundBytes(100, 150, 5.0)
    assert first.with_range(150, 50, 4.99) == FoundBytes(100, 200, 5.0)
    assert first.with_range(50, 50, 4.99) == FoundBytes(50, 150, 5.0)


@pytest.mark.parametrize(("position", "now_s"), [(151, 4.99), (150, 5.0)], ids=["a gap", "expired"])
def test_other_bytes_replace_the_range(position: int, now_s: float) -> None:
    assert FoundBytes(100, 150, 5.0).with_range(position, 50, now_s) == (position, position + 50, now_s + VALID_SECONDS)
