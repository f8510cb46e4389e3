"""The log of a partition: it is opened and closed, records are appended at its end and read.

Invariants: offsets never decrease. An append is complete or undone. Nothing is retried after a device failure. Does not contain: the parts of a log
(`log_state`), the deletion of records at its end (`truncation`) and at its start (`prefix_deletion`), replica roles, the high watermark (an
argument), waiting requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage import appending, prefix_deletion, recovery, timestamp_search, transaction_index, truncation
from brokerd.storage.appending import PlacedBatch
from brokerd.storage.disk import Disk, DiskFull
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.log_state import LogState
from brokerd.storage.producers import ACCEPTED, Accepted, Duplicate, ProducerRejected
from brokerd.storage.rolling import must_roll
from brokerd.storage.segment import Segment
from brokerd.storage.slices import NOTHING, AppendedSlice, FetchRejected, Slice
from brokerd.storage.snapshots import Snapshot
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import end_transaction_marker
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import CONTROL, BatchHeader, UnpackBudget
from brokerd.wire.steps import Steps

__all__ = ["NOTHING", "AppendedSlice", "FetchRejected", "Log", "Slice"]

log = logging.getLogger(__name__)


class Log(LogState):
    # -- opening -----------------------------------------------------------------------------------------------------------
    @staticmethod
    def open(
        folder: Path,
        config: TopicConfig,
        disk: Disk,
        now: Now,
        *,
        deep: bool = False,
        damaged: Callable[[str], None] = lambda reason: None,
    ) -> Log:
        """Open and recover: truncate a torn tail, rebuild missing files. `deep` (after a power failure) trusts only flushed data.

        `damaged` is called before a truncation that an unfinished write does not explain. Raises DiskFailed, DiskFull.
        """
        self = Log(folder, config, disk)
        recovered = recovery.recover(folder, disk, now, config.index_interval_bytes, deep=deep, damaged=damaged)
        self.segments += recovered.segments
        self.epochs, self.producers, self.snapshots = recovered.epochs, recovered.producers, recovered.snapshots
        self.aborted = recovered.aborted
        self.aborted.segments = self.segments
        self.batches_checked, self.bytes_cut = recovered.batches_checked, recovered.bytes_cut
        if not self.segments:
            self.segments.append(self.new_segment(recovered.start_offset, now))
        self.start_offset = min(recovered.start_offset, self.end_offset)
        if self.start_offset < recovered.start_offset:
            self.stored_start.lower()
        self.epochs.log_end = self.end_offset
        if recovered.state_offset > self.end_offset:
            self.epochs.truncate(self.end_offset)
            truncation.rebuild_producers(self)
            self.aborted.rebuild()
        self.epochs.drop_above(self.end_offset)
        self.epochs.raise_start(self.start_offset)
        self.cleaner.load(self.end_offset)
        self.snapshots.kept_offsets = {base} if (base := self.segments[0].base_offset) else set()
        self.flushing.begin(self.snapshots.flushed_offset, now)
        for segment in self.segments:
            segment.release()
        return self

    # -- appending ---------------------------------------------------------------------------------------------------------
    def check_producer(self, header: BatchHeader, now: Now) -> Accepted | Duplicate | ProducerRejected:
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
        Raises FetchRejected if a batch is damaged or below the log end offset.
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
        if segment.appended_keys is not None:
            segment.appended_keys.on_appended(data, start)
        for pos, header, offset in batches:
            segment.note(header, offset, start + pos)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            self.epochs.assign(epoch, offset)
            if header.producer_id >= 0:
                if header.attributes & CONTROL:
                    self._append_marker(header, offset, end_transaction_marker.marker_of(data, pos, header), now)
                else:
                    self.producers.on_appended(header, offset, now.wall_ms)
        self.written_bytes += len(data)
        self.epochs.log_end = segment.end_offset
        self.reader.on_appended(segment.end_offset, segment.size)
        if segment.size >= self.snapshot_due:
            self.set_snapshot_due()
            self.write_optional_files()

    def _restart_beyond_gap(self, base: int, now: Now) -> Segment:
        """The offset gap before a fetched batch has more than 31 bits: recreate the empty active segment with the base offset of the batch."""
        old = self.roll(now)
        segment = self.new_segment(base, now)
        self.segments.pop()
        old.remove()
        self.segments.append(segment)
        return segment

    # -- transactions ------------------------------------------------------------------------------------------------------
    def _append_marker(self, header: BatchHeader, offset: int, marker: Marker | None, now: Now) -> None:
        ended = self.producers.on_appended(header, offset, now.wall_ms, marker)
        if ended is not None and not ended.committed:
            self.aborted.add(AbortedTxn(*ended[:4]))

    def last_stable(self, high_watermark: int, begins: int | None = None) -> int:
        """The last stable offset: the first offset of an ongoing transaction, or the high watermark. `begins`: start of the local records of a log
        whose older records are on history replicas."""
        if self.producers.closing:
            self.producers.on_replicated(high_watermark)
        first = self.producers.first_unstable()
        start = self.start_offset if begins is None else begins
        return high_watermark if first is None else max(start, min(first, high_watermark))

    def bound_after(self, offset: int, region: FileRegion) -> int:
        """An offset above all records of `region`, which was read from `offset` on, and close to the last one."""
        bound = self.reader.bound_after(offset, region)
        return self.end_offset if bound is None else bound

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
        return timestamp_search.first_at(
            self.segments, timestamp, self.start_offset, upto_offset, budget or UnpackBudget.for_lookups()
        )

    def max_timestamp(self, budget: UnpackBudget | None = None) -> Steps[tuple[int, int] | None]:
        """(offset, timestamp) of the first record with the maximum timestamp. None for an empty log."""
        return timestamp_search.find_newest(self.segments, budget or UnpackBudget.for_lookups())

    # -- truncating -----------------------------------------------------------------------------------------------------------
    def forget_flushed(self, offset: int) -> bool:
        """Called before a truncation to `offset` (-1: before the log is emptied). Returns whether the directory must be flushed first."""
        return self.snapshots.forget_flushed(offset)

    def flushed_snapshots_forgotten(self) -> None:
        """The directory was flushed after `forget_flushed`. The truncation may not follow: the leader or the role may have changed."""
        self.snapshots.unsynced = False
        truncation.keep_state_of_deleted_records(self)

    def starts_within(self, data: bytes | memoryview) -> bool:
        """Return whether the log is empty and its start offset is inside the first batch of `data`."""
        empty = len(self.segments) == 1 and not self.segments[0].size
        return empty and appending.starts_below(data, self.end_offset)

    def truncate_to(self, offset: int) -> None:
        """See `truncation.truncate`."""
        truncation.truncate(self, offset)

    def reset_to(self, offset: int, now: Now | None = None) -> None:
        """Delete all records. The log continues at `offset`."""
        truncation.reset(self, offset, now)

    def start_at_snapshot(self, snapshot: Snapshot, now: Now) -> None:
        """See `truncation.start_at_snapshot`."""
        truncation.start_at_snapshot(self, snapshot, now)

    # -- deletion of old records -------------------------------------------------------------------------------------------
    def raise_start(self, offset: int) -> None:
        """See `prefix_deletion.raise_start`."""
        prefix_deletion.raise_start(self, offset)

    def delete_below(self, offset: int) -> bool:
        """See `prefix_deletion.delete_below`."""
        return prefix_deletion.delete_below(self, offset)

    def retain(self, now: Now, high_watermark: int, copied_end: int | None = None) -> list[Segment]:
        """See `prefix_deletion.retain`."""
        return prefix_deletion.retain(self, now, high_watermark, copied_end)

    def retain_as(self, offset: int, now: Now, high_watermark: int) -> bool:
        """See `prefix_deletion.retain_as`."""
        return prefix_deletion.retain_as(self, offset, now, high_watermark)

    # -- idle logs ---------------------------------------------------------------------------------------------------------
    def release_idle(self, now: Now) -> None:
        """Remove expired producers, close files and free indexes of closed segments."""
        self.producers.expire(now.wall_ms, self.producer_expiration_ms)
        self.aborted.release_idle(self.segments[-1].base_offset)
        for segment in self.segments[:-1]:
            segment.release_idle()

    # -- compaction (see `cleaner`) --------------------------------------------------------------------------------------------
    def segments_replaced(
        self, index: int, count: int, result: Segment, end_offset: int, aborted_left: list[AbortedTxn]
    ) -> None:
        """Replace `count` segments from `index` on by `result`, which has the same end offset."""
        self.aborted.drop(s.base_offset for s in self.segments[index : index + count])
        self.aborted.put(result.base_offset, aborted_left)
        for old in self.segments[index : index + count]:
            old.forget()
        result.end_offset = end_offset
        self.segments[index : index + count] = [result]
        self.try_write("index", result.save_indexes)
        self.try_write(transaction_index.SUFFIX, self.aborted.save)

    # -- closing -------------------------------------------------------------------------------------------------------------
    def flush(self, now: Now | None = None) -> None:
        """Flush synchronously, with a snapshot. Raises DiskFailed."""
        plan = self.flushing.plan(now, snapshot=True)
        if plan is not None:
            plan.run()
            self.flushing.on_finished(plan)

    def close(self) -> None:
        """Write indexes and a snapshot, so that the next start needs no scan."""
        if self.segments:
            self.write_optional_files()
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
            segment.on_moved(folder)
