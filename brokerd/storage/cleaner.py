"""The log cleaner: keeps the latest record of each key, in closed segments without ongoing transactions.

Invariants: offsets do not change. A tombstone stays readable for `delete.retention.ms` after the pass that removed the records that it
deletes; the time is stored in its batch (KIP-534). The last batch of a rewritten file and the last batch of each live producer are kept,
without records if necessary, so that end offsets and sequences are preserved. A crash at any step leaves one complete version of the files
(`.cleaned` -> `.swap` -> `.log`, see `recovery`). Records without a key are removed. Aborted records are removed and do not replace older
records. A marker is kept while a pass finds a batch of its transaction, and then for `delete.retention.ms`, because slow consumers may
have read the transaction. An entry of the transaction index is kept exactly as long as its marker; otherwise later records of the producer would
be taken for aborted.

`plan` and `finish` run on the log's thread. `Cleaning.run` (or `steps`, in slices) does not access the log and may run on another thread.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.storage.disk import Disk, DiskFull, File
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.log import Log
from brokerd.storage.recovery import CLEANED, SWAP, swap_in
from brokerd.storage.segment import Segment
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, CorruptBatch, Record

log = logging.getLogger(__name__)

KEYS_MAX = 1_000_000
"""Maximum number of keys in memory in one pass (about 100 MB). The next pass cleans the remaining records."""
DIGEST_BYTES = 16
"""Longer keys are replaced by their digest. Collisions of 128 bits are negligible."""
COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to rewrite, in its state when the pass was planned. Its file stays readable even if retention deletes the segment."""

    segment: Segment
    file: File
    base: int
    end: int
    size: int


@dataclass(slots=True)
class SegmentGroup:
    """Adjacent segments that are merged into one file."""

    sources: list[Source]
    result: Segment
    aborted: list[AbortedTxn] = field(default_factory=list)

    @property
    def stem(self) -> str:
        return f"{self.sources[0].base:020d}-{self.sources[-1].end:020d}"


