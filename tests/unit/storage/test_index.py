"""The sparse indexes of a segment: searches against a linear search, files, and files that do not match."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage.index import SparseIndex
from tests.simulation.disk import SimDisk

LOG = Path("/data/00000000000000000000.log")
ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000), st.integers(0, 100)), min_size=1, max_size=30)


def index_with_steps(steps: list[tuple[int, int, int]]) -> SparseIndex:
    """Entries that ascend by the given steps of offset, position and time. The first entry is at position 0."""
    index = SparseIndex()
    relative = position = newest = 0
    for offset_step, position_step, time_step in steps:
        newest += time_step
        index.add(relative, position, newest)
        relative, position = relative + offset_step, position + position_step
    return index


def disk() -> SimDisk:
    out = SimDisk()
    out.mkdir(LOG.parent)
    return out


def rows(index: SparseIndex) -> list[tuple[int, int, int]]:
    return list(zip(index.offsets, index.positions, index.times, strict=True))


@given(ENTRIES, st.integers(-1, 2_000), st.integers(0, 10**6))
def test_searches_find_what_a_linear_search_finds(
    steps: list[tuple[int, int, int]], wanted: int, position: int
) -> None:
    index = index_with_steps(steps)
    every = list(enumerate(rows(index)))
    assert index.at_or_before(wanted) == max((i for i, (o, _, _) in every if o <= wanted), default=-1)
    assert index.at_or_after(position) == min((i for i, (_, p, _) in every if p >= position), default=-1)
    assert index.before_time(wanted) == max((i for i, (_, _, t) in every if t < wanted), default=-1)
    assert index.edge_within(position, wanted) == max(
        (i for i, (o, p, _) in every if o <= wanted and p <= position), default=-1
    )


@given(ENTRIES, st.integers(0, 30))
def test_an_index_is_read_back_also_after_it_was_saved_in_parts(steps: list[tuple[int, int, int]], part: int) -> None:
    device, index = disk(), SparseIndex()
    for i, row in enumerate(rows(index_with_steps(steps))):
        if i == part:
            index.save(device, LOG, index.times[-1] if len(index) else 0, 0)
        index.add(*row)
    index.save(device, LOG, index.times[-1] + 5, index.offsets[-1] + 3)
    loaded = SparseIndex.load(device, LOG, 1 << 30)
    assert loaded is not None and rows(loaded) == rows(index)
    assert SparseIndex.newest_of(device, LOG) == (index.times[-1] + 5, index.offsets[-1] + 3)


def test_entries_beyond_the_size_of_the_log_are_not_loaded() -> None:
    device, index = disk(), index_with_steps([(1, 100, 1)] * 5)
    index.save(device, LOG, 5, 5)
    loaded = SparseIndex.load(device, LOG, 250)
    assert loaded is not None and list(loaded.positions) == [0, 100, 200]


def test_a_truncation_removes_entries_and_the_next_save_removes_them_from_the_files() -> None:
    device, index = disk(), index_with_steps([(1, 100, 1)] * 5)
    index.save(device, LOG, 5, 5)
    index.truncate(200)
    index.save(device, LOG, 2, 2)
    loaded = SparseIndex.load(device, LOG, 1 << 30)
    assert loaded is not None and rows(loaded) == rows(index) and len(index) == 2
    assert SparseIndex.newest_of(device, LOG) == (2, 1)


@pytest.mark.parametrize(
    ("offsets", "times"),
    [
        (b"", b""),
        (struct.pack(">ii", 0, 0), b""),
        (struct.pack(">ii", 0, 0)[:-1], struct.pack(">qi", 1, 0)),
        (struct.pack(">ii", 0, 100), struct.pack(">qi", 1, 0)),  # the first batch is not at position 0
        (struct.pack(">iiii", 5, 0, 5, 100), struct.pack(">qi", 1, 0)),  # offsets do not grow
        (struct.pack(">iiii", 0, 0, 5, 0), struct.pack(">qi", 1, 0)),  # positions do not grow
        (struct.pack(">iiii", 0, 0, 5, 9), struct.pack(">qiqi", 7, 0, 6, 5)),  # times go back
    ],
)
def test_missing_and_invalid_files_are_not_loaded(offsets: bytes, times: bytes) -> None:
    device = disk()
    device.replace(LOG.with_suffix(".index"), offsets)
    device.replace(LOG.with_suffix(".timeindex"), times)
    assert SparseIndex.load(device, LOG, 1 << 30) is None


@pytest.mark.parametrize("times", [None, b"", b"short", bytes(13)])
def test_a_time_index_that_is_missing_or_torn_has_no_newest_entry(times: bytes | None) -> None:
    device = disk()
    if times is not None:
        device.replace(LOG.with_suffix(".timeindex"), times)
    assert SparseIndex.newest_of(device, LOG) is None
