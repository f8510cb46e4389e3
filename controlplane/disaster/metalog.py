"""Reads the complete metadata log, also while it is written, and writes a new one.

Invariants: a read contains the snapshot and every entry up to one head, each verified by the hash chain. A write creates the snapshot
with a number above all known numbers, then the head, each atomically, so that a reader finds the whole log or none.
Does not contain: the meaning of records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, Unreachable
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, MetadataError, MetadataRecord, entry_hash, pack_chunks, unpack_chunks
from brokerd.cluster.snapshots import POINTER_KEYS
from brokerd.cluster.store import Create, Operation

READS_MAX = 5
"""Maximum number of attempts of a read. The log may be truncated during a read, which then starts again."""


@dataclass(slots=True)
class MetadataLogRead:
    """`pointer` and `chunks` are the snapshot (None: read from the first entry), `entries` the raw entries after it by number."""

    image: Image
    pointer: dict[str, object] | None = None
    chunks: list[bytes] = field(default_factory=list)
    entries: dict[int, bytes] = field(default_factory=dict)
    applied: list[tuple[int, tuple[MetadataRecord, ...]]] = field(default_factory=list)

    def records_after(self, seq: int) -> Iterator[MetadataRecord]:
        for number, records in self.applied:
            if number > seq:
                yield from records


class _LogTruncated(Exception):
    """A snapshot or an entry was deleted during the read."""


def read_log(zk: BlockingStore) -> MetadataLogRead:
    """The image at the head, after a sync. Raises MetadataError, Unreachable."""
    zk.sync()
    for _ in range(READS_MAX):
        try:
            return _read_log(zk)
        except _LogTruncated:
            continue
    raise Unreachable("the metadata log was truncated during each read; try again")


def _read_log(zk: BlockingStore) -> MetadataLogRead:
    head = zk.get(znodes.HEAD)
    if not head.ok:
        return MetadataLogRead(Image())
    pointer = zk.get(znodes.SNAPSHOT)
    if pointer.ok:
        out = _snapshot(zk, pointer.data)
    else:
        out = MetadataLogRead(Image())
    for seq in range(out.image.seq + 1, int(head.data) + 1):
        found = zk.get(znodes.entry(seq))
        if not found.ok:
            raise _LogTruncated
        out.entries[seq] = found.data
    replay(out)
    return out


def _snapshot(zk: BlockingStore, data: bytes) -> MetadataLogRead:
    pointer = json.loads(data)
    chunks = []
    for i in range(pointer["chunks"]):
        chunk = zk.get(f"{znodes.SNAPSHOTS}/{pointer['folder']}/{i:06d}")
        if not chunk.ok:
            raise _LogTruncated
        chunks.append(chunk.data)
    return read_snapshot(pointer, chunks)


def read_snapshot(pointer: dict[str, object] | None, chunks: list[bytes]) -> MetadataLogRead:
    """The image of a snapshot; an empty image without one. Raises MetadataError."""
    if pointer is None:
        return MetadataLogRead(Image())
    if strange := pointer.keys() - POINTER_KEYS:
        raise MetadataError(f"the snapshot pointer contains unknown keys {sorted(strange)}: it is from a newer version")
    seq, epoch = int(str(pointer["seq"])), int(str(pointer["epoch"]))
    return MetadataLogRead(Image.from_records(unpack_chunks(chunks), seq, str(pointer["hash"]), epoch), pointer, chunks)


def replay(read: MetadataLogRead) -> None:
    """Apply all `entries` to the image. Raises MetadataError if the hash chain is broken."""
    for seq in sorted(read.entries):
        data = read.entries[seq]
        read.applied.append((seq, read.image.apply_entry(Entry.decode(data), entry_hash(data))))
    read.image.validate()


def write_log(zk: BlockingStore, image: Image) -> None:
    """Create the log with `image` as its snapshot, if there is no log. `image.seq`, `chain_hash` and `controller_epoch` are its first.

    No controller acts without a head. Raises Unreachable. A partial write has no effect, and `clear` deletes it.
    """
    chunks = pack_chunks(image.records())
    folder = f"{image.seq:020d}-{image.controller_epoch}"
    for path in znodes.PERSISTENT:
        zk.create(path, b"")
    snapshot = f"{znodes.SNAPSHOTS}/{folder}"
    zk.create(snapshot, b"")
    zk.in_pieces([Create(f"{snapshot}/{i:06d}", chunk) for i, chunk in enumerate(chunks)])
    pointer = {
        "seq": image.seq,
        "hash": image.chain_hash,
        "epoch": image.controller_epoch,
        "chunks": len(chunks),
        "folder": folder,
    }
    last: list[Operation] = [
        Create(znodes.CONTROLLER_EPOCH, str(image.controller_epoch).encode()),
        Create(znodes.SNAPSHOT, znodes.to_json(pointer)),
        Create(znodes.HEAD, str(image.seq).encode()),
    ]
    zk.in_pieces(last)


def clear(zk: BlockingStore) -> None:
    """Delete the whole log, head first: without a head its readers halt."""
    zk.delete(znodes.HEAD)
    zk.delete(znodes.SNAPSHOT)
    zk.remove_leaves(znodes.LOG)
    for name in zk.children(znodes.SNAPSHOTS):
        zk.remove_tree(f"{znodes.SNAPSHOTS}/{name}")
    zk.delete(znodes.CONTROLLER_EPOCH)