@dataclass(slots=True)
class Cleaning:
    """One cleaning pass. The counters are for log lines and tests."""

    disk: Disk
    folder: Path
    sources: list[Source]
    dirty_from: int
    start_offset: int
    wall_ms: int
    delete_retention_ms: int
    segment_bytes: int
    interval: int
    truncations: int
    last_of_producer: dict[int, int]
    aborted: list[AbortedTxn]
    groups: list[SegmentGroup] = field(default_factory=list)
    upto: int = 0
    """The first dirty offset after the pass: all records below it are compacted."""
    records_kept: int = 0
    records_dropped: int = 0
    _newest: dict[bytes, int] = field(default_factory=dict)
    _aborted: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """{producer id: (first offsets, last offsets)} of its aborted transactions, ascending."""
    _entries: dict[int, list[AbortedTxn]] = field(default_factory=dict)
    """{marker offset: entry of the transaction index}."""
    _met: set[int] = field(default_factory=set)
    """Producers with a batch since their last marker."""

    def run(self) -> None:
        """Raises DiskFull, DiskFailed, CorruptBatch. The log is unchanged then."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Like `run`, but in slices of about a megabyte."""
        for entry in self.aborted:
            firsts, lasts = self._aborted.setdefault(entry.producer_id, ([], []))
            firsts.append(entry.first_offset)
            lasts.append(entry.last_offset)
            self._entries[entry.last_offset] = [entry]
        yield from self._learn()
        self._form_groups()
        for group in self.groups:
            yield from self._rewrite(group)
        self._newest.clear()

    # -- first pass: the newest offset of every key written since the last cleaning -----------------------------------------
    def _learn(self) -> Iterator[None]:
        for source in self.sources:
            if source.end > self.dirty_from:
                for data, pos, header in _batches(source):
                    if not pos:
                        yield
                    if not header.is_control and not self._was_aborted(header):
                        for record in records.records_of(data, pos, header):
                            if record.key is not None:
                                self._newest[_digest(record.key)] = record.offset
            self.upto = source.end
            if len(self._newest) > KEYS_MAX:
                break

    def _was_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.producer_id not in self._aborted:
            return False
        firsts, lasts = self._aborted[header.producer_id]
        i = bisect_right(firsts, header.last_offset) - 1
        return i >= 0 and header.base_offset <= lasts[i]

    def _form_groups(self) -> None:
        size = 0
        for source in self.sources:
            if source.base >= self.upto:
                break
            group = self.groups[-1].sources if self.groups else None
            if group is None or size + source.size > self.segment_bytes or source.end - group[0].base > RELATIVE_MAX:
                self.groups.append(SegmentGroup([source], Segment(self.folder, source.base, self.disk, self.interval)))
                size = source.size
            else:
                group.append(source)
                size += source.size

    # -- second pass: write the remaining records -----------------------------------------------------------------------------
    def _rewrite(self, group: SegmentGroup) -> Iterator[None]:
        path = self.folder / (group.stem + CLEANED)
        file = self.disk.open(path, create=True)
        file.truncate(0)
        out = bytearray()
        result = group.result
        # Each batch is written when the next one has been read, so that the last batch of the segment is recognized.
        waiting: tuple[bytes, int, BatchHeader] | None = None
        for item in chain.from_iterable(_batches(source) for source in group.sources):
            if waiting is not None:
                out += self._copy_batch(group, *waiting)
            waiting = item
            if len(out) >= COPY_BYTES:
                file.pwrite(out, result.size - len(out))
                out.clear()
            if not item[1]:
                yield
        if waiting is not None:
            out += self._copy_batch(group, *waiting, must_stay=True)
        if out:
            file.pwrite(out, result.size - len(out))
        file.fsync()

    def _copy_batch(
        self, group: SegmentGroup, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool = False
    ) -> bytes:
        must_stay = must_stay or self.last_of_producer.get(header.producer_id) == header.last_offset
        if header.is_control:
            batch = self._marker(group, data, pos, header, must_stay=must_stay)
        else:
            batch = self._filter_batch(data, pos, header, must_stay=must_stay)
        if batch:
            group.result.note(records.peek(batch), header.base_offset, group.result.size)
        return batch

    def _marker(self, group: SegmentGroup, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool) -> bytes:
        """The control batch to keep, empty if it is removed."""
        whole = data[pos : pos + header.size]
        needed = header.producer_id in self._met
        self._met.discard(header.producer_id)
        horizon = header.base_timestamp if header.attributes & records.DELETE_HORIZON else None
        if not needed and horizon is not None and self.wall_ms >= horizon:
            self.records_dropped += header.record_count
            return records.pack(header, []) if must_stay else b""
        self.records_kept += header.record_count
        group.aborted += self._entries.get(header.base_offset, ())
        if needed or horizon is not None:
            return whole
        header = header._replace(
            attributes=header.attributes | records.DELETE_HORIZON,
            base_timestamp=self.wall_ms + self.delete_retention_ms,
        )
        return records.pack(header, list(records.records_of(data, pos, header)))

    def _filter_batch(self, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool) -> bytes:
        """The batch with the records to keep, empty if it is removed."""
        whole = data[pos : pos + header.size]
        if header.is_transactional:
            self._met.add(header.producer_id)
        horizon = header.base_timestamp if header.attributes & records.DELETE_HORIZON else None
        kept: list[Record] = []
        if header.last_offset >= self.start_offset and not self._was_aborted(header):
            kept = [r for r in records.records_of(data, pos, header) if self._stays(r, horizon)]
        self.records_kept += len(kept)
        self.records_dropped += header.record_count - len(kept)
        if not kept and not must_stay:
            return b""
        tombstones = any(r.value is None for r in kept)
        if len(kept) == header.record_count and (horizon is not None or not tombstones):
            return whole
        if tombstones and horizon is None:
            header = header._replace(
                attributes=header.attributes | records.DELETE_HORIZON,
                base_timestamp=self.wall_ms + self.delete_retention_ms,
            )
        if kept and not header.attributes & records.TIMESTAMP_TYPE:
            header = header._replace(max_timestamp=max(r.timestamp for r in kept))
        return records.pack(header, kept)

    def _stays(self, record: Record, horizon: int | None) -> bool:
        if record.key is None or record.offset < self._newest.get(_digest(record.key), -1):
            return False
        return record.value is not None or horizon is None or self.wall_ms < horizon


def _digest(key: bytes) -> bytes:
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()


def _batches(source: Source) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """(bytes, position in them, header) of each batch. The bytes are pieces of about a megabyte."""
    position = 0
    while position < source.size:
        data, size = _piece(source, position)
        for pos, header in records.batches(data):
            if not records.crc_is_right(data, pos, header):
                raise CorruptBatch(f"{source.file.path}: the batch at position {position + pos} is damaged")
            yield data, pos, header
        position += size


def _piece(source: Source, position: int) -> tuple[bytes, int]:
    """Complete batches from `position` on, and their size."""
    length = min(COPY_BYTES, source.size - position)
    while True:
        data = source.file.pread(length, position)
        whole = sum(header.size for _, header in records.batches(data))
        if whole:
            return data[:whole], whole
        if length >= source.size - position:
            raise CorruptBatch(f"{source.file.path}: no complete batch at position {position}")
        length = min(2 * length, source.size - position)


