"""Opening a log: what is trusted, what is checked, what is cut.

Laws: up to the newest usable snapshot everything is trusted, beyond it every batch is checked and the log is cut at the first bad
one; a half-done compaction is finished or thrown away, never left. A kill -9 loses nothing that was written, so any snapshot
serves; after a power cut (`deep`) only one that was flushed with the log before it. That is all a recovery-point file would tell,
so there is none. Called by `log`. Must not come in: roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.storage import aborted
from brokerd.storage.aborted import Aborted, AbortedIndex
from brokerd.storage.disk import DISCARDED, Disk
from brokerd.storage.epochs import EpochCache
from brokerd.storage.producers import Producers
from brokerd.storage.segment import Segment
from brokerd.storage.snapshots import Snapshot, Snapshots

log = logging.getLogger(__name__)

EPOCHS = "leader-epoch-checkpoint"
LOG_START = "log-start-offset"
CLEANER_OFFSET = "cleaner-offset"
TAIL_START = "tail-start-offset"
"""In the folder of a log that began in the middle of another: where."""
CLEANED, SWAP = ".cleaned", ".swap"
DAMAGED = ".damaged"


@dataclass(slots=True)
class Recovered:
    """Unusable snapshots were removed. `bytes_cut` and `batches_checked` are for the log and the tests."""

    snapshots: Snapshots
    aborted: AbortedIndex
    segments: list[Segment] = field(default_factory=list)
    epochs: EpochCache = field(default_factory=EpochCache)
    producers: Producers = field(default_factory=Producers)
    state_offset: int = 0
    """Where epochs and producers were taken over; behind the log's end only if something trusted was damaged."""
    start_offset: int = 0
    bytes_cut: int = 0
    batches_checked: int = 0


def numbered(names: Sequence[str], suffix: str) -> list[int]:
    cut = len(suffix)
    return sorted(int(n[:-cut]) for n in names if n.endswith(suffix) and n[:-cut].isdigit())


def recover(
    folder: Path, disk: Disk, now: Now, interval: int, *, deep: bool, damaged: Callable[[str], None] = lambda why: None
) -> Recovered:
    """Bring the folder into order and read what it holds. The segments may be empty: the log then begins at `start_offset`.

    `damaged` hears of each cut that may take away what was acknowledged, before the cut is made.
    """
    snapshots = Snapshots(folder, disk)
    out = Recovered(snapshots, AbortedIndex(folder, disk, [], snapshots))
    out.aborted.segments = out.segments
    names = finish_compaction(folder, disk, disk.listdir(folder))
    bases = numbered(names, ".log")
    snapshot = _newest_snapshot(out, folder, disk, names, bases, deep)
    if snapshot is not None:
        out.epochs.entries = snapshot.epochs
        out.producers = Producers.from_json(snapshot.producers, snapshot.closing)
        out.state_offset = snapshot.offset
    else:
        out.epochs.entries = _epochs_of_empty_log(disk, folder) if not any(
            disk.size(folder / f"{b:020d}.log") for b in bases
        ) else []  # fmt: skip
    fits = out.aborted.adopt(names, bases, snapshot)
    for i, base in enumerate(bases):
        segment = Segment(folder, base, disk, interval, now.wall_ms)
        size = disk.size(segment.path)
        out.segments.append(segment)
        if snapshot is not None and base < snapshot.segment:
            if not segment.adopt(size, bases[i + 1]):
                segment.rebuild(size)
            continue
        # Only the last segment was never compacted, so that a position written down earlier still holds.
        known = snapshot.position if snapshot is not None and (base, i) == (snapshot.segment, len(bases) - 1) else 0
        if known and not segment.adopt_indexed(known):
            segment.rebuild(known)
        _check(out, segment, now)
        # A segment always ends where the next one begins (compaction keeps its last batch, if need be without records): a
        # power cut that lost whole batches at a file's end shows as a hole.
        if size > segment.size or (i + 1 < len(bases) and segment.end_offset != bases[i + 1]):
            if size <= segment.size or any(disk.size(folder / f"{b:020d}.log") for b in bases[i + 1 :]):
                damaged(f"{segment.path} lacks the records from offset {segment.end_offset} on")
            elif not segment.unfinished(segment.size):
                damaged(f"{segment.path} is damaged at offset {segment.end_offset}")
            _cut(out, folder, disk, segment, size, bases[i + 1 :])
            break
    if not fits:
        out.aborted.find_anew(out.state_offset)
    first = out.segments[0].base_offset if out.segments else 0
    out.start_offset = max(first, read_number(disk, folder / LOG_START))
    return out


