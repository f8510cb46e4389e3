"""Prints a broker's small files by their names: checkpoints, snapshots, single indexes, `meta.properties`.

A line with a problem begins with `COMPLAINT`. Invalid bytes raise nothing. Does not write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from brokerd.storage import checkpoints, delay_index, key_index, transaction_index
from brokerd.storage.epochs import EpochCache
from brokerd.storage.index import OFFSET_ENTRY, TIME_ENTRY
from brokerd.storage.log_start import LOG_START
from brokerd.storage.producers import Producers
from brokerd.storage.recovery import CLEANER_OFFSET, EPOCHS
from brokerd.storage.snapshots import Snapshot

COMPLAINT = "!! "
META_NAMES = ("broker.id", "broker.uuid", "cluster.id", "directory.id", "directory.ids", "boot.id", "tail.intact")
Lines = Iterator[str]


def number(data: bytes) -> Lines:
    text = data.decode("utf-8", "replace").strip()
    yield f"  {int(text)}" if text.isdigit() else f"{COMPLAINT}{text!r} is not a number"


def epochs(data: bytes) -> Lines:
    try:
        entries = EpochCache.from_text(data.decode())
    except ValueError as e:
        yield f"{COMPLAINT}not a leader epoch checkpoint: {e}"
        return
    yield f"  {len(entries)} epochs (epoch, first offset): " + ", ".join(f"({e} {o})" for e, o in entries)


def offsets(data: bytes) -> Lines:
    try:
        found = checkpoints.parse_offsets(data)
    except (ValueError, IndexError) as e:
        yield f"{COMPLAINT}not an offset checkpoint: {e}"
        return
    yield f"  {len(found)} partitions"
    for (topic, partition), offset in sorted(found.items()):
        yield f"  {topic}-{partition} {offset}"


def properties(data: bytes) -> Lines:
    found = set()
    for line in data.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not line.startswith("#"):
            found.add(name.strip())
            yield f"  {name.strip()} = {value.strip()}" if equals else f"{COMPLAINT}{line!r} is not name=value"
    missing = [name for name in META_NAMES if name not in found]
    if missing:
        yield f"{COMPLAINT}missing: {', '.join(missing)}"


def partition_metadata(data: bytes) -> Lines:
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line)
    try:
        yield f"  version {fields['version']}, topic id {UUID(fields['topic_id'])}"
    except (KeyError, ValueError):
        yield f"{COMPLAINT}no topic id"


def clean_shutdown(data: bytes) -> Lines:
    try:
        yield f"  stopped cleanly, incarnation {json.loads(data)['incarnation']}"
    except (ValueError, KeyError, TypeError):
        yield f"{COMPLAINT}not a clean shutdown marker"


def snapshot(data: bytes) -> Lines:
    try:
        found = Snapshot.from_bytes(data)
        producers = Producers.from_json(found.producers)
    except (ValueError, KeyError, TypeError, IndexError) as e:
        yield f"{COMPLAINT}invalid snapshot: {e}"
        return
    flushed = "flushed with the log before it" if found.flushed else "not flushed"
    yield f"  before offset {found.offset}: segment {found.segment} position {found.position}, {flushed}"
    yield "  epochs (epoch, first offset): " + ", ".join(f"({e} {o})" for e, o in found.epochs)
    yield f"  {len(producers.known)} producers"
    for producer_id, p in producers.known.items():
        batches = ", ".join(f"sequences {a}..{b} at offsets {c}..{d}" for a, b, c, d in p.batches) or "no batches"
        undecided = f", a transaction open since offset {p.first_offset}" if p.first_offset >= 0 else ""
        yield f"    producer {producer_id} epoch {p.epoch}, last write {p.wall_ms}: {batches}{undecided}"
    for base, count, _ in found.aborted:
        yield f"    {count} aborted transactions in segment {base}"


def offset_index(data: bytes, base: int) -> Lines:
    yield from _entries(data, OFFSET_ENTRY.size)
    last = (-1, -1)
    for relative, position in OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]):
        yield f"  offset {base + relative} @{position}"
        if relative <= last[0] or position <= last[1]:
            yield f"{COMPLAINT}offset {base + relative} @{position} is not in order"
        last = (relative, position)


def time_index(data: bytes, base: int) -> Lines:
    yield from _entries(data, TIME_ENTRY.size)
    last = -1
    for time, relative in TIME_ENTRY.iter_unpack(data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]):
        yield f"  time {time} offset {base + relative}"
        if time < last:
            yield f"{COMPLAINT}time {time} follows {last}"
        last = time


def aborted_index(data: bytes, base: int) -> Lines:
    yield from _entries(data, transaction_index.ENTRY.size)
    try:
        for e in transaction_index.parse(data, base, 1 << 62):
            yield f"  producer {e.producer_id} offsets {e.first_offset}..{e.last_offset}, stable below {e.stable}"
    except transaction_index.InvalidIndex as e:
        yield f"{COMPLAINT}{e}"


def key_index_file(data: bytes) -> Lines:
    try:
        identity, seed, runs = key_index.parse(lambda length, position: data[position : position + length], len(data))
    except key_index.InvalidKeyIndex as e:
        yield f"{COMPLAINT}{e}"
        return
    more = ", with a record header" if seed != key_index.NO_HEADER else ""
    yield f"  {sum(r.entries for r in runs)} entries in {len(runs)} runs for {identity.size} bytes of log{more}"


def delay_index_file(data: bytes) -> Lines:
    try:
        found = delay_index.parse_header(lambda length, position: data[position : position + length])
    except delay_index.InvalidDelayIndex as e:
        yield f"{COMPLAINT}{e}"
        return
    yield (
        f"  {found.groups} groups, {found.tombstones} tombstones, {found.journal_bytes} bytes of journal for {found.identity.size} bytes of log,"
        f" which depend on the log below {found.decided_below}"
    )


def _entries(data: bytes, size: int) -> Lines:
    yield f"  {len(data) // size} entries"
    if len(data) % size:
        yield f"{COMPLAINT}{len(data) % size} bytes at the end are not an entry"


READERS: dict[str, Callable[[bytes], Lines]] = {
    LOG_START: number,
    CLEANER_OFFSET: number,
    EPOCHS: epochs,
    checkpoints.HIGH_WATERMARKS: offsets,
    checkpoints.PARTITION_METADATA: partition_metadata,
    "meta.properties": properties,
    ".kafka_cleanshutdown": clean_shutdown,
}


def lines(path: Path, data: bytes) -> Lines | None:
    """The contents of a file of this name. None: no small file of a broker has such a name."""
    reader = READERS.get(path.name)
    if reader is not None:
        return reader(data)
    stem, dot, suffix = path.name.partition(".")
    if not stem.isdigit() or not dot:
        return None
    if suffix == "snapshot":
        return snapshot(data)
    if suffix == "index":
        return offset_index(data, int(stem))
    if suffix == transaction_index.SUFFIX[1:]:
        return aborted_index(data, int(stem))
    if suffix == key_index.SUFFIX[1:]:
        return key_index_file(data)
    if suffix == delay_index.SUFFIX[1:]:
        return delay_index_file(data)
    if suffix == "timeindex":
        return time_index(data, int(stem))
    return None
