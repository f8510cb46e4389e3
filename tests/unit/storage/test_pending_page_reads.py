"""Ranges whose pages may be pending: known before a read, forgotten when found or expired, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage.pending_page_reads import FILES_MAX, PENDING_S, RANGES_MAX, PendingPageReads


def test_only_the_bytes_of_a_read_are_arriving() -> None:
    pending = PendingPageReads()
    pending.add("a", 1_000, 500, 0)
    assert pending.contains("a", 1_499, 1, 1) and pending.contains("a", 0, 1_001, 1)
    assert not pending.contains("a", 1_500, 100, 1) and not pending.contains("a", 0, 1_000, 1)
    assert not pending.contains("b", 1_000, 500, 1)


def test_found_bytes_are_no_longer_arriving() -> None:
    pending = PendingPageReads()
    pending.add("a", 0, 1_000, 0)
    pending.on_cached("a", 200, 100, 1)
    assert not pending.contains("a", 200, 100, 1)
    assert pending.contains("a", 0, 201, 1) and pending.contains("a", 299, 2, 1)
    pending.on_cached("a", 0, 1_000, 1)
    assert not pending.contains("a", 0, 1_000, 1) and not len(pending)


def test_a_read_that_starts_after_the_look_keeps_its_range() -> None:
    pending = PendingPageReads()
    pending.add("a", 0, 1_000, 5)
    pending.on_cached("a", 0, 1_000, 4)
    assert pending.contains("a", 0, 1, 5)


def test_ranges_and_files_expire_and_are_bounded() -> None:
    pending = PendingPageReads()
    for i in range(FILES_MAX):
        pending.add(f"old{i}", 0, 10, 0)
    assert not pending.contains("old0", 0, 10, PENDING_S)
    pending.add("new", 0, 10, PENDING_S)
    assert len(pending) == 1
    for i in range(10 * RANGES_MAX):
        pending.add("new", 100 * i, 10, PENDING_S)
    assert len(pending._ranges["new"]) <= RANGES_MAX
    for i in range(0, 100_000, 7):
        pending.on_cached("new", i, 1, PENDING_S)
        assert len(pending._ranges["new"]) <= 2 * RANGES_MAX


@given(st.lists(st.tuples(st.sampled_from("af"), st.integers(0, 60), st.integers(1, 20)), max_size=200))
def test_a_byte_that_was_not_found_is_always_arriving(steps: list[tuple[str, int, int]]) -> None:
    pending, expected, now_s = PendingPageReads(), set[int](), 0.0
    for kind, position, length in steps:
        now_s += 0.01
        touched = set(range(position, position + length))
        if kind == "a":
            pending.add("f", position, length, now_s)
            expected |= touched
        else:
            pending.on_cached("f", position, length, now_s)
            expected -= touched
        assert all(pending.contains("f", byte, 1, now_s) for byte in expected)
