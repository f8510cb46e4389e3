"""A finished segment in the store, as the broker names it in requests to the helper process, and the suffixes of its objects. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LOG, AUXILIARY, KEY_INDEX = ".log", ".aux", ".keyindex"
"""Suffixes of the objects of a segment."""


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """`name`: that of the objects, without a suffix. `end_offset` is exclusive. `key_index_bytes`: 0 = it has no key index."""

    name: str
    start_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp: int = -1
    aborted_count: int = 0
    key_index_bytes: int = 0
    key_index_seed: int = 0

    @staticmethod
    def of(fields: Sequence[object]) -> StoredSegment:
        name, *numbers = fields
        return StoredSegment(str(name), *(n for n in numbers if isinstance(n, int)))
