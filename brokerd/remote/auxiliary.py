"""The auxiliary object next to each remote segment: sparse index, leader epochs, producer state at both ends, aborted transactions.

Invariants: everything is computed from the batches of the segment, which are verified during the computation, and from the producer state before it. So it needs no
optional file of the broker. Producer states have no times of the broker's clock: a restored producer counts as active now.
Format: zlib of JSON; the columns of the index are base64 of little-endian arrays.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerd.storage.disk import Disk, File
from brokerd.storage.index import SparseIndex
from brokerd.storage.producers import Producers
from brokerd.storage.segment import Segment, valid_batches
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire.end_transaction_marker import marker_of
from brokerd.wire.records import BatchHeader

VERSION = 1


class DamagedSegment(Exception):
    """The batches of a segment file differ from the broker's log. Nothing is copied."""


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """`producers_before` and `producers_after`: [producers, closing] as JSON, see `Producers.to_json`."""

    epochs: tuple[tuple[int, int], ...]
    max_timestamp: int
    producers_before: list[object]
    producers_after: list[object]
    aborted: tuple[AbortedTxn, ...]
    index: SparseIndex

    def to_bytes(self) -> bytes:
        fields = {
            "version": VERSION,
            "epochs": self.epochs,
            "max_timestamp": self.max_timestamp,
            "producers_before": self.producers_before,
            "producers_after": self.producers_after,
            "aborted": self.aborted,
            "index": [_pack(column) for column in (self.index.offsets, self.index.positions, self.index.times)],
        }
        return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 1)

    @staticmethod
    def from_bytes(data: bytes) -> Auxiliary:
        """Raises ValueError for invalid bytes."""
        try:
            fields = json.loads(zlib.decompress(data))
            index = SparseIndex()
            offsets, positions, times = fields["index"]
            index.offsets, index.positions = _unpack("i", offsets), _unpack("i", positions)
            index.times = _unpack("q", times)
            return Auxiliary(
                tuple((e, o) for e, o in fields["epochs"]),
                fields["max_timestamp"],
                fields["producers_before"],
                fields["producers_after"],
                tuple(AbortedTxn(*a) for a in fields["aborted"]),
                index,
            )
        except (zlib.error, KeyError, TypeError) as e:
            raise ValueError(f"invalid auxiliary object: {e!r}") from e


def _pack(column: array[int]) -> str:
    column = column[:]
    if sys.byteorder == "big":
        column.byteswap()
    return base64.b64encode(column.tobytes()).decode()


def _unpack(kind: str, text: str) -> array[int]:
    column = array(kind)
    column.frombytes(base64.b64decode(text))
    if sys.byteorder == "big":
        column.byteswap()
    return column


NO_PRODUCERS: list[object] = [[], []]


def restore_producers(state: list[Any]) -> Producers:
    return Producers.from_json(*state)


def state_of(producers: Producers) -> list[object]:
    """The state as JSON. All transactions with a marker are complete: only records below the last stable offset are copied."""
    return [producers.to_json(), []]


def examine(
    disk: Disk,
    path: Path,
    base_offset: int,
    end_offset: int,
    size: int,
    interval: int,
    before: list[object],
    wall_ms: int,
) -> Auxiliary:
    """Verify every batch of a closed segment file and compute its auxiliary object. Raises DamagedSegment, DiskFailed."""
    file = disk.open(path)
    segment = Segment(path.parent, base_offset, disk, interval)
    producers, epochs, aborted = restore_producers(before), list[tuple[int, int]](), list[AbortedTxn]()
    at = 0
    for position, header in valid_batches(file, 0, size):
        if header.base_offset < segment.end_offset:
            raise DamagedSegment(f"{path}: offset {header.base_offset} at {position}, expected {segment.end_offset}")
        segment.note(header, header.base_offset, position)
        if not epochs or header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, header.base_offset))
        aborted += advance(producers, file, position, header, wall_ms)
        at = position + header.size
    if at != size or segment.end_offset > end_offset:
        raise DamagedSegment(f"{path}: valid up to byte {at} of {size}, offset {segment.end_offset} of {end_offset}")
    index = segment.index
    return Auxiliary(tuple(epochs), segment.max_timestamp, before, state_of(producers), tuple(aborted), index)


def advance(producers: Producers, file: File, position: int, header: BatchHeader, wall_ms: int) -> list[AbortedTxn]:
    """Apply the batch at `position` to the producer state. Returns the transaction that it aborts."""
    if header.producer_id < 0:
        return []
    marker = marker_of(file.pread(header.size, position), 0, header) if header.is_control else None
    ended = producers.on_appended(header, header.base_offset, wall_ms, marker)
    producers.closing.clear()
    return [AbortedTxn(*ended[:4])] if ended is not None and not ended.committed else []
