"""The hashes of the record keys of a batch, for the key index, and a test whether a batch can contain a key.

Every length is checked before it is used. Control batches have no keys. Only the records' keys, and the values of one record header, are read.
Does not contain: the index file (`key_index`).
"""

from __future__ import annotations

from brokerd.storage.key_index import NO_HEADER, header_hash, header_seed, key_hash
from brokerd.wire.records import BatchHeader, Buffer, CorruptBatch, UnpackBudget, get_varint, unpacked
from brokerd.wire.steps import run_now

VARINT_ONE_BYTE = 0x80
"""A byte below this value is a complete varint."""


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


def batch_records(data: Buffer, pos: int, header: BatchHeader) -> Buffer:
    """The decompressed records of the batch at `pos`. Blocks while it decompresses. Raises CorruptBatch, TooMuch."""
    budget = UnpackBudget()
    budget.begin_batch(header)
    return run_now(unpacked(data, pos, header, budget))
