"""Interface between a front partition and its broker: the log, the connections to the target partitions, and the keys of the journals.

Does not contain: files, sockets, clocks, decisions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from brokerd.cluster.model import Now
from brokerd.delivery.journal import JournalEntry, decode
from brokerd.storage.delay_index import OpenIndex
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader

_JOURNAL_KEY = struct.Struct(">hh")


class FrontTarget(Enum):
    """The topics to which a front partition sends. Each has a partition with the number of the front partition."""

    TOPIC = "topic"
    EXPIRED = "expired"
    """Expired half messages: no producer decided about them."""
    CHECK = "check"
    """Checks: requests to the producers of undecided half messages."""


_JOURNAL_TYPES = {FrontTarget.TOPIC: 100, FrontTarget.EXPIRED: 101}
"""The control record types of the journals, one journal per target. Kafka's own types are small numbers, and clients skip control records of unknown types."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexedSegment:
    """A closed segment with a delay index, which may be invalid. `open` blocks, and runs on another thread."""

    base_offset: int
    end_offset: int
    open: OpenIndex


class FrontLog(Protocol):
    """The log of a front partition that this broker leads, and the connections to the target partitions."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def settled(self) -> bool:
        """True if every eligible replica has the log up to the start of this leader epoch."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that the target topic accepts."""
        ...

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        """Batches from the one that contains `offset`, below `upto`. None: they are not in the page cache yet."""
        ...

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, offset of the marker) of the aborted transactions in the range."""
        ...

    def indexed_segments(self) -> Sequence[IndexedSegment]:
        """Return the segments with a delay index, in the order of their offsets."""
        ...

    def discard_index(self, base_offset: int) -> None:
        """Discard the delay index of this segment, because it is missing or invalid. It is built again."""
        ...

    def run(self, job: Callable[[], T], done: Callable[[T | None], None]) -> None:
        """Run a job that blocks on another thread. `done` is called once, never within this call. None: the job has raised InvalidDelayIndex."""
        ...

    def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
        """Append one control batch. Returns the log end offset after it, or None if nothing was appended."""
        ...

    def delete_below(self, offset: int) -> None: ...

    @property
    def writable(self) -> bool:
        """True if the journal can be appended to now."""
        ...

    def send(self, target: FrontTarget, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        """Send to the leader of the target partition with acks=all. `done` is called once, never within this call."""
        ...


def journal_key(target: FrontTarget) -> bytes:
    return _JOURNAL_KEY.pack(0, _JOURNAL_TYPES[target])


_TARGETS = {journal_key(target): target for target in _JOURNAL_TYPES}


def journal_entries(data: bytes, at: int, header: BatchHeader) -> list[tuple[FrontTarget, JournalEntry]]:
    """The journal entries of a control batch. A transaction marker has none."""
    return [
        (_TARGETS[r.key], decode(r.value or b""))
        for r in records.records_of(data, at, header)
        if r.key is not None and r.key in _TARGETS
    ]
