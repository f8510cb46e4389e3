"""The committed offsets of one group of any protocol, with pending and transactional commits (Kafka: OffsetMetadataManager). Pure state machine.

Invariants: a commit is confirmed only after it is persisted. A transactional commit takes effect with its commit marker. Of two commits the one
with the higher log offset wins. Does not check the member: the groups do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.coordinator.classic.events import (
    Commit,
    Completed,
    Effect,
    Offset,
    Persisted,
    PersistFailed,
    PersistOffsets,
    Reply,
    TopicIndex,
    TransactionalCommit,
)
from brokerd.wire.errors import ErrorCode

NO_ERRORS: Mapping[TopicIndex, int] = {}


@dataclass(slots=True)
class GroupOffsets:
    offsets: dict[TopicIndex, Offset] = field(default_factory=dict)
    record_offsets: dict[TopicIndex, int] = field(default_factory=dict)
    """The log offset of the record of each committed offset. The record with the higher log offset wins, as in compaction, in any order in which transactions
    end."""
    in_transactions: dict[int, dict[TopicIndex, tuple[Offset, int]]] = field(default_factory=dict)
    """{producer id: {partition: (offset, log offset of its record)}} of transactions without a marker (Kafka: pendingTransactionalOffsets)."""
    _number: int = 0
    _pending_commits: dict[int, tuple[Any, Completed, Mapping[TopicIndex, Offset], int | None]] = field(
        default_factory=dict
    )
    """{number of the write: (token, its response, offsets, producer id of a transaction)}."""

    def next_number(self) -> int:
        """The number of the group's next write, of offsets or other records. `Persisted` refers to it."""
        self._number += 1
        return self._number

    @property
    def none(self) -> bool:
        return not self.offsets and not self.in_transactions and not self._pending_commits

    @property
    def pending(self) -> bool:
        """True if commits are being written or belong to a transaction without a marker."""
        return bool(self.in_transactions or self._pending_commits)

    def commit(self, e: Commit, rejected: Mapping[TopicIndex, int] = NO_ERRORS) -> list[Effect]:
        number, offsets = self.next_number(), _without_rejected(e.offsets, rejected)
        self._pending_commits[number] = (e.token, Completed(ErrorCode.NONE, rejected), offsets, None)
        return [PersistOffsets(number, offsets)]

    def fenced_offsets(self, offsets: Mapping[TopicIndex, Offset]) -> dict[TopicIndex, int]:
        """{partition: error} of the offsets with a lower leader epoch than the last commit of the partition, written or being written. An epoch below 0 is not
        compared."""
        written = [self.offsets, *(o for _, _, o, producer_id in self._pending_commits.values() if producer_id is None)]

        def epoch_of(key: TopicIndex) -> int:
            return max((o[key].leader_epoch for o in written if key in o), default=-1)

        return {k: ErrorCode.FENCED_LEADER_EPOCH for k, o in offsets.items() if 0 <= o.leader_epoch < epoch_of(k)}

    def commit_in_transaction(
        self, e: TransactionalCommit, rejected: Mapping[TopicIndex, int] = NO_ERRORS
    ) -> list[Effect]:
        number, offsets = self.next_number(), _without_rejected(e.offsets, rejected)
        self._pending_commits[number] = (e.token, Completed(ErrorCode.NONE, rejected), offsets, e.producer_id)
        return [PersistOffsets(number, offsets, (e.producer_id, e.producer_epoch))]

    def on_persisted(self, e: Persisted) -> list[Effect] | None:
        """Return None if the number does not belong to an offset commit."""
        commit = self._pending_commits.pop(e.number, None)
        if commit is None:
            return None
        token, response, offsets, producer_id = commit
        for i, (key, offset) in enumerate(offsets.items()):
            self.place(key, offset, e.log_offset + i, producer_id)
        return [Reply(token, response)]

    def on_persist_failed(self, e: PersistFailed) -> list[Effect] | None:
        commit = self._pending_commits.pop(e.number, None)
        return None if commit is None else [Reply(commit[0], Completed(e.error))]

    def unload(self) -> list[Effect]:
        effects: list[Effect] = [
            Reply(token, Completed(ErrorCode.NOT_COORDINATOR)) for token, *_ in self._pending_commits.values()
        ]
        self._pending_commits.clear()
        return effects

    # -- records of the log ------------------------------------------------------------------------------------------------
    def place(self, key: TopicIndex, offset: Offset, log_offset: int, producer_id: int | None = None) -> None:
        """Apply the record of a commit."""
        if producer_id is not None:
            self.in_transactions.setdefault(producer_id, {})[key] = (offset, log_offset)
        elif log_offset >= self.record_offsets.get(key, -1):
            self.offsets[key], self.record_offsets[key] = offset, log_offset

    def forget(self, key: TopicIndex, below: int) -> None:
        """Apply a tombstone at log offset `below`. As in Kafka it also deletes earlier transactional commits."""
        if self.record_offsets.get(key, -1) < below:
            self.offsets.pop(key, None)
            self.record_offsets.pop(key, None)
        for producer_id, offsets in list(self.in_transactions.items()):
            if key in offsets and offsets[key][1] < below:
                del offsets[key]
            if not offsets:
                del self.in_transactions[producer_id]

    def partitions_with_offset(self) -> set[TopicIndex]:
        """Partitions with an offset: committed, in a transaction without a marker, or being written."""
        under_way = {k for _, _, offsets, _ in self._pending_commits.values() for k in offsets}
        return under_way.union(self.offsets, *self.in_transactions.values())

    def of_topic(self, topic: str, below: int) -> list[TopicIndex]:
        """Partitions of `topic` with an offset whose record has a log offset below `below`."""
        places = [*self.record_offsets.items()]
        places += [(key, at) for offsets in self.in_transactions.values() for key, (_, at) in offsets.items()]
        return sorted({key for key, at in places if key[0] == topic and at < below})

    def transaction_ended(self, producer_id: int, committed: bool, marker_offset: int) -> None:
        """Apply a replicated marker at `marker_offset` to the commits before it. A repeated marker finds no pending commits and has no effect."""
        offsets = self.in_transactions.get(producer_id, {})
        for key in [k for k, (_, at) in offsets.items() if at < marker_offset]:
            offset, at = offsets.pop(key)
            if committed:
                self.place(key, offset, at)
        if not offsets:
            self.in_transactions.pop(producer_id, None)

    def in_transaction(self, producer_id: int) -> bool:
        """Return whether this producer has transactional commits without a marker, or being written."""
        return producer_id in self.in_transactions or any(p == producer_id for *_, p in self._pending_commits.values())

    def unstable(self) -> set[TopicIndex]:
        """Partitions with a pending transactional commit (UNSTABLE_OFFSET_COMMIT)."""
        under_way = {
            k
            for _, _, offsets, producer_id in self._pending_commits.values()
            if producer_id is not None
            for k in offsets
        }
        return under_way.union(*self.in_transactions.values())


def _without_rejected(
    offsets: Mapping[TopicIndex, Offset], rejected: Mapping[TopicIndex, int]
) -> Mapping[TopicIndex, Offset]:
    return {place: offset for place, offset in offsets.items() if place not in rejected} if rejected else offsets
