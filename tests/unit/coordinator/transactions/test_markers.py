"""Markers are sent until each leader has written its marker, one request at a time per broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions.markers import (
    RETRY_MS,
    TransactionMarkerChannelManager,
)
from brokerd.coordinator.transactions.transaction_events import SendMarkers
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


class Scene:
    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int | None] = {A0: 1, A1: 2, B0: 1}
        self.now = 0
        self.requested: list[tuple[int, WriteTxnMarkersRequest, Callable[[Any], None]]] = []
        self.done: list[int] = []
        self.markers = TransactionMarkerChannelManager(
            lambda broker, body, done: self.requested.append((broker, body, done)),
            lambda topic, index: self.leaders.get((topic, index)),
            lambda: Now(self.now, 0),
        )

    def send(self, number: int, *places: tuple[str, int]) -> Any:
        decision = SendMarkers(number, 0, True, frozenset(places), 0)
        batch = self.markers.send(decision, 5, lambda: self.done.append(number))
        self.markers.tick()
        return batch

    def respond(self, broker_id: int, errors: dict[tuple[str, int], int] | None) -> None:
        """Answer the oldest request to that broker. None: the connection is lost."""
        at = next(i for i, (b, _, _) in enumerate(self.requested) if b == broker_id)
        _, body, done = self.requested.pop(at)
        if errors is None:
            done(None)
            return
        out = []
        for marker in body.markers:
            topics = [
                WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                    name=t.name,
                    partitions=[
                        WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                            partition_index=i, error_code=errors.get((t.name, i), 0)
                        )
                        for i in t.partition_indexes
                    ],
                )
                for t in marker.topics
            ]
            out.append(WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        done(WriteTxnMarkersResponse(markers=out))

    def under_way(self) -> list[tuple[int, list[int]]]:
        return [(b, [x.producer_id for x in body.markers]) for b, body, _ in self.requested]

    def advance(self) -> None:
        self.now += RETRY_MS
        self.markers.tick()


def test_each_leader_gets_the_marker_once_and_all_must_confirm() -> None:
    scene = Scene()
    scene.send(7, A0, A1, B0)
    assert scene.under_way() == [(1, [7]), (2, [7])]
    assert scene.requested[0][1].markers[0].coordinator_epoch == 5
    scene.respond(1, {})
    assert scene.done == []
    scene.respond(2, {})
    assert scene.done == [7] and scene.under_way() == []


def test_markers_during_a_request_are_batched_in_the_next_request() -> None:
    scene = Scene()
    for number in (7, 8, 9):
        scene.send(number, A0)
    assert scene.under_way() == [(1, [7])]
    scene.respond(1, {})
    assert scene.under_way() == [(1, [8, 9])]
    scene.respond(1, {})
    assert scene.done == [7, 8, 9]


def test_a_failed_marker_request_is_retried_at_the_current_leader() -> None:
    scene = Scene()
    scene.send(7, A0, B0)
    scene.respond(1, {A0: 6})
    assert scene.under_way() == [], "after a pause"
    scene.leaders[A0] = 2
    scene.advance()
    assert scene.under_way() == [(2, [7])]
    scene.respond(2, None)
    scene.leaders[A0] = -1
    scene.advance()
    assert scene.under_way() == [] and scene.done == []
    scene.leaders[A0] = 3
    scene.advance()
    scene.respond(3, {})
    assert scene.done == [7]


def test_a_deleted_partition_needs_no_marker() -> None:
    scene = Scene()
    scene.leaders[A0] = None
    scene.send(7, A0)
    assert scene.done == [7]
    scene.send(8)
    assert scene.done == [7, 8]


def test_a_fenced_coordinator_stops_sending_markers() -> None:
    for error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        scene = Scene()
        batch = scene.send(7, A0, B0)
        scene.respond(1, {A0: error})
        scene.advance()
        assert batch.closed and scene.under_way() == [] and scene.done == []


def test_a_former_coordinator_sends_no_markers() -> None:
    scene = Scene()
    batch = scene.send(7, A0)
    scene.respond(1, {A0: 6})
    batch.closed = True
    scene.advance()
    assert scene.under_way() == [] and scene.done == []
