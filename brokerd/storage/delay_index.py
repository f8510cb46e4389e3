"""The delay index of a closed segment of a front topic: the data of the segment that the leader needs, so that the leader does not read its records.

A file `<base>.delayindex` next to the segment contains the delayed records, 32 bytes each, in runs of at most RUN_RECORDS in the order of the log. Within
a run they are grouped by bucket: the delivery time divided by the duration of a bucket. After the runs follow a directory of the groups, the last
tombstone of each key, a bitmap of the offsets of the delayed records, and the journal entries. Records of aborted transactions are omitted. So an
index depends on the log up to `decided_below`, and is removed when the log is truncated below that.

All parts have a CRC-32C. The header identifies the segment by its base offset, its size and the checksum of its last batch header. An index that
does not match its segment is not used, because it could omit a record. Does not contain: files, the records of batches, delivery times.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from brokerd.storage.key_index import CHECKSUM, LogFile, Read, SegmentIdentity

SUFFIX = ".delayindex"
VERSION = 0
MAGIC = b"WDIX"
HEADER = struct.Struct(">4sHHqIIIqqqIQIIIII")
"""Magic, version, flags (0), base offset, log bytes, position and checksum of the last batch header, `decided_below`, end offset, duration of a bucket in
ms, number of records without a valid time, position of the directory, numbers of its entries and of the tombstones, bytes of the bitmap and of the
journal, checksum of the four."""
HEADER_BYTES = HEADER.size + CHECKSUM.size
STORED = struct.Struct(">qq16s")
"""A delayed record: delivery time, offset, digest of the key."""
NO_KEY = b"\0" * 16
GROUP = struct.Struct(">qQIqI")
"""Bucket, position of its records in the file, their number, their earliest delivery time, their checksum."""
TOMBSTONE = struct.Struct(">16sq")
"""Digest of the key, offset."""
JOURNAL = struct.Struct(">qI")
"""Offset of a journal entry, bytes of its value, which follow."""
RUN_RECORDS = 256 * 1024
"""Records per run: 8 MiB, which is the memory that a build needs. Smaller runs would mean more groups, and a leader keeps the directory of the groups in
memory."""
OFFSETS_MAX = 16 * 1024 * 1024
"""Maximum number of offsets of a segment with an index. Limits the bitmap to 2 MiB. A segment with more offsets is read record by record."""


class InvalidDelayIndex(Exception):
    """The file is missing or damaged, or belongs to another version or segment."""


class BucketGroup(NamedTuple):
    """Delayed records of one bucket that are together in the file."""

    bucket: int
    position: int
    records: int
    first_ms: int
    checksum: int


class DelayIndexBuilder:
    """Collects the contents of a segment, in the order of the log. The caller writes the bytes that `run` and `finish` return."""

    def __init__(self, base_offset: int, bucket_ms: int) -> None:
        self._base_offset, self._bucket_ms = base_offset, bucket_ms
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._first_ms: dict[int, int] = {}
        self._collected = 0
        self._groups: list[BucketGroup] = []
        self._tombstones: dict[bytes, int] = {}
        self._bitmap = bytearray()
        self._journal = bytearray()
        self._written = HEADER_BYTES
        self.discarded = 0
        """Records without a valid delivery time."""

    def add_record(self, deliver_at_ms: int, offset: int, key_digest: bytes) -> None:
        """Add a delayed record. `key_digest` is empty for a record without a key. Raises InvalidDelayIndex for an offset out of the range of an index."""
        byte, bit = divmod(offset - self._base_offset, 8)
        if not 0 <= byte < OFFSETS_MAX // 8:
            raise InvalidDelayIndex(f"offset {offset} is too far from the start of the segment")
        if byte >= len(self._bitmap):
            self._bitmap.extend(bytes(max(byte + 1, 2 * len(self._bitmap)) - len(self._bitmap)))
        self._bitmap[byte] |= 1 << bit
        bucket = deliver_at_ms // self._bucket_ms
        self._buckets[bucket] += STORED.pack(deliver_at_ms, offset, key_digest or NO_KEY)
        self._first_ms[bucket] = min(deliver_at_ms, self._first_ms.get(bucket, deliver_at_ms))
        self._collected += 1

    def add_tombstone(self, key_digest: bytes, offset: int) -> None:
        self._tombstones[key_digest] = offset

    def add_journal(self, offset: int, value: bytes) -> None:
        self._journal += JOURNAL.pack(offset, len(value)) + value

    @property
    def full(self) -> bool:
        """True if the caller must write a run before the next batch."""
        return self._collected >= RUN_RECORDS

    def run(self) -> tuple[bytes, int]:
        """(bytes, position in the file) of all records since the last run."""
        at, body = self._written, bytearray()
        for bucket, data in sorted(self._buckets.items()):
            group = BucketGroup(bucket, at + len(body), len(data) // STORED.size, self._first_ms[bucket], crc32c(data))
            self._groups.append(group)
            body += data
        self._written += len(body)
        self._buckets.clear()
        self._first_ms.clear()
        self._collected = 0
        return bytes(body), at

    def finish(self, identity: SegmentIdentity, end_offset: int, decided_below: int) -> tuple[bytes, int, bytes]:
        """(end of the file, its position, header for position 0). `decided_below`: every transaction of the segment has ended below this offset."""
        self._groups.sort()
        tombstones = b"".join(TOMBSTONE.pack(digest, offset) for digest, offset in self._tombstones.items())
        bitmap = bytes(self._bitmap[: (end_offset - self._base_offset + 7) // 8])
        tail = b"".join(GROUP.pack(*g) for g in self._groups) + tombstones + bitmap + self._journal
        header = HEADER.pack(
            MAGIC,
            VERSION,
            0,
            *identity,
            decided_below,
            end_offset,
            self._bucket_ms,
            self.discarded,
            self._written,
            len(self._groups),
            len(self._tombstones),
            len(bitmap),
            len(self._journal),
            crc32c(tail),
        )
        return tail, self._written, header + CHECKSUM.pack(crc32c(header))


class Header(NamedTuple):
    """The header of an index file."""

    identity: SegmentIdentity
    decided_below: int
    end_offset: int
    bucket_ms: int
    discarded: int
    tail_at: int
    groups: int
    tombstones: int
    bitmap_bytes: int
    journal_bytes: int
    checksum: int

    @property
    def tail_bytes(self) -> int:
        lists = self.groups * GROUP.size + self.tombstones * TOMBSTONE.size
        return lists + self.bitmap_bytes + self.journal_bytes


class DelayIndex:
    """An index file that matches its segment. `read` is called for each group, on the thread of the caller."""

    __slots__ = ("_directory", "_read", "base_offset", "end_offset")

    def __init__(self, read: Read, header: Header, directory: bytes) -> None:
        self._read, self._directory = read, directory
        self.base_offset, self.end_offset = header.identity.base_offset, header.end_offset

    def groups(self) -> Iterator[BucketGroup]:
        """Yield the groups of records in the order of their buckets."""
        return map(BucketGroup._make, GROUP.iter_unpack(self._directory))

    def groups_of(self, bucket: int) -> list[BucketGroup]:
        found: list[BucketGroup] = []
        count = len(self._directory) // GROUP.size
        at = bisect_left(range(count), bucket, key=lambda i: self._group(i).bucket)
        while at < count and (group := self._group(at)).bucket == bucket:
            found.append(group)
            at += 1
        return found

    def _group(self, number: int) -> BucketGroup:
        return BucketGroup._make(GROUP.unpack_from(self._directory, number * GROUP.size))

    def records_of(self, group: BucketGroup) -> bytes:
        """The records of a group, each as STORED, in the order of the log. Raises InvalidDelayIndex, DiskFailed."""
        length = group.records * STORED.size
        data = self._read(length, group.position)
        if len(data) != length or crc32c(data) != group.checksum:
            raise InvalidDelayIndex(f"the group at position {group.position} is damaged")
        return data


@dataclass(frozen=True, slots=True)
class IndexContents:
    """The part of an index file that a new leader reads once. In `bitmap` the least significant bit of the first byte stands for the base offset."""

    index: DelayIndex
    tombstones: dict[bytes, int]
    bitmap: bytes
    journal: tuple[tuple[int, bytes], ...]
    """(offset, value) of each journal entry."""
    discarded: int


def parse_header(read_at: Read) -> Header:
    """Raises InvalidDelayIndex."""
    data = read_at(HEADER_BYTES, 0)
    if len(data) != HEADER_BYTES or crc32c(data[: HEADER.size]) != CHECKSUM.unpack_from(data, HEADER.size)[0]:
        raise InvalidDelayIndex("the header is damaged")
    magic, version, _, base, size, position, checksum, *rest = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise InvalidDelayIndex(f"version {version} is unknown")
    return Header(SegmentIdentity(base, size, position, checksum), *rest)


def _tail(read: Read, size: int, header: Header) -> bytes:
    """The end of an index file of `size` bytes. Raises InvalidDelayIndex."""
    tail = read(header.tail_bytes, header.tail_at) if header.tail_at + header.tail_bytes == size else b""
    if len(tail) != header.tail_bytes or crc32c(tail) != header.checksum:
        raise InvalidDelayIndex("the directory is damaged")
    return tail


def belongs_to(header: Header, log: LogFile) -> bool:
    """Return whether the index was built from exactly this segment."""
    identity = header.identity
    same = identity[:2] == (log.base_offset, log.size)
    return same and crc32c(log.read(*identity.last_header)) == identity.last_checksum


def open_contents(read_at: Read, size: int, log: LogFile, bucket_ms: int) -> IndexContents:
    """The contents of an index file of `size` bytes, except the groups of records. Raises InvalidDelayIndex, DiskFailed."""
    header = parse_header(read_at)
    if not belongs_to(header, log):
        raise InvalidDelayIndex("it belongs to another content of the segment")
    if header.bucket_ms != bucket_ms:
        raise InvalidDelayIndex(f"it has buckets of {header.bucket_ms} ms")
    tail = _tail(read_at, size, header)
    directory_end = header.groups * GROUP.size
    bitmap_at = directory_end + header.tombstones * TOMBSTONE.size
    journal_at = bitmap_at + header.bitmap_bytes
    return IndexContents(
        DelayIndex(read_at, header, tail[:directory_end]),
        dict(TOMBSTONE.iter_unpack(tail[directory_end:bitmap_at])),
        tail[bitmap_at:journal_at],
        tuple(_journal(tail[journal_at:])),
        header.discarded,
    )


def _journal(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        offset, length = JOURNAL.unpack_from(data, at)
        at += JOURNAL.size
        yield offset, data[at : at + length]
        at += length


OpenIndex = Callable[[], IndexContents]
"""Reads an index file. Blocks. Raises InvalidDelayIndex, DiskFailed."""
