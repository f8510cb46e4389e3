"""Writes snapshots of the metadata image and deletes older entries of the metadata log.

Invariants (safety.md section 2): the chunks are written first; then one multi with a check of the controller epoch sets the pointer.
Readers use only the pointer. Two snapshots are kept, and the log is deleted up to the older one. A snapshot is due after a number of bytes
of log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import pack_chunks
from brokerd.cluster.store import Check, Code, Create, Delete, Operation, Result, Set, Store

log = logging.getLogger(__name__)

LOG_BYTES_PER_SNAPSHOT = 8 * 1024 * 1024
POINTER_KEYS = frozenset({"seq", "hash", "epoch", "chunks", "folder"})
"""The keys of the pointer znode. A reader rejects other keys."""
CUT_AT_ONCE = 200
"""Znodes deleted in one multi."""


class SnapshotWriter:
    def __init__(self, store: Store, image: Image, epoch_version: int, log_bytes: int = LOG_BYTES_PER_SNAPSHOT) -> None:
        self._store, self._image, self._epoch_version, self._log_bytes = store, image, epoch_version, log_bytes
        self._written_at = 0
        self._busy = False

    def on_appended(self, bytes_so_far: int) -> None:
        """Called after an append. `bytes_so_far`: log bytes written in this controller term. Starts a snapshot if it is due."""
        if not self._busy and not self._image.unfinished and bytes_so_far - self._written_at >= self._log_bytes:
            self._written_at = bytes_so_far
            self._begin()

    def _begin(self) -> None:
        self._busy = True
        image = self._image
        chunks = pack_chunks(image.records())
        folder = f"{image.seq:020d}-{image.controller_epoch}"
        pointer = {
            "seq": image.seq,
            "hash": image.chain_hash,
            "epoch": image.controller_epoch,
            "chunks": len(chunks),
            "folder": folder,
        }
        path = f"{znodes.SNAPSHOTS}/{folder}"

        def write(i: int) -> None:
            def on_written(result: Result) -> None:
                if result.code not in (Code.OK, Code.NODE_EXISTS):
                    self._busy = False
                elif i + 1 < len(chunks):
                    write(i + 1)
                else:
                    self._store.get(znodes.SNAPSHOT, lambda r: self._point(pointer, r))

            self._store.create(f"{path}/{i:06d}", chunks[i], on_written)

        self._store.create(
            path, b"", lambda r: write(0) if r.code in (Code.OK, Code.NODE_EXISTS) else setattr(self, "_busy", False)
        )

    def _point(self, pointer: dict[str, object], result: Result) -> None:
        old = json.loads(result.data) if result.ok else None
        data = znodes.to_json(pointer)
        if result.ok and result.stat is not None:
            step: Operation = Set(znodes.SNAPSHOT, data, result.stat.version)
        elif result.code is Code.NO_NODE:
            step = Create(znodes.SNAPSHOT, data)
        else:
            self._busy = False
            return

        def on_pointer_written(result: Result) -> None:
            if not result.ok:
                self._busy = False
                return
            log.info("metadata snapshot written: seq=%s", pointer["seq"])
            if old is not None:
                self._truncate_log(int(old["seq"]), str(old["folder"]))
            else:
                self._busy = False

        self._store.multi([Check(znodes.CONTROLLER_EPOCH, self._epoch_version), step], on_pointer_written)

    def _truncate_log(self, below: int, older: str) -> None:
        """Delete entries up to `below`, oldest first, so that the remaining log has no gap. Then delete snapshots before `older`."""

        def on_children(result: Result) -> None:
            names = [n for n in result.children if int(n) <= below][:CUT_AT_ONCE]
            if names:
                self._delete([f"{znodes.LOG}/{n}" for n in names], lambda: self._truncate_log(below, older))
            elif result.ok:
                self._delete_older_snapshots(older)
            else:
                self._busy = False

        self._store.children(znodes.LOG, on_children)

    def _delete_older_snapshots(self, older: str) -> None:
        """Delete snapshots before `older`, chunks first. A reader that loses its snapshot reads the pointer again."""

        def on_children(result: Result) -> None:
            gone = [n for n in result.children if n < older]
            if not gone:
                self._busy = False
                return
            path = f"{znodes.SNAPSHOTS}/{gone[0]}"
            self._store.children(path, lambda r: chunks(path, r))

        def chunks(path: str, result: Result) -> None:
            if not result.ok:
                self._busy = False
                return
            names = [f"{path}/{n}" for n in result.children[:CUT_AT_ONCE]]
            self._delete(names or [path], lambda: self._delete_older_snapshots(older))

        self._store.children(znodes.SNAPSHOTS, on_children)

    def _delete(self, paths: Sequence[str], then: Callable[[], None]) -> None:
        self._store.multi(
            [Check(znodes.CONTROLLER_EPOCH, self._epoch_version), *(Delete(p) for p in paths)],
            lambda r: then() if r.ok else setattr(self, "_busy", False),
        )
