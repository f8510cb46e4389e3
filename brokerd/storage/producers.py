"""Idempotence: what each producer wrote last, so that a repeated batch is recognised and a gap refused.

Law: the answer to a repeated batch is its original offset. Followers keep the same state through what they fetch, so that it
survives a change of leader. Kept in memory, written with the log's snapshots.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from brokerd.wire.records import SEQUENCE_MAX, BatchHeader

BATCHES_REMEMBERED = 5
"""Kafka's number: a client may have 5 requests in flight, so a repeat is among the last 5."""
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 47


@dataclass(frozen=True, slots=True)
class Accepted:
    pass


@dataclass(frozen=True, slots=True)
class Duplicate:
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
    epoch: int
    batches: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    """(first sequence, last sequence, first offset, last offset), oldest first."""
    wall_ms: int = 0


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
        for first, last, first_offset, last_offset in producer.batches:
            if first == header.base_sequence and last == header.last_sequence:
                return Duplicate(first_offset, last_offset)
        expected = (producer.batches[-1][1] + 1) & SEQUENCE_MAX if producer.batches else header.base_sequence
        if header.base_sequence != expected:
            return Refused(
                OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {header.base_sequence} where {expected} was expected"
            )
        return ACCEPTED

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """A batch stands in the log: remember it."""
        if header.producer_id < 0 or header.is_control:
            return
        producer = self.known.get(header.producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            producer = self.known[header.producer_id] = Producer(header.producer_epoch)
        producer.batches.append(
            (header.base_sequence, header.last_sequence, base_offset, base_offset + header.last_offset_delta)
        )
        producer.wall_ms = header.max_timestamp

    def truncate(self, end: int) -> None:
        """Forget batches at or above `end`."""
        for producer_id, producer in list(self.known.items()):
            while producer.batches and producer.batches[-1][3] >= end:
                producer.batches.pop()
            if not producer.batches:
                del self.known[producer_id]

    def expire(self, wall_ms: int, idle_ms_max: int) -> None:
        for producer_id in [i for i, p in self.known.items() if wall_ms - p.wall_ms > idle_ms_max]:
            del self.known[producer_id]

    def to_json(self) -> list[Any]:
        return [[i, p.epoch, p.wall_ms, [list(b) for b in p.batches]] for i, p in self.known.items()]

    @staticmethod
    def from_json(data: list[Any]) -> Producers:
        out = Producers()
        for producer_id, epoch, wall_ms, batches in data:
            producer = Producer(epoch, wall_ms=wall_ms)
            producer.batches.extend((b[0], b[1], b[2], b[3]) for b in batches)
            out.known[producer_id] = producer
        return out
