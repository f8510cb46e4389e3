"""Compaction: of each key the newest record stays, in closed segments in which every transaction is decided.

Laws: offsets stay as they are; a tombstone stays readable for `delete.retention.ms` after the pass that removed what it deletes
(the time is written into its batch, KIP-534); the last batch of a rewritten file and the last of each live producer stay, if need
be without records, so that ends and sequences are not forgotten; files change places so that a crash at any step leaves one whole
truth (`.cleaned` -> `.swap` -> `.log`, see `recovery`). Records without a key go. What was aborted goes, and hides nothing. A marker
stays while a pass meets a batch of its transaction, and then for `delete.retention.ms` more: a slow reader may hold what it decides;
an entry of the .txnindex stays exactly as long as its marker, or later records of that producer would pass for aborted.

`plan` and `finish` belong to the log's thread; `Cleaning.run` (or `steps`, in slices) touches nothing of the log and may run on
another. Must not come in: when to look (the broker's upkeep).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.storage.aborted import Aborted
from brokerd.storage.disk import Disk, DiskFull, File
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.log import Log
from brokerd.storage.recovery import CLEANED, SWAP, swap_in
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, CorruptBatch, Record

log = logging.getLogger(__name__)

KEYS_MAX = 1_000_000
"""Keys held in memory in one pass (about 100 MB); what lies beyond waits for the next pass."""
DIGEST_BYTES = 16
"""A longer key is remembered by its digest: keys may be large, and a clash of 128 bits is not met."""
COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to be rewritten, as it was when the pass was planned. Its file stays readable if retention removes it."""

    segment: Segment
    file: File
    base: int
    end: int
    size: int


@dataclass(slots=True)
class Group:
    """Neighbours that become one file."""

    sources: list[Source]
    result: Segment
    aborted: list[Aborted] = field(default_factory=list)

    @property
    def stem(self) -> str:
        return f"{self.sources[0].base:020d}-{self.sources[-1].end:020d}"


