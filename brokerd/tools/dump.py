"""Prints the contents of a broker's files: `python -m brokerd.tools.dump [--records] PATH`. PATH is a partition folder, a log directory, or a
file in them.

Read-only, so the tool may run on a running broker's folder. Inconsistencies are printed. The exit status is 1 if there are any, and 2 if PATH
cannot be read or is not a file of a broker. Does not contain: recovery, repair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from brokerd.cluster.partition_names import split_partition_name
from brokerd.coordinator.classic import records as group_records
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import records as consumer_records
from brokerd.coordinator.transactions import records as transaction_records
from brokerd.storage import checkpoints, delay_index, key_index, transaction_index
from brokerd.storage.disk import DISCARDED, Disk, DiskFailed
from brokerd.storage.index import OFFSET_ENTRY, TIME_ENTRY
from brokerd.storage.log_start import LOG_START
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.recovery import CLEANED, CLEANER_OFFSET, DAMAGED, EPOCHS, SWAP, offsets_of_names
from brokerd.tools import dump_files
from brokerd.tools.dump_files import COMPLAINT
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.compression import COMPRESSION_NAMES
from brokerd.wire.records import HEADER_BYTES, BatchHeader, Record

LEFT_BEHIND = {
    CLEANED: "from an unfinished compaction; the next start removes it",
    SWAP: "from a finished compaction; the next start renames it",
    DAMAGED: "followed a damaged segment; kept for inspection",
    DISCARDED: "discarded; the next start removes it",
    ".tmp": "partly written; the next start removes it",
}


def partition(folder: Path, disk: Disk, *, with_records: bool = False) -> Iterator[str]:
    """The contents of a partition folder, line by line. Lines of problems begin with `COMPLAINT`."""
    names = disk.listdir(folder)
    yield f"{folder}"
    for name in (checkpoints.PARTITION_METADATA, LOG_START, CLEANER_OFFSET, EPOCHS):
        data = disk.read(folder / name)
        if data is None:
            if name == checkpoints.PARTITION_METADATA:
                yield "  no partition.metadata"
            continue
        for line in dump_files.READERS[name](data):
            yield line if line.startswith(COMPLAINT) else f"  {name}{line[1:]}"
    for offset in offsets_of_names(names, ".snapshot"):
        for line in dump_files.snapshot(disk.read(folder / f"{offset:020d}.snapshot") or b""):
            yield (
                f"{COMPLAINT}snapshot {offset}: {line[len(COMPLAINT) :]}"
                if line.startswith(COMPLAINT)
                else (f"  snapshot{line[1:]}" if line.startswith("  before") else f"  {line}")
            )
    topic = _topic_of(folder)
    expected: int | None = None
    for base in offsets_of_names(names, ".log"):
        if expected is not None and base != expected:
            yield f"{COMPLAINT}the previous segment ends at {expected}, this one starts at {base}"
        for line, end in _segment(folder / f"{base:020d}.log", base, disk, with_records, topic):
            expected = end
            yield line
    for name in names:
        if name.endswith((CLEANED, SWAP, DAMAGED, DISCARDED, ".tmp")):
            yield f"  {name}, {disk.size(folder / name)} bytes: {LEFT_BEHIND[name[name.rindex('.') :]]}"


def _topic_of(folder: Path) -> str:
    """The topic of the directory of a partition; empty for another directory."""
    name = split_partition_name(folder.name)
    return "" if name is None else name[0]


def directory(folder: Path, disk: Disk) -> Iterator[str]:
    """A log directory: its broker, and a line for each folder in it."""
    yield f"{folder}"
    for name in ("meta.properties", ".kafka_cleanshutdown", checkpoints.HIGH_WATERMARKS):
        data = disk.read(folder / name)
        yield f"  {name}:" if data is not None else f"  no {name}"
        for line in dump_files.READERS[name](data) if data is not None else ():
            yield line if line.startswith(COMPLAINT) else f"  {line}"
    for name in disk.listdir(folder):
        if disk.isdir(folder / name):
            inside = disk.listdir(folder / name)
            size = sum(disk.size(folder / name / f"{base:020d}.log") for base in offsets_of_names(inside, ".log"))
            topic_id = checkpoints.read_partition_metadata(disk, folder / name)
            yield f"  {name}: {len(offsets_of_names(inside, '.log'))} segments, {size} bytes, topic id {topic_id}"


def file(path: Path, disk: Disk, *, with_records: bool = False) -> Iterator[str]:
    """A single file, by its name."""
    yield f"{path}"
    if path.name[:-4].isdigit() and path.suffix == ".log":
        topic = _topic_of(path.resolve().parent)
        for line, _ in _segment(path, int(path.stem), disk, with_records, topic):
            yield line
        return
    listed = dump_files.lines(path, disk.read(path) or b"")
    if listed is None:
        raise DiskFailed(f"{path} is not a broker's file: segments, indexes, snapshots, checkpoints, meta.properties")
    yield from listed


def lines(path: Path, disk: Disk, *, with_records: bool = False) -> Iterator[str]:
    """The contents of `path`. Raises DiskFailed when it cannot be read or does not belong to a broker."""
    if not disk.isdir(path):
        if disk.size(path) < 0:
            raise DiskFailed(f"{path} does not exist")
        yield from file(path, disk, with_records=with_records)
        return
    names = disk.listdir(path)
    if checkpoints.PARTITION_METADATA in names or offsets_of_names(names, ".log"):
        yield from partition(path, disk, with_records=with_records)
    elif "meta.properties" in names or checkpoints.HIGH_WATERMARKS in names:
        yield from directory(path, disk)
    else:
        raise DiskFailed(f"{path} is neither a partition folder nor a log directory")


def _segment(path: Path, base: int, disk: Disk, with_records: bool, topic: str) -> Iterator[tuple[str, int]]:
    """(line, offset after the last batch so far) for each line."""
    size = disk.size(path)
    file = disk.open(path)
    yield f"  {path.name}, {size} bytes", base
    edges: dict[int, int] = {}
    newest, position, offset = -1, 0, base
    while position < size:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            yield f"{COMPLAINT}{len(head)} bytes at position {position} are not a batch", offset
            break
        header = records.peek(head)
        data = file.pread(header.size, position) if 0 < header.size <= size - position else b""
        if len(data) < HEADER_BYTES:
            yield (
                f"{COMPLAINT}the batch at position {position} is incomplete: {header.size} bytes expected, {size - position} present",
                offset,
            )
            break
        yield "    " + _batch(position, header, data), header.next_offset
        if not records.crc_is_right(data, 0, header):
            yield f"{COMPLAINT}the CRC of the batch at position {position} is wrong", header.next_offset
        elif with_records:
            try:
                for record in records.iterate(data):
                    yield f"      {_record(record, topic, header.is_control)}", header.next_offset
            except records.CorruptBatch as e:
                yield f"{COMPLAINT}the batch at position {position} cannot be decompressed: {e}", header.next_offset
        if header.base_offset < offset:
            yield f"{COMPLAINT}offset {header.base_offset} follows {offset - 1}", header.next_offset
        edges[header.base_offset] = position
        newest = max(newest, header.max_timestamp)
        offset, position = header.next_offset, position + header.size
    for line in _indexes(path, base, disk, edges, newest):
        yield line, offset


def _record(r: Record, topic: str, control: bool) -> str:
    if control or topic not in RECORD_TEXTS:
        text = f"{r.key!r} {r.value!r}"
    else:
        text = RECORD_TEXTS[topic](r)
    return f"{r.offset} {r.timestamp} {text}" + (f" {list(r.headers)}" if r.headers else "")


def _apply_group_record(record: Record) -> str:
    """A record of a consumer group (KIP-848)."""
    group_id, fact, name = consumer_records.read_key(record.key or b"")
    about = f"group {group_id!r}, {fact.name.lower() if fact is not None else 'topics'}" + (
        f" of {name!r}" if name else ""
    )
    if record.value is None:
        return f"{about}: tombstone"
    return f"{about}: {consumer_records.read_value(fact, record.value) if fact is not None else record.value!r}"


def _describe_group_record(record: Record) -> str:
    """A record of __consumer_offsets in Kafka's formats."""
    try:
        if int.from_bytes((record.key or b"")[:2], "big") in consumer_records.KEY_TYPES:
            return _apply_group_record(record)
        key = group_records.read_key(record.key or b"")
        if key.topic is not None:
            where = f"group {key.group_id!r}, {key.topic}-{key.partition}"
            if record.value is None:
                return f"{where}: tombstone"
            o = group_records.read_offset(record.value)
            epoch = f", leader epoch {o.leader_epoch}" if o.leader_epoch >= 0 else ""
            more = f", {o.metadata!r}" if o.metadata else ""
            return f"{where}: committed {o.offset}{epoch}{more}, at {o.commit_wall_ms}"
        if record.value is None:
            return f"group {key.group_id!r}: tombstone"
        group = Group(key.group_id)
        group_records.read_group(group, record.value)
    except ValueError as e:
        return f"{record.key!r} {record.value!r} (unread: {e})"
    members = ", ".join(
        f"{m.member_id} of {m.client_id!r} on {m.client_host}"
        + (f", static {m.instance_id!r}" if m.instance_id else "")
        for m in group.members.values()
    )
    about = (
        f"generation {group.generation}, {group.protocol_type or 'no protocol type'}, {group.protocol or 'no protocol'}"
    )
    return f"group {key.group_id!r}: {about}, leader {group.leader}, {len(group.members)} members" + (
        f": {members}" if members else ""
    )


