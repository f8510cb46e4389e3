"""The log of a partition: a list of segments. Records are appended at the end; both ends can be truncated.

Invariants: offsets never decrease. An append is complete or undone. Only the active segment is written. A segment starts where the previous
one ends. Nothing is retried after a device failure. Indexes and snapshots are optional: the log continues if a full disk prevents them.
Does not contain replica roles, the high watermark (an argument) or waiting requests.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage import aborted, recovery, retention, times
from brokerd.storage.aborted import Aborted, AbortedIndex
from brokerd.storage.disk import Disk, DiskFull
from brokerd.storage.epochs import EpochCache
from brokerd.storage.flushing import Flushing
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.log_start import StoredLogStart
from brokerd.storage.producers import ACCEPTED, EXPIRATION_MS, Accepted, Duplicate, ProducerRefused, Producers
from brokerd.storage.rolling import must_roll
from brokerd.storage.segment import Segment
from brokerd.storage.slices import NOTHING, AppendedSlice, FetchRefused, Slice
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import CONTROL, BatchHeader, UnpackBudget
from brokerd.wire.steps import Steps

__all__ = ["NOTHING", "AppendedSlice", "FetchRefused", "Log", "Slice"]

log = logging.getLogger(__name__)

EDGES_MAX = 32
"""Number of cached ends of appends. Consumers at the log end and high watermarks are usually at one of them and need no index search."""
SNAPSHOT_BYTES = 64 * 1024 * 1024
"""Bytes appended between two snapshots. Limits what recovery must check after a kill -9."""


class Log:
    def __init__(self, folder: Path, config: TopicConfig, disk: Disk) -> None:
        self.folder, self.config, self.disk = folder, config, disk
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.epochs = EpochCache()
        self.producers = Producers()
        self.producer_expiration_ms = EXPIRATION_MS
        self.start_offset = 0
        self.flushing = Flushing(self)
        self.stored_start = StoredLogStart(self)
        self.snapshots = Snapshots(folder, disk)
        self.aborted = AbortedIndex(folder, disk, self.segments, self.snapshots)
        self.batches_checked = self.bytes_cut = 0
        """Result of recovery: number of batches whose CRC was checked, number of truncated bytes."""
        self.written_bytes = 0
        """Bytes appended since the log was opened. Truncation and retention do not decrease it."""
        self.cleaned_offset = 0
        """All records below this offset are compacted."""
        self.swaps: dict[int, Path] = {}
        """Compacted files that will replace segments, by base offset. Recovery would complete the replacement."""
        self._edges: dict[int, int] = {}
        self._snapshot_due = SNAPSHOT_BYTES

    # -- opening -----------------------------------------------------------------------------------------------------------
    @staticmethod
    def open(
        folder: Path,
        config: TopicConfig,
        disk: Disk,
        now: Now,
        *,
        deep: bool = False,
        damaged: Callable[[str], None] = lambda why: None,
    ) -> Log:
        """Open and recover: truncate a torn tail, rebuild missing files. `deep` (after a power failure) trusts only flushed data.

        `damaged` is called before a truncation that an unfinished write does not explain. Raises DiskFailed, DiskFull.
        """
        self = Log(folder, config, disk)
        found = recovery.recover(folder, disk, now, config.index_interval_bytes, deep=deep, damaged=damaged)
        for segment in found.segments:
            self._attach(segment)
        self.epochs, self.producers, self.snapshots = found.epochs, found.producers, found.snapshots
        self.aborted = found.aborted
        self.aborted.segments = self.segments
        self.batches_checked, self.bytes_cut = found.batches_checked, found.bytes_cut
        if not self.segments:
            self._attach(self._new_segment(found.start_offset, now))
        self.start_offset = min(found.start_offset, self.end_offset)
        if self.start_offset < found.start_offset:
            self.stored_start.lower()
        self.epochs.log_end = self.end_offset
        if found.state_offset > self.end_offset:
            self.epochs.truncate(self.end_offset)
            self._rebuild_producers()
            self.aborted.rebuild()
        self.epochs.drop_above(self.end_offset)
        self.epochs.raise_start(self.start_offset)
        self.cleaned_offset = recovery.read_number(disk, folder / recovery.CLEANER_OFFSET)
        self._not_clean_above(self.end_offset)
        self.snapshots.kept = {base} if (base := self.segments[0].base_offset) else set()
        self.flushing.begin(self.snapshots.flushed_offset, now)
        for segment in self.segments:
            segment.release()
        return self

    def _new_segment(self, base: int, now: Now) -> Segment:
        segment = Segment(self.folder, base, self.disk, self.config.index_interval_bytes, now.wall_ms)
        segment.create()
        return segment

    def _attach(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    # -- figures -----------------------------------------------------------------------------------------------------------
    @property
    def end_offset(self) -> int:
        # No segment: creating the first segment of a reset log failed. The replica is offline until the log is opened again.
        return self.segments[-1].end_offset if self.segments else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        return sum(s.size for s in self.segments)

    def has_segment(self, base_offset: int) -> bool:
        return base_offset in self._bases

    # -- appending ---------------------------------------------------------------------------------------------------------
    def check_producer(self, header: BatchHeader, now: Now) -> Accepted | Duplicate | ProducerRefused:
        return self.producers.check(header) if header.producer_id >= 0 else ACCEPTED

    def append(
        self,
        data: bytearray | memoryview,
        headers: Sequence[tuple[int, BatchHeader]],
        leader_epoch: int,
        now: Now,
    ) -> AppendedSlice:
        """Leader: assign offsets and leader epoch, write them into `data` (checked by `records.check`) and append it.

        Raises DiskFull (nothing is written), DiskFailed.
        """
        offset = base = self.end_offset
        append_time = now.wall_ms if self.config.message_timestamp_type == "LogAppendTime" else -1
        stamped: list[tuple[int, BatchHeader, int]] = []
        for pos, header in headers:
            records.stamp(data, pos, offset, leader_epoch)
            if append_time >= 0:
                records.stamp_append_time(data, pos, header, append_time)
                header = header._replace(max_timestamp=append_time)
            stamped.append((pos, header, offset))
            offset += header.last_offset_delta + 1
        self._write(data, stamped, leader_epoch, now)
        return AppendedSlice(base, offset - 1, append_time)

    def append_fetched(self, data: memoryview, now: Now) -> AppendedSlice | None:
        """Follower: append with the leader's offsets and epochs. A partial batch at the end is ignored; the next fetch returns it.

        Offset gaps result from compaction. An empty log whose start offset is inside a batch (DeleteRecords on the leader) starts with that batch.
        Raises FetchRefused if a batch is damaged or below the log end offset.
        """
        stamped: list[tuple[int, BatchHeader, int]] = []
        offset, end, epoch = self.end_offset, 0, self.epochs.latest
        for pos, header in records.batches(data):
            if not stamped and header.base_offset < offset <= header.last_offset and not self.size_bytes:
                offset = header.base_offset
            if header.base_offset < offset or header.last_offset_delta < 0:
                raise FetchRefused(
                    f"{self.folder.name}: fetched offset {header.base_offset} is below the log end offset {offset}"
                )
            if header.partition_leader_epoch < epoch:
                raise FetchRefused(
                    f"{self.folder.name}: fetched epoch {header.partition_leader_epoch} follows epoch {epoch}"
                )
            if header.magic != records.MAGIC or not records.crc_is_right(data, pos, header):
                raise FetchRefused(f"{self.folder.name}: the fetched batch at offset {header.base_offset} is damaged")
            stamped.append((pos, header, header.base_offset))
            offset, end, epoch = header.next_offset, pos + header.size, header.partition_leader_epoch
        if not stamped:
            return None
        if stamped[0][2] < self.end_offset:
            self.reset_to(stamped[0][2], now)
        self._write(data[:end], stamped, None, now)
        return AppendedSlice(stamped[0][2], offset - 1)

    def _write(
        self,
        data: bytearray | memoryview,
        stamped: Sequence[tuple[int, BatchHeader, int]],
        leader_epoch: int | None,
        now: Now,
    ) -> None:
        segment = self.segments[-1]
        _, newest, last = stamped[-1]
        last += newest.last_offset_delta
        if segment.size and must_roll(segment, self.config, len(data), last, newest.max_timestamp, now):
            segment = self.roll(now)
        if last - segment.base_offset > RELATIVE_MAX:
            segment = self._restart_beyond_gap(stamped[0][2], now)
        start = segment.size
        try:
            segment.file.pwrite(data, start)
        except DiskFull:
            segment.file.truncate(start)
            raise
        for pos, header, offset in stamped:
            segment.note(header, offset, start + pos)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            self.epochs.assign(epoch, offset)
            if header.producer_id >= 0:
                if header.attributes & CONTROL:
                    self._note_marker(header, offset, end_transaction_marker.marker_of(data, pos, header), now)
                else:
                    self.producers.appended(header, offset, now.wall_ms)
        self.written_bytes += len(data)
        self.epochs.log_end = segment.end_offset
        edges = self._edges
        edges[segment.end_offset] = segment.size
        if len(edges) > EDGES_MAX:
            del edges[next(iter(edges))]
        if segment.size >= self._snapshot_due:
            self._snapshot_due = segment.size + SNAPSHOT_BYTES
            self._leave_shortcuts()

    def roll(self, now: Now) -> Segment:
        """Close the active segment and create a new one at the log end offset."""
        active = self.segments[-1]
        if not active.size:
            return active
        segment = self._new_segment(self.end_offset, now)
        self._try("index", active.save_indexes)
        for closed in self.segments:
            closed.rest()
        self._attach(segment)
        self._edges.clear()
        self._snapshot_due = SNAPSHOT_BYTES
        self.leave_snapshot()
        return segment

    def _restart_beyond_gap(self, base: int, now: Now) -> Segment:
        """The offset gap before a fetched batch has more than 31 bits: recreate the empty active segment with the base offset of the batch."""
        old = self.roll(now)
        segment = self._new_segment(base, now)
        self.segments.pop()
        self._bases.pop()
        old.remove()
        self._attach(segment)
        return segment

    # -- transactions ------------------------------------------------------------------------------------------------------
    def _note_marker(self, header: BatchHeader, offset: int, said: Marker | None, now: Now) -> None:
        ended = self.producers.appended(header, offset, now.wall_ms, said)
        if ended is not None and not ended.committed:
            self.aborted.add(Aborted(*ended[:4]))

    def last_stable(self, high_watermark: int, begins: int | None = None) -> int:
        """The last stable offset: the first offset of an ongoing transaction, or the high watermark. `begins`: start of the local records of a log
        whose older records are on history replicas."""
        if self.producers.closing:
            self.producers.replicated(high_watermark)
        first = self.producers.first_unstable()
        start = self.start_offset if begins is None else begins
        return high_watermark if first is None else max(start, min(first, high_watermark))

    def bound_after(self, offset: int, region: FileRegion) -> int:
        """An offset above all records of `region`, which was read from `offset` on, and close to the last one."""
        for segment in self.segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            if segment.file is region.file:
                return segment.bound_after(region.position + region.length)
        return self.end_offset

    # -- shortcuts: snapshots and indexes ----------------------------------------------------------------------------------
    def _try(self, what: str, write: Callable[[], None]) -> None:
        """Write an optional file. On a full disk the next start takes longer, but the append succeeds."""
        try:
            write()
        except DiskFull as e:
            log.warning("optional log file not written partition=%s file=%s error=%s", self.folder.name, what, e)

    def _leave_shortcuts(self) -> None:
        self._try("index", self.segments[-1].save_indexes)
        self.leave_snapshot()

    def leave_snapshot(self) -> None:
        self._try("snapshot", self._write_snapshot)

    def snapshot(self, *, flushed: bool) -> Snapshot:
        active = self.segments[-1]
        self._try(aborted.SUFFIX, self.aborted.save)
        return Snapshot(
            self.end_offset,
            active.base_offset,
            active.size,
            flushed,
            list(self.epochs.entries),
            self.producers.to_json(),
            [list(c) for c in self.producers.closing],
            self.aborted.to_json(),
        )

    def _write_snapshot(self) -> None:
        if self.end_offset not in self.snapshots.offsets:
            self._write_epochs()
            self.snapshots.write(self.snapshot(flushed=False))

    def _write_epochs(self) -> None:
        self.disk.replace(self.folder / recovery.EPOCHS, self.epochs.to_text().encode())

    def _drop_snapshots_above(self, offset: int) -> None:
        self.snapshots.drop_above(offset)
        self.flushing.cut(offset)

    # -- reading -----------------------------------------------------------------------------------------------------------
    def read(self, offset: int, bytes_max: int, upto_offset: int, at_least_one: bool = True) -> Slice:
        """Complete batches from the one that contains `offset`, below `upto_offset`. `at_least_one`: one batch even if it is above `bytes_max`.

        Batches of one segment only; the next read continues in the next segment. Raises DiskFailed.
        """
        segment = self.segments[-1]
        if offset >= upto_offset or offset >= segment.end_offset:
            return NOTHING
        start = self._edges.get(offset, -1)
        if start >= 0:
            end = self._edges.get(upto_offset, -1)
            if end < start or end - start > bytes_max:
                end = segment.end_of_range(start, bytes_max, upto_offset, at_least_one)
        else:
            i = max(0, bisect_right(self._bases, offset) - 1)
            segment = self.segments[i]
            start = segment.position_of(offset)
            while start >= segment.size and i + 1 < len(self.segments):
                i += 1
                segment = self.segments[i]
                start = segment.position_of(offset)
            end = segment.end_of_range(start, bytes_max, upto_offset, at_least_one)
        if end <= start:
            return NOTHING
        return Slice((segment.region(start, end),))

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches from the one that contains `from_offset` on."""
        for segment in self.segments[max(0, bisect_right(self._bases, from_offset) - 1) :]:
            for _, header in segment.headers(segment.position_of(from_offset)):
                yield header

    def offset_for_timestamp(
        self, timestamp: int, upto_offset: int, room: UnpackBudget | None = None
    ) -> Steps[tuple[int, int, int] | None]:
        """(offset, timestamp, leader epoch) of the first record at or after `timestamp`, below `upto_offset`."""
        return times.first_at(
            self.segments, timestamp, self.start_offset, upto_offset, room or UnpackBudget.for_lookups()
        )

    def max_timestamp(self, room: UnpackBudget | None = None) -> Steps[tuple[int, int] | None]:
        """(offset, timestamp) of the first record with the maximum timestamp. None for an empty log."""
        return times.newest(self.segments, room or UnpackBudget.for_lookups())

    # -- truncating -----------------------------------------------------------------------------------------------------------
    def forget_flushed(self, offset: int) -> bool:
        """Called before a truncation to `offset` (-1: before the log is emptied). Returns whether the directory must be flushed first."""
        return self.snapshots.forget_flushed(offset)

    def starts_within(self, data: bytes | memoryview) -> bool:
        """Whether the log is empty and its start offset is inside the first batch of `data`."""
        if len(self.segments) != 1 or self.segments[0].size or len(data) < records.HEADER_BYTES:
            return False
        first = records.peek(data)
        return first.base_offset < self.end_offset <= first.last_offset

    def drop_swaps(self) -> None:
        """Called before the log is truncated, because compacted files contain records that will be deleted."""
        for swap in self.swaps.values():
            self.disk.unlink(swap)
        self.swaps.clear()

    def truncate_to(self, offset: int) -> None:
        """Follower: delete all batches from the one that contains `offset` on. From the end backwards, so that a crash leaves a prefix."""
        if offset >= self.end_offset:
            return
        if offset < max(self.start_offset, self.segments[0].base_offset):
            self.reset_to(offset)
            return
        self.flushing.cuts += 1
        self._edges.clear()
        self.drop_swaps()
        self._not_clean_above(offset)
        self._drop_snapshots_above(offset)
        self.aborted.cut(offset)
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._bases.pop()
            self.segments.pop().remove()
        active = self.segments[-1]
        active.truncate(offset)
        self._snapshot_due = active.size + SNAPSHOT_BYTES
        # A batch that contains `offset` was deleted as well.
        self._drop_snapshots_above(self.end_offset)
        if active.size:
            # The truncation is not flushed. After a power failure the deleted records could be back, before the first batch of the next segment.
            self.flushing.cut(self.end_offset - 1)
        if self.end_offset < self.start_offset:
            self.reset_to(offset)  # the batch that contained the log start offset is deleted
            return
        self.epochs.truncate(self.end_offset)
        self._rebuild_producers()
        if self.end_offset == self.start_offset:
            self._write_epochs()  # no batch is left that would contradict an older checkpoint

    def _rebuild_producers(self) -> None:
        """Rebuild from the newest remaining snapshot and the batch headers after it. Producers keep the time of their last batch."""
        heard = {i: p.wall_ms for i, p in self.producers.known.items()}
        self.producers, since = Producers(), self.start_offset
        snapshot = next(self.snapshots.newest_first(), None)
        if snapshot is not None:
            self.producers, since = Producers.from_json(snapshot.producers, snapshot.closing), snapshot.offset
        for _, header, said in aborted.walk(self.segments, since, self.end_offset):
            self.producers.appended(header, header.base_offset, heard.get(header.producer_id, 0), said)

    def reset_to(self, offset: int, now: Now | None = None) -> None:
        """Delete all records. The log continues at `offset`."""
        self.flushing.cuts += 1
        self._edges.clear()
        self.drop_swaps()
        self._not_clean_above(0)
        self._drop_snapshots_above(-1)
        self.aborted.clear()
        while self.segments:
            self.segments.pop().remove()
        self._bases.clear()
        self._attach(self._new_segment(offset, now or Now(0, 0)))
        self._snapshot_due = SNAPSHOT_BYTES
        self.epochs.clear(offset)
        self.producers = Producers()
        self.start_offset = offset
        self.stored_start.reset()
        self._write_epochs()

    def begin_with(self, known: Snapshot, now: Now) -> None:
        """Delete all records. The log continues at the offset of a snapshot of the leader (`tails`). After a crash it is empty at offset 0, or
        complete with `known`: a snapshot without its segment is ignored."""
        self.reset_to(0, now)
        self.disk.replace(self.folder / recovery.TAIL_START, str(known.offset).encode())
        self.snapshots.write(known)
        self.segments.pop().remove()
        self._bases.clear()
        self._attach(self._new_segment(known.offset, now))
        self.snapshots.kept = {known.offset}
        self.epochs.entries, self.epochs.log_end = list(known.epochs), known.offset
        self.epochs.raise_start(known.offset)
        self.producers = Producers.from_json(known.producers, known.closing)
        self.start_offset = known.offset
        self._write_epochs()

    def raise_start(self, offset: int) -> None:
        """Increase the log start offset (DeleteRecords, or a follower that follows its leader)."""
        if offset <= self.start_offset:
            return
        self.start_offset = min(offset, self.end_offset)
        self._start_raised()

    def delete_below(self, offset: int) -> bool:
        """Increase the log start offset because a client deleted the records below. Returns whether `stored_start` must be flushed for it."""
        before = self.start_offset
        self.raise_start(offset)
        return self.stored_start.request(before)

    def _start_raised(self) -> list[Segment]:
        """Store the new log start offset, then delete the segments below it, oldest first."""
        removed = []
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.start_offset:
            self._bases.pop(0)
            removed.append(self.segments.pop(0))
        if self.start_offset > self.segments[0].base_offset:
            # On a full disk the offset is not stored, and deleted records may reappear at the next start. Keeping the segments would not free any space.
            self._try("log start", self.stored_start.write)
        self.epochs.raise_start(self.start_offset)
        self.snapshots.kept = {o for o in self.snapshots.kept if o >= self.segments[0].base_offset}
        self.aborted.drop(s.base_offset for s in removed)
        for segment in removed:
            if (swap := self.swaps.pop(segment.base_offset, None)) is not None:
                self.disk.unlink(swap)
            segment.remove()
        return removed

    def rest(self, now: Now) -> None:
        """Remove expired producers, close files and free indexes of closed segments."""
        self.producers.expire(now.wall_ms, self.producer_expiration_ms)
        self.aborted.rest(self.segments[-1].base_offset)
        for segment in self.segments[:-1]:
            segment.rest()

    def retain(self, now: Now, high_watermark: int) -> list[Segment]:
        """Delete segments below the high watermark by age and size. An expired active segment is rolled first. Returns the deleted segments."""
        if not self.config.deletes:
            return []
        active = self.segments[-1]
        if active.size and self.end_offset <= high_watermark and retention.expired(active, self.config, now.wall_ms):
            self.roll(now)
        upto = retention.new_start(self.segments, self.config, now.wall_ms, high_watermark)
        if upto <= self.start_offset:
            return []
        self.start_offset = upto
        removed = self._start_raised()
        log.info(
            "retention deleted segments partition=%s count=%d log_start_offset=%d", self.folder.name, len(removed), upto
        )
        return removed

    def retain_as(self, offset: int, now: Now, high_watermark: int) -> bool:
        """Follow the log start offset of a follower after retention there, if retention allows it here too. Segments of replicas may end at
        different offsets. Returns whether the log start offset has changed."""
        if not self.config.deletes or not self.start_offset < offset <= high_watermark:
            return False
        if not retention.allows(self.segments, self.config, now.wall_ms, offset):
            return False
        self.raise_start(offset)
        log.info("retention follows a follower partition=%s log_start_offset=%d", self.folder.name, offset)
        return True

    # -- compaction (see `cleaner`) --------------------------------------------------------------------------------------------
    def segments_replaced(
        self, index: int, count: int, result: Segment, end_offset: int, aborted_left: list[Aborted]
    ) -> None:
        """Replace `count` segments from `index` on by `result`, which has the same end offset."""
        self.aborted.drop(s.base_offset for s in self.segments[index : index + count])
        self.aborted.put(result.base_offset, aborted_left)
        for old in self.segments[index : index + count]:
            old.forget()
        result.end_offset = end_offset
        self.segments[index : index + count] = [result]
        self._bases[index : index + count] = [result.base_offset]
        self._try("index", result.save_indexes)
        self._try(aborted.SUFFIX, self.aborted.save)

    def note_cleaned(self, offset: int) -> None:
        self.cleaned_offset = offset
        self._try(
            "cleaner's offset", lambda: self.disk.replace(self.folder / recovery.CLEANER_OFFSET, str(offset).encode())
        )

    def _not_clean_above(self, offset: int) -> None:
        """Called before the log is truncated. Otherwise a later tombstone could be taken for one whose older records are already removed."""
        if self.cleaned_offset > offset:
            self.disk.unlink(self.folder / recovery.CLEANER_OFFSET)
            self.cleaned_offset = 0

    # -- closing -------------------------------------------------------------------------------------------------------------
    def flush(self, now: Now | None = None) -> None:
        """Flush synchronously, with a snapshot. Raises DiskFailed."""
        plan = self.flushing.plan(now, snapshot=True)
        if plan is not None:
            plan.run()
            self.flushing.finished(plan)

    def close(self) -> None:
        """Write indexes and a snapshot, so that the next start needs no scan."""
        if self.segments:
            self._leave_shortcuts()
        self.close_files()

    def close_files(self) -> None:
        for segment in self.segments:
            segment.release()

    def rename(self, folder: Path) -> None:
        """Rename the directory. Raises DiskFailed."""
        self.close_files()
        self.disk.rename(self.folder, folder)
        self.folder = self.snapshots.folder = self.aborted.folder = folder
        for segment in self.segments:
            segment.moved(folder)
