"""Log recovery: decides which part of a log is trusted, checks the rest, and truncates the log at the first invalid batch.

The log is trusted up to the newest valid snapshot. After it every batch is checked, and the log is truncated at the first bad one. An
interrupted compaction is completed or discarded. After a kill -9 all written data is in the page cache, so any snapshot is valid. After a
power failure (`deep`) only a snapshot that was flushed with the log is valid. So no recovery-point checkpoint is necessary.
Does not contain replica roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.storage import delay_index, key_index, transaction_index
from brokerd.storage.disk import DISCARDED, Disk
from brokerd.storage.epochs import EpochCache
from brokerd.storage.log_start import LOG_START
from brokerd.storage.producers import Producers
from brokerd.storage.segment import IndexFileState, Segment
from brokerd.storage.snapshots import Snapshot, Snapshots
from brokerd.storage.transaction_index import AbortedTxn, TransactionIndex

log = logging.getLogger(__name__)

EPOCHS = "leader-epoch-checkpoint"
CLEANER_OFFSET = "cleaner-offset"
TAIL_START = "tail-start-offset"
"""File in the directory of an observer replica: the offset at which its log started."""
CLEANED, SWAP = ".cleaned", ".swap"
DAMAGED = ".damaged"


@dataclass(slots=True)
class Recovered:
    """The result of recovery. `bytes_cut` (truncated bytes) and `batches_checked` are used in log lines and tests."""

    snapshots: Snapshots
    aborted: TransactionIndex
    segments: list[Segment] = field(default_factory=list)
    epochs: EpochCache = field(default_factory=EpochCache)
    producers: Producers = field(default_factory=Producers)
    state_offset: int = 0
    """Offset of the epochs and producer state from the snapshot. Above the log end offset only if trusted data was damaged."""
    start_offset: int = 0
    bytes_cut: int = 0
    batches_checked: int = 0


def offsets_of_names(names: Sequence[str], suffix: str) -> list[int]:
    cut = len(suffix)
    return sorted(int(n[:-cut]) for n in names if n.endswith(suffix) and n[:-cut].isdigit())


def recover(
    folder: Path,
    disk: Disk,
    now: Now,
    interval: int,
    *,
    deep: bool,
    damaged: Callable[[str], None] = lambda reason: None,
) -> Recovered:
    """Repair the files of the partition directory and read the log. Without segments the log starts at `start_offset`.

    `damaged` is called before each truncation that may delete acknowledged records.
    """
    snapshots = Snapshots(folder, disk)
    recovered = Recovered(snapshots, TransactionIndex(folder, disk, [], snapshots))
    recovered.aborted.segments = recovered.segments
    names = finish_compaction(folder, disk, disk.listdir(folder))
    bases = offsets_of_names(names, ".log")
    snapshot = _newest_snapshot(recovered, folder, disk, names, bases, deep)
    if snapshot is not None:
        recovered.epochs.entries = snapshot.epochs
        recovered.producers = Producers.from_json(snapshot.producers, snapshot.closing)
        recovered.state_offset = snapshot.offset
    else:
        recovered.epochs.entries = (
            _epochs_of_empty_log(disk, folder) if not any(disk.size(folder / f"{b:020d}.log") for b in bases) else []
        )
    fits = recovered.aborted.adopt(names, bases, snapshot)
    for i, base in enumerate(bases):
        segment = Segment(folder, base, disk, interval, now.wall_ms)
        size = disk.size(segment.path)
        recovered.segments.append(segment)
        if snapshot is not None and base < snapshot.segment:
            if not segment.adopt(size, bases[i + 1]):
                segment.rebuild(size)
            continue
        # The position in the snapshot is valid only for the last segment, which is never compacted.
        snapshot_position = (
            snapshot.position if snapshot is not None and (base, i) == (snapshot.segment, len(bases) - 1) else 0
        )
        if snapshot_position and not segment.adopt_indexed(snapshot_position):
            segment.rebuild(snapshot_position)
        _check(recovered, segment, now)
        # A segment always ends where the next one starts, because compaction keeps its last batch. So batches that a power
        # failure lost at the end of a file are detected as a gap.
        if size > segment.size or (i + 1 < len(bases) and segment.end_offset != bases[i + 1]):
            if size <= segment.size or any(disk.size(folder / f"{b:020d}.log") for b in bases[i + 1 :]):
                damaged(f"{segment.path} has no records from offset {segment.end_offset} on")
            elif not segment.unfinished(segment.size):
                damaged(f"{segment.path} is damaged at offset {segment.end_offset}")
            _truncate_at(recovered, folder, disk, segment, size, bases[i + 1 :])
            break
    if not fits:
        recovered.aborted.rebuild(recovered.state_offset)
    _find_key_indexes(recovered.segments, folder, disk, names)
    _find_delay_indexes(recovered.segments, folder, disk, names)
    first = recovered.segments[0].base_offset if recovered.segments else 0
    recovered.start_offset = max(first, read_number(disk, folder / LOG_START))
    return recovered


def _find_key_indexes(segments: Sequence[Segment], folder: Path, disk: Disk, names: Sequence[str]) -> None:
    """Set the state of the key indexes. Only closed segments have one, and it is checked when it is used."""
    closed = {segment.base_offset: segment for segment in segments[:-1]}
    for base in offsets_of_names(names, key_index.SUFFIX):
        if base in closed:
            closed[base].key_index = IndexFileState.UNCHECKED
        else:
            disk.unlink(folder / f"{base:020d}{key_index.SUFFIX}")


def _find_delay_indexes(segments: Sequence[Segment], folder: Path, disk: Disk, names: Sequence[str]) -> None:
    """A delay index that depends on a lost part of the log is removed now: after new appends this would not be visible."""
    closed = {segment.base_offset: segment for segment in segments[:-1]}
    for base in offsets_of_names(names, delay_index.SUFFIX):
        path = folder / f"{base:020d}{delay_index.SUFFIX}"
        try:
            decided_below = delay_index.parse_header(disk.open(path).pread).decided_below
        except delay_index.InvalidDelayIndex as e:
            log.info("invalid delay index removed: path=%s error=%s", path, e)
            disk.unlink(path)
            continue
        if base in closed and decided_below <= segments[-1].end_offset:
            closed[base].delay_index, closed[base].delay_index_decided = IndexFileState.UNCHECKED, decided_below
        else:
            disk.unlink(path)


def read_number(disk: Disk, path: Path) -> int:
    """The number in a file, 0 if the file does not exist."""
    data = disk.read(path)
    return int(data) if data and data.strip().isdigit() else 0


def _check(recovered: Recovered, segment: Segment, now: Now) -> None:
    """Check the CRCs of the rest of a segment. Update epochs and producer state with the batches from `state_offset` on."""
    for at, header in segment.valid_batches(segment.size, segment.end_offset):
        segment.note(header, header.base_offset, at)
        recovered.batches_checked += 1
        if header.base_offset >= recovered.state_offset:
            recovered.epochs.assign(header.partition_leader_epoch, header.base_offset)
            marker = transaction_index.marker_at(segment, at, header)
            ended = recovered.producers.on_appended(header, header.base_offset, now.wall_ms, marker)
            if ended is not None and not ended.committed:
                recovered.aborted.add(AbortedTxn(*ended[:4]))


def _truncate_at(
    recovered: Recovered, folder: Path, disk: Disk, segment: Segment, size: int, later: Sequence[int]
) -> None:
    """Truncate the log at the end of `segment`. Later segments are renamed, not deleted, so that an operator can inspect them."""
    recovered.snapshots.drop_above(segment.end_offset)
    recovered.bytes_cut += size - segment.size
    log.warning("log truncated: path=%s end_offset=%d bytes=%d", segment.path, segment.end_offset, size - segment.size)
    for base in later:
        path = folder / f"{base:020d}.log"
        recovered.bytes_cut += disk.size(path)
        if disk.size(path):
            log.error("segment after a damaged segment renamed: path=%s suffix=%s", path, DAMAGED)
            disk.rename(path, path.with_suffix(DAMAGED))
        else:
            disk.unlink(path)
    segment.file.truncate(segment.size)


def _newest_snapshot(
    recovered: Recovered, folder: Path, disk: Disk, names: Sequence[str], bases: Sequence[int], deep: bool
) -> Snapshot | None:
    """The newest valid snapshot. Invalid ones are deleted, because they could seem valid when the log has grown."""
    newest: Snapshot | None = None
    for offset in reversed(offsets_of_names(names, ".snapshot")):
        snapshot = recovered.snapshots.read(offset)
        sound = snapshot is not None and snapshot.segment in bases and (snapshot.flushed or not deep)
        if snapshot is not None and sound and snapshot.segment == bases[-1]:
            sound = disk.size(folder / f"{snapshot.segment:020d}.log") >= snapshot.position
        if snapshot is None or not sound:
            log.info("invalid or unflushed producer snapshot deleted: path=%s", recovered.snapshots.path(offset))
            recovered.snapshots.drop(offset)
            continue
        recovered.snapshots.offsets[offset] = snapshot.flushed
        newest = newest or snapshot
    return newest


def _epochs_of_empty_log(disk: Disk, folder: Path) -> list[tuple[int, int]]:
    """The epochs from the checkpoint, for a log without batches after retention."""
    data = disk.read(folder / EPOCHS)
    try:
        return EpochCache.from_text(data.decode()) if data else []
    except ValueError as e:
        log.warning("unreadable leader epoch checkpoint ignored: path=%s error=%s", folder / EPOCHS, e)
        return []


def finish_compaction(folder: Path, disk: Disk, names: Sequence[str]) -> list[str]:
    """Complete or discard a compaction. `<base>-<end>.swap` is complete and replaces every segment with base <= its base < end; `.cleaned` is incomplete."""
    changed = False
    for name in names:
        if name.endswith((CLEANED, DISCARDED, ".tmp")):
            disk.unlink(folder / name)
            changed = True
    for name in names:
        if name.endswith(SWAP):
            first, _, end = name.removesuffix(SWAP).partition("-")
            if first.isdigit() and end.isdigit():
                swap_in(
                    folder,
                    disk,
                    folder / name,
                    int(first),
                    [b for b in offsets_of_names(names, ".log") if int(first) <= b < int(end)],
                )
                changed = True
    return disk.listdir(folder) if changed else list(names)


def swap_in(folder: Path, disk: Disk, swap: Path, base: int, replaced: Sequence[int]) -> None:
    """Replace the segments by `swap`. `swap` is authoritative as soon as it exists; every step can be repeated."""
    for old in replaced:
        for suffix in (".index", ".timeindex", transaction_index.SUFFIX, key_index.SUFFIX, delay_index.SUFFIX, ".log"):
            disk.discard(folder / f"{old:020d}{suffix}")
    disk.rename(swap, folder / f"{base:020d}.log")
