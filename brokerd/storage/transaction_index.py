"""The transaction index: aborted transactions of a log, per segment. read_committed consumers skip their records.

An entry belongs to the segment of its abort marker and is deleted with it. The files (`<base>.txnindex`) have Kafka's format: entries of 34
bytes with version, producer id, first offset, last offset and last stable offset, big-endian, sorted by last offset. They have no checksum.
Each snapshot contains the number of entries and their CRC-32C. If a file does not match, all entries are rebuilt from batch headers,
markers and the producer state at the log start (`aborted_in`). Does not contain ongoing transactions (`producers`).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from brokerd.storage import nonblocking
from brokerd.storage.disk import Disk
from brokerd.storage.producers import Producers
from brokerd.storage.segment import Segment
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.wire.end_transaction_marker import Marker, marker_of
from brokerd.wire.records import BatchHeader

log = logging.getLogger(__name__)

SUFFIX = ".txnindex"
ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction. `last_offset` is the offset of the abort marker. `stable` is the last stable offset when the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int


class InvalidIndex(Exception):
    """A .txnindex file is invalid."""


def parse(data: bytes, base: int, end: int) -> list[AbortedTxn]:
    """The entries of a file. Marker offsets must be in [base, end) and increase. Raises InvalidIndex."""
    if len(data) % ENTRY.size:
        raise InvalidIndex(f"{len(data)} bytes are not a multiple of the entry size")
    out: list[AbortedTxn] = []
    for version, *fields in ENTRY.iter_unpack(data):
        entry = AbortedTxn(*fields)
        after = out[-1].last_offset if out else base - 1
        if version != VERSION or not after < entry.last_offset < end or entry.first_offset >= entry.last_offset:
            raise InvalidIndex(f"invalid entry {entry}")
        out.append(entry)
    return out


class TransactionIndex:
    """The transaction index of one log. `counts` is {segment base offset: number of entries}, without zeros. `segments` is the list of the log."""

    def __init__(self, folder: Path, disk: Disk, segments: list[Segment], snapshots: Snapshots) -> None:
        self.folder, self.disk, self.segments, self.snapshots = folder, disk, segments, snapshots
        self.counts: dict[int, int] = {}
        self._checksums: dict[int, int] = {}
        """{segment base offset: CRC-32C} of the saved files."""
        self._loaded: dict[int, list[AbortedTxn]] = {}
        self._unsaved: set[int] = set()

    def path(self, base: int) -> Path:
        return self.folder / f"{base:020d}{SUFFIX}"

    # -- reading -----------------------------------------------------------------------------------------------------------
    def overlapping(self, offset: int, upto: int) -> list[AbortedTxn]:
        """Every aborted transaction that overlaps [offset, upto)."""
        if not self.counts:
            return []
        try:
            return self._find_between(offset, upto)
        except InvalidIndex as e:
            self.rebuild(reason=str(e))
            return self._find_between(offset, upto)

    def _find_between(self, offset: int, upto: int) -> list[AbortedTxn]:
        out: list[AbortedTxn] = []
        for segment in self.segments:
            if segment.end_offset > offset and segment.base_offset in self.counts:
                for entry in self._entries_of(segment):
                    if entry.last_offset >= offset and entry.first_offset < upto:
                        out.append(entry)
                    if entry.stable >= upto:
                        return out
        return out

    def _entries_of(self, segment: Segment) -> list[AbortedTxn]:
        """Raises InvalidIndex."""
        base = segment.base_offset
        entries_in_memory = self._loaded.get(base)
        if entries_in_memory is None:
            data = (self.disk.read(self.path(base)) or b"") if base in self.counts else b""
            if data and crc32c(data) != self._checksums.get(base):
                raise InvalidIndex(f"{len(data)} bytes with a wrong checksum")
            entries_in_memory = parse(data, base, segment.end_offset)
            if len(entries_in_memory) != self.counts.get(base, 0):
                raise InvalidIndex(f"{len(entries_in_memory)} entries, expected {self.counts.get(base, 0)}")
            if entries_in_memory:
                self._loaded[base] = entries_in_memory
        return entries_in_memory

    # -- changing ----------------------------------------------------------------------------------------------------------
    def add(self, entry: AbortedTxn) -> None:
        """Add an entry for an abort marker in the last segment."""
        segment = self.segments[-1]
        try:
            self._entries_of(segment)
        except InvalidIndex as e:
            self.rebuild(reason=str(e))  # includes this entry
            return
        entries_in_memory = self._loaded.setdefault(segment.base_offset, [])
        entries_in_memory.append(entry)
        self.counts[segment.base_offset] = len(entries_in_memory)
        self._unsaved.add(segment.base_offset)

    def put(self, base: int, entries: list[AbortedTxn]) -> None:
        self._unsaved.add(base)
        if entries:
            self._loaded[base], self.counts[base] = entries, len(entries)
        else:
            self.counts.pop(base, None)
            self._loaded.pop(base, None)

    def save(self) -> None:
        """Write the files. Raises DiskFull; the next snapshot tries again."""
        for base in sorted(self._unsaved):
            entries = self._loaded.get(base)
            if entries:
                data = b"".join(ENTRY.pack(VERSION, *e) for e in entries)
                self.disk.replace(self.path(base), data)
                self._checksums[base] = crc32c(data)
            else:
                self.disk.unlink(self.path(base))
            self._unsaved.discard(base)

    def to_json(self) -> list[list[int]]:
        """[base offset, entries, CRC-32C] of each file, for a snapshot."""
        return [[base, count, self._checksums.get(base, -1)] for base, count in sorted(self.counts.items())]

    def truncate(self, offset: int) -> None:
        """Called before the log is truncated to `offset`. Removes entries that a later snapshot must not count."""
        try:
            for segment in self.segments:
                if segment.end_offset > offset and segment.base_offset in self.counts:
                    kept = [e for e in self._entries_of(segment) if e.last_offset < offset]
                    self.disk.unlink(self.path(segment.base_offset))
                    self.put(segment.base_offset, kept)
        except InvalidIndex as e:
            self.rebuild(reason=str(e))
            self.truncate(offset)

    def drop(self, bases: Iterable[int]) -> None:
        """Delete the entries of deleted segments."""
        for base in bases:
            if self.counts.pop(base, 0) or base in self._unsaved:
                self._loaded.pop(base, None)
                self._unsaved.discard(base)
                self.disk.unlink(self.path(base))

    def clear(self) -> None:
        self.drop(list(self.counts))

    def release_idle(self, active: int) -> None:
        """Free the memory of the entries of closed segments."""
        for base in [b for b in self._loaded if b != active and b not in self._unsaved]:
            del self._loaded[base]

    def adopt(self, names: Sequence[str], bases: Sequence[int], snapshot: Snapshot | None) -> bool:
        """Use the files that the snapshot lists. False if one does not match. Files of closed segments are read later."""
        last = snapshot.segment if snapshot is not None else -1
        files = {int(n[: -len(SUFFIX)]) for n in names if n.endswith(SUFFIX) and n[: -len(SUFFIX)].isdigit()}
        for base in sorted(files):
            if base not in bases or base > last:
                self.disk.unlink(self.path(base))
        if snapshot is None:
            return True
        expected = {b: (n, crc) for b, n, crc in snapshot.aborted if bases and b >= bases[0]}
        for base in sorted(files & set(bases)):
            if base > last:
                continue
            count, crc = expected.pop(base, (0, 0))
            size = self.disk.size(self.path(base))
            if base == last:
                # Entries may have been appended after the snapshot. Recovery finds them again.
                data = (self.disk.read(self.path(base)) or b"")[: count * ENTRY.size]
                if len(data) != count * ENTRY.size or (count and crc32c(data) != crc):
                    return False
                self.put(base, parse(data, base, snapshot.offset))
            elif size != count * ENTRY.size:
                return False
            else:
                self.counts[base], self._checksums[base] = count, crc
        return not expected

    def _known_at_start(self) -> Producers:
        """The producer state at the log start. A log that starts at a later offset than its leader knows the ongoing transactions of that offset."""
        base = self.segments[0].base_offset if self.segments else 0
        known = self.snapshots.read(base) if base in self.snapshots.offsets else None
        return Producers() if known is None else Producers.from_json(known.producers, known.closing)

    def rebuild(self, below: int = 1 << 62, reason: str = "it does not match the producer snapshot") -> None:
        """Rebuild the entries with markers below `below` by reading the log from its start."""
        log.warning("transaction index rebuilt: path=%s file=%s reason=%s", self.folder, SUFFIX, reason)
        with nonblocking.blocking_reads():  # reads the complete log, once
            entries = aborted_in(walk(self.segments, 0, below), self._known_at_start())
        newer = {
            b: [e for e in entries_in_memory if e.last_offset >= below] for b, entries_in_memory in self._loaded.items()
        }
        self.drop([b for b in self.counts if b not in entries and not newer.get(b)])
        for base in sorted({*entries, *newer}):
            self.put(base, entries.get(base, []) + newer.get(base, []))


Walk = Iterator[tuple[int, BatchHeader, Marker | None]]
"""(base offset of the segment, header, marker if it is a control batch) of each batch."""


def walk(segments: Sequence[Segment], since: int, upto: int) -> Walk:
    """Batches from the one that contains `since` up to the last one that starts below `upto`."""
    for segment in segments:
        if segment.end_offset > since:
            position = segment.position_of(since) if since > segment.base_offset else 0
            for at, header in segment.headers(position):
                if header.base_offset >= upto:
                    return
                yield segment.base_offset, header, marker_at(segment, at, header)


def marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """The marker in the batch at `position` if it is a control batch, else None."""
    return marker_of(segment.file.pread(header.size, position), 0, header) if header.is_control else None


def aborted_in(batches: Walk, state: Producers) -> dict[int, list[AbortedTxn]]:
    """{segment base offset: entries} from all batches of a log. `state` is the producer state at the log start; it is modified."""
    out: dict[int, list[AbortedTxn]] = {}
    for base, header, marker in batches:
        ended = state.on_appended(header, header.base_offset, 0, marker)
        state.closing.clear()
        if ended is not None and not ended.committed:
            out.setdefault(base, []).append(AbortedTxn(*ended[:4]))
    return out
