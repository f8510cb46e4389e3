"""Which transactions of a log were aborted, segment by segment: what read_committed readers are told to skip.

Laws: an entry belongs to the segment of its marker, and lives and goes with it; the files (`<base>.txnindex`, Kafka's format: 34 bytes
each, version, producer id, first and last offset, last stable offset, big-endian, growing by last offset) are shortcuts without a
checksum of their own: each snapshot says how many entries there were and their CRC-32C, and where a file does not fit that, all are
found anew from the log's headers and markers (`aborted_in`), and from what was known where the log begins. Called by `log` and `recovery`. Must not come in: which transactions are undecided (`producers`).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from brokerd.storage.disk import Disk
from brokerd.storage.producers import Producers
from brokerd.storage.segment import Segment
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.wire.records import BatchHeader, Marker, marker_of

log = logging.getLogger(__name__)

SUFFIX = ".txnindex"
ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class Aborted(NamedTuple):
    """`last_offset` is the marker's; below `stable` everything was decided when it was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int


class Misfit(Exception):
    """A .txnindex cannot be true."""


def parse(data: bytes, base: int, end: int) -> list[Aborted]:
    """Raises Misfit. Markers must lie in [base, end) and grow."""
    if len(data) % ENTRY.size:
        raise Misfit(f"{len(data)} bytes are no whole entries")
    out: list[Aborted] = []
    for version, *fields in ENTRY.iter_unpack(data):
        entry = Aborted(*fields)
        after = out[-1].last_offset if out else base - 1
        if version != VERSION or not after < entry.last_offset < end or entry.first_offset >= entry.last_offset:
            raise Misfit(f"{entry} cannot be")
        out.append(entry)
    return out


