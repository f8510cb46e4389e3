"""The journal of a front partition: which records were transferred, with which sequence numbers. Pure.

A journal entry is a control record in the log of the front partition itself. So leader epochs fence its writers, and it is replicated together with the records
that it names. Clients ignore control records of a type they do not know. Does not contain: the log.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from brokerd.delivery.offset_set import OffsetSet

VERSION = 0
_HEADER = struct.Struct(">hbqhii")
_OFFSET = struct.Struct(">q")
_TRANSFER, _CONFIRMATION = 0, 1
SEQUENCES = 2**31
"""Sequence numbers are 0 to 2^31 - 1 and continue with 0 (KIP-98)."""


class InvalidEntry(ValueError):
    """The bytes are not a journal entry of a known version."""


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id, epoch and sequence number with which a front partition writes to its target partition."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransferEntry:
    """One batch for the target partition: the records at `offsets` of the front partition, in this order, from `base_sequence` on."""

    producer: ProducerIdentity
    base_sequence: int
    offsets: tuple[int, ...]

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + len(self.offsets)) % SEQUENCES


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The target partition has acknowledged every entry of this producer before `next_sequence`."""

    producer: ProducerIdentity
    next_sequence: int


JournalEntry = TransferEntry | Confirmation


def encode(entry: JournalEntry) -> bytes:
    """The value of the control record."""
    producer = entry.producer
    if isinstance(entry, Confirmation):
        return _HEADER.pack(VERSION, _CONFIRMATION, producer.producer_id, producer.epoch, entry.next_sequence, 0)
    header = _HEADER.pack(
        VERSION, _TRANSFER, producer.producer_id, producer.epoch, entry.base_sequence, len(entry.offsets)
    )
    return header + b"".join(map(_OFFSET.pack, entry.offsets))


def decode(data: bytes) -> JournalEntry:
    """Raises InvalidEntry."""
    if len(data) < _HEADER.size:
        raise InvalidEntry(f"{len(data)} bytes, expected at least {_HEADER.size}")
    version, kind, producer_id, epoch, sequence, count = _HEADER.unpack_from(data)
    if version != VERSION or kind not in (_TRANSFER, _CONFIRMATION):
        raise InvalidEntry(f"unknown version {version} or kind {kind}")
    if len(data) != _HEADER.size + count * _OFFSET.size or (kind == _TRANSFER) != (count > 0):
        raise InvalidEntry(f"{len(data)} bytes with {count} offsets")
    producer = ProducerIdentity(producer_id, epoch)
    if kind == _CONFIRMATION:
        return Confirmation(producer, sequence)
    return TransferEntry(producer, sequence, tuple(o for (o,) in _OFFSET.iter_unpack(data[_HEADER.size :])))


@dataclass(frozen=True, slots=True)
class JournalState:
    """The state that a new leader reads from the journal. `unconfirmed` may or may not be in the target partition; they are sent again, unchanged.
    `transferred`: the offsets of every entry, also of the unconfirmed ones; they are never selected again."""

    producer: ProducerIdentity | None
    next_sequence: int
    unconfirmed: tuple[TransferEntry, ...]
    transferred: OffsetSet


class JournalReplay:
    """Reads a journal in the order of the log. Its memory does not grow with the number of entries: at most `open_max` are unconfirmed, because
    every entry more than `open_max` before the last was acknowledged."""

    def __init__(self, open_max: int) -> None:
        self._producer: ProducerIdentity | None = None
        self._next_sequence = 0
        self._open: deque[TransferEntry] = deque(maxlen=open_max)
        self._transferred = OffsetSet()

    def add(self, entry: JournalEntry) -> None:
        if entry.producer != self._producer:
            # An entry of a new epoch repeats the offsets of entries that the target partition has lost.
            self._open.clear()
        self._producer, self._next_sequence = entry.producer, entry.next_sequence
        if isinstance(entry, Confirmation):
            self._open.clear()
        else:
            self._transferred.update(entry.offsets)
            self._open.append(entry)

    def state(self, log_start: int) -> JournalState:
        """`log_start` is the log start offset of the front partition, which advances only over acknowledged records. So an entry with a deleted record was
        acknowledged, and all entries before it too."""
        entries = tuple(self._open)
        acknowledged = max((i for i, e in enumerate(entries) if min(e.offsets) < log_start), default=-1)
        return JournalState(self._producer, self._next_sequence, entries[acknowledged + 1 :], self._transferred)


def replay(entries: Iterable[JournalEntry], log_start: int, open_max: int) -> JournalState:
    """The state after `entries`, in the order of the log. See `JournalReplay`."""
    journal = JournalReplay(open_max)
    for entry in entries:
        journal.add(entry)
    return journal.state(log_start)
