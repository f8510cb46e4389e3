"""The metadata log as a whole: read consistently while it is written, and written anew where there is none.

Laws: a read is the snapshot and every entry up to one head, each checked against the chain; a write puts the image as a snapshot above
every number that anybody has seen, then the head, in one step each, so that a reader finds all or nothing. Must not come in: what is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, Unreachable
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, MetadataError, Record, entry_hash, pack_chunks, unpack_chunks
from brokerd.cluster.snapshots import POINTER_KEYS
from brokerd.cluster.store import Create, Operation

READS_MAX = 5
"""The log may be cut under a reader: it begins again then."""


@dataclass(slots=True)
class Read:
    """`pointer` and `chunks` are the snapshot that was begun from (None: from the first entry), `entries` the raw ones after it by number."""

    image: Image
    pointer: dict[str, object] | None = None
    chunks: list[bytes] = field(default_factory=list)
    entries: dict[int, bytes] = field(default_factory=dict)
    applied: list[tuple[int, tuple[Record, ...]]] = field(default_factory=list)

    def records_after(self, seq: int) -> Iterator[Record]:
        for number, records in self.applied:
            if number > seq:
                yield from records


class _Cut(Exception):
    """What was to be read went away meanwhile."""


def read_log(zk: BlockingStore) -> Read:
    """The image at the head, after a sync. Raises MetadataError, Unreachable."""
    zk.sync()
    for _ in range(READS_MAX):
        try:
            return _read(zk)
        except _Cut:
            continue
    raise Unreachable("the metadata log is cut faster than it can be read; try again")


def _read(zk: BlockingStore) -> Read:
    head = zk.get(znodes.HEAD)
    if not head.ok:
        return Read(Image())
    pointer = zk.get(znodes.SNAPSHOT)
    if pointer.ok:
        out = _snapshot(zk, pointer.data)
    else:
        out = Read(Image())
    for seq in range(out.image.seq + 1, int(head.data) + 1):
        found = zk.get(znodes.entry(seq))
        if not found.ok:
            raise _Cut
        out.entries[seq] = found.data
    replay(out)
    return out


def _snapshot(zk: BlockingStore, data: bytes) -> Read:
    pointer = json.loads(data)
    chunks = []
    for i in range(pointer["chunks"]):
        chunk = zk.get(f"{znodes.SNAPSHOTS}/{pointer['folder']}/{i:06d}")
        if not chunk.ok:
            raise _Cut
        chunks.append(chunk.data)
    return opened(pointer, chunks)


def opened(pointer: dict[str, object] | None, chunks: list[bytes]) -> Read:
    """The image that a snapshot holds; an empty one for none. Raises MetadataError."""
    if pointer is None:
        return Read(Image())
    if strange := pointer.keys() - POINTER_KEYS:
        raise MetadataError(f"the snapshot's pointer says {sorted(strange)}: newer than this program")
    seq, epoch = int(str(pointer["seq"])), int(str(pointer["epoch"]))
    return Read(Image.from_records(unpack_chunks(chunks), seq, str(pointer["hash"]), epoch), pointer, chunks)


def replay(read: Read) -> None:
    """Bring the image to the last of `entries`. Raises MetadataError where the chain does not hold."""
    for seq in sorted(read.entries):
        data = read.entries[seq]
        read.applied.append((seq, read.image.apply_entry(Entry.decode(data), entry_hash(data))))
    read.image.validate()


def write_log(zk: BlockingStore, image: Image) -> None:
    """Begin the log with `image` as its snapshot, where there is no log. `image.seq`, `chain_hash` and `controller_epoch` are the first's.

    Nobody acts while the head is missing. Raises Unreachable; what was half written is in nobody's way and goes with `clear`.
    """
    chunks = pack_chunks(image.records())
    folder = f"{image.seq:020d}-{image.controller_epoch}"
    for path in znodes.PERSISTENT:
        zk.create(path, b"")
    snapshot = f"{znodes.SNAPSHOTS}/{folder}"
    zk.create(snapshot, b"")
    zk.in_pieces([Create(f"{snapshot}/{i:06d}", chunk) for i, chunk in enumerate(chunks)])
    pointer = {
        "seq": image.seq, "hash": image.chain_hash, "epoch": image.controller_epoch, "chunks": len(chunks), "folder": folder,
    }  # fmt: skip
    last: list[Operation] = [
        Create(znodes.CONTROLLER_EPOCH, str(image.controller_epoch).encode()),
        Create(znodes.SNAPSHOT, znodes.to_json(pointer)),
        Create(znodes.HEAD, str(image.seq).encode()),
    ]
    zk.in_pieces(last)


def clear(zk: BlockingStore) -> None:
    """Remove the whole log, head first: from then on it is none to its readers, which halt."""
    zk.delete(znodes.HEAD)
    zk.delete(znodes.SNAPSHOT)
    zk.remove_leaves(znodes.LOG)
    for name in zk.children(znodes.SNAPSHOTS):
        zk.remove_tree(f"{znodes.SNAPSHOTS}/{name}")
    zk.delete(znodes.CONTROLLER_EPOCH)
