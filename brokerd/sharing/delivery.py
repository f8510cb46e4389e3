"""Values of share partitions: delivery states, acknowledgements, batches of the log, acquired records. Types without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """Kafka's numbers. ACQUIRED is never stored: after a change of leader the record is available again. ARCHIVING: no more deliveries, and the dead
    letter is not written yet (KIP-1191)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def final(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class LogBatch(NamedTuple):
    """Offsets of a record batch in the log, both inclusive. `deliver` False: a control batch, or a batch of an aborted transaction."""

    first: int
    last: int
    deliver: bool = True


class Acquired(NamedTuple):
    """Offsets that a member has acquired, both inclusive, with the number of deliveries including this one."""

    first: int
    last: int
    deliveries: int


class FailedRun(NamedTuple):
    """Adjacent offsets, both inclusive, whose dead letters are to be written. `rejected`: a member rejected them; otherwise they have reached the
    delivery count limit. After a change of leader it is derived from `deliveries`."""

    first: int
    last: int
    deliveries: int
    rejected: bool


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Offsets `first` to `last` (inclusive). `types`: one type for all of them, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]


@dataclass(slots=True)
class OffsetRun:
    """Adjacent offsets `first` to `last` (inclusive) in the same state. `member` and `until_ms`: holder and end (mono ms) of the lock.
    `dirty`: the state is not in the share coordinator yet. `rejected`: a member rejected the records (ARCHIVING only)."""

    first: int
    last: int
    state: RecordState
    count: int = 0
    member: str = ""
    until_ms: int = 0
    dirty: bool = False
    rejected: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def same(self, other: OffsetRun) -> bool:
        """Return whether `other` can be joined with this run."""
        return (self.state, self.count, self.member, self.until_ms, self.dirty, self.rejected) == (
            other.state,
            other.count,
            other.member,
            other.until_ms,
            other.dirty,
            other.rejected,
        )


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """`acquired`: records by the member that holds them. `lock_ms`: ms until the first lock of them ends; None without one. `redelivery`: records that were
    delivered before and wait for another delivery. `archiving`: records that wait for their dead letters. `in_flight`: offsets from the first record whose
    delivery has not ended to the last delivered one; `in_flight_max`: their limit, above which no new record is delivered."""

    acquired: Mapping[str, int]
    lock_ms: int | None
    redelivery: int
    archiving: int
    in_flight: int
    in_flight_max: int
