"""Pool of receive buffers. After `give` returns a buffer to the pool, the caller must not use a view of the buffer."""

from __future__ import annotations

FRAME_BYTES_FIRST = 64 * 1024
"""Initial size of a receive buffer. It grows with the received bytes, not with the announced frame size."""
SPARE_BUFFERS_MAX = 8
SPARE_BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of pooled buffers. New memory costs a page fault per 4 KiB, more than the copy into it."""


class Spares:
    """Unused buffers, by size in powers of two."""

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
"""The pool of the broker, used by its only loop thread."""
