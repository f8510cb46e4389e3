"""The stored history of the metadata log: entries with their times, and images, as bytes. Pure.

Only records that define the state of a cluster are stored: no responses to requests, no tombstones. Invariant: credentials are removed, so that the history does
not keep a deleted or changed password. Does not contain: rows, clocks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from brokerd.cluster.metadata import (
    AccessChanged,
    AccessKind,
    IsrRejected,
    MetadataError,
    MetadataRecord,
    ReplicaReset,
    RequestCompleted,
    TopicDeleted,
    pack_chunks,
    record_from_json,
    record_to_json,
    unpack_chunks,
)

CHUNK_LENGTH_BYTES = 4
"""Length of a chunk before its bytes."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of the metadata log: its number, the time in Unix ms when it was written, and the records that took effect with it."""

    seq: int
    at_ms: int
    records: tuple[MetadataRecord, ...]


def kept_records(records: Iterable[MetadataRecord]) -> tuple[MetadataRecord, ...]:
    """The records that change the state, without the values of credentials. The fact that a credential changed is stored."""
    found = []
    for record in records:
        if isinstance(record, IsrRejected | ReplicaReset | RequestCompleted):
            continue
        if isinstance(record, AccessChanged) and record.kind == AccessKind.SCRAM and record.value is not None:
            record = replace(record, value={})
        found.append(record)
    return tuple(found)


def image_records(records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """The records of an image (`Image.records`), without tombstones and credentials."""
    return [r for r in kept_records(records) if not isinstance(r, TopicDeleted)]


def pack_entries(entries: Sequence[StoredEntry]) -> bytes:
    body = [[e.seq, e.at_ms, [record_to_json(r) for r in e.records]] for e in entries]
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 6)


def unpack_entries(data: bytes) -> list[StoredEntry]:
    """Decode the entries of a segment. Raises MetadataError for invalid bytes."""
    try:
        return [
            StoredEntry(seq, at_ms, tuple(record_from_json(r) for r in records))
            for seq, at_ms, records in json.loads(zlib.decompress(data))
        ]
    except (ValueError, TypeError, KeyError, zlib.error) as e:
        raise MetadataError(f"cannot read stored entries of the metadata log: {e}") from e


def pack_image(records: Iterable[MetadataRecord]) -> bytes:
    chunks = pack_chunks(records)
    return b"".join(len(c).to_bytes(CHUNK_LENGTH_BYTES, "big") + c for c in chunks)


def unpack_image(data: bytes) -> Iterator[MetadataRecord]:
    """Decode the records of an image. Raises MetadataError for invalid bytes."""
    chunks, at = [], 0
    while at < len(data):
        end = at + CHUNK_LENGTH_BYTES
        length = int.from_bytes(data[at:end], "big")
        at = end + length
        if at > len(data):
            raise MetadataError("a stored image of the metadata log is truncated")
        chunks.append(data[end:at])
    return unpack_chunks(chunks)
