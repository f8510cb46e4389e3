"""The pool of receive buffers: sizes are powers of two, and the pool is limited in number and size."""

from __future__ import annotations

import pytest

from brokerd.net.buffers import FRAME_BYTES_FIRST, SPARE_BUFFERS_MAX, SPARE_BYTES_MAX, Spares


@pytest.mark.parametrize(
    ("least", "size"),
    [(0, FRAME_BYTES_FIRST), (FRAME_BYTES_FIRST, FRAME_BYTES_FIRST), (FRAME_BYTES_FIRST + 1, 2 * FRAME_BYTES_FIRST)],
)
def test_a_buffer_has_the_next_power_of_two(least: int, size: int) -> None:
    assert len(Spares().take(least)) == size


def test_a_returned_buffer_is_used_again_for_its_size() -> None:
    spares = Spares()
    buffer = spares.take(100)
    spares.give(buffer)
    assert spares.take(FRAME_BYTES_FIRST + 1) is not buffer
    assert spares.take(1) is buffer
    assert spares.take(1) is not buffer, "one caller has it"


def test_the_pool_is_limited() -> None:
    spares = Spares()
    buffers = [spares.take(1) for _ in range(SPARE_BUFFERS_MAX + 1)]
    for buffer in buffers:
        spares.give(buffer)
    reused = [spares.take(1) for _ in buffers]
    assert sum(any(a is b for b in buffers) for a in reused) == SPARE_BUFFERS_MAX
    large = bytearray(2 * SPARE_BYTES_MAX)
    spares.give(large)
    assert spares.take(len(large)) is not large
