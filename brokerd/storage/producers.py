"""Producer state of one log: last batches of idempotent producers and ongoing transactions.

The response to a duplicate batch contains its original offset. If the state of a batch was removed, the batch counts as a duplicate only if it was
certainly written. A transaction is ongoing from its first batch until its marker is below the high watermark. Offsets from the first ongoing
transaction on are unstable. Markers of an older producer epoch or coordinator epoch are rejected. Followers maintain the same state from fetched
batches, so the state survives a leader election. It is kept in memory, stored in the snapshots of the log, and rebuilt from batch headers and
markers. Does not contain the verification of transactions (`transaction_verification`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import CONTROL, SEQUENCE_MAX, TRANSACTIONAL, BatchHeader

BATCHES_REMEMBERED = 5
"""Batches that are remembered per producer. A client may have 5 requests in flight, as in Kafka, so a duplicate is among the last 5 batches."""
EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms`: the state of an idle producer is removed, so that memory is bounded."""
NO_SEQUENCE = NO_OFFSET = NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Accepted:
    pass


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is already in the log, at these offsets."""

    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ProducerRejected:
    """`error` is Kafka's error code."""

    error: int
    reason: str
    written_before: int = NO_OFFSET
    """The batch is in the log, below this offset. Only with DUPLICATE_SEQUENCE_NUMBER."""


ACCEPTED = Accepted()


class EndedTransaction(NamedTuple):
    """A transaction with its marker at `last_offset`. `stable` is the last stable offset then, computed from markers only."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int
    committed: bool


@dataclass(slots=True)
class Producer:
    """State of one producer. `since`: the first sequence of its epoch known to be in the log. `wrapped`: sequences have wrapped to 0 since."""

    epoch: int
    since: int = NO_SEQUENCE
    wrapped: bool = False
    batches: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    """(first sequence, last sequence, first offset, last offset), oldest first."""
    wall_ms: int = 0
    """Time of its last batch by this broker's clock. Timestamps of the producer may be wrong."""
    coordinator_epoch: int = NO_EPOCH
    """Coordinator epoch of the newest marker."""
    marker_offset: int = NO_OFFSET
    first_offset: int = NO_OFFSET
    """First offset of its ongoing transaction in this log."""


