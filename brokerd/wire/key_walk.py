"""Collects the hashes of the record keys of many batches for the key index, without decoding the records. `key_slots` reads the keys of one batch.

Invariants: a batch whose entries are collected is complete, has a right CRC, is not compressed, and each of its records can be decoded. Every other batch
is left to the caller (`storage/key_hashes`), which finds the reason. Nothing is read outside the batch. Pure. The module imports nothing of the project,
so that `compiled` can replace it with the same source compiled by Cython; `key_walk.pxd` declares the C types of that build.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES_AT: Final = 22
LAST_DELTA_AT: Final = 23
COUNT_AT: Final = 57
RECORDS_AT: Final = 61
"""Positions in a batch: fields of its header (of the attributes the low byte), and the first record."""
RECORD_BYTES_MIN: Final = 7
LENGTH_OVERHEAD: Final = 12
MAGIC: Final = 2
COMPRESSION_OR_CONTROL: Final = 0x27
"""Bits of the attributes: the compression type, and a control batch."""
VARINT_BITS: Final = 35
NULL: Final = 1
"""The length -1, zigzag encoded."""
OFFSET_DELTA_MAX: Final = 0x7FFFFFFF
MIX: Final = 0x9E3779B1
MASK: Final = 0xFFFFFFFF
CRC_POLYNOMIAL: Final = 0x82F63B78
"""CRC-32C (Castagnoli), reflected."""
Buffer = bytes | bytearray | memoryview
Checksum = Callable[[memoryview], int]
"""`crc32c.crc32c`: the CRC-32C of whole batches, by the instruction of the processor."""


CRC_TABLES: Final = 8
"""Number of bytes that one step of a checksum reads (slicing-by-8)."""


def _crc_tables() -> array[int]:
    """256 numbers for each of the CRC_TABLES bytes of a step. Those at `256 * k` belong to a byte that `k` more bytes of the step follow."""
    tables = array("I")
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (CRC_POLYNOMIAL if n & 1 else 0)
        tables.append(n)
    for i in range(256 * (CRC_TABLES - 1)):
        tables.append((tables[i] >> 8) ^ tables[tables[i] & 0xFF])
    return tables


CRC_TABLE = _crc_tables()


class NotCollected(Exception):
    """A batch that the walk does not collect."""


class KeyWalk:
    """`entries`: the collected ones, `hash << 32 | position of the batch`, the first `count` of them. `table`: finds a hash that occurs several times in
    a batch; zero at the start, a power of two, at least twice as long as `entries`. An empty table: such a hash has several entries. `last`: position of
    the last batch that was collected, in the bytes of the call. `next_offset`: the offset after it. `seed`, `name`: the values of the record header `name`
    are collected as well, if `seed` is not 0."""

    __slots__ = ("count", "entries", "last", "name", "next_offset", "seed", "table")

    def __init__(self, entries: array[int], table: array[int], seed: int, name: bytes) -> None:
        self.entries, self.table, self.seed, self.name = entries, table, seed, name
        self.count = self.last = self.next_offset = 0

    def collect(self, buffer: Buffer, at: int, position: int, checksum: Checksum | None) -> int:
        """Collect the batches from `at` on, and return the position of the first batch that is not collected: the end of the complete batches, a batch
        that the walk does not read, or one for which `entries` may have too little space. `position`: that of `buffer` in its file. `checksum`: None if the
        CRCs were checked before."""
        data = buffer
        size = len(data)
        view = memoryview(buffer) if checksum is not None else None
        while size - at >= RECORDS_AT:
            length = _number(data, at + LENGTH_AT, 4)
            end = at + length + LENGTH_OVERHEAD
            records = _number(data, at + COUNT_AT, 4)
            if end > size or end < at + RECORDS_AT or data[at + MAGIC_AT] != MAGIC:
                break
            if data[at + ATTRIBUTES_AT] & COMPRESSION_OR_CONTROL:
                break
            if records > len(self.entries) - self.count:
                break
            crc = _number(data, at + CRC_AT, 4) & MASK
            if view is not None and checksum is not None and checksum(view[at + CRC_FROM : end]) != crc:
                break
            before = self.count
            try:
                self._batch(data, at + RECORDS_AT, end, records, position + at)
            except NotCollected:
                self.count = before
                break
            self.last = at
            self.next_offset = _number(data, at, 8) + _number(data, at + LAST_DELTA_AT, 4) + 1
            at = end
        return at

    def _batch(self, data: Buffer, p: int, limit: int, records: int, position: int) -> None:
        """Raises NotCollected, also if there is no space for an entry."""
        mask = len(self.table) - 1
        if not self.seed:
            while mask > 15 and mask > 4 * records:
                mask >>= 1  # a small part of the table stays in the nearest cache
        for _ in range(records):
            # The most frequent varints, of one or two bytes, are decoded without a function call.
            if limit - p >= RECORD_BYTES_MIN and data[p] >= 0x80 > data[p + 1]:
                n = data[p] + (data[p + 1] * 0x80 - 0x80)
                p += 2
            else:
                n, p = _varint(data, p, limit)
            end = p + (n >> 1)
            if n & 1 or end > limit or end - p < RECORD_BYTES_MIN - 1:
                raise NotCollected
            p += 1  # the attributes
            while p < end and data[p] >= 0x80:  # the timestamp delta
                p += 1
            p += 1
            while p < end and data[p] >= 0x80:  # the offset delta
                p += 1
            p += 1
            if p < end and data[p] < 0x80:
                n = data[p]
                p += 1
            else:
                n, p = _varint(data, p, end)
            if n != NULL:
                if n & 1 or p + (n >> 1) > end:
                    raise NotCollected
                self._add(_checksum(data, p, p + (n >> 1), 0), position, mask)
                p += n >> 1
            if self.seed:
                self._header_values(data, p, end, position, mask)
            p = end

    def _header_values(self, data: Buffer, p: int, end: int, position: int, mask: int) -> None:
        n, p = _varint(data, p, end)
        if not n & 1:
            p += n >> 1
        count, p = _varint(data, p, end)
        if count & 1:
            raise NotCollected
        for _ in range(count >> 1):
            n, p = _varint(data, p, end)
            name_end = p + (n >> 1)
            if n & 1 or name_end > end:
                raise NotCollected
            is_indexed = _equals(data, p, name_end, self.name)
            n, p = _varint(data, name_end, end)
            if n & 1:
                continue
            if p + (n >> 1) > end:
                raise NotCollected
            if is_indexed:
                self._add(_checksum(data, p, p + (n >> 1), self.seed), position, mask)
            p += n >> 1

    def _add(self, checksum: int, position: int, mask: int) -> None:
        hash_ = checksum * MIX & MASK
        if mask < 0:
            if self.count == len(self.entries):
                raise NotCollected
            self.entries[self.count] = hash_ << 32 | position
            self.count += 1
        else:
            self._add_once(hash_, position, mask)

    def _add_once(self, hash_: int, position: int, mask: int) -> None:
        """Add an entry unless the batch has it already. A slot of `table` is 0, or the entry of a batch plus 1: one of an earlier batch is replaced."""
        entry = hash_ << 32 | position
        slot = (hash_ >> 8) & mask
        for _ in range(mask + 1):
            found = self.table[slot]
            if found == 0 or (found - 1) & MASK != position:
                if self.count == len(self.entries):
                    raise NotCollected
                self.table[slot] = entry + 1
                self.entries[self.count] = entry
                self.count += 1
                break
            if found == entry + 1:
                break
            slot = (slot + 1) & mask
        else:
            raise NotCollected


def key_slots(data: Buffer, count: int, slots: int, entries: array[int]) -> None:
    """Read the keys of the first `count` records in `data`: the records of a batch, not compressed, without its header. Write one number for each record to
    `entries`: its offset delta in the high 32 bits; in the low ones 0 without a key, else 1 plus the CRC-32C of the key modulo `slots`. Raises NotCollected
    for other bytes."""
    p = 0
    limit = len(data)
    for i in range(count):
        n, p = _varint(data, p, limit)
        end = p + (n >> 1)
        if n & 1 or end > limit or end - p < RECORD_BYTES_MIN - 1:
            raise NotCollected
        p += 1  # the attributes
        while p < end and data[p] >= 0x80:  # the timestamp delta
            p += 1
        p += 1
        delta, p = _varint(data, p, end)
        n, p = _varint(data, p, end)
        slot = 0
        if n != NULL:
            if n & 1 or p + (n >> 1) > end:
                raise NotCollected
            slot = _checksum(data, p, p + (n >> 1), 0) % slots + 1
        if delta & 1 or delta >> 1 > OFFSET_DELTA_MAX:
            raise NotCollected
        entries[i] = (delta >> 1) << 32 | slot
        p = end


def distinct(entries: array[int], table: array[int]) -> int:
    """Remove the entries that occur earlier in `entries`, without a change of the order, and return the number of entries that are left at the start of
    `entries`. `table`: zero, a power of two, at least twice as long as `entries`. No entry is the greatest number of 64 bits."""
    mask = len(table) - 1
    kept = 0
    for i in range(len(entries)):
        entry = entries[i]
        # The slot depends on the position as well: a key may occur in each batch.
        slot = ((entry >> 40) ^ (entry * MIX >> 16)) & mask
        while table[slot] != 0 and table[slot] != entry + 1:
            slot = (slot + 1) & mask
        if table[slot] == 0:
            table[slot] = entry + 1
            entries[kept] = entry
            kept += 1
    return kept


def in_buckets(entries: array[int], shift: int, ordered: array[int], ends: array[int]) -> None:
    """Copy `entries` to `ordered`, of the same length, by the bucket `entry >> shift`; within a bucket the order stays. `ends`: one number per bucket, zero at
    the start; afterwards the number of entries up to the end of the bucket."""
    for i in range(len(entries)):
        ends[entries[i] >> shift] += 1
    total = 0
    for i in range(len(ends)):
        count = ends[i]
        ends[i] = total
        total += count
    for i in range(len(entries)):
        bucket = entries[i] >> shift
        ordered[ends[bucket]] = entries[i]
        ends[bucket] += 1


def _number(data: Buffer, at: int, size: int) -> int:
    """The signed big-endian number of `size` bytes at position `at`."""
    n = data[at]
    if n >= 0x80:
        n -= 0x100
    for i in range(at + 1, at + size):
        n = n * 0x100 + data[i]
    return n


def _varint(data: Buffer, p: int, limit: int) -> tuple[int, int]:
    """(the varint at position `p` without zigzag decoding, the position after it). Raises NotCollected above VARINT_BITS bits, and at `limit`."""
    n = 0
    shift = 0
    while shift < VARINT_BITS:
        if p >= limit:
            raise NotCollected
        byte = data[p]
        p += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
        shift += 7
    raise NotCollected


def _checksum(data: Buffer, p: int, end: int, start: int) -> int:
    """The CRC-32C of the bytes from `p` to `end`, as `crc32c.crc32c(bytes, start)`. Keys are short: a call of that function takes longer than the loop in C."""
    crc = start ^ MASK
    while end - p >= CRC_TABLES:
        low = crc ^ (data[p] | data[p + 1] << 8 | data[p + 2] << 16 | data[p + 3] << 24)
        crc = (
            CRC_TABLE[0x700 + (low & 0xFF)]
            ^ CRC_TABLE[0x600 + (low >> 8 & 0xFF)]
            ^ CRC_TABLE[0x500 + (low >> 16 & 0xFF)]
            ^ CRC_TABLE[0x400 + (low >> 24)]
            ^ CRC_TABLE[0x300 + data[p + 4]]
            ^ CRC_TABLE[0x200 + data[p + 5]]
            ^ CRC_TABLE[0x100 + data[p + 6]]
            ^ CRC_TABLE[data[p + 7]]
        )
        p += CRC_TABLES
    while p < end:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ data[p]) & 0xFF]
        p += 1
    return crc ^ MASK


def _equals(data: Buffer, p: int, end: int, name: bytes) -> bool:
    """Return whether the bytes from `p` to `end` are `name`."""
    if end - p != len(name):
        return False
    i = 0
    while i < len(name) and data[p + i] == name[i]:
        i += 1
    return i == len(name)
