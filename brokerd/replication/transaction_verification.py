"""Verification of a producer's first batch of a transaction in a partition with the transaction coordinator (KIP-890).

Invariants:
  - Without verification a batch that arrives after the marker of its transaction would start a hanging transaction, which nothing ends.
  - A coordinator's response is valid only if no marker of that producer was written since then. So it is valid only in the leader epoch in which
    the request was sent: another leader may have written the marker.
  - Batches of a producer keep their order. A batch that arrives during a verification waits behind it.
Does not contain: the connection to the coordinator (`SendVerification`), the transaction's states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokerd.cluster.model import TopicPartition
from brokerd.replication.replica import Replica
from brokerd.wire.errors import ErrorCode

OnVerified = Callable[[ErrorCode, str | None], None]
"""The coordinator's error code and an error message."""


class SendVerification(Protocol):
    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Check whether `partition` is in this producer's current transaction. With `add` the partition is added. `done` is called later, exactly once."""


class PendingVerification:
    __slots__ = ("epoch", "leader_epoch", "overtaken", "waiting")

    def __init__(self, epoch: int, leader_epoch: int) -> None:
        self.epoch, self.leader_epoch = epoch, leader_epoch
        self.overtaken = False
        """A marker was written after the request."""
        self.waiting: list[OnVerified] = []


class TransactionVerification:
    def __init__(self, verify: SendVerification, *, enabled: Callable[[], bool]) -> None:
        self._send, self._enabled = verify, enabled
        self._pending: dict[tuple[TopicPartition, int], PendingVerification] = {}

    def needed(self, replica: Replica, producer_id: int, producer_epoch: int, *, add: bool) -> bool:
        """True when no transaction of this producer and epoch is open in the log, or when a batch of this producer waits for the coordinator. If
        verification is disabled, the result is False, except with `add`: then the coordinator must add the partition."""
        if not self._enabled() and not add:
            return False
        if self.is_pending(replica, producer_id):
            return True
        known = replica.log.producers.known.get(producer_id)
        return known is None or known.first_offset < 0 or known.epoch != producer_epoch

    def is_pending(self, replica: Replica, producer_id: int) -> bool:
        """Return whether a batch of this producer waits for its coordinator."""
        return (replica.tp, producer_id) in self._pending

    def verify(
        self,
        replica: Replica,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        on_verified: OnVerified,
        *,
        add: bool,
    ) -> None:
        key, leader_epoch = (replica.tp, producer_id), replica.core.leader_epoch
        pending = self._pending.get(key)
        if pending is not None and (pending.epoch, pending.leader_epoch) == (producer_epoch, leader_epoch):
            pending.waiting.append(on_verified)
            return
        pending = self._pending[key] = PendingVerification(producer_epoch, leader_epoch)
        pending.waiting.append(on_verified)
        self._send(
            transactional_id,
            producer_id,
            producer_epoch,
            (replica.topic, replica.tp.partition),
            add,
            lambda error: self._on_verified(replica, producer_id, pending, error),
        )

    def _on_verified(self, replica: Replica, producer_id: int, pending: PendingVerification, error: ErrorCode) -> None:
        key = (replica.tp, producer_id)
        if self._pending.get(key) is pending:
            del self._pending[key]
        reason = (
            None
            if error == ErrorCode.NONE
            else f"the transaction coordinator did not accept the transaction: {error.name}"
        )
        if not replica.leads or replica.core.leader_epoch != pending.leader_epoch:
            error, reason = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                "the partition leader changed during the verification of the transaction; refresh the metadata and retry",
            )
        elif error == ErrorCode.NONE and pending.overtaken:
            error, reason = ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction ended during its verification; retry"
        for on_verified in pending.waiting:
            on_verified(error, reason)

    def marker_written(self, tp: TopicPartition, producer_id: int) -> None:
        pending = self._pending.get((tp, producer_id))
        if pending is not None:
            pending.overtaken = True
