"""Where transactional ids live: the partitions of __transaction_state that this broker leads.

Law: after loading, what was prepared is completed. When a partition is served is the question of `leading`. Called by the doors and
the broker's tick. Must not come in: sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator import leading
from brokerd.coordinator import transaction as events
from brokerd.coordinator import transaction_records as formats
from brokerd.coordinator.leading import COORDINATOR_NOT_AVAILABLE, NONE, REFUSED_BEFORE_APPEND, CoordinatorLog, Leading
from brokerd.coordinator.markers import Errand, Markers
from brokerd.coordinator.transaction import Record, Transaction
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, records_of

log = logging.getLogger(__name__)

EXPIRE_EVERY_MS = 60_000


@dataclass(slots=True)
class Led(leading.Led):
    ids: dict[str, Transaction] = field(default_factory=dict)
    errands: list[Errand] = field(default_factory=list)


class Transactions(Leading[Led]):
    def __init__(
        self,
        coordinator_log: CoordinatorLog,
        markers: Markers,
        clock: Callable[[], Now],
        *,
        id_expiration_ms: int,
        look_ms: int,
    ) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, coordinator_log, clock, Led)
        self._markers = markers
        self._id_expiration_ms, self._look_ms = id_expiration_ms, look_ms
        self._looked_ms = self._expired_ms = 0

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _unloaded(self, partition: int, led: Led) -> None:
        for errand in led.errands:
            errand.over = True
        for transaction in led.ids.values():
            self._run(partition, led, transaction, transaction.unload())

    def _loaded(self, partition: int, led: Led, now: Now) -> None:
        for transaction in led.ids.values():
            transaction.loaded(now)
        log.info("__transaction_state-%d loaded: %d transactional ids", partition, len(led.ids))
        for transaction in list(led.ids.values()):
            self._run(partition, led, transaction, transaction.handle(events.Tick(), now))

    def _replay(self, led: Led, data: bytes, at: int, header: BatchHeader) -> None:
        for record in records_of(data, at, header):
            if record.offset < led.next_offset:
                continue
            try:
                transactional_id = formats.read_key(record.key or b"")
                if record.value is None:
                    led.ids.pop(transactional_id, None)
                else:
                    led.ids[transactional_id] = Transaction(transactional_id, formats.read_value(record.value))
            except ValueError as e:
                log.warning("a record of __transaction_state at %d is skipped: %s", record.offset, e)

    def tick(self, now: Now) -> None:
        for partition, led in list(self.led.items()):
            if not led.loaded:
                self._load(partition, led, now)
        if now.mono_ms - self._looked_ms >= self._look_ms:
            self._looked_ms = now.mono_ms
            for partition, led in list(self.led.items()):
                if led.loaded:
                    for transaction in list(led.ids.values()):
                        self._run(partition, led, transaction, transaction.handle(events.Tick(), now))
        if now.mono_ms - self._expired_ms >= EXPIRE_EVERY_MS:
            self._expired_ms = now.mono_ms
            self._expire(now)
        self._markers.tick()

    # -- finding -----------------------------------------------------------------------------------------------------------
    def existing(self, transactional_id: str) -> tuple[Transaction | None, int]:
        """(transaction or None when there is none, error)."""
        _, led, error = self.find(transactional_id)
        return (None, error) if error or led is None else (led.ids.get(transactional_id), NONE)

    def handle(self, transactional_id: str, event: events.Event, *, drawn_id: int | None = None) -> int:
        """Give `event` to the transaction, which is made if a producer id was drawn for it. An error: the caller answers."""
        partition, led, error = self.find(transactional_id)
        if error or led is None:
            return error
        transaction = led.ids.get(transactional_id)
        if transaction is None:
            if drawn_id is None:
                return events.INVALID_PRODUCER_ID_MAPPING
            transaction = led.ids[transactional_id] = Transaction(transactional_id, Record(drawn_id))
        self._run(partition, led, transaction, transaction.handle(event, self._clock()))
        return NONE

    def each(self) -> Iterator[Transaction]:
        return (t for led in self.led.values() if led.loaded for t in led.ids.values())

    # -- effects -----------------------------------------------------------------------------------------------------------
    def _run(self, partition: int, led: Led, transaction: Transaction, effects: Sequence[events.Effect]) -> None:
        for effect in effects:
            match effect:
                case events.Reply():
                    effect.token(effect.answer)
                case events.Persist():
                    self._persist(partition, led, transaction, effect)
                case events.SendMarkers():
                    self._send(partition, led, transaction, effect)

    def _persist(self, partition: int, led: Led, transaction: Transaction, effect: events.Persist) -> None:
        def done(error: int) -> None:
            if self.led.get(partition) is not led:
                return  # resigned since: whoever waited has been told
            now = self._clock()
            if error == NONE:
                self._run(partition, led, transaction, transaction.handle(events.Persisted(effect.number), now))
            elif error in REFUSED_BEFORE_APPEND:
                failed = events.PersistFailed(effect.number, COORDINATOR_NOT_AVAILABLE)
                self._run(partition, led, transaction, transaction.handle(failed, now))
            else:
                self._unknown(partition, led, error)

        self._append(partition, led, transaction.transactional_id, formats.value(effect.record), done)

    def _append(
        self, partition: int, led: Led, transactional_id: str, value: bytes | None, done: Callable[[int], None]
    ) -> None:
        record = records.Record(0, self._clock().wall_ms, formats.key(transactional_id), value)
        self._log.append(partition, records.build([record]), led.epoch, done)

    def _send(self, partition: int, led: Led, transaction: Transaction, order: events.SendMarkers) -> None:
        def written() -> None:
            led.errands = [e for e in led.errands if e is not errand]
            if self.led.get(partition) is led and led.ids.get(transaction.transactional_id) is transaction:
                event = events.MarkersWritten(order.epoch)
                self._run(partition, led, transaction, transaction.handle(event, self._clock()))

        errand = self._markers.send(order, led.epoch, written)
        led.errands.append(errand)
        self._markers.tick()

    def _expire(self, now: Now) -> None:
        """Ids that nobody has used for long."""
        for partition, led in list(self.led.items()):
            if not led.loaded:
                continue
            for name, transaction in list(led.ids.items()):
                if transaction.expired(now.wall_ms, self._id_expiration_ms):
                    del led.ids[name]
                    self._append(partition, led, name, None, lambda error: None)
