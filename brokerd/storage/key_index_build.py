"""The job that builds the key index of a segment, a slice of the log at a time.

It uses its own file handles and writes to a temporary file, which the caller renames when the segment is still the same. Every batch is checked
before its keys count. The segment can grow between two slices (`extend`); the index is finished when the segment is closed. Between two jobs, `part` can
be searched. Does not contain: the choice of segments and the rate (`maintenance/key_indexing`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

from brokerd.storage import key_index
from brokerd.storage.appended_keys import CollectedRange
from brokerd.storage.disk import Disk, DiskFailed, File, FileDamaged
from brokerd.storage.key_hashes import HashedKeys, PlainBatches, distinct
from brokerd.storage.key_index import (
    RUN_ENTRIES,
    InvalidKeyIndex,
    KeyIndex,
    KeyIndexBuilder,
    KeyIndexPart,
    LogFile,
    SegmentIdentity,
)
from brokerd.storage.segment_slices import check_batch, read_slice
from brokerd.wire import records
from brokerd.wire.records import BatchHeader

TEMPORARY = key_index.SUFFIX + ".tmp"
"""The next start removes `.tmp` files."""


class KeyIndexBuild:
    """`run` reads at most `slice_bytes` of the log, and is called again until `finished`. `path` is that of the segment, of `size` bytes. `closed`: the
    segment has its last batch."""

    __slots__ = (
        "_builder",
        "_collected",
        "_disk",
        "_last_position",
        "base_offset",
        "bytes_read",
        "closed",
        "end_offset",
        "finished",
        "hashed",
        "part",
        "path",
        "position",
        "published",
        "reused",
        "size",
        "temporary",
    )

    def __init__(
        self,
        disk: Disk,
        path: Path,
        base_offset: int,
        size: int,
        hashed: HashedKeys,
        *,
        closed: bool = True,
        temporary: Path | None = None,
    ) -> None:
        """`temporary`: the file that is written. None: a file next to the segment."""
        self._disk, self.path, self.base_offset, self.size, self.hashed = disk, path, base_offset, size, hashed
        self.temporary = path.with_suffix(TEMPORARY) if temporary is None else temporary
        self.closed, self.end_offset = closed, base_offset
        """`end_offset` is the offset after the last batch that was read."""
        self._builder = KeyIndexBuilder()
        self._last_position = 0
        """Position of the last batch."""
        self.position = self.bytes_read = 0
        """Bytes of the segment that are indexed, and that were read for it: not the batches whose entries were collected when they were appended."""
        self._collected: CollectedRange | None = None
        self.finished = self.reused = False
        """`reused`: the file of an earlier run is valid."""
        self.part: KeyIndexPart | None = None
        """The part that was built by the end of the last job. `published`: the part that look-ups use; the caller sets it."""
        self.published: KeyIndexPart | None = None

    @property
    def target(self) -> Path:
        return self.path.with_suffix(key_index.SUFFIX)

    @property
    def unwritten(self) -> int:
        """Number of entries in memory."""
        return self._builder.unwritten

    def extend(self, size: int, *, closed: bool) -> None:
        """The segment has grown to `size` bytes, or was closed. Must not be called during a job."""
        self.size, self.closed = size, closed

    def use(self, collected: CollectedRange | None) -> None:
        """The entries of batches which this build has not read yet. Must not be called during a job."""
        self._collected = collected

    def check_existing(self) -> None:
        """Job: check the index file of an earlier run of the broker. It is reused if it matches the segment. Raises DiskFailed."""
        try:
            open_index(self._disk, self.path, self._disk.open(self.path), self.base_offset, self.size, self.hashed.seed)
        except InvalidKeyIndex:
            return
        self.finished = self.reused = True

    def run(self, slice_bytes: int, entries_max: int = RUN_ENTRIES) -> None:
        """Run one slice. At most `entries_max` entries stay in memory. Raises FileDamaged, another DiskFailed, DiskFull."""
        collected = self._collected
        if collected is not None and collected.start == self.position:
            self._add_collected(collected)
        elif self.position < self.size:
            self._read_slice(slice_bytes)
        if self.closed and self.position == self.size:
            self._finish()
        elif self.unwritten > entries_max:
            self._write_run()
        self.part = self._builder.part(self.hashed.seed, self.position, self.end_offset)

    def _add_collected(self, collected: CollectedRange) -> None:
        entries = collected.entries
        table = array("Q", bytes(8 << (2 * len(entries)).bit_length()))
        self._builder.extend(memoryview(entries)[: distinct(entries, table)])
        self._collected = None
        self._last_position, self.position, self.end_offset = collected.last, collected.end, collected.next_offset
        if self._builder.full:
            self._write_run()

    def _read_slice(self, slice_bytes: int) -> None:
        upto = self.size
        if self._collected is not None and self._collected.start > self.position:
            upto = self._collected.start
        data = read_slice(self._disk, self.path, self.position, upto, slice_bytes)
        start, walk = self.position, PlainBatches(self.hashed)
        read = self._collect(walk, data, start, 0)
        while (
            len(data) - read >= records.HEADER_BYTES and len(data) - read >= (header := records.peek(data, read)).size
        ):
            if header.batch_length < records.HEADER_BYTES - records.LENGTH_OVERHEAD:
                break
            self._add(data, read, header)
            read = self._collect(walk, data, start, read + header.size)
        self.bytes_read += self.position - start
        if not read:
            raise FileDamaged(f"{self.path}: no complete batch at position {start}")

    def _collect(self, walk: PlainBatches, data: bytes, start: int, at: int) -> int:
        """Add the plain batches from `at` on. Returns the position of the first other batch, or of the end."""
        while (after := walk.collect(data, at, start)) > at:
            self._builder.extend(walk.entries)
            self._last_position = start + walk.last
            self.position, self.end_offset, at = start + after, walk.next_offset, after
            if self._builder.full:
                self._write_run()
        return at

    def _add(self, data: bytes, pos: int, header: BatchHeader) -> None:
        check_batch(self.path, self.position, data, pos, header)
        self._builder.add(self.hashed.of_batch(data, pos, header), self.position)
        self._last_position = self.position
        self.position += header.size
        self.end_offset = header.next_offset
        if self._builder.full:
            self._write_run()

    def _write_run(self) -> None:
        data, at = self._builder.run(self.position)
        self._disk.open(self.temporary, create=True).pwrite(data, at)

    def _finish(self) -> None:
        self._write_run()
        last = self._disk.open(self.path).pread(records.HEADER_BYTES, self._last_position)
        identity = SegmentIdentity(self.base_offset, self.size, self._last_position, crc32c(last))
        table, at, header = self._builder.finish(identity, self.hashed.seed)
        file = self._disk.open(self.temporary, create=True)
        file.pwrite(table, at)
        file.truncate(at + len(table))
        file.pwrite(header, 0)
        self.finished = True


def open_index(
    disk: Disk,
    path: Path,
    log: File,
    base_offset: int,
    size: int,
    seed: int,
    on_read: Callable[[int], None] = lambda length: None,
) -> KeyIndex:
    """The index of the segment at `path` with the open file `log`. `on_read` is called with the bytes of each read. Raises InvalidKeyIndex, also
    when there is none; DiskFailed."""
    index_path = path.with_suffix(key_index.SUFFIX)
    index_size = disk.size(index_path)
    if index_size < 0:
        raise InvalidKeyIndex("the segment has no key index")
    file = disk.open(index_path)

    def read(length: int, position: int) -> bytes:
        on_read(length)
        return file.pread(length, position)

    return KeyIndex.of_file(read, index_size, LogFile(log.pread, base_offset, size), seed)


def open_part(disk: Disk, path: Path, part: KeyIndexPart, on_read: Callable[[int], None]) -> KeyIndex:
    """Return the finished part of the index of the segment at `path`. `on_read`: see `open_index`. A search of it raises InvalidKeyIndex, also when the
    build has ended and its temporary file was deleted."""
    for entries in part.tail:
        on_read(len(entries))

    def read(length: int, position: int) -> bytes:
        on_read(length)
        try:
            return disk.open(path.with_suffix(TEMPORARY)).pread(length, position)
        except DiskFailed as e:
            raise InvalidKeyIndex(str(e)) from e

    return KeyIndex(read, part.runs, part.tail)
