"""Requests of a broker to its helper process and their results, as JSON: the operations and their fields. Values only. The bytes are in `frames`, the work is
in `operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict

SegmentFields = Sequence[str | int]
"""A segment, as `StoredSegment.of` reads it."""


class HelperOperation(StrEnum):
    """`RATES`: new quotas. `NAMES`: the objects with a prefix."""

    COPY = "copy"
    READ = "read"
    TIME = "time"
    KEYS = "keys"
    SNAPSHOT = "snapshot"
    DELETE = "delete"
    NAMES = "names"
    RATES = "rates"


class _CopyOptions(TypedDict, total=False):
    producers: list[object]


class CopyFields(_CopyOptions):
    """`path`, `base`, `end`, `size`, `interval`: of the local segment. `previous`: the segment whose state is that at `base`; null: `producers` has it."""

    path: str
    name: str
    base: int
    end: int
    size: int
    interval: int
    key_index_header: str | None
    previous: SegmentFields | None


class ReadFields(TypedDict):
    segments: list[SegmentFields]
    offset: int
    upto: int
    bytes_max: int


class ReadResult(TypedDict):
    """`regions`: [path, position, length] of chunk files. `aborted`: [producer id, first offset]."""

    regions: list[tuple[str, int, int]]
    aborted: list[list[int]]


class TimeFields(TypedDict):
    segments: list[SegmentFields]
    timestamp: int
    start: int
    upto: int


class KeysFields(TypedDict):
    """`aborted`: the fields of each `AbortedTxn`; null: uncommitted records are requested too. `query`: base64."""

    segments: list[SegmentFields]
    start: int
    aborted: list[list[int]] | None
    query: str


class SnapshotFields(TypedDict):
    segments: list[SegmentFields]
    offset: int


SnapshotResult = Sequence[list[object]]
"""The producers and the closing transactions, as `Snapshot` has them."""
