"""The journal of a front partition: which records were transferred, with which sequence numbers. Pure.

A journal entry is a control record in the log of the front partition itself, so that leader epochs fence its writers and replication covers it
together with the records that it names. Clients ignore control records of a type they do not know. Does not contain: the log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

VERSION = 0
_HEADER = struct.Struct(">hbqhii")
_OFFSET = struct.Struct(">q")
_TRANSFER, _CONFIRMATION = 0, 1
SEQUENCES = 2**31
"""Sequence numbers are 0 to 2^31 - 1 and continue with 0 (KIP-98)."""


class InvalidEntry(ValueError):
    """The bytes are no journal entry of a known version."""


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The idempotent producer that a front partition is for its target partition."""

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
    """What a new leader knows from the journal. `unconfirmed` may or may not be in the target partition; they are sent again, unchanged.
    `transferred`: the offsets of every entry, also of the unconfirmed ones; they are never selected again."""

    producer: ProducerIdentity | None
    next_sequence: int
    unconfirmed: tuple[TransferEntry, ...]
    transferred: frozenset[int]


def replay(entries: Iterable[JournalEntry], log_start: int, open_max: int) -> JournalState:
    """The state after `entries`, in the order of the log. `log_start`: of the front partition, which advances only over acknowledged records.
    An entry with a deleted record was therefore acknowledged, and so was every entry more than `open_max` before the last."""
    producer: ProducerIdentity | None = None
    next_sequence = 0
    open_entries: list[TransferEntry] = []
    transferred: set[int] = set()
    for entry in entries:
        producer, next_sequence = entry.producer, entry.next_sequence
        if isinstance(entry, Confirmation):
            open_entries.clear()
            continue
        transferred.update(entry.offsets)
        # An entry of a new epoch repeats the offsets of entries that the target partition has lost.
        open_entries = [e for e in open_entries if e.producer == entry.producer]
        open_entries.append(entry)
    acknowledged = max((i for i, e in enumerate(open_entries) if min(e.offsets) < log_start), default=-1)
    return JournalState(
        producer, next_sequence, tuple(open_entries[acknowledged + 1 :][-open_max:]), frozenset(transferred)
    )
