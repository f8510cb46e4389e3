"""Idempotence: what each producer wrote last, so that a repeated batch is recognised and a gap refused.

Laws: the answer to a repeated batch is its original offset; a repeat that is remembered no more is called a duplicate only when it
is certain that it was written. Followers keep the same state through what they fetch, so it survives a change of leader. Kept in
memory, written with the log's snapshots, rebuilt from batch headers. Called by `log`. Must not come in: transactions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from brokerd.wire.records import SEQUENCE_MAX, BatchHeader

BATCHES_REMEMBERED = 5
"""Kafka's number: a client may have 5 requests in flight, so a repeat is among the last 5."""
EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms`: a producer silent for longer is forgotten, or every id that ever wrote would stay in memory."""
NO_SEQUENCE = -1
OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 46, 47


@dataclass(frozen=True, slots=True)
class Accepted:
    pass


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Written before, at these offsets."""

    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """`error` is Kafka's code."""

    error: int
    reason: str


ACCEPTED = Accepted()


@dataclass(slots=True)
class Producer:
    """`since` is the first sequence of its epoch that is known to be written, `wrapped` whether they began again at 0 since."""

    epoch: int
    since: int = NO_SEQUENCE
    wrapped: bool = False
    batches: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    """(first sequence, last sequence, first offset, last offset), oldest first."""
    wall_ms: int = 0
    """When it was last heard, by this broker's clock (its own timestamps may be of another century)."""


class Producers:
    def __init__(self) -> None:
        self.known: dict[int, Producer] = {}

    def check(self, header: BatchHeader) -> Accepted | Duplicate | Refused:
        producer = self.known.get(header.producer_id)
        if producer is None:
            return ACCEPTED  # forgotten or new: there is nothing to compare with (KIP-360)
        if header.producer_epoch < producer.epoch:
            return Refused(
                INVALID_PRODUCER_EPOCH, f"producer epoch {header.producer_epoch} is older than {producer.epoch}"
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                return Refused(
                    OUT_OF_ORDER_SEQUENCE_NUMBER, f"a new epoch begins at sequence 0, not {header.base_sequence}"
                )
            return ACCEPTED
        batches = producer.batches
        if not batches:
            return ACCEPTED
        expected = (batches[-1][1] + 1) & SEQUENCE_MAX
        if header.base_sequence == expected:
            return ACCEPTED
        for first, last, first_offset, last_offset in batches:
            if first == header.base_sequence and last == header.last_sequence:
                return Duplicate(first_offset, last_offset)
        if not producer.wrapped and producer.since <= header.base_sequence <= header.last_sequence < expected:
            return Refused(
                DUPLICATE_SEQUENCE_NUMBER, f"sequence {header.base_sequence} was written before; {expected} comes next"
            )
        return Refused(OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {header.base_sequence} where {expected} was expected")

    def appended(self, header: BatchHeader, base_offset: int, wall_ms: int) -> None:
        """A batch stands in the log: remember it."""
        if header.producer_id < 0:
            return
        producer = self.known.get(header.producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            producer = self.known[header.producer_id] = Producer(header.producer_epoch)
        producer.wall_ms = wall_ms
        if header.is_control:
            return  # a marker may raise the epoch, and has no sequence
        last = header.last_sequence
        if not producer.batches:
            producer.since = header.base_sequence
        elif header.base_sequence != (producer.batches[-1][1] + 1) & SEQUENCE_MAX:
            producer.since = header.base_sequence  # a gap: of what lies before it nothing is certain
            producer.wrapped = False
        if last < header.base_sequence or header.base_sequence < producer.since:
            producer.wrapped = True
        producer.batches.append((header.base_sequence, last, base_offset, base_offset + header.last_offset_delta))

    def expire(self, wall_ms: int, idle_ms_max: int) -> None:
        for producer_id in [i for i, p in self.known.items() if wall_ms - p.wall_ms > idle_ms_max]:
            del self.known[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """{producer id: last offset of its newest batch}: what compaction must leave a trace of."""
        return {i: p.batches[-1][3] for i, p in self.known.items() if p.batches}

    def to_json(self) -> list[Any]:
        return [
            [i, p.epoch, p.since, p.wrapped, p.wall_ms, [list(b) for b in p.batches]] for i, p in self.known.items()
        ]

    @staticmethod
    def from_json(data: list[Any]) -> Producers:
        out = Producers()
        for producer_id, epoch, since, wrapped, wall_ms, batches in data:
            producer = Producer(epoch, since, wrapped, wall_ms=wall_ms)
            producer.batches.extend((b[0], b[1], b[2], b[3]) for b in batches)
            out.known[producer_id] = producer
        return out