def read_number(disk: Disk, path: Path) -> int:
    """The number in a file of one number, 0 when there is none."""
    data = disk.read(path)
    return int(data) if data and data.strip().isdigit() else 0


def _check(out: Recovered, segment: Segment, now: Now) -> None:
    """Walk the rest of a segment with CRCs; batches from `state_offset` on tell epochs and producers."""
    for at, header in segment.verified(segment.size, segment.end_offset):
        segment.note(header, header.base_offset, at)
        out.batches_checked += 1
        if header.base_offset >= out.state_offset:
            out.epochs.assign(header.partition_leader_epoch, header.base_offset)
            said = aborted.marker_at(segment, at, header)
            ended = out.producers.appended(header, header.base_offset, now.wall_ms, said)
            if ended is not None and not ended.committed:
                out.aborted.add(Aborted(*ended[:4]))


def _cut(out: Recovered, folder: Path, disk: Disk, segment: Segment, size: int, later: Sequence[int]) -> None:
    """The log ends here. What follows in other segments is set aside rather than destroyed: an operator may want to see it."""
    out.snapshots.drop_above(segment.end_offset)
    out.bytes_cut += size - segment.size
    log.warning("%s: cut after offset %d, with %d torn bytes", segment.path, segment.end_offset, size - segment.size)
    for base in later:
        path = folder / f"{base:020d}.log"
        out.bytes_cut += disk.size(path)
        if disk.size(path):
            log.error("%s follows a damaged segment and is set aside as %s", path, DAMAGED)
            disk.rename(path, path.with_suffix(DAMAGED))
        else:
            disk.unlink(path)
    segment.file.truncate(segment.size)


def _newest_snapshot(
    out: Recovered, folder: Path, disk: Disk, names: Sequence[str], bases: Sequence[int], deep: bool
) -> Snapshot | None:
    """Unusable ones are removed: one that a later, longer log would make look usable again is a trap."""
    newest: Snapshot | None = None
    for offset in reversed(numbered(names, ".snapshot")):
        snapshot = out.snapshots.read(offset)
        sound = snapshot is not None and snapshot.segment in bases and (snapshot.flushed or not deep)
        if snapshot is not None and sound and snapshot.segment == bases[-1]:
            sound = disk.size(folder / f"{snapshot.segment:020d}.log") >= snapshot.position
        if snapshot is None or not sound:
            log.info("%s: a snapshot that cannot be trusted is not used", out.snapshots.path(offset))
            out.snapshots.drop(offset)
            continue
        out.snapshots.offsets[offset] = snapshot.flushed
        newest = newest or snapshot
    return newest


def _epochs_of_empty_log(disk: Disk, folder: Path) -> list[tuple[int, int]]:
    """A log emptied by retention has no batches to tell its last epoch."""
    data = disk.read(folder / EPOCHS)
    try:
        return EpochCache.from_text(data.decode()) if data else []
    except ValueError as e:
        log.warning("%s cannot be read: %s", folder / EPOCHS, e)
        return []


def finish_compaction(folder: Path, disk: Disk, names: Sequence[str]) -> list[str]:
    """`<base>-<end>.swap` is whole and takes the place of every segment with base <= its base < end; `.cleaned` is not whole."""
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
                    [b for b in numbered(names, ".log") if int(first) <= b < int(end)],
                )
                changed = True
    return disk.listdir(folder) if changed else list(names)


def swap_in(folder: Path, disk: Disk, swap: Path, base: int, replaced: Sequence[int]) -> None:
    """From the moment `swap` has its name it is the truth; every step may be repeated."""
    for old in replaced:
        for suffix in (".index", ".timeindex", aborted.SUFFIX, ".log"):
            disk.discard(folder / f"{old:020d}{suffix}")
    disk.rename(swap, folder / f"{base:020d}.log")
