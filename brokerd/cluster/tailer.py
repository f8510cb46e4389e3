"""Reads the metadata log and applies it to the image.

Invariants (safety.md section 2): the tailer syncs before the first read of a session. It reads the head, then every entry up to the head, then
the head again. The watch, each reconnect and a timer of 2 s trigger a read. If an entry is missing, the tailer loads the snapshot. A head below
the last applied entry halts the tailer. The image is never rolled back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, MetadataError, MetadataRecord, entry_hash, unpack_chunks
from brokerd.cluster.model import Now
from brokerd.cluster.snapshots import POINTER_KEYS
from brokerd.cluster.store import Code, Result, Store

log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 2_000
ENTRIES_AT_ONCE = 64
"""Number of entries that are read concurrently. Limits memory and hides round trips."""

Confirmed = Callable[[bool], None]


class TailerListener(Protocol):
    def image_loaded(self, image: Image, now: Now) -> None: ...

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        """`records` have taken effect. Empty if the entry is unfinished."""

    def caught_up(self, image: Image, now: Now) -> None: ...

    def on_halted(self, reason: str) -> None: ...


class Tailer:
    def __init__(
        self, store: Store, listener: TailerListener, clock: Callable[[], Now], image: Image | None = None
    ) -> None:
        self._store, self._listener, self._clock = store, listener, clock
        self.image = image or Image()
        self.halted: str | None = None
        self.current = False
        """True if the image has reached the head that was read after a sync of this connection."""
        self.written_ms = 0
        """Time at which the last read entry was written, in Unix ms by the clock of ZooKeeper. 0: unknown. For display only."""
        self._round = 0  # connection number; callbacks of an earlier connection are ignored
        self._busy = False
        self._read_again = False
        self._looked_ms = 0
        self._unsynced: list[Confirmed] = []
        """Confirmations that wait for a sync that starts after their request."""
        self._confirming: list[Confirmed] = []
        """Confirmations of the current round, which started with a sync."""

    def on_connected(self) -> None:
        self._round += 1
        self._sync()

    def on_disconnected(self) -> None:
        self._round += 1
        self._busy = self._read_again = self.current = False
        self._not_confirmed(also_unsynced=True)

    def confirm(self, done: Confirmed) -> None:
        """Start a sync, read the head, and read the log up to this head. Then call `done(True)`. If a sync is already running, another one follows.
        `done(False)`: there is no connection, or the log could not be read."""
        if self._store.zk_session == 0 or self.halted:
            done(False)
            return
        self._unsynced.append(done)
        if not self._busy:
            self._sync()

    def tick(self, now: Now) -> None:
        if now.mono_ms - self._looked_ms >= LOOK_AGAIN_MS:
            self.look()

    def look(self) -> None:
        """Read the head now, or after the current round."""
        if self._store.zk_session == 0 or self.halted:
            return
        if self._busy:
            self._read_again = True
            return
        self._busy = True
        self._read_head()

    def _sync(self) -> None:
        """Start a round with a sync: a ZooKeeper follower may lag."""
        self._busy = True
        self._confirming, self._unsynced = [*self._confirming, *self._unsynced], []
        round_ = self._round
        self._store.sync("/", lambda result: self._on_synced(round_, result))

    def _not_confirmed(self, *, also_unsynced: bool = False) -> None:
        failed, self._confirming = self._confirming, []
        if also_unsynced:
            failed, self._unsynced = [*failed, *self._unsynced], []
        for done in failed:
            done(False)

    # -- one round -----------------------------------------------------------------------------------------------------
    def _on_synced(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if not result.ok:
            self._end_round()
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
                self._halt(f"ZooKeeper has no metadata log, but entry {self.image.seq} was applied here")
                return
            # A new cluster: wait for its first entry.
            self._store.exists(znodes.HEAD, lambda r: None, lambda path: self.look())
            self._on_head_reached()
            return
        if not result.ok:
            self._end_round()
            return
        head = int(result.data)
        if head < self.image.seq:
            self._halt(
                f"the metadata log ends at entry {head}, but entry {self.image.seq} was applied here: ZooKeeper has older data"
            )
        elif head == self.image.seq:
            self._on_head_reached()
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
            self._round += 1  # ignore the other reads of this batch
            self._load_snapshot()
            return
        if not result.ok:
            self._round += 1
            self._end_round()
            return
        if seq > self.image.seq:  # a controller has already applied its own entries
            try:
                entry = Entry.decode(result.data)
                applied = self.image.apply_entry(entry, entry_hash(result.data))
            except MetadataError as e:
                self._halt(str(e))
                return
            self.written_ms = result.stat.created_ms if result.stat is not None else 0
            self._listener.entry_applied(self.image, applied, self._clock())
        if seq == last:
            self._read_head()

    def _on_head_reached(self) -> None:
        self.current = True
        confirmed, self._confirming = self._confirming, []
        self._end_round()
        self._listener.caught_up(self.image, self._clock())
        for done in confirmed:
            done(self.current and not self.halted)

    def _end_round(self) -> None:
        """The round has ended. Confirmations that it has not completed fail."""
        self._busy = False
        self._not_confirmed()
        if self._unsynced:
            self._read_again = False
            self._sync()
        elif self._read_again:
            self._read_again = False
            self.look()

    def _halt(self, reason: str) -> None:
        self.halted = reason
        self.current = False
        self._not_confirmed(also_unsynced=True)
        log.error("metadata log tailer halted: reason=%s", reason)
        self._listener.on_halted(reason)

    # -- snapshots -----------------------------------------------------------------------------------------------------
    def _load_snapshot(self) -> None:
        round_ = self._round
        self._store.get(znodes.SNAPSHOT, lambda r: self._snapshot_pointer(round_, r))

    def _snapshot_pointer(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if not result.ok:
            if result.code is Code.NO_NODE:
                self._halt(f"metadata log entry {self.image.seq + 1} is missing and there is no snapshot")
            else:
                self._end_round()
            return
        pointer = json.loads(result.data)
        if unknown := pointer.keys() - POINTER_KEYS:
            self._halt(f"unknown keys {sorted(unknown)} in the snapshot pointer: upgrade this program")
            return
        if pointer["seq"] < self.image.seq:
            self._halt(f"the snapshot ends at entry {pointer['seq']}, but entry {self.image.seq} was applied here")
            return
        chunks: list[bytes | None] = [None] * pointer["chunks"]

        def chunk(number: int, result: Result) -> None:
            if round_ != self._round:
                return
            if not result.ok:
                self._round += 1
                self._end_round()
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
            self._halt(f"invalid snapshot: {e}")
            return
        # In place, because other objects refer to the image.
        for name in Image.__slots__:
            setattr(self.image, name, getattr(loaded, name))
        log.info("metadata snapshot loaded: seq=%d reason=log-truncated", loaded.seq)
        self._listener.image_loaded(self.image, self._clock())
        self._read_head()
