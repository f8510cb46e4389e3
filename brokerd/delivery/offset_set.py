"""A set of offsets as bitmaps, with one bitmap per range of offsets that has members. Pure.

Invariant: a reader on another thread may use a set that is not changed any more. Does not contain: what the offsets mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

CHUNK_BITS = 16
CHUNK_OFFSETS = 1 << CHUNK_BITS
"""Offsets of one bitmap: 8 KiB."""


class OffsetSet(Set[int]):
    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._chunks: dict[int, bytearray] = {}
        self.update(offsets)

    def update(self, offsets: Iterable[int]) -> None:
        chunks = self._chunks
        for offset in offsets:
            number = offset >> CHUNK_BITS
            chunk = chunks.get(number)
            if chunk is None:
                chunk = chunks[number] = bytearray(CHUNK_OFFSETS // 8)
            inside = offset & (CHUNK_OFFSETS - 1)
            chunk[inside >> 3] |= 1 << (inside & 7)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        chunk = self._chunks.get(offset >> CHUNK_BITS)
        inside = offset & (CHUNK_OFFSETS - 1)
        return chunk is not None and bool(chunk[inside >> 3] >> (inside & 7) & 1)

    def __len__(self) -> int:
        return sum(int.from_bytes(chunk, "little").bit_count() for chunk in self._chunks.values())

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __iter__(self) -> Iterator[int]:
        for number, chunk in sorted(self._chunks.items()):
            for at, byte in enumerate(chunk):
                for bit in range(8) if byte else ():
                    if byte >> bit & 1:
                        yield (number << CHUNK_BITS) + 8 * at + bit

    def bits(self, start: int, end: int) -> int:
        """The offsets from `start` to below `end`: bit 0 is `start`."""
        found = 0
        for number in range(start >> CHUNK_BITS, (max(start, end - 1) >> CHUNK_BITS) + 1):
            if chunk := self._chunks.get(number):
                shift = (number << CHUNK_BITS) - start
                value = int.from_bytes(chunk, "little")
                found |= value << shift if shift >= 0 else value >> -shift
        return found & ((1 << max(0, end - start)) - 1)
