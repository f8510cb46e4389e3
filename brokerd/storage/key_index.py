"""The key index of a closed segment: from a record key to the batches that may contain it.

A file `<base>.keyindex` next to the segment contains 8 bytes per pair of a key and a batch: the hash of the key, and the position of the batch.
Runs are in log order, and a run ends soon after RUN_ENTRIES entries. Within a run, the entries are in buckets by hash. So the memory of a build is
limited, and a search reads one bucket per run. All parts have a CRC-32C. The header identifies the segment by its base offset, its size and the checksum of its
last batch header. An index that does not match its segment is not used, because it could omit a record. A false hit costs the read of one batch,
because a search compares the key with the log. The part of an index that is already built can be searched (`KeyIndexPart`). Does not contain: files,
the records of batches (`wire/scan`), the choice of segments.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from brokerd.wire import key_walk
from brokerd.wire.compiled import find_compiled

in_buckets = (find_compiled(key_walk) or key_walk).in_buckets
SUFFIX = ".keyindex"
VERSION = 0
MAGIC = b"WKIX"
HEADER = struct.Struct(">4sHHqIIIIII")
"""Magic, version, flags (0), base offset, log bytes, position and checksum of the last batch header, header seed, number of runs, checksum of the
run table."""
CHECKSUM = struct.Struct(">I")
HEADER_BYTES = HEADER.size + CHECKSUM.size
RUN = struct.Struct(">QIIII")
"""Position of the run in the file, number of buckets as a power of two, number of entries, log position after the run, checksum of its directory."""
BUCKET = struct.Struct(">II")
"""Number of entries up to the end of the bucket, checksum of the bucket."""
ENTRY_BYTES = 8
HASH_BYTES = 4
HASH_AT = ENTRY_BYTES - HASH_BYTES if sys.byteorder == "little" else 0
"""Position of the hash in an entry in memory."""
BATCH_HEADER_BYTES = 61
RUN_ENTRIES = 128 * 1024
"""Entries per run: 1 MiB, which is the memory that a build needs. With larger runs a search in a segment of small records would read less."""
BUCKET_ENTRIES = 512
"""Target number of entries per bucket: 4 KiB, one page."""
NO_HEADER = 0
"""Header seed of an index without values of a record header."""
_MIX, _MASK = 0x9E3779B1, 0xFFFFFFFF
"""Factor of Fibonacci hashing. With CRC-32C alone, keys that differ in a few bits would be in few buckets. The multiplication is a bijection."""
Read = Callable[[int, int], bytes]
"""(length, position) -> bytes of the index file; fewer at its end."""


class InvalidKeyIndex(Exception):
    """The file is damaged, or belongs to another version, segment or setting."""


class SegmentIdentity(NamedTuple):
    """Identifies the segment to which an index belongs."""

    base_offset: int
    size: int
    last_position: int
    last_checksum: int
    """CRC-32C of the header of the last batch (its 61 bytes), which contains the CRC of its records."""

    @property
    def last_header(self) -> tuple[int, int]:
        """(length, position) in the log of the bytes whose checksum is `last_checksum`."""
        return BATCH_HEADER_BYTES, self.last_position


def key_hash(key: bytes | memoryview) -> int:
    """The hash of a record key, 32 bits."""
    return int(crc32c(key)) * _MIX & _MASK


def header_seed(name: str) -> int:
    """The start value of `header_hash` for a record header, NO_HEADER for an empty name."""
    return int(crc32c(b"header:" + name.encode())) | 1 if name else NO_HEADER


def header_hash(value: bytes | memoryview, seed: int) -> int:
    """The hash of the value of a record header, 32 bits. It differs from the `key_hash` of the same bytes."""
    return int(crc32c(value, seed)) * _MIX & _MASK


class LogFile(NamedTuple):
    """A closed segment of `size` bytes; `read` reads its file."""

    read: Read
    base_offset: int
    size: int


class Run(NamedTuple):
    at: int
    bits: int
    entries: int
    log_end: int
    checksum: int


@dataclass(frozen=True, slots=True, eq=False)
class KeyIndexPart:
    """The part that a build has indexed so far: the batches below the position `log_end`, whose offsets are below `end_offset`. `runs` are in the temporary
    file. `tail`: the entries after them, in log order, ENTRY_BYTES each in the byte order of the machine."""

    seed: int
    runs: tuple[Run, ...]
    tail: tuple[bytes, ...]
    log_end: int
    end_offset: int


class KeyIndexBuilder:
    """Collects the entries of a segment. The caller writes the bytes that `run` and `finish` return."""

    __slots__ = ("_entries", "_runs", "_tail", "_written", "unwritten")

    def __init__(self) -> None:
        self._entries = array("Q")
        self._tail: list[bytes] = []
        self._runs: list[Run] = []
        self._written = HEADER_BYTES
        self.unwritten = 0
        """Number of entries since the last run. They are in memory."""

    def add(self, hashes: Iterable[int], position: int) -> None:
        """The different hashes of the batch at `position`."""
        entries = self._entries
        before = len(entries)
        entries.extend([h << 32 | position for h in hashes])
        self.unwritten += len(entries) - before

    def extend(self, entries: memoryview) -> None:
        """Entries of several batches, `hash << 32 | position` each, in log order."""
        self._entries.frombytes(entries.cast("B"))
        self.unwritten += len(entries)

    @property
    def full(self) -> bool:
        """True if the caller must write a run before the next batch."""
        return self.unwritten >= RUN_ENTRIES

    def part(self, seed: int, log_end: int, end_offset: int) -> KeyIndexPart:
        """All entries up to now. Later calls do not change it."""
        if self._entries:
            self._tail.append(self._entries.tobytes())
            self._entries = array("Q")
        return KeyIndexPart(seed, tuple(self._runs), tuple(self._tail), log_end, end_offset)

    def run(self, log_end: int) -> tuple[bytes, int]:
        """(bytes, position in the file) of a run with all entries since the last one. It covers the log up to `log_end`."""
        entries = array("Q", b"".join(self._tail))
        entries.extend(self._entries)
        bits = max(0, (len(entries) // BUCKET_ENTRIES).bit_length())
        body, ends = _in_buckets(entries, bits)
        directory, begin = bytearray(), 0
        for end in ends:
            directory += BUCKET.pack(end, crc32c(body[begin * ENTRY_BYTES : end * ENTRY_BYTES]))
            begin = end
        at = self._written
        self._runs.append(Run(at, bits, len(entries), log_end, crc32c(directory)))
        self._written += len(directory) + len(body)
        self._entries, self._tail, self.unwritten = array("Q"), [], 0
        return bytes(directory + body), at

    def finish(self, identity: SegmentIdentity, seed: int) -> tuple[bytes, int, bytes]:
        """(run table, its position in the file, header for position 0). The table is the end of the file."""
        table = b"".join(RUN.pack(*run) for run in self._runs)
        header = HEADER.pack(MAGIC, VERSION, 0, *identity, seed, len(self._runs), crc32c(table))
        return table, self._written, header + CHECKSUM.pack(crc32c(header))


class KeyIndex:
    """An index that matches its segment. `read` is called for each search. `tail`: see `KeyIndexPart`."""

    __slots__ = ("_read", "_runs", "_tail")

    def __init__(self, read: Read, runs: Sequence[Run], tail: Sequence[bytes] = ()) -> None:
        self._read, self._runs, self._tail = read, runs, tail

    @classmethod
    def of_file(cls, read: Read, size: int, log: LogFile, seed: int) -> KeyIndex:
        """`size` is the size of the file in bytes. Raises InvalidKeyIndex."""
        return cls(read, _runs(read, size, log, seed))

    @property
    def entries(self) -> int:
        return sum(run.entries for run in self._runs)

    def positions(self, hash_: int, below: int) -> Iterator[int]:
        """Positions below `below` of the batches that may contain the key, newest first. Raises InvalidKeyIndex, before the first position of
        the damaged run."""
        for entries in reversed(self._tail):
            yield from (position for position in reversed(_of_tail(entries, hash_)) if position < below)
        for run in reversed(self._runs):
            yield from (position for position in reversed(self._of_run(run, hash_)) if position < below)

    def _of_run(self, run: Run, hash_: int) -> list[int]:
        """The positions of the batches in one run that may contain the key, ascending. Raises InvalidKeyIndex."""
        length = BUCKET.size << run.bits
        directory = self._read(length, run.at)
        if len(directory) != length or crc32c(directory) != run.checksum:
            raise InvalidKeyIndex(f"the directory at position {run.at} is damaged")
        number = hash_ >> (32 - run.bits)
        start = BUCKET.unpack_from(directory, (number - 1) * BUCKET.size)[0] if number else 0
        end, checksum = BUCKET.unpack_from(directory, number * BUCKET.size)
        if start == end:
            return []
        data = self._read((end - start) * ENTRY_BYTES, run.at + length + start * ENTRY_BYTES)
        if crc32c(data) != checksum:
            raise InvalidKeyIndex(f"bucket {number} of the run at position {run.at} is damaged")
        entries = array("Q", data)
        if sys.byteorder == "little":
            entries.byteswap()
        low, high = hash_ << 32, (hash_ + 1) << 32
        return [entry & _MASK for entry in entries if low <= entry < high]


def _in_buckets(entries: array[int], bits: int) -> tuple[bytes, array[int]]:
    """(the entries in the byte order of the file, grouped into `1 << bits` buckets by their highest bits, in log order within a bucket; the number of entries
    up to the end of each bucket)."""
    ordered, ends = array("Q", [0]) * len(entries), array("Q", [0]) * (1 << bits)
    if not bits:
        ordered, ends[0] = array("Q", entries), len(entries)
    else:
        in_buckets(entries, 64 - bits, ordered, ends)
    if sys.byteorder == "little":
        ordered.byteswap()
    return ordered.tobytes(), ends


def _of_tail(entries: bytes, hash_: int) -> list[int]:
    """The positions of the batches in unsorted entries that may contain the key, ascending. A search with `bytes.find` is about a hundred times as fast as a loop
    over the entries."""
    searched = hash_.to_bytes(HASH_BYTES, sys.byteorder)
    found = []
    at = entries.find(searched)
    while at >= 0:
        start, inside = at // ENTRY_BYTES * ENTRY_BYTES, at % ENTRY_BYTES
        if inside == HASH_AT:
            found.append(int.from_bytes(entries[start : start + ENTRY_BYTES], sys.byteorder) & _MASK)
        at = entries.find(searched, at + 1)
    return found


def _runs(read_at: Read, size: int, log: LogFile, seed: int) -> list[Run]:
    identity, its_seed, runs = parse(read_at, size)
    if identity[:2] != (log.base_offset, log.size) or crc32c(log.read(*identity.last_header)) != identity.last_checksum:
        raise InvalidKeyIndex("it belongs to an earlier content of the segment")
    if its_seed != seed:
        raise InvalidKeyIndex("it was built with another weir.index.header")
    return runs


def parse(read_at: Read, size: int) -> tuple[SegmentIdentity, int, list[Run]]:
    """(segment, header seed, runs) of an index file of `size` bytes. Raises InvalidKeyIndex."""
    header = read_at(HEADER_BYTES, 0)
    if len(header) != HEADER_BYTES or crc32c(header[: HEADER.size]) != CHECKSUM.unpack_from(header, HEADER.size)[0]:
        raise InvalidKeyIndex("the header is damaged")
    magic, version, _, base, log_bytes, last_position, last_checksum, seed, count, checksum = HEADER.unpack_from(header)
    if magic != MAGIC or version != VERSION:
        raise InvalidKeyIndex(f"version {version} is unknown")
    length = count * RUN.size
    table = read_at(length, size - length) if length < size else b""
    if len(table) != length or crc32c(table) != checksum:
        raise InvalidKeyIndex("the run table is damaged")
    runs = [Run(*run) for run in RUN.iter_unpack(table)]
    return SegmentIdentity(base, log_bytes, last_position, last_checksum), seed, runs
