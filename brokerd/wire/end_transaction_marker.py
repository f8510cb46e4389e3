"""The control batch that ends a transaction in a partition (Kafka's EndTransactionMarker): building and reading it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from brokerd.wire.records import BatchHeader, Buffer, Record, build, records_of


class Marker(NamedTuple):
    """The content of a control batch: how the producer's transaction ended, and the epoch of the coordinator that wrote the marker."""

    commit: bool
    coordinator_epoch: int


_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
ABORT_TYPE, COMMIT_TYPE = 0, 1


def marker(producer_id: int, producer_epoch: int, outcome: Marker, wall_ms: int) -> bytearray:
    """A control batch in Kafka's format: key (version, type), value (version, coordinator epoch)."""
    key = _MARKER_KEY.pack(0, COMMIT_TYPE if outcome.commit else ABORT_TYPE)
    record = Record(0, wall_ms, key, _MARKER_VALUE.pack(0, outcome.coordinator_epoch))
    return bytearray(
        build([record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)
    )


def marker_of(buf: Buffer, pos: int, header: BatchHeader) -> Marker | None:
    """The content of the control batch at `pos`. None if compaction has emptied it or its type is unknown."""
    for record in records_of(buf, pos, header):
        if len(record.key or b"") >= _MARKER_KEY.size and len(record.value or b"") >= _MARKER_VALUE.size:
            kind = _MARKER_KEY.unpack_from(record.key or b"")[1]
            if kind in (ABORT_TYPE, COMMIT_TYPE):
                return Marker(kind == COMMIT_TYPE, _MARKER_VALUE.unpack_from(record.value or b"")[1])
    return None
