"""The stored form of the history of metrics: codes of 16 bits with three significant digits, and chunks of them (decision 054). Pure.

The monitor writes it, the console reads it, and the job `history` copies it to the lake. Does not contain: metrics, rows.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Sequence
from functools import lru_cache

STEP_S = 10
"""Seconds between recorded values."""

MINUTE_S = 60
CHUNK_VALUES = 360
"""Values in a chunk: one hour of values every 10 s, or six hours of averages of a minute."""

BLOCK_SERIES = 1000
"""Series of one frame: those with ids from a multiple of this number on."""

MISSING = 0
EXACT = 1000
"""Codes of tenths below this number are exact: 0 to 99.9."""
DECADE = 900
"""Codes of a power of ten: three significant digits."""
NO_DELTA = 0xFFFF
"""Code of a missing value in a chunk."""
RAW_DEFLATE = -15


def code_of(value: float | None) -> int:
    """The stored form of a value, with three significant digits. Negative values are stored as zero."""
    if value is None or not math.isfinite(value):
        return MISSING
    tenths = max(0, round(value * 10))
    if tenths < EXACT:
        return 1 + tenths
    power = len(str(tenths)) - 3
    digits: int = round(tenths / 10**power)
    if digits == EXACT:
        power, digits = power + 1, EXACT // 10
    return 1 + EXACT + DECADE * (power - 1) + digits - EXACT // 10


@lru_cache(maxsize=1 << 16)
def value_of(code: int) -> float | None:
    """The value of a code, None for MISSING."""
    if code == MISSING:
        return None
    if code <= EXACT:
        return (code - 1) / 10
    power, digits = divmod(code - 1 - EXACT, DECADE)
    return float((digits + EXACT // 10) * 10**power)


def pack(codes: Sequence[int]) -> bytes:
    """The stored form of a chunk: differences, low bytes before high bytes, compressed."""
    low, high, before = bytearray(len(codes)), bytearray(len(codes)), 0
    for i, code in enumerate(codes):
        if code == MISSING:
            low[i] = high[i] = 0xFF
            continue
        delta = code - before
        before = code
        # Differences of both signs become small numbers.
        folded = delta << 1 if delta >= 0 else (-delta << 1) - 1
        low[i], high[i] = folded & 0xFF, folded >> 8
    packer = zlib.compressobj(9, zlib.DEFLATED, RAW_DEFLATE)
    return packer.compress(bytes(low + high)) + packer.flush()


def unpack(stored: bytes | memoryview) -> array[int]:
    """The codes of a chunk."""
    planes = zlib.decompress(stored, RAW_DEFLATE)
    count = len(planes) // 2
    codes, before = array("H", bytes(2 * count)), 0
    for i in range(count):
        folded = planes[i] | planes[count + i] << 8
        if folded == NO_DELTA:
            continue
        before += folded >> 1 if folded & 1 == 0 else -((folded + 1) >> 1)
        codes[i] = before
    return codes


def minute_codes(codes: Sequence[int]) -> list[int]:
    """The averages of each minute of values every STEP_S."""
    each = MINUTE_S // STEP_S
    averages = []
    for first in range(0, len(codes), each):
        values = [v for c in codes[first : first + each] if (v := value_of(c)) is not None]
        averages.append(code_of(sum(values) / len(values)) if values else MISSING)
    return averages