class AbortedIndex:
    """Of one log. `counts` is {segment's base offset: entries}, only where there are any. `segments` is the log's own list."""

    def __init__(self, folder: Path, disk: Disk, segments: list[Segment], snapshots: Snapshots) -> None:
        self.folder, self.disk, self.segments, self.snapshots = folder, disk, segments, snapshots
        self.counts: dict[int, int] = {}
        self._checksums: dict[int, int] = {}
        """Of the files as they were saved."""
        self._held: dict[int, list[Aborted]] = {}
        self._unsaved: set[int] = set()

    def path(self, base: int) -> Path:
        return self.folder / f"{base:020d}{SUFFIX}"

    # -- reading -----------------------------------------------------------------------------------------------------------
    def between(self, offset: int, upto: int) -> list[Aborted]:
        """Every aborted transaction that touches [offset, upto)."""
        if not self.counts:
            return []
        try:
            return self._between(offset, upto)
        except Misfit as e:
            self.find_anew(why=str(e))
            return self._between(offset, upto)

    def _between(self, offset: int, upto: int) -> list[Aborted]:
        out: list[Aborted] = []
        for segment in self.segments:
            if segment.end_offset > offset and segment.base_offset in self.counts:
                for entry in self._of(segment):
                    if entry.last_offset >= offset and entry.first_offset < upto:
                        out.append(entry)
                    if entry.stable >= upto:
                        return out
        return out

    def _of(self, segment: Segment) -> list[Aborted]:
        """Raises Misfit."""
        base = segment.base_offset
        held = self._held.get(base)
        if held is None:
            data = (self.disk.read(self.path(base)) or b"") if base in self.counts else b""
            if data and crc32c(data) != self._checksums.get(base):
                raise Misfit(f"{len(data)} bytes are not what was saved")
            held = parse(data, base, segment.end_offset)
            if len(held) != self.counts.get(base, 0):
                raise Misfit(f"{len(held)} entries where {self.counts.get(base, 0)} were")
            if held:
                self._held[base] = held
        return held

    # -- changing ----------------------------------------------------------------------------------------------------------
    def add(self, entry: Aborted) -> None:
        """The last segment has got a marker."""
        segment = self.segments[-1]
        try:
            self._of(segment)
        except Misfit as e:
            self.find_anew(why=str(e))  # this one among them
            return
        held = self._held.setdefault(segment.base_offset, [])
        held.append(entry)
        self.counts[segment.base_offset] = len(held)
        self._unsaved.add(segment.base_offset)

    def put(self, base: int, entries: list[Aborted]) -> None:
        self._unsaved.add(base)
        if entries:
            self._held[base], self.counts[base] = entries, len(entries)
        else:
            self.counts.pop(base, None)
            self._held.pop(base, None)

    def save(self) -> None:
        """Raises DiskFull: it is tried again with the next snapshot."""
        for base in sorted(self._unsaved):
            entries = self._held.get(base)
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

    def cut(self, offset: int) -> None:
        """Before the log is cut at `offset`. What is no more must not stand in a file that a later snapshot counts."""
        try:
            for segment in self.segments:
                if segment.end_offset > offset and segment.base_offset in self.counts:
                    kept = [e for e in self._of(segment) if e.last_offset < offset]
                    self.disk.unlink(self.path(segment.base_offset))
                    self.put(segment.base_offset, kept)
        except Misfit as e:
            self.find_anew(why=str(e))
            self.cut(offset)

    def drop(self, bases: Iterable[int]) -> None:
        """These segments are no more."""
        for base in bases:
            if self.counts.pop(base, 0) or base in self._unsaved:
                self._held.pop(base, None)
                self._unsaved.discard(base)
                self.disk.unlink(self.path(base))

    def clear(self) -> None:
        self.drop(list(self.counts))

    def rest(self, active: int) -> None:
        """Closed segments' entries are given back."""
        for base in [b for b in self._held if b != active and b not in self._unsaved]:
            del self._held[base]

    def adopt(self, names: Sequence[str], bases: Sequence[int], snapshot: Snapshot | None) -> bool:
        """Take over the files that a snapshot vouches for; False when one does not fit what it says. Closed segments' are read later."""
        last = snapshot.segment if snapshot is not None else -1
        files = {int(n[: -len(SUFFIX)]) for n in names if n.endswith(SUFFIX) and n[: -len(SUFFIX)].isdigit()}
        for base in sorted(files):
            if base not in bases or base > last:
                self.disk.unlink(self.path(base))
        if snapshot is None:
            return True
        wanted = {b: (n, crc) for b, n, crc in snapshot.aborted if bases and b >= bases[0]}
        for base in sorted(files & set(bases)):
            if base > last:
                continue
            count, crc = wanted.pop(base, (0, 0))
            size = self.disk.size(self.path(base))
            if base == last:
                # It was written on, perhaps, after the snapshot: what came then is met again.
                data = (self.disk.read(self.path(base)) or b"")[: count * ENTRY.size]
                if len(data) != count * ENTRY.size or (count and crc32c(data) != crc):
                    return False
                self.put(base, parse(data, base, snapshot.offset))
            elif size != count * ENTRY.size:
                return False
            else:
                self.counts[base], self._checksums[base] = count, crc
        return not wanted

    def _known_at_start(self) -> Producers:
        """A log that begins in the middle of another knows which transactions were under way there: their spans begin below it."""
        base = self.segments[0].base_offset if self.segments else 0
        known = self.snapshots.read(base) if base in self.snapshots.offsets else None
        return Producers() if known is None else Producers.from_json(known.producers, known.closing)

    def find_anew(self, below: int = 1 << 62, why: str = "not what the snapshot counted") -> None:
        """What stands here with markers below `below` is doubtful: the log is read from its beginning."""
        log.warning("%s: a %s does not fit its log (%s); all are found anew", self.folder, SUFFIX, why)
        entries = aborted_in(walk(self.segments, 0, below), self._known_at_start())
        newer = {b: [e for e in held if e.last_offset >= below] for b, held in self._held.items()}
        self.drop([b for b in self.counts if b not in entries and not newer.get(b)])
        for base in sorted({*entries, *newer}):
            self.put(base, entries.get(base, []) + newer.get(base, []))


Walk = Iterator[tuple[int, BatchHeader, Marker | None]]
"""(base offset of its segment, header, what it says if it is a control batch) of each batch."""


def walk(segments: Sequence[Segment], since: int, upto: int) -> Walk:
    """From the batch that contains `since`, to those that begin below `upto`."""
    for segment in segments:
        if segment.end_offset > since:
            position = segment.position_of(since) if since > segment.base_offset else 0
            for at, header in segment.headers(position):
                if header.base_offset >= upto:
                    return
                yield segment.base_offset, header, marker_at(segment, at, header)


def marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """What the batch at `position` says, if it is a control batch."""
    return marker_of(segment.file.pread(header.size, position), 0, header) if header.is_control else None


def aborted_in(batches: Walk, state: Producers) -> dict[int, list[Aborted]]:
    """{segment's base: its entries}, out of every batch of a log from its beginning. `state`: what was known there; it is used up."""
    out: dict[int, list[Aborted]] = {}
    for base, header, said in batches:
        ended = state.appended(header, header.base_offset, 0, said)
        state.closing.clear()
        if ended is not None and not ended.committed:
            out.setdefault(base, []).append(Aborted(*ended[:4]))
    return out