def _transaction(record: Record) -> str:
    """A record of __transaction_state in Kafka's formats."""
    try:
        name = transaction_records.read_key(record.key or b"")
        if record.value is None:
            return f"transactional id {name!r}: tombstone"
        t = transaction_records.read_value(record.value)
    except ValueError as e:
        return f"{record.key!r} {record.value!r} (unread: {e})"
    touched = ", ".join(f"{topic}-{index}" for topic, index in sorted(t.partitions))
    return (
        f"transactional id {name!r}: {t.state.value}, producer {t.producer_id} epoch {t.epoch}, time-out {t.timeout_ms} ms"
        + (f", since {t.started_wall_ms}" if t.started_wall_ms >= 0 else "")
        + (f": {touched}" if touched else "")
    )


RECORD_TEXTS = {GROUP_OFFSETS_TOPIC: _describe_group_record, TRANSACTION_STATE_TOPIC: _transaction}


def _batch(position: int, header: BatchHeader, data: bytes) -> str:
    words = [
        f"@{position}",
        f"offsets {header.base_offset}..{header.last_offset}",
        f"{header.record_count} records",
        f"{header.size} bytes",
        f"epoch {header.partition_leader_epoch}",
        f"times {header.base_timestamp}..{header.max_timestamp}",
        COMPRESSION_NAMES.get(header.compression, f"compression {header.compression}"),
    ]
    if header.producer_id >= 0:
        words.append(f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}")
    words += ["transactional"] * header.is_transactional
    if header.is_control:
        try:
            marker = end_transaction_marker.marker_of(data, 0, header)
        except records.CorruptBatch:
            marker = None
        words.append(
            f"{'COMMIT' if marker.commit else 'ABORT'} by coordinator epoch {marker.coordinator_epoch}"
            if marker
            else "control"
        )
    if header.attributes & records.DELETE_HORIZON:
        words.append("tombstones with a horizon")
    return ", ".join(words)


