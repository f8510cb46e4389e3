"""Random choices that are read from bytes: the same bytes give the same choices. An engine that mutates bytes mutates the choices."""

from __future__ import annotations

import random
import zlib


class Choices(random.Random):
    """`random.Random` over the given bytes. After their end it uses a generator seeded by them."""

    def __new__(cls, data: bytes) -> Choices:
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._rest = random.Random(zlib.crc32(data))
        super().__init__(0)

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        piece = self._data[self._at : self._at + size]
        self._at += size
        if len(piece) < size:
            return self._rest.getrandbits(k)
        return int.from_bytes(piece, "big") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 65_536

    def randbytes(self, n: int) -> bytes:
        piece = self._data[self._at : self._at + n]
        self._at += n
        return piece + self._rest.randbytes(n - len(piece))
