"""The transaction coordinator: the transactional ids of the __transaction_state partitions that this broker leads.

Invariant: after a load, prepared transactions are completed. `shard` decides when a partition may be served. No sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator.shard import (
    REJECTED_BEFORE_APPEND,
    CoordinatorLog,
    CoordinatorShard,
    ShardManager,
)
from brokerd.coordinator.transactions import records as formats
from brokerd.coordinator.transactions import transaction_events as events
from brokerd.coordinator.transactions.markers import MarkerBatch, TransactionMarkerChannelManager
from brokerd.coordinator.transactions.transaction import Transaction
from brokerd.coordinator.transactions.transaction_events import TransactionMetadata
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, records_of

log = logging.getLogger(__name__)

EXPIRE_EVERY_MS = 60_000


@dataclass(slots=True)
class TransactionShard(CoordinatorShard):
    ids: dict[str, Transaction] = field(default_factory=dict)
    marker_batches: list[MarkerBatch] = field(default_factory=list)


class TransactionCoordinator(ShardManager[TransactionShard]):
    def __init__(
        self,
        coordinator_log: CoordinatorLog,
        markers: TransactionMarkerChannelManager,
        clock: Callable[[], Now],
        *,
        id_expiration_ms: int,
        timeout_check_ms: int,
    ) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, coordinator_log, clock, TransactionShard)
        self._markers = markers
        self._id_expiration_ms, self._timeout_check_ms = id_expiration_ms, timeout_check_ms
        self._timeouts_checked_ms = self._expired_ms = 0

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _on_unloaded(self, partition: int, shard: TransactionShard) -> None:
        for batch in shard.marker_batches:
            batch.closed = True
        for transaction in shard.ids.values():
            self._run_effects(partition, shard, transaction, transaction.unload())

    def _on_loaded(self, partition: int, shard: TransactionShard, now: Now) -> None:
        for transaction in shard.ids.values():
            transaction.on_loaded(now)
        log.info(
            "transaction coordinator partition loaded: partition=__transaction_state-%d transactional_ids=%d",
            partition,
            len(shard.ids),
        )
        for transaction in list(shard.ids.values()):
            self._run_effects(partition, shard, transaction, transaction.handle(events.TransactionTick(), now))

    def _replay(self, shard: TransactionShard, data: bytes, at: int, header: BatchHeader) -> None:
        for record in records_of(data, at, header):
            if record.offset < shard.next_offset:
                continue
            try:
                transactional_id = formats.read_key(record.key or b"")
                if record.value is None:
                    shard.ids.pop(transactional_id, None)
                else:
                    shard.ids[transactional_id] = Transaction(transactional_id, formats.read_value(record.value))
            except ValueError as e:
                log.warning("invalid record skipped: topic=__transaction_state offset=%d error=%s", record.offset, e)

    def tick(self, now: Now) -> None:
        for partition, shard in list(self.shards.items()):
            if not shard.loaded:
                self._load(partition, shard, now)
        if now.mono_ms - self._timeouts_checked_ms >= self._timeout_check_ms:
            self._timeouts_checked_ms = now.mono_ms
            for partition, shard in list(self.shards.items()):
                if shard.loaded:
                    for transaction in list(shard.ids.values()):
                        self._run_effects(
                            partition, shard, transaction, transaction.handle(events.TransactionTick(), now)
                        )
        if now.mono_ms - self._expired_ms >= EXPIRE_EVERY_MS:
            self._expired_ms = now.mono_ms
            self._expire(now)
        self._markers.tick()

    # -- finding -----------------------------------------------------------------------------------------------------------
    def find_existing(self, transactional_id: str) -> tuple[Transaction | None, int]:
        """(transaction or None if it does not exist, error)."""
        _, shard, error = self.find(transactional_id)
        return (None, error) if error or shard is None else (shard.ids.get(transactional_id), ErrorCode.NONE)

    def handle(self, transactional_id: str, event: events.Event, *, new_producer_id: int | None = None) -> int:
        """Pass `event` to the transaction, which is created if a new producer id is given. Returns an error code. If it is not NONE, the caller sends
        the error."""
        partition, shard, error = self.find(transactional_id)
        if error or shard is None:
            return error
        transaction = shard.ids.get(transactional_id)
        if transaction is None:
            if new_producer_id is None:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            transaction = shard.ids[transactional_id] = Transaction(
                transactional_id, TransactionMetadata(new_producer_id)
            )
        self._run_effects(partition, shard, transaction, transaction.handle(event, self._clock()))
        return ErrorCode.NONE

    def each(self) -> Iterator[Transaction]:
        return (t for shard in self.shards.values() if shard.loaded for t in shard.ids.values())

    # -- effects -----------------------------------------------------------------------------------------------------------
    def _run_effects(
        self, partition: int, shard: TransactionShard, transaction: Transaction, effects: Sequence[events.Effect]
    ) -> None:
        for effect in effects:
            match effect:
                case events.TransactionReply():
                    effect.token(effect.response)
                case events.Persist():
                    self._persist(partition, shard, transaction, effect)
                case events.SendMarkers():
                    self._send(partition, shard, transaction, effect)

    def _persist(
        self, partition: int, shard: TransactionShard, transaction: Transaction, effect: events.Persist
    ) -> None:
        def done(error: int) -> None:
            if self.shards.get(partition) is not shard:
                return  # the broker has resigned since: waiting requests were answered then
            now = self._clock()
            if error == ErrorCode.NONE:
                self._run_effects(
                    partition, shard, transaction, transaction.handle(events.TransactionPersisted(effect.number), now)
                )
            elif error in REJECTED_BEFORE_APPEND:
                failed = events.TransactionPersistFailed(effect.number, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self._run_effects(partition, shard, transaction, transaction.handle(failed, now))
            else:
                self._reload(partition, shard, error)

        self._append(partition, shard, transaction.transactional_id, formats.value(effect.record), done)

    def _append(
        self,
        partition: int,
        shard: TransactionShard,
        transactional_id: str,
        value: bytes | None,
        done: Callable[[int], None],
    ) -> None:
        record = records.Record(0, self._clock().wall_ms, formats.key(transactional_id), value)
        self._log.append(partition, records.build([record]), shard.epoch, done)

    def _send(
        self, partition: int, shard: TransactionShard, transaction: Transaction, order: events.SendMarkers
    ) -> None:
        def on_written() -> None:
            shard.marker_batches = [e for e in shard.marker_batches if e is not batch]
            if self.shards.get(partition) is shard and shard.ids.get(transaction.transactional_id) is transaction:
                event = events.MarkersWritten(order.epoch)
                self._run_effects(partition, shard, transaction, transaction.handle(event, self._clock()))

        batch = self._markers.send(order, shard.epoch, on_written)
        shard.marker_batches.append(batch)
        self._markers.tick()

    def _expire(self, now: Now) -> None:
        """Write tombstones of transactional ids that were unused for `transactional.id.expiration.ms`."""
        for partition, shard in list(self.shards.items()):
            if not shard.loaded:
                continue
            for name, transaction in list(shard.ids.items()):
                if transaction.expired(now.wall_ms, self._id_expiration_ms):
                    self._append(
                        partition, shard, name, None, partial(self._tombstone_written, partition, shard, transaction)
                    )

    def _tombstone_written(self, partition: int, shard: TransactionShard, transaction: Transaction, error: int) -> None:
        """Remove the transactional id after its tombstone is written, unless a producer has used it since."""
        if self.shards.get(partition) is not shard:
            return
        name = transaction.transactional_id
        if error == ErrorCode.NONE:
            unused = transaction.expired(self._clock().wall_ms, self._id_expiration_ms)
            if unused and shard.ids.get(name) is transaction:
                del shard.ids[name]
        elif error not in REJECTED_BEFORE_APPEND:
            self._reload(partition, shard, error)
