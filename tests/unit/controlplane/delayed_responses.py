"""Leaders that describe pending delayed messages from a table, for the tests of selectors, services, views and REST."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients import delayed_messages as client
from controlplane.clients import producer, record_range
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import Declined
from controlplane.clients.record_range import RecordRange
from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.models import Topic
from controlplane.selectors import front_leaders
from tests.unit.controlplane.world import World

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


@dataclass
class PendingRecord:
    offset: int
    deliver_at_ms: int
    key: bytes | None
    cancelled: bool = False


@dataclass
class DelayedResponses:
    """`waiting` by partition. `rejected`: partitions whose leader rejects. `silent`: brokers that do not respond. `written`: what was produced; a tombstone
    cancels at once, unless `ignores_cancel`. `result`: replaces the acknowledgement."""

    waiting: dict[int, list[PendingRecord]] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    blocked: int = 0
    ignores_cancel: bool = False
    written: list[tuple[str, NewRecord]] = field(default_factory=list)
    result: ProducedRecord | None = None

    def ask(self, brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        return [
            BrokerResponse(b.broker_id, None, "it is frozen")
            if b.broker_id in self.silent
            else BrokerResponse(b.broker_id, call(SimpleNamespace(host=b.host, port=b.port)))
            for b in brokers
        ]

    def pending(self, broker: Any, front: str, partition: int, q: DelayedMessagesRequest) -> DelayedMessagesResponse:
        if partition in self.rejected:
            raise Declined("NOT_LEADER_OR_FOLLOWER")
        all_waiting = sorted(self.waiting.get(partition, []), key=lambda w: (w.deliver_at_ms, w.offset))
        counts = [0] * (len(q.bounds_ms) + 1)
        for w in all_waiting:
            counts[bisect_right(q.bounds_ms, w.deliver_at_ms)] += 1
        found = [
            w
            for w in all_waiting
            if (q.key is None or w.key == q.key)
            and w.deliver_at_ms >= q.from_ms
            and (q.to_ms < 0 or w.deliver_at_ms < q.to_ms)
            and (w.deliver_at_ms, w.offset) > (q.after_ms, q.after_offset)
        ][: q.records_max]
        more = bool(found) and len(found) == q.records_max
        return DelayedMessagesResponse(
            pending=len(all_waiting),
            earliest_ms=all_waiting[0].deliver_at_ms if all_waiting else -1,
            counts=counts,
            delivered=7,
            cancelled=1,
            discarded=0,
            blocked=self.blocked,
            records=[DelayedMessagesResponse.Pending(w.offset, w.deliver_at_ms, w.cancelled) for w in found],
            next_ms=found[-1].deliver_at_ms if more else -1,
            next_offset=found[-1].offset if more else -1,
        )

    def read_range(self, topic: str, partition: int, first: int, last: int, bytes_max: int) -> RecordRange:
        records = [
            (w.offset, NewRecord(w.key, b"v", (("x-deliver-at-ms", b"%d" % w.deliver_at_ms),), None, NOW_MS))
            for w in self.waiting.get(partition, [])
            if first <= w.offset <= last
        ]
        return RecordRange(records, 0, 100, True)

    def produce(self, topic: str, records: list[NewRecord], **rest: Any) -> list[ProducedRecord]:
        self.written += [(topic, r) for r in records]
        (record,) = records
        assert record.partition is not None
        if self.result is not None:
            return [self.result]
        for w in self.waiting[record.partition]:
            if w.key == record.key and not self.ignores_cancel:
                w.cancelled = True
        return [ProducedRecord(record.partition, 100)]


def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World, topic: str = "orders") -> DelayedResponses:
    """A topic with delayed messages in two partitions; broker 1 leads partition 0, broker 2 partition 1."""
    world.topic(topic, (1, 2), (2, 3))
    world.topic(f"{topic}.delay", (1, 2), (2, 3), configs={"weir.delay.topic": topic})
    world.project()
    Topic.objects.filter(name=f"{topic}.delay").update(configs={"weir.delay.topic": topic})
    at = NOW_MS + HOUR_MS
    first = [
        PendingRecord(3, at, b"a"),
        PendingRecord(4, at + 9 * HOUR_MS, b"a"),
        PendingRecord(6, at, None),
        PendingRecord(7, at, b"c", cancelled=True),
    ]
    responses = DelayedResponses({0: first, 1: [PendingRecord(5, at - 1_000, b"b")]})
    monkeypatch.setattr(front_leaders, "call_brokers", responses.ask)
    monkeypatch.setattr(client, "fetch_pending", responses.pending)
    monkeypatch.setattr(record_range, "read_range", responses.read_range)
    monkeypatch.setattr(producer, "produce", responses.produce)
    return responses
