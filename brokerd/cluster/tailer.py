"""Follows the metadata log: a loop, not an event.

Laws (safety.md section 2): sync before a session's first read; read the head, then every entry up to it, and look again; woken by
the watch, by each reconnect and every 2 s regardless; a missing entry means the snapshot; a head below what was applied halts, it
never rolls back. Used by brokers, controllers and the observer alike.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, MetadataError, Record, entry_hash, unpack_chunks
from brokerd.cluster.model import Now
from brokerd.cluster.snapshots import POINTER_KEYS
from brokerd.cluster.store import Code, Result, Store

log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 2_000
ENTRIES_AT_ONCE = 64
"""Entries asked for without waiting: bounds memory, hides round trips."""


class Listener(Protocol):
    def image_loaded(self, image: Image, now: Now) -> None: ...

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None:
        """`records` count from now on; there are none when the entry is unfinished."""

    def caught_up(self, image: Image, now: Now) -> None: ...

    def halted(self, reason: str) -> None: ...


class Tailer:
    def __init__(self, store: Store, listener: Listener, clock: Callable[[], Now], image: Image | None = None) -> None:
        self._store, self._listener, self._clock = store, listener, clock
        self.image = image or Image()
        self.halted: str | None = None
        self.current = False
        """True once the head, read after a sync of this connection, was reached."""
        self._round = 0  # of connections; callbacks of an earlier one are void
        self._busy = False
        self._again = False
        self._looked_ms = 0

    def connected(self) -> None:
        self._round += 1
        self._busy = True
        round_ = self._round
        self._store.sync("/", lambda result: self._synced(round_, result))

    def disconnected(self) -> None:
        self._round += 1
        self._busy = self._again = self.current = False

    def tick(self, now: Now) -> None:
        if now.mono_ms - self._looked_ms >= LOOK_AGAIN_MS:
            self.look()

    def look(self) -> None:
        """Read the head now, or again when the present round is through."""
        if self._store.zk_session == 0 or self.halted:
            return
        if self._busy:
            self._again = True
            return
        self._busy = True
        self._read_head()

    # -- one round -----------------------------------------------------------------------------------------------------
    def _synced(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if not result.ok:
            self._rest()
            return
        self._read_head()

    def _read_head(self) -> None:
        round_ = self._round
        self._looked_ms = self._clock().mono_ms
        self._store.get(znodes.HEAD, lambda r: self._head(round_, r), lambda path: self.look())

    def _head(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if result.code is Code.NO_NODE:
            if self.image.seq > 0:
                self._halt(f"ZooKeeper holds no metadata log, but entry {self.image.seq} was applied here")
                return
            # A new cluster: wait for its first entry.
            self._store.exists(znodes.HEAD, lambda r: None, lambda path: self.look())
            self._reached()
            return
        if not result.ok:
            self._rest()
            return
        head = int(result.data)
        if head < self.image.seq:
            self._halt(
                f"the metadata log ends at {head}, but entry {self.image.seq} was applied here: an older ZooKeeper"
            )
        elif head == self.image.seq:
            self._reached()
        else:
            self._read_entries(head)

    def _read_entries(self, head: int) -> None:
        round_ = self._round
        first = self.image.seq + 1
        last = min(head, first + ENTRIES_AT_ONCE - 1)
        for seq in range(first, last + 1):
            self._store.get(znodes.entry(seq), lambda r, seq=seq: self._entry(round_, seq, last, r))  # type: ignore[misc]

    def _entry(self, round_: int, seq: int, last: int, result: Result) -> None:
        if round_ != self._round or self.halted:
            return
        if result.code is Code.NO_NODE:
            self._round += 1  # the rest of this batch is void
            self._load_snapshot()
            return
        if not result.ok:
            self._round += 1
            self._rest()
            return
        if seq > self.image.seq:  # a controller has applied its own already
            try:
                entry = Entry.decode(result.data)
                applied = self.image.apply_entry(entry, entry_hash(result.data))
            except MetadataError as e:
                self._halt(str(e))
                return
            self._listener.entry_applied(self.image, applied, self._clock())
        if seq == last:
            self._read_head()

    def _reached(self) -> None:
        self.current = True
        self._rest()
        self._listener.caught_up(self.image, self._clock())

    def _rest(self) -> None:
        self._busy = False
        if self._again:
            self._again = False
            self.look()

    def _halt(self, reason: str) -> None:
        self.halted = reason
        self.current = False
        log.error("the metadata log is not followed any further: %s", reason)
        self._listener.halted(reason)

    # -- snapshots -----------------------------------------------------------------------------------------------------
    def _load_snapshot(self) -> None:
        round_ = self._round
        self._store.get(znodes.SNAPSHOT, lambda r: self._snapshot_pointer(round_, r))

    def _snapshot_pointer(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if not result.ok:
            if result.code is Code.NO_NODE:
                self._halt(f"entry {self.image.seq + 1} of the metadata log is missing and there is no snapshot")
            else:
                self._rest()
            return
        pointer = json.loads(result.data)
        if strange := pointer.keys() - POINTER_KEYS:
            self._halt(f"the snapshot's pointer says {sorted(strange)}: newer than this program; upgrade it")
            return
        if pointer["seq"] < self.image.seq:
            self._halt(f"the snapshot ends at {pointer['seq']}, before entry {self.image.seq} that was applied here")
            return
        chunks: list[bytes | None] = [None] * pointer["chunks"]

        def chunk(number: int, result: Result) -> None:
            if round_ != self._round:
                return
            if not result.ok:
                self._round += 1
                self._rest()
                return
            chunks[number] = result.data
            if all(c is not None for c in chunks):
                self._snapshot_read(pointer, [c for c in chunks if c is not None])

        for number in range(pointer["chunks"]):
            path = f"{znodes.SNAPSHOTS}/{pointer['folder']}/{number:06d}"
            self._store.get(path, lambda r, number=number: chunk(number, r))  # type: ignore[misc]

    def _snapshot_read(self, pointer: dict[str, object], chunks: list[bytes]) -> None:
        try:
            loaded = Image.from_records(
                unpack_chunks(chunks), int(str(pointer["seq"])), str(pointer["hash"]), int(str(pointer["epoch"]))
            )
            loaded.validate()
        except (MetadataError, AssertionError) as e:
            self._halt(f"the snapshot cannot be used: {e}")
            return
        # In place: whoever holds the image keeps holding the current one.
        for name in Image.__slots__:
            setattr(self.image, name, getattr(loaded, name))
        log.info("metadata snapshot at entry %d read: the log no longer reaches back far enough", loaded.seq)
        self._listener.image_loaded(self.image, self._clock())
        self._read_head()
