"""Sends transaction markers to partition leaders until each has written its marker (Kafka: TransactionMarkerChannelManager).

Invariants: at most one request per broker is in flight, with all markers that wait for that broker. A deleted partition needs no marker.
A batch is dropped when a leader knows a newer coordinator epoch or producer epoch, because the newer coordinator completes the transaction.
Does not contain sockets and transaction states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions.transaction_events import SendMarkers, TopicIndex
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_MS = 100
"""Pause before a retry after a leader returned an error or was unreachable. It is shorter than an election."""
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


@dataclass(slots=True)
class MarkerBatch:
    """The markers of one transaction. `pending`: partitions whose leaders have not confirmed yet."""

    decision: SendMarkers
    coordinator_epoch: int
    done: Callable[[], None]
    pending: set[TopicIndex]
    closed: bool = False
    in_flight: set[TopicIndex] = field(default_factory=set)
    """Partitions whose markers are in flight."""
    not_before_ms: int = 0


class TransactionMarkerChannelManager:
    """`leader_of(topic, partition)`: broker id, -1 without a leader, None if the partition does not exist."""

    def __init__(
        self,
        send_request: Callable[[int, WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse | None], None]], None],
        leader_of: Callable[[str, int], int | None],
        clock: Callable[[], Now],
    ) -> None:
        self._send_request, self._leader_of, self._clock = send_request, leader_of, clock
        self._batches: list[MarkerBatch] = []
        self._busy: set[int] = set()
        self._ticking = self._send_again = False

    def send(self, decision: SendMarkers, coordinator_epoch: int, done: Callable[[], None]) -> MarkerBatch:
        """Queue markers. `done` is called after every partition has its marker, never within this call."""
        batch = MarkerBatch(decision, coordinator_epoch, done, set(decision.partitions))
        self._batches.append(batch)
        return batch

    def tick(self) -> None:
        """Send all markers that can be sent. May be called inside a `done` callback."""
        self._send_again = True
        while self._send_again and not self._ticking:
            self._ticking, self._send_again = True, False
            try:
                self._send_pending()
            finally:
                self._ticking = False

    def _send_pending(self) -> None:
        now = self._clock().mono_ms
        by_broker: dict[int, dict[int, tuple[MarkerBatch, set[TopicIndex]]]] = {}
        finished: list[MarkerBatch] = []
        for batch in self._batches:
            if batch.closed:
                continue
            for place in sorted(batch.pending - batch.in_flight):
                leader = self._leader_of(*place)
                if leader is None:
                    batch.pending.discard(place)
                elif leader >= 0 and leader not in self._busy and batch.not_before_ms <= now:
                    by_broker.setdefault(leader, {}).setdefault(id(batch), (batch, set()))[1].add(place)
            if not batch.pending:
                batch.closed = True
                finished.append(batch)
        self._batches = [e for e in self._batches if not e.closed]
        for broker_id, sent in by_broker.items():
            self._deliver(broker_id, list(sent.values()))
        for batch in finished:
            batch.done()

    def _deliver(self, broker_id: int, sent: list[tuple[MarkerBatch, set[TopicIndex]]]) -> None:
        self._busy.add(broker_id)
        markers = []
        for batch, places in sent:
            batch.in_flight |= places
            topics: dict[str, list[int]] = {}
            for topic, index in sorted(places):
                topics.setdefault(topic, []).append(index)
            markers.append(
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=batch.decision.producer_id,
                    producer_epoch=batch.decision.epoch,
                    transaction_result=batch.decision.commit,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=t, partition_indexes=ids)
                        for t, ids in topics.items()
                    ],
                    coordinator_epoch=batch.coordinator_epoch,
                    transaction_version=batch.decision.version,
                )
            )

        def on_response(body: WriteTxnMarkersResponse | None) -> None:
            self._busy.discard(broker_id)
            self._on_response(sent, body)
            self.tick()

        self._send_request(broker_id, WriteTxnMarkersRequest(markers=markers), on_response)

    def _on_response(
        self, sent: list[tuple[MarkerBatch, set[TopicIndex]]], body: WriteTxnMarkersResponse | None
    ) -> None:
        again = self._clock().mono_ms + RETRY_MS
        # The results are matched by position, because a producer id may occur twice.
        results: list[Any] = list(body.markers) if body is not None else [None] * len(sent)
        for (batch, places), marker in zip(sent, results, strict=False):
            batch.in_flight -= places
            errors = (
                {(t.name, p.partition_index): p.error_code for t in marker.topics for p in t.partitions}
                if marker
                else {}
            )
            for place in places:
                error = errors.get(place)
                if error == ErrorCode.NONE:
                    batch.pending.discard(place)
                elif error in FENCED:
                    batch.closed = True
                else:
                    batch.not_before_ms = again
