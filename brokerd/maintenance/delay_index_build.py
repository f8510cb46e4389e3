"""The job that builds the delay index of a closed segment, a slice of the log at a time.

It uses its own file handles and writes to a temporary file, which the caller renames when the segment is still the same. Every batch is checked
before its records count. Invariant: the index has the same records, tombstones and journal entries that a leader would read from the log. Does not contain:
the choice of segments and the rate (`delay_indexing`), the format (`storage/delay_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from brokerd.delivery.delay_schedule import BUCKET_MS
from brokerd.delivery.delayed_records import DelayProblem, delivery_time, key_digest
from brokerd.delivery.front_log import FrontTarget, journal_key
from brokerd.maintenance.segment_indexing import IndexNotBuilt
from brokerd.storage import delay_index
from brokerd.storage.delay_index import DelayIndexBuilder, InvalidDelayIndex
from brokerd.storage.delay_index_file import open_delay_index
from brokerd.storage.disk import Disk, FileDamaged
from brokerd.storage.key_index import SegmentIdentity
from brokerd.storage.segment_slices import check_batch, read_slice
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, CorruptBatch

TEMPORARY = delay_index.SUFFIX + ".tmp"
"""The next start removes `.tmp` files."""
JOURNAL_KEY = journal_key(FrontTarget.TOPIC)


@dataclass(frozen=True, slots=True)
class IndexedRange:
    """A closed segment whose transactions have all ended. `aborted`: (producer id, first offset, offset of the marker) of its aborted transactions.
    `decided_below`: the high watermark when they were read."""

    path: Path
    base_offset: int
    end_offset: int
    size: int
    aborted: Sequence[tuple[int, int, int]]
    decided_below: int


class DelayIndexBuild:
    """`run` reads at most `slice_bytes` of the log, and is called again until `finished`."""

    def __init__(self, disk: Disk, segment: IndexedRange) -> None:
        self._disk, self._segment = disk, segment
        self.path, self.size = segment.path, segment.size
        self._builder = DelayIndexBuilder(segment.base_offset, BUCKET_MS)
        self._last = (0, b"")
        """Position and header of the last batch."""
        self.position = 0
        self.finished = self.reused = False

    @property
    def decided_below(self) -> int:
        return self._segment.decided_below

    @property
    def bytes_read(self) -> int:
        return self.position

    @property
    def temporary(self) -> Path:
        return self.path.with_suffix(TEMPORARY)

    @property
    def target(self) -> Path:
        return self.path.with_suffix(delay_index.SUFFIX)

    def check_existing(self) -> None:
        """Job: check the index file of an earlier run of the broker. It is reused if it matches the segment."""
        try:
            open_delay_index(self._disk, self.path, self._segment.base_offset, self.size, BUCKET_MS)
        except InvalidDelayIndex:
            return
        self.finished = self.reused = True

    def run(self, slice_bytes: int) -> None:
        """Raises FileDamaged, another DiskFailed, DiskFull, IndexNotBuilt."""
        data = read_slice(self._disk, self.path, self.position, self.size, slice_bytes)
        start = self.position
        try:
            for at, header in records.batches(data):
                self._add(data, at, header)
        except (CorruptBatch, InvalidDelayIndex) as e:
            raise IndexNotBuilt(f"{self.path} at position {self.position}: {e}") from e
        if self.position == start:
            raise FileDamaged(f"{self.path}: no complete batch at position {start}")
        if self.position == self.size:
            self._finish()

    def _add(self, data: bytes, at: int, header: BatchHeader) -> None:
        check_batch(self.path, self.position, data, at, header)
        if header.is_control:
            for record in records.records_of(data, at, header):
                if record.key == JOURNAL_KEY:
                    self._builder.add_journal(record.offset, record.value or b"")
        elif not self._was_aborted(header):
            self._add_records(data, at, header)
        self._last = self.position, data[at : at + records.HEADER_BYTES]
        self.position += header.size
        if self._builder.full:
            self._write_run()

    def _was_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            producer_id == header.producer_id and first <= header.base_offset <= last
            for producer_id, first, last in self._segment.aborted
        )

    def _add_records(self, data: bytes, at: int, header: BatchHeader) -> None:
        builder = self._builder
        for record in records.records_of(data, at, header):
            time = delivery_time(record, record.timestamp)
            if isinstance(time, DelayProblem):
                builder.discarded += 1
            elif time is None:
                builder.add_tombstone(key_digest(record.key), record.offset)
            else:
                builder.add_record(time, record.offset, key_digest(record.key))

    def _write_run(self) -> None:
        data, at = self._builder.run()
        self._disk.open(self.temporary, create=True).pwrite(data, at)

    def _finish(self) -> None:
        self._write_run()
        position, last = self._last
        segment = self._segment
        identity = SegmentIdentity(segment.base_offset, self.size, position, crc32c(last))
        tail, at, header = self._builder.finish(identity, segment.end_offset, segment.decided_below)
        file = self._disk.open(self.temporary, create=True)
        file.pwrite(tail, at)
        file.truncate(at + len(tail))
        file.pwrite(header, 0)
        self.finished = True