def _indexes(path: Path, base: int, disk: Disk, edges: dict[int, int], newest: int) -> Iterator[str]:
    data = disk.read(path.with_suffix(".index"))
    if data is not None:
        entries = list(OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]))
        yield f"    index: {len(entries)} entries"
        for relative, position in entries:
            if edges.get(base + relative) != position:
                yield f"{COMPLAINT}index entry ({base + relative}, @{position}) does not point to a batch"
    data = disk.read(path.with_suffix(".timeindex"))
    if data is not None:
        times = list(TIME_ENTRY.iter_unpack(data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]))
        yield f"    time index: {len(times)} entries" + (f", newest {times[-1][0]}" if times else "")
        if times and times[-1][0] > newest:
            yield f"{COMPLAINT}time index entry {times[-1][0]} is newer than every record"
    data = disk.read(path.with_suffix(transaction_index.SUFFIX))
    if data is not None:
        for line in dump_files.aborted_index(data, base):
            yield line if line.startswith(COMPLAINT) else f"    aborted transactions:{line[1:]}"
    data = disk.read(path.with_suffix(key_index.SUFFIX))
    if data is not None:
        for line in dump_files.key_index_file(data):
            yield line if line.startswith(COMPLAINT) else f"    key index:{line[1:]}"
    data = disk.read(path.with_suffix(delay_index.SUFFIX))
    if data is not None:
        for line in dump_files.delay_index_file(data):
            yield line if line.startswith(COMPLAINT) else f"    delay index:{line[1:]}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m brokerd.tools.dump", description="Print the contents of a broker's files. Read-only."
    )
    parser.add_argument("path", type=Path, help="a partition folder, a log directory, or a file in them")
    parser.add_argument(
        "--records", action="store_true", help="unpack and print every record (of internal topics: decoded)"
    )
    given = parser.parse_args(arguments)
    status = 0
    try:
        for line in lines(given.path, OsDisk(), with_records=given.records):
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
