"""Ranges whose pages may be arriving: known before a read, forgotten when found or expired, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage.arriving import ARRIVING_S, FILES_MAX, RANGES_MAX, Arriving


def test_only_the_bytes_of_a_read_are_arriving() -> None:
    arriving = Arriving()
    arriving.add("a", 1_000, 500, 0)
    assert arriving.contains("a", 1_499, 1, 1) and arriving.contains("a", 0, 1_001, 1)
    assert not arriving.contains("a", 1_500, 100, 1) and not arriving.contains("a", 0, 1_000, 1)
    assert not arriving.contains("b", 1_000, 500, 1)


def test_found_bytes_are_no_longer_arriving() -> None:
    arriving = Arriving()
    arriving.add("a", 0, 1_000, 0)
    arriving.found("a", 200, 100, 1)
    assert not arriving.contains("a", 200, 100, 1)
    assert arriving.contains("a", 0, 201, 1) and arriving.contains("a", 299, 2, 1)
    arriving.found("a", 0, 1_000, 1)
    assert not arriving.contains("a", 0, 1_000, 1) and not len(arriving)


def test_a_read_that_starts_after_the_look_keeps_its_range() -> None:
    arriving = Arriving()
    arriving.add("a", 0, 1_000, 5)
    arriving.found("a", 0, 1_000, 4)
    assert arriving.contains("a", 0, 1, 5)


def test_ranges_and_files_expire_and_are_bounded() -> None:
    arriving = Arriving()
    for i in range(FILES_MAX):
        arriving.add(f"old{i}", 0, 10, 0)
    assert not arriving.contains("old0", 0, 10, ARRIVING_S)
    arriving.add("new", 0, 10, ARRIVING_S)
    assert len(arriving) == 1
    for i in range(10 * RANGES_MAX):
        arriving.add("new", 100 * i, 10, ARRIVING_S)
    assert len(arriving._ranges["new"]) <= RANGES_MAX
    for i in range(0, 100_000, 7):
        arriving.found("new", i, 1, ARRIVING_S)
        assert len(arriving._ranges["new"]) <= 2 * RANGES_MAX


@given(st.lists(st.tuples(st.sampled_from("af"), st.integers(0, 60), st.integers(1, 20)), max_size=200))
def test_a_byte_that_was_not_found_is_always_arriving(steps: list[tuple[str, int, int]]) -> None:
    arriving, expected, now_s = Arriving(), set[int](), 0.0
    for kind, position, length in steps:
        now_s += 0.01
        touched = set(range(position, position + length))
        if kind == "a":
            arriving.add("f", position, length, now_s)
            expected |= touched
        else:
            arriving.found("f", position, length, now_s)
            expected -= touched
        assert all(arriving.contains("f", byte, 1, now_s) for byte in expected)
