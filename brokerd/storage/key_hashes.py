"""The hashes of the record keys of a batch, for the key index, and a test whether a batch can contain a key.

Every length is checked before it is used. Control batches have no keys. Only the records' keys, and the values of one record header, are read.
Uncompressed batches are read by the compiled `key_walk` where it was built; its results are those of `HashedKeys`.
Does not contain: the index file (`key_index`).
"""

from __future__ import annotations

from array import array
from typing import Any, Protocol

from crc32c import crc32c

from brokerd.storage.key_index import NO_HEADER, header_hash, header_seed, key_hash
from brokerd.wire import key_walk
from brokerd.wire.compiled import find_compiled
from brokerd.wire.key_walk import Checksum
from brokerd.wire.records import BatchHeader, Buffer, CorruptBatch, UnpackBudget, decompress_records, get_varint
from brokerd.wire.steps import run_now

VARINT_ONE_BYTE = 0x80
"""A byte below this value is a complete varint."""
ENTRIES_MAX = 16 * 1024
"""Maximum number of entries that one call of `PlainBatches.collect` returns. A batch with more records is read by `HashedKeys`."""
_compiled = find_compiled(key_walk)
COMPILED = _compiled is not None
_walks: Any = _compiled or key_walk
distinct = _walks.distinct


class EntryWalk(Protocol):
    """`key_walk.KeyWalk`, or the compiled class."""

    count: int
    last: int
    next_offset: int

    def collect(self, buffer: Buffer, at: int, position: int, checksum: Checksum | None) -> int: ...


class HashedKeys:
    """Collects the hashes of the record keys. If `header_name` is not empty, it also collects the hashes of the values of this record header."""

    __slots__ = ("header_name", "seed")

    def __init__(self, header_name: str = "") -> None:
        self.header_name, self.seed = header_name.encode(), header_seed(header_name)

    def of_batch(self, data: Buffer, pos: int, header: BatchHeader) -> set[int]:
        """The set of hashes of the batch at `pos`. Empty for a control batch, and for a batch that cannot be decoded. Its producer sent it in this form, and
        no look-up can return a record of it."""
        if header.is_control:
            return set()
        try:
            records = bytes(batch_records(data, pos, header))
            return self._hashes(records, header.record_count)
        except CorruptBatch:
            return set()

    def _hashes(self, data: bytes, count: int) -> set[int]:
        keys: set[bytes] = set()
        hashes: set[int] = set()
        p, size = 0, len(data)
        try:
            for _ in range(count):
                length, p = get_varint(data, p)
                end = p + length
                if length < 0 or end > size:
                    raise CorruptBatch("a record longer than its batch")
                p += 1  # attributes
                while data[p] >= VARINT_ONE_BYTE:  # the timestamp delta
                    p += 1
                p += 1
                while data[p] >= VARINT_ONE_BYTE:  # the offset delta
                    p += 1
                p += 1
                byte = data[p]
                if byte < VARINT_ONE_BYTE:
                    length, p = (byte >> 1) ^ -(byte & 1), p + 1
                else:
                    length, p = get_varint(data, p)
                if length >= 0:
                    if p + length > end:
                        raise CorruptBatch("a key longer than its record")
                    keys.add(data[p : p + length])
                    p += length
                if self.seed != NO_HEADER:
                    self._add_header_values(data, p, end, hashes)
                p = end
        except IndexError as e:
            raise CorruptBatch("records are cut off") from e
        hashes.update([key_hash(key) for key in keys])
        return hashes

    def _add_header_values(self, data: bytes, p: int, end: int, hashes: set[int]) -> None:
        """Raises CorruptBatch, IndexError."""
        length, p = get_varint(data, p)
        p += max(0, length)  # the value
        count, p = get_varint(data, p)
        for _ in range(count):
            length, p = get_varint(data, p)
            name_end = p + max(0, length)
            name = data[p:name_end]
            length, p = get_varint(data, name_end)
            if length >= 0:
                if p + length > end:
                    raise CorruptBatch("a header longer than its record")
                if name == self.header_name:
                    hashes.add(header_hash(data[p : p + length], self.seed))
                p += length


class PlainBatches:
    """Collects the index entries of uncompressed batches with the compiled walk. Without it, each batch is left to `HashedKeys`. `last`: position of
    the last collected batch in the data. `next_offset`: the offset after it."""

    __slots__ = ("_count", "_space", "_walk", "last", "next_offset")

    def __init__(self, hashed: HashedKeys) -> None:
        self._space = array("Q", [0]) * ENTRIES_MAX
        table = array("Q", [0]) * (2 * ENTRIES_MAX)
        self._walk: EntryWalk | None = (
            _walks.KeyWalk(self._space, table, hashed.seed, hashed.header_name) if COMPILED else None
        )
        self._count = self.last = self.next_offset = 0

    def collect(self, data: bytes, at: int, position: int) -> int:
        """Collect batches from `at` on, and return the position of the first batch that was not collected. `position` is the position of `data` in its file."""
        walk = self._walk
        if walk is None:
            return at
        walk.count = 0
        after = walk.collect(data, at, position, crc32c)
        self._count, self.last, self.next_offset = walk.count, walk.last, walk.next_offset
        return after

    @property
    def entries(self) -> memoryview:
        """The entries of the last call of `collect`."""
        return memoryview(self._space)[: self._count]


def walk_of_appended(hashed: HashedKeys, entries: array[int]) -> EntryWalk:
    """A walk that adds an entry to `entries` for each key, also if the batch has it already."""
    walk: EntryWalk = _walks.KeyWalk(entries, array("Q"), hashed.seed, hashed.header_name)
    return walk


def batch_records(data: Buffer, pos: int, header: BatchHeader) -> Buffer:
    """The decompressed records of the batch at `pos`. Blocks while it decompresses. Raises CorruptBatch, TooMuch."""
    budget = UnpackBudget()
    budget.begin_batch(header)
    return run_now(decompress_records(data, pos, header, budget))
