"""Reads a partition's folder aloud: `python -m brokerd.storage.dump [--records] FOLDER`.

Law: it looks and changes nothing, so it may be pointed at a running broker's folder; what does not fit together is said, and the
exit status is then 1. Must not come in: recovery, repair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from brokerd.storage import checkpoints
from brokerd.storage.disk import Disk, DiskFailed, OsDisk
from brokerd.storage.index import OFFSET_ENTRY, TIME_ENTRY
from brokerd.storage.recovery import CLEANER_OFFSET, EPOCHS, LOG_START, numbered
from brokerd.storage.snapshots import Snapshots
from brokerd.wire import records
from brokerd.wire.records import HEADER_BYTES, BatchHeader

COMPLAINT = "!! "


def lines(folder: Path, disk: Disk, *, with_records: bool = False) -> Iterator[str]:
    """The folder's story, line by line; complaints begin with `!! `."""
    names = disk.listdir(folder)
    yield f"{folder}"
    topic_id = checkpoints.read_partition_metadata(disk, folder)
    yield f"  topic id {topic_id}" if topic_id else "  no partition.metadata"
    for name in (LOG_START, CLEANER_OFFSET):
        data = disk.read(folder / name)
        if data is not None:
            yield f"  {name} {data.decode('utf-8', 'replace').strip()}"
    data = disk.read(folder / EPOCHS)
    if data is not None:
        text = data.decode("utf-8", "replace").split("\n")[2:]
        yield f"  {EPOCHS} (epoch, first offset): " + ", ".join(f"({line})" for line in text if line)
    snapshots = Snapshots(folder, disk)
    for offset in numbered(names, ".snapshot"):
        snapshot = snapshots.read(offset)
        if snapshot is None:
            yield f"{COMPLAINT}snapshot {offset} cannot be read"
        else:
            flushed = ", flushed" if snapshot.flushed else ""
            yield (
                f"  snapshot {offset}: segment {snapshot.segment} position {snapshot.position}{flushed}, "
                f"{len(snapshot.producers)} producers"
            )
    expected: int | None = None
    for base in numbered(names, ".log"):
        if expected is not None and base != expected:
            yield f"{COMPLAINT}the segment before ends at {expected}, this one begins at {base}"
        for line, end in _segment(folder / f"{base:020d}.log", base, disk, with_records):
            expected = end
            yield line


def _segment(path: Path, base: int, disk: Disk, with_records: bool) -> Iterator[tuple[str, int]]:
    """(line, the offset reached)."""
    size = disk.size(path)
    file = disk.open(path)
    yield f"  {path.name}, {size} bytes", base
    edges: dict[int, int] = {}
    newest, position, offset = -1, 0, base
    while position < size:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            yield f"{COMPLAINT}{len(head)} bytes at position {position} are no batch", offset
            break
        header = records.peek(head)
        data = file.pread(header.size, position) if 0 < header.size <= size - position else b""
        if len(data) < HEADER_BYTES:
            yield (
                f"{COMPLAINT}the batch at position {position} is torn: {header.size} bytes where {size - position} are",
                offset,
            )
            break
        yield "    " + _batch(position, header), header.next_offset
        if not records.crc_is_right(data, 0, header):
            yield f"{COMPLAINT}the CRC of the batch at position {position} is wrong", header.next_offset
        elif with_records:
            for record in records.iterate(data):
                yield f"      {record.offset} {record.timestamp} {record.key!r} {record.value!r} {list(record.headers) or ''}", header.next_offset  # fmt: skip
        if header.base_offset < offset:
            yield f"{COMPLAINT}offset {header.base_offset} follows {offset - 1}", header.next_offset
        edges[header.base_offset] = position
        newest = max(newest, header.max_timestamp)
        offset, position = header.next_offset, position + header.size
    for line in _indexes(path, base, disk, edges, newest):
        yield line, offset


def _batch(position: int, h: BatchHeader) -> str:
    words = [
        f"@{position}", f"offsets {h.base_offset}..{h.last_offset}", f"{h.record_count} records", f"{h.size} bytes",
        f"epoch {h.partition_leader_epoch}", f"times {h.base_timestamp}..{h.max_timestamp}",
        records.COMPRESSION_NAMES.get(h.compression, f"compression {h.compression}"),
    ]  # fmt: skip
    if h.producer_id >= 0:
        words.append(f"producer {h.producer_id} epoch {h.producer_epoch} sequence {h.base_sequence}")
    words += [word for word, given in (("transactional", h.is_transactional), ("control", h.is_control)) if given]
    if h.attributes & records.DELETE_HORIZON:
        words.append("tombstones with a horizon")
    return ", ".join(words)


def _indexes(path: Path, base: int, disk: Disk, edges: dict[int, int], newest: int) -> Iterator[str]:
    data = disk.read(path.with_suffix(".index"))
    if data is not None:
        entries = list(OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]))
        yield f"    index: {len(entries)} entries"
        for relative, position in entries:
            if edges.get(base + relative) != position:
                yield f"{COMPLAINT}index entry ({base + relative}, @{position}) names no batch"
    data = disk.read(path.with_suffix(".timeindex"))
    if data is not None:
        times = list(TIME_ENTRY.iter_unpack(data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]))
        yield f"    time index: {len(times)} entries" + (f", newest {times[-1][0]}" if times else "")
        if times and times[-1][0] > newest:
            yield f"{COMPLAINT}time index entry {times[-1][0]} is newer than every record"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m brokerd.storage.dump", description="Read a partition's folder aloud."
    )
    parser.add_argument("folder", type=Path, help="a partition's folder, <topic>-<partition>")
    parser.add_argument("--records", action="store_true", help="unpack and print every record")
    given = parser.parse_args(arguments)
    status = 0
    try:
        for line in lines(given.folder, OsDisk(), with_records=given.records):
            print(line)
            status = status or int(line.startswith(COMPLAINT))
    except DiskFailed as e:
        print(f"{e}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
