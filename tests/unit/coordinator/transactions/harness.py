"""One transaction with its responses, markers and writes, for the tests of its state machine."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import records as formats
from brokerd.coordinator.transactions import transaction_events as core
from brokerd.coordinator.transactions.transaction import Transaction
from brokerd.coordinator.transactions.transaction_events import (
    Persist,
    SendMarkers,
    TransactionMetadata,
    TransactionReply,
    TransactionResponse,
)

P0, P1 = ("flights", 0), ("flights", 1)
PID = 77


class TransactionHarness:
    """A transaction and its responses. Writes complete at once unless `hold_writes` is set."""

    def __init__(self, record: TransactionMetadata | None = None) -> None:
        self.t = Transaction("id", record or TransactionMetadata(PID))
        self.now = Now(1_000, 50_000)
        self.responses: list[TransactionResponse] = []
        self.markers: list[SendMarkers] = []
        self.held: list[Persist] = []
        self.hold_writes = False

    def deliver(self, event: core.Event) -> TransactionResponse | None:
        before = len(self.responses)
        self._run(self.t.handle(event, self.now))
        self.t.validate()
        return self.responses[-1] if len(self.responses) > before else None

    def _run(self, effects: list[core.Effect]) -> None:
        for effect in effects:
            match effect:
                case TransactionReply():
                    self.responses.append(effect.response)
                case SendMarkers():
                    self.markers.append(effect)
                case Persist():
                    assert formats.read_value(formats.value(effect.record)) == replace(
                        effect.record,
                        last_epoch=-1,
                        **({} if is_stored_completely(effect.record) else {"version": 0, "next_producer_id": -1}),
                    )
                    if self.hold_writes:
                        self.held.append(effect)
                    else:
                        self._run(self.t.handle(core.TransactionPersisted(effect.number), self.now))

    def release(self) -> None:
        for effect in self.held:
            self._run(self.t.handle(core.TransactionPersisted(effect.number), self.now))
        self.held.clear()

    def init(self, producer_id: int = -1, epoch: int = -1, new_id: int = PID) -> TransactionResponse:
        return self._not_none(self.deliver(core.Init("p", 10_000, new_id, producer_id, epoch)))

    def add(self, epoch: int, *places: core.TopicIndex, version: int = 0) -> int:
        return self._not_none(self.deliver(core.Add("p", PID, epoch, frozenset(places or (P0,)), version))).error

    def end(self, epoch: int, commit: bool = True, version: int = 0, producer_id: int = PID) -> TransactionResponse:
        return self._not_none(self.deliver(core.End("p", producer_id, epoch, commit, 99, version)))

    def deliver_markers_written(self) -> None:
        self.deliver(core.MarkersWritten(self.markers[-1].epoch))

    @staticmethod
    def _not_none(response: TransactionResponse | None) -> TransactionResponse:
        assert response is not None
        return response


def is_stored_completely(record: TransactionMetadata) -> bool:
    """Whether the record is stored completely: version 0 of the value has no fields for the second kind."""
    return record.version >= 2 or record.previous_producer_id >= 0
