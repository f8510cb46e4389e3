"""The log of a partition: a list of segments. Records are appended at the end; both ends can be truncated.

Invariants: offsets never decrease. An append is complete or undone. Only the active segment is written. A segment starts where the previous
one ends. Nothing is retried after a device failure. Indexes and snapshots are optional: the log continues if a full disk prevents them.
Does not contain replica roles, the high watermark (an argument) or waiting requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage import aborted, appending, recovery, retention, times
from brokerd.storage.aborted import Aborted, AbortedIndex
from brokerd.storage.appending import PlacedBatch
from brokerd.storage.cleaner_state import CleanerState
from brokerd.storage.disk import Disk, DiskFull
from brokerd.storage.epochs import EpochCache
from brokerd.storage.flushing import Flushing
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.log_reader import LogReader
from brokerd.storage.log_start import StoredLogStart
from brokerd.storage.producers import ACCEPTED, EXPIRATION_MS, Accepted, Duplicate, ProducerRefused, Producers
from brokerd.storage.rolling import must_roll
from brokerd.storage.segment import Segment
from brokerd.storage.slices import NOTHING, AppendedSlice, FetchRefused, Slice
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.wire import end_transaction_marker
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import CONTROL, BatchHeader, UnpackBudget
from brokerd.wire.steps import Steps

__all__ = ["NOTHING", "AppendedSlice", "FetchRefused", "Log", "Slice"]

log = logging.getLogger(__name__)

SNAPSHOT_BYTES = 64 * 1024 * 1024
"""Bytes appended between two snapshots. Limits what recovery must check after a kill -9."""


class Log:
    def __init__(self, folder: Path, config: TopicConfig, disk: Disk) -> None:
        self.folder, self.config, self.disk = folder, config, disk
        self.segments: list[Segment] = []
        self.reader = LogReader(self.segments)
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
        self.cleaner = CleanerState(folder, disk)
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
        self.segments += found.segments
        self.epochs, self.producers, self.snapshots = found.epochs, found.producers, found.snapshots
        self.aborted = found.aborted
        self.aborted.segments = self.segments
        self.batches_checked, self.bytes_cut = found.batches_checked, found.bytes_cut
        if not self.segments:
            self.segments.append(self._new_segment(found.start_offset, now))
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
        self.cleaner.load(self.end_offset)
        self.snapshots.kept = {base} if (base := self.segments[0].base_offset) else set()
        self.flushing.begin(self.snapshots.flushed_offset, now)
        for segment in self.segments:
            segment.release()
        return self

    def _new_segment(self, base: int, now: Now) -> Segment:
        segment = Segment(self.folder, base, self.disk, self.config.index_interval_bytes, now.wall_ms)
        segment.create()
        return segment

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
        return any(s.base_offset == base_offset for s in self.segments)

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
        append_time_ms = now.wall_ms if self.config.message_timestamp_type == "LogAppendTime" else -1
        batches = appending.assign_offsets(data, headers, self.end_offset, leader_epoch, append_time_ms)
        self._write(data, batches, leader_epoch, now)
        return AppendedSlice(batches[0].base_offset, batches[-1].last_offset, append_time_ms)

    def append_fetched(self, data: memoryview, now: Now) -> AppendedSlice | None:
        """Follower: append with the leader's offsets and epochs. A partial batch at the end is ignored; the next fetch returns it.

        Offset gaps result from compaction. An empty log whose start offset is inside a batch (DeleteRecords on the leader) starts with that batch.
        Raises FetchRefused if a batch is damaged or below the log end offset.
        """
        batches, end = appending.check_fetched(
            data, self.folder.name, self.end_offset, self.epochs.latest, empty=not any(s.size for s in self.segments)
        )
        if not batches:
            return None
        if batches[0].base_offset < self.end_offset:
            self.reset_to(batches[0].base_offset, now)
        self._write(data[:end], batches, None, now)
        return AppendedSlice(batches[0].base_offset, batches[-1].last_offset)

    def _write(
        self,
        data: bytearray | memoryview,
        batches: Sequence[PlacedBatch],
        leader_epoch: int | None,
        now: Now,
    ) -> None:
        segment = self.segments[-1]
        newest = batches[-1]
        last = newest.last_offset
        if segment.size and must_roll(segment, self.config, len(data), last, newest.header.max_timestamp, now):
            segment = self.roll(now)
        if last - segment.base_offset > RELATIVE_MAX:
            segment = self._restart_beyond_gap(batches[0].base_offset, now)
        start = segment.size
        try:
            segment.file.pwrite(data, start)
        except DiskFull:
            segment.file.truncate(start)
            raise
        for pos, header, offset in batches:
            segment.note(header, offset, start + pos)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            self.epochs.assign(epoch, offset)
            if header.producer_id >= 0:
                if header.attributes & CONTROL:
                    self._append_marker(header, offset, end_transaction_marker.marker_of(data, pos, header), now)
                else:
                    self.producers.appended(header, offset, now.wall_ms)
        self.written_bytes += len(data)
        self.epochs.log_end = segment.end_offset
        self.reader.appended(segment.end_offset, segment.size)
        if segment.size >= self._snapshot_due:
            self._snapshot_due = segment.size + SNAPSHOT_BYTES
            self._write_optional_files()

    def roll(self, now: Now) -> Segment:
        """Close the active segment and create a new one at the log end offset."""
        active = self.segments[-1]
        if not active.size:
            return active
        segment = self._new_segment(self.end_offset, now)
        self._try("index", active.save_indexes)
        for closed in self.segments:
            closed.release_idle()
        self.segments.append(segment)
        self.reader.clear()
        self._snapshot_due = SNAPSHOT_BYTES
        self.try_snapshot()
        return segment

    def _restart_beyond_gap(self, base: int, now: Now) -> Segment:
        """The offset gap before a fetched batch has more than 31 bits: recreate the empty active segment with the base offset of the batch."""
        old = self.roll(now)
        segment = self._new_segment(base, now)
        self.segments.pop()
        old.remove()
        self.segments.append(segment)
        return segment

    # -- transactions ------------------------------------------------------------------------------------------------------
    def _append_marker(self, header: BatchHeader, offset: int, marker: Marker | None, now: Now) -> None:
        ended = self.producers.appended(header, offset, now.wall_ms, marker)
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
        bound = self.reader.bound_after(offset, region)
        return self.end_offset if bound is None else bound

    # -- optional files: snapshots and indexes ----------------------------------------------------------------------------------
    def _try(self, what: str, write: Callable[[], None]) -> None:
        """Write an optional file. On a full disk the next start takes longer, but the append succeeds."""
        try:
            write()
        except DiskFull as e:
            log.warning("optional log file not written partition=%s file=%s error=%s", self.folder.name, what, e)

    def _write_optional_files(self) -> None:
        self._try("index", self.segments[-1].save_indexes)
        self.try_snapshot()

    def try_snapshot(self) -> None:
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
        return self.reader.read(offset, bytes_max, upto_offset, at_least_one)

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches from the one that contains `from_offset` on."""
        return self.reader.headers(from_offset)

    def offset_for_timestamp(
        self, timestamp: int, upto_offset: int, budget: UnpackBudget | None = None
    ) -> Steps[tuple[int, int, int] | None]:
        """(offset, timestamp, leader epoch) of the first record at or after `timestamp`, below `upto_offset`."""
        return times.first_at(
            self.segments, timestamp, self.start_offset, upto_offset, budget or UnpackBudget.for_lookups()
        )

    def max_timestamp(self, budget: UnpackBudget | None = None) -> Steps[tuple[int, int] | None]:
        """(offset, timestamp) of the first record with the maximum timestamp. None for an empty log."""
        return times.newest(self.segments, budget or UnpackBudget.for_lookups())

    # -- truncating -----------------------------------------------------------------------------------------------------------
    def forget_flushed(self, offset: int) -> bool:
        """Called before a truncation to `offset` (-1: before the log is emptied). Returns whether the directory must be flushed first."""
        return self.snapshots.forget_flushed(offset)

    def starts_within(self, data: bytes | memoryview) -> bool:
        """Whether the log is empty and its start offset is inside the first batch of `data`."""
        empty = len(self.segments) == 1 and not self.segments[0].size
        return empty and appending.starts_below(data, self.end_offset)

    def truncate_to(self, offset: int) -> None:
        """Follower: delete all batches from the one that contains `offset` on. From the end backwards, so that a crash leaves a prefix."""
        if offset >= self.end_offset:
            return
        if offset < max(self.start_offset, self.segments[0].base_offset):
            self.reset_to(offset)
            return
        self.flushing.cuts += 1
        self.reader.clear()
        self.cleaner.before_truncation(offset)
        self._drop_snapshots_above(offset)
        self.aborted.cut(offset)
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
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
        last_batch_ms = {i: p.wall_ms for i, p in self.producers.known.items()}
        self.producers, since = Producers(), self.start_offset
        snapshot = next(self.snapshots.newest_first(), None)
        if snapshot is not None:
            self.producers, since = Producers.from_json(snapshot.producers, snapshot.closing), snapshot.offset
        for _, header, marker in aborted.walk(self.segments, since, self.end_offset):
            self.producers.appended(header, header.base_offset, last_batch_ms.get(header.producer_id, 0), marker)

    def reset_to(self, offset: int, now: Now | None = None) -> None:
        """Delete all records. The log continues at `offset`."""
        self.flushing.cuts += 1
        self.reader.clear()
        self.cleaner.before_truncation(0)
        self._drop_snapshots_above(-1)
        self.aborted.clear()
        while self.segments:
            self.segments.pop().remove()
        self.segments.append(self._new_segment(offset, now or Now(0, 0)))
        self._snapshot_due = SNAPSHOT_BYTES
        self.epochs.clear(offset)
        self.producers = Producers()
        self.start_offset = offset
        self.stored_start.reset()
        self._write_epochs()

    def start_at_snapshot(self, snapshot: Snapshot, now: Now) -> None:
        """Delete all records. The log continues at the offset of a snapshot of the leader (`tails`). After a crash it is empty at offset 0, or
        complete with `snapshot`: a snapshot without its segment is ignored."""
        self.reset_to(0, now)
        self.disk.replace(self.folder / recovery.TAIL_START, str(snapshot.offset).encode())
        self.snapshots.write(snapshot)
        self.segments.pop().remove()
        self.segments.append(self._new_segment(snapshot.offset, now))
        self.snapshots.kept = {snapshot.offset}
        self.epochs.entries, self.epochs.log_end = list(snapshot.epochs), snapshot.offset
        self.epochs.raise_start(snapshot.offset)
        self.producers = Producers.from_json(snapshot.producers, snapshot.closing)
        self.start_offset = snapshot.offset
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
            removed.append(self.segments.pop(0))
        if self.start_offset > self.segments[0].base_offset:
            # On a full disk the offset is not stored, and deleted records may reappear at the next start. Keeping the segments would not free any space.
            self._try("log start", self.stored_start.write)
        self.epochs.raise_start(self.start_offset)
        self.snapshots.kept = {o for o in self.snapshots.kept if o >= self.segments[0].base_offset}
        self.aborted.drop(s.base_offset for s in removed)
        for segment in removed:
            self.cleaner.segment_deleted(segment.base_offset)
            segment.remove()
        return removed

    def release_idle(self, now: Now) -> None:
        """Remove expired producers, close files and free indexes of closed segments."""
        self.producers.expire(now.wall_ms, self.producer_expiration_ms)
        self.aborted.release_idle(self.segments[-1].base_offset)
        for segment in self.segments[:-1]:
            segment.release_idle()

    def retain(self, now: Now, high_watermark: int, copied_end: int | None = None) -> list[Segment]:
        """Delete segments below the high watermark by age and size. An expired active segment is rolled first. Returns the deleted segments.
        `copied_end`: for a tiered partition, the local retention applies and only below this offset."""
        if not self.config.deletes:
            return []
        config = self.config if copied_end is None else self.config.local
        active = self.segments[-1]
        if active.size and self.end_offset <= high_watermark and retention.expired(active, config, now.wall_ms):
            self.roll(now)
        limit = high_watermark if copied_end is None else min(high_watermark, copied_end)
        upto = retention.new_start(self.segments, config, now.wall_ms, limit)
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
        self._try("index", result.save_indexes)
        self._try(aborted.SUFFIX, self.aborted.save)

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
            self._write_optional_files()
        self.close_files()

    def close_files(self) -> None:
        for segment in self.segments:
            segment.release()

    def rename(self, folder: Path) -> None:
        """Rename the directory. Raises DiskFailed."""
        self.close_files()
        self.disk.rename(self.folder, folder)
        self.folder = self.snapshots.folder = self.aborted.folder = self.cleaner.folder = folder
        for segment in self.segments:
            segment.moved(folder)
