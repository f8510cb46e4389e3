"""Runs of offsets: search, division and join keep the order and leave no gap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.sharing.delivery import OffsetRun, RecordState
from brokerd.sharing.offset_runs import JOIN_ABOVE, OffsetRuns


def runs(*ends: int) -> OffsetRuns:
    """Runs from offset 10 to each of these offsets."""
    found, first = OffsetRuns(), 10
    for last in ends:
        found.append(OffsetRun(first, last, RecordState.AVAILABLE))
        first = last + 1
    return found


def spans(found: list[OffsetRun]) -> list[tuple[int, int]]:
    return [(run.first, run.last) for run in found]


def test_the_run_of_an_offset() -> None:
    found = runs(14, 19, 20)
    assert [found.index(offset) for offset in (10, 14, 15, 20)] == [0, 0, 1, 2]
    assert spans(found.overlapping(12, 15)) == [(10, 14), (15, 19)]
    assert spans(found.overlapping(20, 99)) == [(20, 20)]


def test_offsets_before_the_first_run_have_no_run() -> None:
    found = runs(14, 19)
    assert (found.overlapping(0, 9), found.split_at(0, 9)) == ([], [])
    assert spans(found.split_at(5, 12)) == [(10, 12)]
    assert spans(found.overlapping(5, 12)) == [(10, 12)]
    assert (found.split_at(25, 30), OffsetRuns().split_at(0, 5), OffsetRuns().overlapping(0, 5)) == ([], [], [])
    found.validate(10, 20)


def test_a_divided_run_keeps_its_state_on_both_sides() -> None:
    found = OffsetRuns()
    found.append(OffsetRun(0, 9, RecordState.ACQUIRED, 2, "member", 700, dirty=True, rejected=True))
    assert spans(found.split_at(3, 5)) == [(3, 5)]
    assert spans(found.runs) == [(0, 2), (3, 5), (6, 9)]
    assert all(found.runs[0].same(run) for run in found.runs)
    found.validate(0, 10)


def test_runs_are_joined_when_their_number_has_doubled() -> None:
    found = runs(*range(10, 10 + JOIN_ABOVE))
    found.join()
    assert len(found.runs) == JOIN_ABOVE, "too few"
    found.append(OffsetRun(10 + JOIN_ABOVE, 30, RecordState.ACQUIRED, 1, "member"))
    found.join()
    assert spans(found.runs) == [(10, 9 + JOIN_ABOVE), (10 + JOIN_ABOVE, 30)]
    found.validate(10, 31)


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59)), max_size=30), st.integers(0, 59))
def test_every_offset_stays_in_exactly_one_run(divisions: list[tuple[int, int]], removed_to: int) -> None:
    found = OffsetRuns()
    found.append(OffsetRun(0, 59, RecordState.AVAILABLE))
    for a, b in divisions:
        first, last = min(a, b), max(a, b)
        parts = found.split_at(first, last)
        assert (parts[0].first, parts[-1].last) == (first, last)
        assert spans(found.overlapping(first, last)) == spans(parts)
        found.validate(0, 60)
    count = found.index(removed_to)
    start = found.runs[count].first
    found.remove_first(count)
    found.validate(start, 60)
    found.join()
    found.validate(start, 60)


def test_a_gap_is_detected() -> None:
    found = runs(14)
    found.append(OffsetRun(16, 20, RecordState.AVAILABLE))
    with pytest.raises(AssertionError, match="offset 15: runs have a gap"):
        found.validate(10, 21)
