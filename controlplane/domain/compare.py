"""Comparison of the replicas of a partition, from the response of each broker for one range of offsets. Pure.

Batches are sent and stored as the leader wrote them, so equal replicas are equal bytes and nothing is decompressed. Invariants: `equal` is True or False only
for bytes that were compared, and the result contains their range. Unknown data is neither equal nor different. Does not contain: sockets, rows, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

from brokerd.wire.records import batches
from controlplane.domain import move_phrases as texts
from weir_common.phrases import counted, sentence


@dataclass(frozen=True, slots=True)
class ComparedReplica:
    """Response of one broker: log start offset, high watermark, and the bytes from the requested offset on."""

    start: int
    high_watermark: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison as the row of the partition stores it and REST returns it. `crc` has 8 hexadecimal digits."""

    equal: bool | None
    text: str
    first: int = 0
    after: int = 0
    upto: int = 0
    bytes: int = 0
    crc: str = "00000000"

    def to_comparison(self) -> Comparison:
        """The state from which the comparison of a whole replica continues."""
        return Comparison(None, "", self.first, self.after, self.bytes, int(self.crc, 16), self.upto)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`equal` None: unknown yet, `text` gives the reason. Offsets [first, after) were compared; `upto` was requested. `crc` is CRC-32C of the bytes,
    continued from the given one."""

    equal: bool | None
    text: str
    first: int = 0
    after: int = 0
    size: int = 0
    crc: int = 0
    upto: int = 0

    def to_stored(self) -> StoredComparison:
        return StoredComparison(self.equal, self.text, self.first, self.after, self.upto, self.size, f"{self.crc:08x}")


def compare_responses(
    offset: int, upto: int, leader: int, copies: Mapping[int, ComparedReplica], crc: int = 0
) -> Comparison:
    """Compare the responses in `copies` (by broker) for [offset, upto). All records of the range must have been acknowledged before the request."""
    whole = copies[leader]
    for broker_id, copy in sorted(copies.items()):
        if copy.start > max(whole.start, offset):
            starts = {"broker": broker_id, "start": copy.start, "leader": leader, "leader_start": whole.start}
            return Comparison(False, sentence(texts.START_DIFFERS, **starts))
    known = min(upto, *(c.high_watermark for c in copies.values()))
    size, after = _whole_batches(whole.data, known)
    if upto <= offset:
        return Comparison(True, sentence(texts.EMPTY, count=len(copies)), offset, offset, crc=crc, upto=upto)
    if not size:
        return Comparison(None, sentence(texts.NO_RECORDS_RETURNED, broker=leader, first=offset, after=upto))
    for broker_id, copy in sorted(copies.items()):
        common = min(size, len(copy.data))
        if copy.data[:common] != whole.data[:common]:
            return Comparison(
                False, sentence(texts.RECORDS_DIFFER, broker=broker_id, leader=leader, first=offset, after=after)
            )
        if common < size:
            return Comparison(None, sentence(texts.NOT_ALL_RETURNED, broker=broker_id, first=offset, after=after))
    crc = crc32c(whole.data[:size], crc)
    return Comparison(True, equal_text(offset, after, len(copies)), offset, after, size, crc, upto)


def equal_text(first: int, after: int, replicas: int) -> str:
    return counted(replicas, *texts.EQUAL, first=first, after=after)


def _whole_batches(data: bytes, upto: int) -> tuple[int, int]:
    """(bytes, next offset) of the complete batches at the beginning of `data` that end at or below `upto`."""
    size, after = 0, 0
    for place, header in batches(data):
        if header.next_offset > upto:
            break
        size, after = place + header.size, header.next_offset
    return size, after