@dataclass(slots=True)
class Cleaning:
    """One pass. Counts are for the broker's log and the tests."""

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
    aborted: list[Aborted]
    groups: list[Group] = field(default_factory=list)
    upto: int = 0
    """Everything below this offset is clean when the pass is finished."""
    records_kept: int = 0
    records_dropped: int = 0
    _newest: dict[bytes, int] = field(default_factory=dict)
    _aborted: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """{producer id: (first offsets, last offsets)} of its aborted transactions, growing."""
    _entries: dict[int, list[Aborted]] = field(default_factory=dict)
    """{offset of a marker: its entry}."""
    _met: set[int] = field(default_factory=set)
    """Producers of which a batch was met since their last marker."""

    def run(self) -> None:
        """Raises DiskFull, DiskFailed, CorruptBatch; nothing of the log has changed then."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """The same in slices of about a megabyte read."""
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
                self.groups.append(Group([source], Segment(self.folder, source.base, self.disk, self.interval)))
                size = source.size
            else:
                group.append(source)
                size += source.size

    # -- second pass: write what stays ---------------------------------------------------------------------------------------
    def _rewrite(self, group: Group) -> Iterator[None]:
        path = self.folder / (group.stem + CLEANED)
        file = self.disk.open(path, create=True)
        file.truncate(0)
        out = bytearray()
        result = group.result
        # Each batch waits for the next, so that the last one is known when its turn comes.
        waiting: tuple[bytes, int, BatchHeader] | None = None
        for item in chain.from_iterable(_batches(source) for source in group.sources):
            if waiting is not None:
                out += self._into(group, *waiting)
            waiting = item
            if len(out) >= COPY_BYTES:
                file.pwrite(out, result.size - len(out))
                out.clear()
            if not item[1]:
                yield
        if waiting is not None:
            out += self._into(group, *waiting, must_stay=True)
        if out:
            file.pwrite(out, result.size - len(out))
        file.fsync()

    def _into(self, group: Group, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool = False) -> bytes:
        must_stay = must_stay or self.last_of_producer.get(header.producer_id) == header.last_offset
        if header.is_control:
            batch = self._marker(group, data, pos, header, must_stay=must_stay)
        else:
            batch = self._thinned(data, pos, header, must_stay=must_stay)
        if batch:
            group.result.note(records.peek(batch), header.base_offset, group.result.size)
        return batch

    def _marker(self, group: Group, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool) -> bytes:
        """What stays of a control batch."""
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

    def _thinned(self, data: bytes, pos: int, header: BatchHeader, *, must_stay: bool) -> bytes:
        """What stays of a batch; nothing when it may go altogether."""
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
    """(bytes, position in them, header) of each batch; a new piece of about a megabyte begins at position 0."""
    position = 0
    while position < source.size:
        data, size = _piece(source, position)
        for pos, header in records.batches(data):
            if not records.crc_is_right(data, pos, header):
                raise CorruptBatch(f"{source.file.path}: the batch at position {position + pos} is damaged")
            yield data, pos, header
        position += size


def _piece(source: Source, position: int) -> tuple[bytes, int]:
    """Whole batches from `position` on, and their bytes."""
    length = min(COPY_BYTES, source.size - position)
    while True:
        data = source.file.pread(length, position)
        whole = sum(header.size for _, header in records.batches(data))
        if whole:
            return data[:whole], whole
        if length >= source.size - position:
            raise CorruptBatch(f"{source.file.path}: no whole batch at position {position}")
        length = min(2 * length, source.size - position)


# -- on the log's own thread -------------------------------------------------------------------------------------------------
def plan(log_: Log, now: Now, high_watermark: int, *, force: bool = False) -> Cleaning | None:
    """A pass over `log_` if its settings ask for one now (`force`: if there is anything dirty at all)."""
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
        if following.base_offset > log_.cleaned_offset:
            dirty += segment.size
            overdue = overdue or now.wall_ms - segment.max_timestamp > config.max_compaction_lag_ms
    if not dirty or not (force or overdue or dirty / total >= config.min_cleanable_ratio):
        return None
    return Cleaning(
        log_.disk, log_.folder, sources, log_.cleaned_offset, log_.start_offset, now.wall_ms, config.delete_retention_ms,
        config.segment_bytes, config.index_interval_bytes, log_.flushing.cuts, log_.producers.last_offsets(),
        log_.aborted.between(sources[0].base, sources[-1].end),
    )  # fmt: skip


def finish(log_: Log, done: Cleaning) -> bool:
    """Put the new files in the old ones' places. False, and nothing changes, when the log was cut meanwhile.

    Segments that retention removed meanwhile stay removed. Raises DiskFull, DiskFailed.
    """
    if done.truncations != log_.flushing.cuts:
        discard(done)
        return False
    upto = done.upto
    for group in done.groups:
        cleaned = done.folder / (group.stem + CLEANED)
        i = next((i for i, s in enumerate(log_.segments) if s is group.sources[0].segment), -1)
        if i < 0:
            # What is left of it was not thinned, so it stays dirty.
            log_.disk.unlink(cleaned)
            upto = min(upto, group.sources[0].base)
            continue
        swap = done.folder / (group.stem + SWAP)
        log_.disk.rename(cleaned, swap)
        log_.disk.sync_folder(done.folder)  # for file systems that do not keep the order of renames and removals
        swap_in(done.folder, log_.disk, swap, group.sources[0].base, [s.base for s in group.sources])
        log_.segments_replaced(i, len(group.sources), group.result, group.sources[-1].end, group.aborted)
    log_.note_cleaned(upto)
    log.info(
        "%s: compacted up to %d, %d records kept, %d dropped",
        log_.folder.name, done.upto, done.records_kept, done.records_dropped,
    )  # fmt: skip
    return True


def discard(done: Cleaning) -> None:
    """Throw a pass away."""
    for group in done.groups:
        done.disk.unlink(done.folder / (group.stem + CLEANED))


def clean(log_: Log, now: Now, high_watermark: int, *, force: bool = False) -> Cleaning | None:
    """Plan, run and finish here and now; the pass, or None when there was nothing to do.

    Raises DiskFull and CorruptBatch (the log is as before), DiskFailed.
    """
    job = plan(log_, now, high_watermark, force=force)
    if job is None:
        return None
    try:
        job.run()
    except (DiskFull, CorruptBatch):
        discard(job)
        raise
    return job if finish(log_, job) else None


def dirty_bytes(segments: Sequence[Segment], cleaned_offset: int) -> int:
    """Bytes that the next pass would look at first, for figures."""
    return sum(s.size for s in segments[:-1] if s.end_offset > cleaned_offset)
