"""Transactions as their coordinators and the partition leaders report them, and the verdict on whether a transaction hangs.

A transaction hangs in a partition if the partition waits for an end marker that no coordinator will write: read_committed consumers stop at its first
record. Does not contain: requests (`controlplane.clients.transactions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.partition_names import split_partition_name

MINUTE_MS = 60_000


class CoordinatorState(StrEnum):
    """State of a transactional id at its coordinator, with Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


OPEN_STATES = (
    CoordinatorState.ONGOING,
    CoordinatorState.PREPARE_COMMIT,
    CoordinatorState.PREPARE_ABORT,
    CoordinatorState.PREPARE_EPOCH_FENCE,
)
"""States in which partitions may still wait for an end marker."""

ALL_OPEN = "open"
"""Filter: all of OPEN_STATES."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it. `coordinator`: id of that broker."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """A transactional id as its coordinator describes it. `started_ms` None: no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[tuple[str, int], ...]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    """A transaction that is open in one partition, as the leader of the partition describes its producer. `coordinator_epoch`: of the last end marker
    of this producer, -1 if there is none. `last_timestamp_ms`: of its last batch."""

    topic: str
    index: int
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int

    @property
    def partition(self) -> tuple[str, int]:
        return self.topic, self.index

    @property
    def target(self) -> str:
        """Identifies the transaction in an approval request."""
        return f"{self.topic}-{self.index}@{self.start_offset}"

    def same_as(self, other: PartitionTransaction) -> bool:
        mine = (self.partition, self.producer_id, self.start_offset)
        return mine == (other.partition, other.producer_id, other.start_offset)


class TransactionVerdict(StrEnum):
    """Verdict about a transaction that is open in a partition: whether it hangs there. active: its coordinator knows it and ends it. undetermined: not every
    coordinator answered, or a coordinator moves to another broker. The others hang: unknown_producer: no coordinator has a transactional id with this
    producer id. not_in_transaction: the transaction of its transactional id does not contain the partition. too_old: open for longer than
    transaction.max.timeout.ms, so its coordinator should have aborted it."""

    ACTIVE = "active"
    UNDETERMINED = "undetermined"
    UNKNOWN_PRODUCER = "unknown_producer"
    NOT_IN_TRANSACTION = "not_in_transaction"
    TOO_OLD = "too_old"

    @property
    def hangs(self) -> bool:
        return self in (self.UNKNOWN_PRODUCER, self.NOT_IN_TRANSACTION, self.TOO_OLD)


def verdict(
    open_transaction: PartitionTransaction,
    described: DescribedTransaction | None,
    *,
    all_responded: bool,
    now_ms: int,
    timeout_ms_max: int,
) -> TransactionVerdict:
    """`described`: the transactional id with the producer id of `open_transaction`, None if no coordinator that answered has one. `all_responded`: whether the
    coordinator of every transactional id answered. `timeout_ms_max`: transaction.max.timeout.ms."""
    if described is None:
        return TransactionVerdict.UNKNOWN_PRODUCER if all_responded else TransactionVerdict.UNDETERMINED
    if not described.is_open or open_transaction.partition not in described.partitions:
        return TransactionVerdict.NOT_IN_TRANSACTION if all_responded else TransactionVerdict.UNDETERMINED
    if described.started_ms is not None and now_ms - described.started_ms > timeout_ms_max:
        return TransactionVerdict.TOO_OLD
    return TransactionVerdict.ACTIVE


def parse_target(target: str) -> tuple[str, int, int] | None:
    """(topic, partition, start offset) of `topic-partition@offset`, None if it has another form."""
    name, _, offset = target.rpartition("@")
    partition = split_partition_name(name)
    if partition is None or len(offset) >= 20 or not (offset.isascii() and offset.isdigit()):
        return None
    return *partition, int(offset)


def coordinator_partition(transactional_id: str, count: int) -> int:
    """The partition of __transaction_state whose leader coordinates this transactional id: Java's hash of a string, as in Kafka. ASCII only."""
    h = 0
    for c in transactional_id:
        h = (31 * h + ord(c)) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % count


def probe_ids(count: int) -> dict[str, int]:
    """One transactional id, which no producer uses, for each of `count` partitions of __transaction_state. A broker that answers for the id coordinates the
    partition."""
    found: dict[int, str] = {}
    n = 0
    while len(found) < count:
        name = f"weir-probe-{n}"
        found.setdefault(coordinator_partition(name, count), name)
        n += 1
    return {name: partition for partition, name in found.items()}
