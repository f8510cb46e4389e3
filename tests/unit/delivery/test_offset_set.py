"""A set of offsets as bitmaps behaves like a set of numbers."""

from __future__ import annotations

import random

from brokerd.delivery.offset_set import CHUNK_OFFSETS, OffsetSet


def test_it_has_what_was_added() -> None:
    rng = random.Random(1)
    numbers = {rng.randrange(5 * CHUNK_OFFSETS) for _ in range(2_000)} | {CHUNK_OFFSETS - 1, CHUNK_OFFSETS}
    found = OffsetSet(numbers)
    assert set(found) == numbers and len(found) == len(numbers) and list(found) == sorted(numbers)
    assert all((n in found) == (n in numbers) for n in range(0, 5 * CHUNK_OFFSETS, 7))
    assert found and not OffsetSet()


def test_the_bits_of_a_range_are_its_offsets() -> None:
    rng = random.Random(2)
    numbers = {rng.randrange(3 * CHUNK_OFFSETS) for _ in range(500)}
    found = OffsetSet(numbers)
    for _ in range(50):
        start = rng.randrange(4 * CHUNK_OFFSETS)
        end = start + rng.choice((0, 1, rng.randrange(3 * CHUNK_OFFSETS)))
        bits = found.bits(start, end)
        assert {start + i for i in range(bits.bit_length()) if bits >> i & 1} == {
            n for n in numbers if start <= n < end
        }
