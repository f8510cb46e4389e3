"""A partition's log: segments in order, appended at the end, cut at either end.

Laws: offsets never go back; a write is whole or taken back; the active segment alone is written; after a failure of the device
nothing is retried. Called by `partitions` and the doors (reads). Must not come in: roles, high watermarks (told), waiters.

Snapshots (`<end offset>.snapshot`, JSON: segment, position, epochs, producers) are this project's own format; they are only a
shortcut for recovery and are rebuilt from the segments when missing.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.epochs import EpochCache
from brokerd.storage.producers import ACCEPTED, Accepted, Duplicate, Producers, Refused
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.framing import FileRegion
from brokerd.wire.records import BatchHeader

log = logging.getLogger(__name__)

READ_HINTS_MAX = 64
"""Remembered (offset -> position) pairs: the next fetch of a tail reader starts where its last one ended."""
LOG_START = "log-start-offset"


@dataclass(frozen=True, slots=True)
class Appended:
    base_offset: int
    last_offset: int
    log_append_time: int = -1


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches, as regions of files."""

    regions: tuple[FileRegion, ...]

    def bytes(self) -> bytes:
        import os

        return b"".join(os.pread(r.fd, r.length, r.position) for r in self.regions)


NOTHING = Slice(())


class Log:
    def __init__(self, folder: Path, config: TopicConfig, disk: Disk) -> None:
        self.folder, self.config, self.disk = folder, config, disk
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.epochs = EpochCache()
        self.producers = Producers()
        self.start_offset = 0
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.truncations = 0

    # -- opening -------------------------------------------------------------------------------------------------------
    @staticmethod
    def open(folder: Path, config: TopicConfig, disk: Disk, now: Now, *, deep: bool = False) -> Log:
        """Open and recover: cut a torn tail, rebuild what is missing. `deep` trusts no snapshot and checks every batch."""
        self = Log(folder, config, disk)
        names = disk.listdir(folder)
        bases = sorted(int(n[:-4]) for n in names if n.endswith(".log") and n[:-4].isdigit())
        snapshot = None if deep else self._newest_snapshot(names, bases)
        if snapshot is not None:
            self.epochs.entries = [(e, o) for e, o in snapshot["epochs"]]
            self.producers = Producers.from_json(snapshot["producers"])
        for i, base in enumerate(bases):
            segment = Segment(folder, base, disk, config.index_interval_bytes)
            segment.created_wall_ms = now.wall_ms
            if snapshot is not None and base < snapshot["segment"]:
                size = segment.file.size()
                if not segment.load_indexes(size):
                    segment.rebuild(size)
                self._attach(segment)
                continue
            start = 0
            if snapshot is not None and base == snapshot["segment"]:
                start = snapshot["position"]
                if start and not segment.load_indexes(start):
                    segment.rebuild(start)
            for position, header in segment.verified(start, segment.end_offset):
                segment.note(header, header.base_offset, position)
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                self.producers.appended(header, header.base_offset)
            self._attach(segment)
            torn = segment.file.size() - segment.size
            if torn:
                log.warning("%s: cut %d bytes of a torn tail after offset %d", segment.path, torn, segment.end_offset)
                segment.file.truncate(segment.size)
                later = bases[i + 1 :]
                for lost in later:
                    log.error("%s: segment %d follows a damaged one and is set aside", folder, lost)
                    path = folder / f"{lost:020d}.log"
                    disk.rename(path, path.with_suffix(".damaged"))
                break
        stored = disk.read(folder / LOG_START)
        first = self.segments[0].base_offset if self.segments else 0
        start_offset = int(stored) if stored and stored.strip().isdigit() else first
        if not self.segments:
            self._attach(self._new_segment(start_offset, now))
        self.start_offset = min(max(start_offset, self.segments[0].base_offset), self.end_offset)
        self.epochs.log_end = self.end_offset
        self.epochs.raise_start(self.start_offset)
        return self

    def _newest_snapshot(self, names: Sequence[str], bases: Sequence[int]) -> dict[str, Any] | None:
        for offset in sorted(
            (int(n[:-9]) for n in names if n.endswith(".snapshot") and n[:-9].isdigit()), reverse=True
        ):
            data = self.disk.read(self.folder / f"{offset:020d}.snapshot")
            try:
                snapshot: dict[str, Any] = json.loads(data or b"")
                base = snapshot["segment"]
                if base in bases and self.disk.open(self.folder / f"{base:020d}.log").size() >= snapshot["position"]:
                    return snapshot
            except (ValueError, KeyError, TypeError):
                log.warning("%s: snapshot %d cannot be read; an older one or the segments serve", self.folder, offset)
        return None

    def _write_snapshot(self) -> None:
        """Only the newest two are kept; what they say can be read from the segments again."""
        active = self.segments[-1]
        body = {
            "segment": active.base_offset, "position": active.size, "epochs": self.epochs.entries,
            "producers": self.producers.to_json(),
        }  # fmt: skip
        self.disk.replace(self.folder / f"{self.end_offset:020d}.snapshot", json.dumps(body).encode())
        self._drop_snapshots(keep=2)

    def _drop_snapshots(self, *, keep: int, above: int | None = None) -> None:
        found = sorted(int(n[:-9]) for n in self.disk.listdir(self.folder) if n.endswith(".snapshot"))
        drop = found[:-keep] if keep else found
        if above is not None:
            drop = [o for o in found if o > above]
        for offset in drop:
            self.disk.unlink(self.folder / f"{offset:020d}.snapshot")

    def _new_segment(self, base: int, now: Now) -> Segment:
        segment = Segment(self.folder, base, self.disk, self.config.index_interval_bytes)
        segment.created_wall_ms = now.wall_ms
        segment.file.truncate(0)
        return segment

    def _attach(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    # -- reading figures -------------------------------------------------------------------------------------------------
    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset

    @property
    def last_epoch(self) -> int:
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        return sum(s.size for s in self.segments)

    def check_producer(self, header: BatchHeader, now: Now) -> Accepted | Duplicate | Refused:
        return self.producers.check(header) if header.producer_id >= 0 else ACCEPTED

    # -- appending -------------------------------------------------------------------------------------------------------
    def append(
        self, data: bytearray | memoryview, headers: Sequence[tuple[int, BatchHeader]], leader_epoch: int, now: Now
    ) -> Appended:
        """Leader: give offsets and epoch, stamped into `data`, and write once. Raises DiskFull, DiskFailed."""
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
        return Appended(base, offset - 1, append_time)

    def append_fetched(self, data: memoryview, now: Now) -> Appended | None:
        """Follower: offsets and epochs as the leader gave them. A partial batch at the end is left for the next fetch.

        Raises DiskFailed when a batch is damaged or does not follow the log's end: never written over.
        """
        stamped: list[tuple[int, BatchHeader, int]] = []
        offset, end = self.end_offset, 0
        for pos, header in records.batches(data):
            if header.base_offset < offset:
                raise DiskFailed(f"fetched offset {header.base_offset} lies below the log's end {offset}")
            if not records.crc_is_right(data, pos, header):
                raise DiskFailed(f"a fetched batch at offset {header.base_offset} is damaged")
            stamped.append((pos, header, header.base_offset))
            offset, end = header.next_offset, pos + header.size
        if not stamped:
            return None
        first = self.end_offset
        # Batches of several epochs may come in one answer; each opens its epoch.
        self._write(data[:end], stamped, None, now)
        return Appended(first, offset - 1)

    def _write(
        self,
        data: bytearray | memoryview,
        stamped: Sequence[tuple[int, BatchHeader, int]],
        leader_epoch: int | None,
        now: Now,
    ) -> None:
        segment = self.segments[-1]
        if segment.size and self._must_roll(segment, len(data), stamped[-1][2], now):
            segment = self.roll(now, stamped[0][2])
        elif not segment.size and stamped[0][2] > segment.end_offset:
            # A follower whose leader's log begins with a gap: the segment is named after its first record.
            segment = self.roll(now, stamped[0][2])
        start = segment.size
        try:
            segment.file.pwrite(data, start)
        except (DiskFull, DiskFailed):
            segment.file.truncate(start)
            raise
        for pos, header, offset in stamped:
            segment.note(header, offset, start + pos)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            self.epochs.assign(epoch, offset)
            self.producers.appended(header, offset)
        self.epochs.log_end = segment.end_offset

    def _must_roll(self, segment: Segment, incoming: int, last_offset: int, now: Now) -> bool:
        return (
            segment.size + incoming > self.config.segment_bytes
            or now.wall_ms - segment.created_wall_ms > self.config.segment_ms
            or last_offset - segment.base_offset > 2**31 - 1
        )

    def roll(self, now: Now, base: int | None = None) -> Segment:
        """Close the active segment and begin a new one at the log's end (or at `base`, beyond a gap)."""
        active = self.segments[-1]
        base = self.end_offset if base is None else base
        if active.size:
            active.write_indexes()
        else:
            self.segments.pop()
            self._bases.pop()
            active.remove()
        segment = self._new_segment(base, now)
        self._attach(segment)
        self._write_snapshot()
        return segment

    # -- reading -----------------------------------------------------------------------------------------------------------
    def read(self, offset: int, bytes_max: int, upto_offset: int, at_least_one: bool = True) -> Slice:
        """Whole batches from the one that contains `offset`, below `upto_offset`; one even above `bytes_max` if asked."""
        if offset >= upto_offset or offset >= self.end_offset:
            return NOTHING
        hint = self._hints.get(offset)
        if hint is not None and hint[1] < hint[0].size:
            segment, start = hint
        else:
            i = max(0, bisect_right(self._bases, offset) - 1)
            start = self.segments[i].position_of(offset)
            while start >= self.segments[i].size and i + 1 < len(self.segments):
                i += 1
                start = self.segments[i].position_of(offset)
            segment = self.segments[i]
        end = segment.end_of_range(start, bytes_max, upto_offset, at_least_one)
        if end <= start:
            return NOTHING
        if end == segment.size:
            self._remember(segment.end_offset, segment, end)
        return Slice((segment.region(start, end),))

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self._hints) >= READ_HINTS_MAX:
            self._hints.clear()
        if segment is self.segments[-1]:
            self._hints[offset] = (segment, position)

    def offset_for_timestamp(self, timestamp: int, upto_offset: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record at or after `timestamp`, below `upto_offset`."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp:
                continue
            for position, header in segment.headers(segment.floor_by_time(timestamp)):
                if header.max_timestamp < timestamp or header.last_offset < self.start_offset:
                    continue
                if header.base_offset >= upto_offset:
                    return None
                data = segment.file.pread(header.size, position)
                for record in records.iterate(data):
                    if record.timestamp >= timestamp and record.offset >= self.start_offset:
                        if record.offset >= upto_offset:
                            return None
                        return record.offset, record.timestamp, header.partition_leader_epoch
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the newest timestamp, at batch granularity."""
        best = max(self.segments, key=lambda s: s.max_timestamp)
        return (best.max_timestamp_offset, best.max_timestamp) if best.max_timestamp >= 0 else None

    # -- cutting -----------------------------------------------------------------------------------------------------------
    def truncate_to(self, offset: int) -> None:
        """Follower: drop everything from `offset` on (whole batches)."""
        if offset >= self.end_offset:
            return
        self.truncations += 1
        self._hints.clear()
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._bases.pop()
            self.segments.pop().remove()
        self.segments[-1].truncate(offset)
        self.epochs.truncate(self.end_offset)
        self.producers.truncate(self.end_offset)
        self._drop_snapshots(keep=2, above=self.end_offset)

    def reset_to(self, offset: int, now: Now | None = None) -> None:
        """Empty the log and begin anew at `offset`."""
        self._hints.clear()
        for segment in self.segments:
            segment.remove()
        self.segments, self._bases = [], []
        self._drop_snapshots(keep=0)
        self._attach(self._new_segment(offset, now or Now(0, 0)))
        self.epochs.clear(offset)
        self.producers = Producers()
        self.start_offset = offset
        self._store_start()

    def raise_start(self, offset: int) -> None:
        """Records below `offset` are no more (DeleteRecords, or a follower told by its leader)."""
        if offset <= self.start_offset:
            return
        self.start_offset = min(offset, self.end_offset)
        self._store_start()
        self.epochs.raise_start(self.start_offset)
        self._remove_below_start()

    def _store_start(self) -> None:
        self.disk.replace(self.folder / LOG_START, str(self.start_offset).encode())

    def _remove_below_start(self) -> list[Segment]:
        removed = []
        while len(self.segments) > 1 and self.segments[0].end_offset <= self.start_offset:
            self._bases.pop(0)
            segment = self.segments.pop(0)
            segment.remove()
            removed.append(segment)
        if removed:
            self._hints.clear()
        return removed

    def retain(self, now: Now, high_watermark: int) -> list[Segment]:
        """Retention by time and size of closed segments below the high watermark; an expired active one is rolled first."""
        if not self.config.deletes:
            return []
        active = self.segments[-1]
        horizon = now.wall_ms - self.config.retention_ms if self.config.retention_ms >= 0 else None
        if (
            horizon is not None
            and active.size
            and 0 <= active.max_timestamp < horizon
            and self.end_offset <= high_watermark
        ):
            self.roll(now)
        upto = self.start_offset
        total = self.size_bytes
        for segment in self.segments[:-1]:
            if segment.end_offset > high_watermark:
                break
            old = horizon is not None and segment.max_timestamp < horizon
            large = self.config.retention_bytes >= 0 and total - segment.size >= self.config.retention_bytes
            if not (old or large):
                break
            total -= segment.size
            upto = segment.end_offset
        if upto <= self.start_offset:
            return []
        self.start_offset = upto
        self._store_start()
        self.epochs.raise_start(upto)
        removed = self._remove_below_start()
        log.info("%s: %d segments removed by retention, the log starts at %d", self.folder.name, len(removed), upto)
        return removed

    # -- closing -----------------------------------------------------------------------------------------------------------
    def flush(self) -> None:
        self.segments[-1].file.fsync()

    def close(self) -> None:
        """Write indexes and a snapshot, so that the next opening need not scan."""
        if self.segments[-1].size:
            self.segments[-1].write_indexes()
        self._write_snapshot()
        for segment in self.segments:
            segment.close()

    def delete(self) -> None:
        for segment in self.segments:
            segment.close()
        target = self.folder.with_name(self.folder.name + "-delete")
        self.disk.rmtree(target)
        self.disk.rename(self.folder, target)
        self.disk.rmtree(target)
