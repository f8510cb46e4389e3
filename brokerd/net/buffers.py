"""Memory for frames under way, used again. Law: who gives a buffer back has no view of it left. Called by `listener` and `peers`."""

from __future__ import annotations

FRAME_BYTES_FIRST = 64 * 1024
"""Memory for a frame under way grows with what has arrived, not with what was announced: an announcement costs nothing."""
SPARE_BUFFERS_MAX = 8
SPARE_BYTES_MAX = 4 * 1024 * 1024
"""Buffers of frames are used again: fresh memory costs a page fault per 4 KiB, more than the copy into it. Larger ones are let go."""


class Spares:
    """Buffers between frames, of sizes that are powers of two."""

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._count = 0

    def take(self, least: int) -> bytearray:
        size = 1 << max(least - 1, FRAME_BYTES_FIRST - 1).bit_length()
        free = self._free.get(size)
        if free:
            self._count -= 1
            return free.pop()
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        if len(buffer) <= SPARE_BYTES_MAX and self._count < SPARE_BUFFERS_MAX:
            self._count += 1
            self._free.setdefault(len(buffer), []).append(buffer)


spares = Spares()
"""The broker's one pool: one thread, one loop."""