# -- on the log's own thread -------------------------------------------------------------------------------------------------
def plan(log_: Log, now: Now, high_watermark: int, *, force: bool = False) -> Cleaning | None:
    """A pass over `log_` if its settings require one now (`force`: if there are any dirty records), else None."""
    config = log_.config
    if not config.compacts:
        return None
    active = log_.segments[-1]
    if (
        active.size
        and active.first_timestamp >= 0
        and now.wall_ms - active.first_timestamp > config.max_compaction_lag_ms
    ):
        log_.roll(now)
    sources: list[Source] = []
    stable = log_.last_stable(high_watermark)
    dirty = total = 0
    overdue = False
    for segment, following in pairwise(log_.segments):
        if following.base_offset > stable:
            break
        if config.min_compaction_lag_ms and now.wall_ms - segment.sure_newest() < config.min_compaction_lag_ms:
            break
        sources.append(Source(segment, segment.file, segment.base_offset, following.base_offset, segment.size))
        total += segment.size
        if following.base_offset > log_.cleaner.offset:
            dirty += segment.size
            overdue = overdue or now.wall_ms - segment.max_timestamp > config.max_compaction_lag_ms
    if not dirty or not (force or overdue or dirty / total >= config.min_cleanable_ratio):
        return None
    return Cleaning(
        log_.disk,
        log_.folder,
        sources,
        log_.cleaner.offset,
        log_.start_offset,
        now.wall_ms,
        config.delete_retention_ms,
        config.segment_bytes,
        config.index_interval_bytes,
        log_.flushing.cuts,
        log_.producers.last_offsets(),
        log_.aborted.overlapping(sources[0].base, sources[-1].end),
    )


def prepare(log_: Log, done: Cleaning) -> bool:
    """Rename the new files to `.swap`, which recovery treats as complete. Returns False without changes if the log was truncated since then.

    The directory must be flushed before `finish`, because some file systems reorder renames and deletions. Raises DiskFull, DiskFailed.
    """
    if done.truncations != log_.flushing.cuts:
        discard(done)
        return False
    for group in done.groups:
        cleaned = done.folder / (group.stem + CLEANED)
        if any(s is group.sources[0].segment for s in log_.segments):
            swap = done.folder / (group.stem + SWAP)
            log_.disk.rename(cleaned, swap)
            log_.cleaner.swaps[group.sources[0].base] = swap
        else:
            log_.disk.unlink(cleaned)
    return True


def finish(log_: Log, done: Cleaning) -> bool:
    """Replace the old files by the new ones. Returns False without changes if the log was truncated since then.

    Segments that retention deleted since then stay deleted. Raises DiskFull, DiskFailed.
    """
    if done.truncations != log_.flushing.cuts:
        return False
    upto = done.upto
    for group in done.groups:
        i = next((i for i, s in enumerate(log_.segments) if s is group.sources[0].segment), -1)
        swap = log_.cleaner.swaps.pop(group.sources[0].base, None)
        if i < 0 or swap is None:
            upto = min(upto, group.sources[0].base)  # the rest of the group was not cleaned and stays dirty
            continue
        swap_in(done.folder, log_.disk, swap, group.sources[0].base, [s.base for s in group.sources])
        log_.segments_replaced(i, len(group.sources), group.result, group.sources[-1].end, group.aborted)
    log_.cleaner.record_cleaned(upto)
    log.info(
        "log compacted: partition=%s upto=%d kept=%d removed=%d",
        log_.folder.name,
        done.upto,
        done.records_kept,
        done.records_dropped,
    )
    return True


def discard(done: Cleaning) -> None:
    """Discard a pass that was not prepared."""
    for group in done.groups:
        done.disk.unlink(done.folder / (group.stem + CLEANED))


def clean(log_: Log, now: Now, high_watermark: int, *, force: bool = False) -> Cleaning | None:
    """Plan, run and finish a pass synchronously. Returns the pass, or None if there was nothing to do.

    Raises DiskFull and CorruptBatch (the log is unchanged then), DiskFailed.
    """
    job = plan(log_, now, high_watermark, force=force)
    if job is None:
        return None
    try:
        job.run()
    except (DiskFull, CorruptBatch):
        discard(job)
        raise
    if not prepare(log_, job):
        return None
    log_.disk.sync_folder(job.folder)
    return job if finish(log_, job) else None