class Producers:
    def __init__(self) -> None:
        self.known: dict[int, Producer] = {}
        self.open: dict[int, int] = {}
        """{producer id: first offset} of transactions without a marker, ordered by offset."""
        self.closing: list[tuple[int, int]] = []
        """(first offset, marker offset) of transactions whose marker may not be replicated yet."""

    def check(self, header: BatchHeader) -> Accepted | Duplicate | ProducerRejected:
        producer = self.known.get(header.producer_id)
        if producer is None:
            return ACCEPTED  # a new or expired producer: there is no state to compare with (KIP-360)
        if producer.first_offset >= 0 and not header.is_transactional:
            return ProducerRejected(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an ongoing transaction, but the batch is not transactional",
            )
        if header.producer_epoch < producer.epoch:
            return ProducerRejected(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} of producer {header.producer_id} is fenced: the current epoch is {producer.epoch}",
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                return ProducerRejected(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} must start epoch {header.producer_epoch} at sequence 0, not {header.base_sequence}",
                )
            return ACCEPTED
        batches = producer.batches
        if not batches:
            # Only a marker of this epoch is known. If the producer's first batch was lost, a later batch must not be appended before its retry.
            if header.base_sequence == 0:
                return ACCEPTED
            return ProducerRejected(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, expected 0",
            )
        expected = (batches[-1][1] + 1) & SEQUENCE_MAX
        if header.base_sequence == expected:
            return ACCEPTED
        for first, last, first_offset, last_offset in batches:
            if first == header.base_sequence and last == header.last_sequence:
                return Duplicate(first_offset, last_offset)
        if not producer.wrapped and producer.since <= header.base_sequence <= header.last_sequence < expected:
            return ProducerRejected(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"sequence {header.base_sequence} of producer {header.producer_id} is already written, expected {expected}",
                batches[0][2],
            )
        return ProducerRejected(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
        )

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> ProducerRejected | None:
        """Return the reason why this coordinator may not end the producer's transaction, or None."""
        producer = self.known.get(producer_id)
        if producer is None:
            return None
        if producer_epoch < producer.epoch:
            return ProducerRejected(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {producer_epoch} of producer {producer_id} is fenced: the current epoch is {producer.epoch}",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            return ProducerRejected(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {producer.coordinator_epoch}",
            )
        return None

    def on_appended(
        self, header: BatchHeader, base_offset: int, wall_ms: int, marker: Marker | None = None
    ) -> EndedTransaction | None:
        """Update the state after a batch was appended. `marker` is the transaction marker, if the batch is a control batch. Returns the transaction that it ends,
        or None."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self.known.get(producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            # An ongoing transaction continues. Its marker with the new epoch follows.
            before, producer = producer, Producer(header.producer_epoch)
            if before is not None:
                producer.first_offset, producer.coordinator_epoch = before.first_offset, before.coordinator_epoch
            self.known[producer_id] = producer
        producer.wall_ms = wall_ms
        if header.attributes & CONTROL:
            return self._end_transaction(producer_id, producer, base_offset, marker)
        if header.attributes & TRANSACTIONAL and producer.first_offset < 0:
            producer.first_offset = self.open[producer_id] = base_offset
        last = header.last_sequence
        if not producer.batches:
            producer.since = header.base_sequence
        elif header.base_sequence != (producer.batches[-1][1] + 1) & SEQUENCE_MAX:
            producer.since = header.base_sequence  # a gap: nothing is known about earlier sequences
            producer.wrapped = False
        if last < header.base_sequence or header.base_sequence < producer.since:
            producer.wrapped = True
        producer.batches.append((header.base_sequence, last, base_offset, base_offset + header.last_offset_delta))
        return None

    def _end_transaction(
        self, producer_id: int, producer: Producer, offset: int, marker: Marker | None
    ) -> EndedTransaction | None:
        producer.marker_offset = offset
        if marker is None:
            return None  # compaction removed the marker's record because no batch of the transaction is left
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        first = self.open.pop(producer_id, NO_OFFSET)
        producer.first_offset = NO_OFFSET
        if first < 0:
            return None
        self.closing.append((first, offset))
        return EndedTransaction(producer_id, first, offset, next(iter(self.open.values()), offset + 1), marker.commit)

    # -- ongoing transactions -------------------------------------------------------------------------------------------------
    def on_replicated(self, high_watermark: int) -> None:
        """The high watermark has advanced: transactions with a marker below it are complete."""
        self.closing = [c for c in self.closing if c[1] >= high_watermark]

    def first_unstable(self) -> int | None:
        """First offset of the first ongoing transaction, None if there is none."""
        first = next(iter(self.open.values()), None)
        for begun, _ in self.closing:
            first = begun if first is None else min(first, begun)
        return first

    def expire(self, wall_ms: int, idle_ms_max: int) -> None:
        silent = [i for i, p in self.known.items() if wall_ms - p.wall_ms > idle_ms_max and p.first_offset < 0]
        for producer_id in silent:
            del self.known[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """{producer id: last offset of its newest batch, or of its marker if it has no batch}. Compaction keeps these batches."""
        return {i: p.batches[-1][3] if p.batches else p.marker_offset for i, p in self.known.items()}

    def before(self, offset: int) -> Producers:
        """The state at `offset`, which is at or below the high watermark, for a log that starts there: it cannot rebuild this state from its records.

        Without a producer whose remembered batches are all above: its epoch and sequence at `offset` are not known any more.
        """
        out = Producers()
        for producer_id, known in self.known.items():
            batches = [b for b in known.batches if b[3] < offset]
            marker = known.marker_offset if known.marker_offset < offset else NO_OFFSET
            if batches or (not known.batches and marker >= 0):
                first = known.first_offset if known.first_offset < offset else NO_OFFSET
                kept = Producer(known.epoch, known.since, known.wrapped, wall_ms=known.wall_ms, first_offset=first)
                kept.batches.extend(batches)
                kept.coordinator_epoch, kept.marker_offset = known.coordinator_epoch, marker
                out.known[producer_id] = kept
        begun = [(known.first_offset, i) for i, known in out.known.items() if known.first_offset >= 0]
        out.open = {i: first for first, i in sorted(begun)}
        return out

    def to_json(self) -> list[Any]:
        return [
            [
                i,
                p.epoch,
                p.since,
                p.wrapped,
                p.wall_ms,
                [list(b) for b in p.batches],
                p.coordinator_epoch,
                p.marker_offset,
                p.first_offset,
            ]
            for i, p in self.known.items()
        ]

    @staticmethod
    def from_json(data: list[Any], closing: list[Any] | None = None) -> Producers:
        """State from JSON. `data` from before transactions has six fields per producer."""
        out = Producers()
        for producer_id, epoch, since, wrapped, wall_ms, batches, *more in data:
            producer = Producer(epoch, since, wrapped, wall_ms=wall_ms)
            producer.batches.extend((b[0], b[1], b[2], b[3]) for b in batches)
            if more:
                producer.coordinator_epoch, producer.marker_offset, producer.first_offset = more
            out.known[producer_id] = producer
        begun = [(p.first_offset, i) for i, p in out.known.items() if p.first_offset >= 0]
        out.open = {i: first for first, i in sorted(begun)}
        out.closing = [(c[0], c[1]) for c in closing or ()]
        return out
