"""Tells the leaders of a decided transaction's partitions, again and again until each has written its marker.

Laws: one request at a time is under way to each broker, with everything that waits for it; a partition that is no more needs no marker;
a leader that knows a newer coordinator or producer ends the matter here, as the newer one sees to it. Called by `transactions`.
Must not come in: sockets (`ask`), states of transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.transaction import SendMarkers, TopicIndex
from brokerd.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_MS = 100
"""Pause before a leader that refused, or could not be reached, is asked again: elections take longer."""
NONE, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED = 0, 47, 52
OVER = frozenset({INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED})


@dataclass(slots=True)
class Errand:
    """One decision; `left` are the partitions whose leaders have not confirmed yet."""

    order: SendMarkers
    coordinator_epoch: int
    done: Callable[[], None]
    left: set[TopicIndex]
    over: bool = False
    asked: set[TopicIndex] = field(default_factory=set)
    """Under way just now."""
    not_before_ms: int = 0


class Markers:
    """`leader_of(topic, partition)`: broker id, -1 while there is none, None when there is no such partition."""

    def __init__(
        self,
        ask: Callable[[int, WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse | None], None]], None],
        leader_of: Callable[[str, int], int | None],
        clock: Callable[[], Now],
    ) -> None:
        self._ask, self._leader_of, self._clock = ask, leader_of, clock
        self._errands: list[Errand] = []
        self._busy: set[int] = set()
        self._ticking = self._again = False

    def send(self, order: SendMarkers, coordinator_epoch: int, done: Callable[[], None]) -> Errand:
        """`done` once every partition has its marker; not within this call."""
        errand = Errand(order, coordinator_epoch, done, set(order.partitions))
        self._errands.append(errand)
        return errand

    def tick(self) -> None:
        """Send what can be sent. Called whenever there is something new, also from within a `done`, and by the broker's tick."""
        self._again = True
        while self._again and not self._ticking:
            self._ticking, self._again = True, False
            try:
                self._turn()
            finally:
                self._ticking = False

    def _turn(self) -> None:
        now = self._clock().mono_ms
        by_broker: dict[int, dict[int, tuple[Errand, set[TopicIndex]]]] = {}
        finished: list[Errand] = []
        for errand in self._errands:
            if errand.over:
                continue
            for place in sorted(errand.left - errand.asked):
                leader = self._leader_of(*place)
                if leader is None:
                    errand.left.discard(place)
                elif leader >= 0 and leader not in self._busy and errand.not_before_ms <= now:
                    by_broker.setdefault(leader, {}).setdefault(id(errand), (errand, set()))[1].add(place)
            if not errand.left:
                errand.over = True
                finished.append(errand)
        self._errands = [e for e in self._errands if not e.over]
        for broker_id, asked in by_broker.items():
            self._tell(broker_id, list(asked.values()))
        for errand in finished:
            errand.done()

    def _tell(self, broker_id: int, asked: list[tuple[Errand, set[TopicIndex]]]) -> None:
        self._busy.add(broker_id)
        markers = []
        for errand, places in asked:
            errand.asked |= places
            topics: dict[str, list[int]] = {}
            for topic, index in sorted(places):
                topics.setdefault(topic, []).append(index)
            markers.append(
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=errand.order.producer_id,
                    producer_epoch=errand.order.epoch,
                    transaction_result=errand.order.commit,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=t, partition_indexes=ids)
                        for t, ids in topics.items()
                    ],
                    coordinator_epoch=errand.coordinator_epoch,
                    transaction_version=errand.order.version,
                )
            )

        def answered(body: WriteTxnMarkersResponse | None) -> None:
            self._busy.discard(broker_id)
            self._answered(asked, body)
            self.tick()

        self._ask(broker_id, WriteTxnMarkersRequest(markers=markers), answered)

    def _answered(self, asked: list[tuple[Errand, set[TopicIndex]]], body: WriteTxnMarkersResponse | None) -> None:
        again = self._clock().mono_ms + RETRY_MS
        # In the order of the request; a producer id may stand there twice.
        answers: list[Any] = list(body.markers) if body is not None else [None] * len(asked)
        for (errand, places), marker in zip(asked, answers, strict=False):
            errand.asked -= places
            errors = (
                {(t.name, p.partition_index): p.error_code for t in marker.topics for p in t.partitions}
                if marker
                else {}
            )
            for place in places:
                error = errors.get(place)
                if error == NONE:
                    errand.left.discard(place)
                elif error in OVER:
                    errand.over = True
                else:
                    errand.not_before_ms = again
