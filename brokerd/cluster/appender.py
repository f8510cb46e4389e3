"""Writes the metadata log. One multi is in flight at a time.

Invariants (safety.md section 2): every write checks the version of /controller_epoch. After an unknown outcome the entry is read and its
token is compared; the write is never retried without this check. If the entry is from another controller, this controller resigns. The
records of one `submit` take effect together, even if they need several entries. Does not contain decisions about the records.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.levels import level_of, too_new
from brokerd.cluster.metadata import ENTRY_BYTES_MAX, Entry, MetadataError, MetadataRecord, entry_hash
from brokerd.cluster.store import Check, Code, Create, Delete, Operation, Result, Set, Store

log = logging.getLogger(__name__)

RECORDS_PER_ENTRY = 500
"""Estimated number of bytes that fit into one entry. An entry that is too large is split in halves."""
DELETES_PER_ENTRY = 100


@dataclass(frozen=True, slots=True)
class Write:
    """The records of one entry, in order. `deletes` are znodes of answered requests, deleted with the last entry of a `submit`."""

    records: tuple[MetadataRecord, ...]
    deletes: tuple[str, ...] = ()
    unfinished: bool = False


class Appender:
    """The writer of one controller term. Calls `applied(records)` when all entries of a `submit` are written. Calls `deposed(reason)` at most
    once; no other call follows it."""

    def __init__(
        self,
        store: Store,
        image: Image,
        controller_epoch: int,
        epoch_version: int,
        *,
        applied: Callable[[tuple[MetadataRecord, ...]], None],
        deposed: Callable[[str], None],
        new_token: Callable[[], str] = lambda: uuid4().hex,
        records_per_entry: int = RECORDS_PER_ENTRY,
    ) -> None:
        self._store, self._image = store, image
        self._epoch, self._epoch_version = controller_epoch, epoch_version
        self._applied, self._deposed, self._new_token = applied, deposed, new_token
        self._records_per_entry = records_per_entry
        self._queue: deque[Write] = deque()
        self._written: list[MetadataRecord] = []
        self._entry: tuple[Entry, bytes, tuple[str, ...]] | None = None
        self._unknown = False
        self._attempt = 0
        """Number of the current write or check. Results of an earlier attempt are ignored: the current attempt determines the outcome."""
        self._head_version = -1
        self._stopped = False
        self.appended_bytes = 0

    @property
    def idle(self) -> bool:
        return self._entry is None and not self._queue

    def submit(self, records: Sequence[MetadataRecord], deletes: Sequence[str] = ()) -> None:
        """Raises MetadataError for a record that is not allowed at the current level of the log."""
        unsupported = too_new(records, self._image.metadata_version)
        if unsupported is not None:
            raise MetadataError(
                f"{type(unsupported).__name__} requires metadata level {level_of(unsupported)}, "
                f"the metadata log is at level {self._image.metadata_version}"
            )
        step = self._records_per_entry
        for start in range(0, max(1, len(records)), step):
            part = tuple(records[start : start + step])
            last = start + step >= len(records)
            self._queue.append(Write(part, tuple(deletes) if last else (), unfinished=not last))
        self._write_next()

    def stop(self) -> None:
        self._stopped = True

    def on_reconnected(self) -> None:
        """The store is connected again: determine the outcome of the last write if it is unknown."""
        if self._unknown and not self._stopped:
            self._attempt += 1
            self._store.sync("/", self._for_this_attempt(lambda r: self._read_entry() if r.ok else None))

    def tick(self) -> None:
        """Called periodically, because a connection loss can be reported after the connection is restored. In this case no `on_reconnected` call
        follows."""
        if self._unknown and self._store.zk_session:
            self.on_reconnected()

    def _for_this_attempt(self, done: Callable[[Result], None]) -> Callable[[Result], None]:
        attempt = self._attempt
        return lambda result: done(result) if attempt == self._attempt else None

    def _write_next(self) -> None:
        if self._entry is not None or not self._queue or self._stopped:
            return
        write = self._queue.popleft()
        entry = Entry(
            self._image.seq + 1, self._epoch, self._new_token(), self._image.chain_hash, write.records, write.unfinished
        )
        data = entry.encode()
        if len(data) > ENTRY_BYTES_MAX:
            half = len(write.records) // 2
            if half == 0:
                raise MetadataError(f"record {type(write.records[0]).__name__} is larger than a metadata log entry")
            self._queue.appendleft(replace(write, records=write.records[half:]))
            self._queue.appendleft(Write(write.records[:half], unfinished=True))
            self._write_next()
            return
        self._entry = (entry, data, write.deletes)
        self._attempt += 1
        self._store.exists(znodes.HEAD, self._for_this_attempt(self._head_known))

    def _head_known(self, result: Result) -> None:
        if self._stopped or self._entry is None:
            return
        if result.code is Code.NO_NODE and self._image.seq == 0:
            self._head_version = -1
        elif result.ok and result.stat is not None:
            self._head_version = result.stat.version
        else:
            self._unknown = True
            return
        self._send()

    def _send(self) -> None:
        assert self._entry is not None
        entry, data, deletes = self._entry
        number = str(entry.seq).encode()
        head: Operation = (
            Create(znodes.HEAD, number) if self._head_version < 0 else Set(znodes.HEAD, number, self._head_version)
        )
        operations: list[Operation] = [
            Check(znodes.CONTROLLER_EPOCH, self._epoch_version),
            Create(znodes.entry(entry.seq), data),
            head,
            *(Delete(path) for path in deletes[:DELETES_PER_ENTRY]),
        ]
        self._store.multi(operations, self._for_this_attempt(self._on_written))

    def _on_written(self, result: Result) -> None:
        if self._stopped or self._entry is None:
            return
        if result.ok:
            self._finish_entry()
        elif result.code is Code.CONNECTION_LOSS:
            self._unknown = True
            if self._store.zk_session:
                self.on_reconnected()
        elif len(result.codes) > 3 and all(c in (Code.OK, Code.ROLLED_BACK) for c in result.codes[:3]):
            # The broker of a request has died and its ephemeral node is deleted: write without that deletion.
            entry, data, deletes = self._entry
            gone = {i for i, c in enumerate(result.codes[3:]) if c is Code.NO_NODE}
            self._entry = (entry, data, tuple(d for i, d in enumerate(deletes) if i not in gone))
            self._send()
        elif result.codes and result.codes[0] in (Code.OK, Code.ROLLED_BACK):
            self._read_entry()  # the entry or the head exists already: read which controller wrote it
        else:
            self._step_down(f"the controller epoch has changed ({result.code.value})")

    def _read_entry(self) -> None:
        if self._entry is not None and not self._stopped:
            self._unknown = True
            self._store.get(znodes.entry(self._entry[0].seq), self._for_this_attempt(self._on_entry_read))

    def _on_entry_read(self, result: Result) -> None:
        if self._stopped or self._entry is None:
            return
        entry, data, _ = self._entry
        if result.code is Code.NO_NODE:
            self._unknown = False
            self._store.exists(znodes.HEAD, self._for_this_attempt(self._head_known))
        elif not result.ok:
            return  # reconnected() reads the entry again
        elif result.data == data:
            self._unknown = False
            self._finish_entry()
        else:
            self._step_down(f"another controller wrote entry {entry.seq}")

    def _finish_entry(self) -> None:
        assert self._entry is not None
        entry, data, _ = self._entry
        self._entry = None
        self.appended_bytes += len(data)
        if self._image.seq < entry.seq:  # otherwise the tailer has already applied the entry
            self._image.validate_partitions(self._image.apply_entry(entry, entry_hash(data)))
        self._written += entry.records
        if not entry.unfinished:
            written, self._written = tuple(self._written), []
            self._applied(written)
        self._write_next()

    def _step_down(self, reason: str) -> None:
        self._stopped = True
        self._queue.clear()
        log.warning("controller steps down: reason=%s", reason)
        self._deposed(reason)
