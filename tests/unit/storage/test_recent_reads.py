"""Recent reads are remembered up to a number, and used only where the result is the same."""

from __future__ import annotations

import pytest

from brokerd.storage.recent_reads import ENTRIES_MAX, RecentReads


def test_the_end_of_a_read_is_the_start_of_the_next() -> None:
    recent = RecentReads()
    recent.on_read_ended(7, 700)
    assert (recent.position_of(7), recent.position_of(8)) == (700, None)


@pytest.mark.parametrize(
    ("start", "bytes_max", "upto_offset", "at_least_one", "found"),
    [
        (0, 1_000, 7, True, 700),
        (0, 1_000, 6, True, None),
        (1, 1_000, 7, True, None),
        (0, 1_001, 7, True, None),
        (0, 1_000, 7, False, None),
    ],
    ids=["the same", "fewer offsets", "another start", "more bytes", "no batch is possible"],
)
def test_only_the_same_read_has_the_same_end(
    start: int, bytes_max: int, upto_offset: int, at_least_one: bool, found: int | None
) -> None:
    recent = RecentReads()
    recent.on_read_filled(0, 1_000, True, 7, 700)
    assert recent.end_of(start, bytes_max, upto_offset, at_least_one) == found


def test_the_oldest_are_forgotten_first() -> None:
    recent = RecentReads()
    for i in range(ENTRIES_MAX + 1):
        recent.on_read_ended(i, i * 10)
        recent.on_read_filled(i, 10, True, i + 1, i * 10 + 10)
    assert recent.position_of(0) is None and recent.end_of(0, 10, 99, True) is None
    assert recent.position_of(1) == 10 and recent.end_of(1, 10, 99, True) == 20


def test_nothing_is_left_after_a_truncation() -> None:
    recent = RecentReads()
    recent.on_read_ended(1, 10)
    recent.on_read_filled(0, 10, True, 1, 10)
    recent.clear()
    assert recent.position_of(1) is None and recent.end_of(0, 10, 99, True) is None
