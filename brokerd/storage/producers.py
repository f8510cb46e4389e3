"""Idempotence and transactions in one log: what each producer wrote last, and which transactions are still undecided.

Laws: the answer to a repeated batch is its original offset; a repeat that is remembered no more is called a duplicate only when it
is certain that it was written. A transaction is undecided from its first batch until its marker lies below the high watermark: what
lies beyond the first undecided one is unstable. A marker of an older producer epoch, or of an older coordinator, is refused.
Followers keep the same state through what they fetch, so it survives a change of leader. Kept in memory, written with the log's
snapshots, rebuilt from batch headers and markers. Called by `log`. Must not come in: who may begin a transaction (`verification`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from brokerd.wire.records import CONTROL, SEQUENCE_MAX, TRANSACTIONAL, BatchHeader, Marker

BATCHES_REMEMBERED = 5
"""Kafka's number: a client may have 5 requests in flight, so a repeat is among the last 5."""
EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms`: a producer silent for longer is forgotten, or every id that ever wrote would stay in memory."""
NO_SEQUENCE = NO_OFFSET = NO_EPOCH = -1
OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 46, 47
INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED = 48, 52


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


class Ended(NamedTuple):
    """A transaction has found its marker, at `last_offset`. `stable` is the first offset still undecided then, by the markers alone."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int
    committed: bool


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
    coordinator_epoch: int = NO_EPOCH
    """Of the newest marker."""
    marker_offset: int = NO_OFFSET
    first_offset: int = NO_OFFSET
    """Where its undecided transaction begins here."""


class Producers:
    def __init__(self) -> None:
        self.known: dict[int, Producer] = {}
        self.open: dict[int, int] = {}
        """{producer id: first offset} of transactions without a marker, in the order of their offsets."""
        self.closing: list[tuple[int, int]] = []
        """(first offset, the marker's offset) of those whose marker may not be replicated yet."""

    def check(self, header: BatchHeader) -> Accepted | Duplicate | Refused:
        producer = self.known.get(header.producer_id)
        if producer is None:
            return ACCEPTED  # forgotten or new: there is nothing to compare with (KIP-360)
        if producer.first_offset >= 0 and not header.is_transactional:
            return Refused(
                INVALID_TXN_STATE, "this producer's transaction is not ended: it writes within it or not at all"
            )
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
            # A marker has told of this epoch: what follows a batch that was lost on its way must not come in before it.
            if header.base_sequence == 0:
                return ACCEPTED
            return Refused(OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {header.base_sequence} where 0 was expected")
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

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> Refused | None:
        """May this coordinator end this producer's transaction?"""
        producer = self.known.get(producer_id)
        if producer is None:
            return None
        if producer_epoch < producer.epoch:
            return Refused(INVALID_PRODUCER_EPOCH, f"producer epoch {producer_epoch} is older than {producer.epoch}")
        if coordinator_epoch < producer.coordinator_epoch:
            return Refused(
                TRANSACTION_COORDINATOR_FENCED, f"coordinator epoch {coordinator_epoch} < {producer.coordinator_epoch}"
            )
        return None

    def appended(self, header: BatchHeader, base_offset: int, wall_ms: int, said: Marker | None = None) -> Ended | None:
        """A batch stands in the log: remember it. `said` is what a control batch says; the transaction it ends."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self.known.get(producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            # A transaction that is under way goes on; its marker, of the new epoch, follows.
            before, producer = producer, Producer(header.producer_epoch)
            if before is not None:
                producer.first_offset, producer.coordinator_epoch = before.first_offset, before.coordinator_epoch
            self.known[producer_id] = producer
        producer.wall_ms = wall_ms
        if header.attributes & CONTROL:
            return self._ended(producer_id, producer, base_offset, said)
        if header.attributes & TRANSACTIONAL and producer.first_offset < 0:
            producer.first_offset = self.open[producer_id] = base_offset
        last = header.last_sequence
        if not producer.batches:
            producer.since = header.base_sequence
        elif header.base_sequence != (producer.batches[-1][1] + 1) & SEQUENCE_MAX:
            producer.since = header.base_sequence  # a gap: of what lies before it nothing is certain
            producer.wrapped = False
        if last < header.base_sequence or header.base_sequence < producer.since:
            producer.wrapped = True
        producer.batches.append((header.base_sequence, last, base_offset, base_offset + header.last_offset_delta))
        return None

    def _ended(self, producer_id: int, producer: Producer, offset: int, said: Marker | None) -> Ended | None:
        producer.marker_offset = offset
        if said is None:
            return None  # compaction has emptied it, as nothing was left of its transaction
        producer.coordinator_epoch = max(producer.coordinator_epoch, said.coordinator_epoch)
        first = self.open.pop(producer_id, NO_OFFSET)
        producer.first_offset = NO_OFFSET
        if first < 0:
            return None
        self.closing.append((first, offset))
        return Ended(producer_id, first, offset, next(iter(self.open.values()), offset + 1), said.commit)

    # -- what is undecided -------------------------------------------------------------------------------------------------
    def replicated(self, high_watermark: int) -> None:
        """Markers below the high watermark are there to stay."""
        self.closing = [c for c in self.closing if c[1] >= high_watermark]

    def first_unstable(self) -> int | None:
        """Where the first undecided transaction begins; None when all are decided."""
        first = next(iter(self.open.values()), None)
        for begun, _ in self.closing:
            first = begun if first is None else min(first, begun)
        return first

    def expire(self, wall_ms: int, idle_ms_max: int) -> None:
        silent = [i for i, p in self.known.items() if wall_ms - p.wall_ms > idle_ms_max and p.first_offset < 0]
        for producer_id in silent:
            del self.known[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """{producer id: last offset of its newest batch, or of its marker where that is all}: what compaction must leave a trace of."""
        return {i: p.batches[-1][3] if p.batches else p.marker_offset for i, p in self.known.items()}

    def to_json(self) -> list[Any]:
        return [
            [
                i, p.epoch, p.since, p.wrapped, p.wall_ms, [list(b) for b in p.batches],
                p.coordinator_epoch, p.marker_offset, p.first_offset,
            ]
            for i, p in self.known.items()
        ]  # fmt: skip

    @staticmethod
    def from_json(data: list[Any], closing: list[Any] | None = None) -> Producers:
        """`data` of before there were transactions has six fields each."""
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
