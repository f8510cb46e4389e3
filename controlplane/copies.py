"""Are a partition's copies the same? Pure arithmetic over what each broker answered for one range of it.

Batches travel and lie as their leader wrote them, so that equal copies are equal bytes: nothing is unpacked. Law: equal is said of bytes that
were compared, and which range that was; what is not known is neither equal nor different. Called by `services.comparing`. Must not come in:
sockets, rows, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

from brokerd.wire.records import batches


@dataclass(frozen=True, slots=True)
class Copy:
    """What one broker answered: where its log begins, up to where it knows of acknowledged records, and its bytes from the asked offset on."""

    start: int
    high_watermark: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """`equal` None: not known yet, `text` says why. The range [first, after) of offsets was compared, `upto` wanted; `crc` is CRC-32C of its bytes (going on from
    the one that was given)."""

    equal: bool | None
    text: str
    first: int = 0
    after: int = 0
    size: int = 0
    crc: int = 0
    upto: int = 0


def compared(offset: int, upto: int, leader: int, copies: Mapping[int, Copy], crc: int = 0) -> Comparison:
    """Of what each of `copies` (by broker) answered for [offset, upto), which must have been acknowledged when it was asked."""
    whole = copies[leader]
    for b, copy in sorted(copies.items()):
        if copy.start > max(whole.start, offset):
            return Comparison(False, f"Broker {b} begins at offset {copy.start}, the leader {leader} at {whole.start}.")
    known = min(upto, *(c.high_watermark for c in copies.values()))
    size, after = _whole_batches(whole.data, known)
    if upto <= offset:
        return Comparison(True, f"It holds no record; {len(copies)} copies say so.", offset, offset, crc=crc, upto=upto)
    if not size:
        return Comparison(None, f"Broker {leader} gave nothing of offsets {offset} to {upto}.")
    for b, copy in sorted(copies.items()):
        common = min(size, len(copy.data))
        if copy.data[:common] != whole.data[:common]:
            return Comparison(False, f"Broker {b} and the leader {leader} differ in offsets {offset} to {after}.")
        if common < size:
            return Comparison(None, f"Broker {b} has not told all of offsets {offset} to {after} yet.")
    crc = crc32c(whole.data[:size], crc)
    return Comparison(
        True, f"Offsets {offset} to {after} are equal on {len(copies)} copies.", offset, after, size, crc, upto
    )


def _whole_batches(data: bytes, upto: int) -> tuple[int, int]:
    """(bytes, the offset after them) of the whole batches at the beginning of `data` that lie below `upto`."""
    size, after = 0, 0
    for place, header in batches(data):
        if header.next_offset > upto:
            break
        size, after = place + header.size, header.next_offset
    return size, after
