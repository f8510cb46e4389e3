"""An idempotent acks=all producer with up to five requests in flight per broker, each with one batch for every ready partition of that broker.

Retries follow Kafka's Java client: a batch keeps its sequence number; a retried batch waits until it is the first one without an acknowledgement, and no new
batch of its partition is sent before that; OUT_OF_ORDER_SEQUENCE_NUMBER is fatal only for the batch after the last acknowledged one; a lost
connection fails all its requests in flight. The invariants of acknowledgements are in `checkers.History`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.compression import NONE, ZSTD
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import InitProducerIdRequest, ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.checkers import History, Violation
from tests.simulation.clients import FATAL, RETRY_MS, WIDE, Client
from tests.simulation.cluster import Cluster

Place = tuple[str, int]
IN_FLIGHT_MAX = 5
"""Requests per connection: Kafka's max.in.flight.requests.per.connection, and the batches that a leader remembers per producer."""
BURST_MAX = 6
"""Batches that are queued for one partition at once: more than can be in flight, so that some wait."""
QUEUED_MAX = 12
"""Limit of queued batches per partition; beyond it the producer pauses, as Java's does with a full buffer."""


@dataclass(slots=True, eq=False)
class Batch:
    values: list[bytes]
    compression: int
    sequence: int = -1
    """Assigned at the first send."""
    not_before_ms: int = 0


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """One partition's batches. `queue`: to be sent, retries first; `unresolved`: sent and not acknowledged, by sequence."""

    place: Place
    number: int = 0
    sequence: int = 0
    acknowledged: int = -1
    """Sequence of the last acknowledged record."""
    queue: deque[Batch] = field(default_factory=deque)
    unresolved: list[Batch] = field(default_factory=list)

    def ready(self, mono_ms: int) -> bool:
        if not self.queue or self.queue[0].not_before_ms > mono_ms:
            return False
        first = self.queue[0]
        return first.sequence < 0 or first is self.unresolved[0]

    def take(self) -> Batch:
        batch = self.queue.popleft()
        if batch.sequence < 0:
            batch.sequence, self.sequence = self.sequence, self.sequence + len(batch.values)
            self.unresolved.append(batch)
        return batch

    def queue_retry(self, batch: Batch, not_before_ms: int) -> None:
        """Queues a retry after the retries with a lower sequence."""
        batch.not_before_ms = not_before_ms
        at = sum(1 for b in self.queue if 0 <= b.sequence < batch.sequence)
        self.queue.insert(at, batch)

    @property
    def empty(self) -> bool:
        return not self.queue and not self.unresolved


class PipelinedProducer(Client):
    def __init__(
        self, cluster: Cluster, history: History, name: str, places: Sequence[Place], pause_ms: int = 100
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.pause_ms = history, pause_ms
        self.lines = {place: PartitionQueue(place) for place in places}
        self.producer_id = -1
        self.rejected = self._refreshing = False
        self._in_flight: Counter[int] = Counter()
        self.enter(self._begin)

    @property
    def idle(self) -> bool:
        return self.rejected or (self.stopped and all(line.empty for line in self.lines.values()))

    def _begin(self) -> None:
        def on_response(body: Any) -> None:
            if body is None or body.error_code:
                self.call_later(self._begin)
                return
            self.producer_id = body.producer_id
            self._write()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        self.send_request(any_broker, ApiKey.INIT_PRODUCER_ID, 1, body, on_response)

    def _write(self) -> None:
        """The application writes a few records, or a burst."""
        if self.stopped or self.rejected:
            return
        for line in self.lines.values():
            if len(line.queue) >= QUEUED_MAX or self.world.chance(0.4):
                continue
            for _ in range(self.world.between(1, BURST_MAX) if self.world.chance(0.5) else 1):
                count = self.world.between(1, 3)
                width = WIDE if self.world.chance(0.05) else 0
                values = [f"{self.name}:{line.number + i:0{width}d}".encode() for i in range(count)]
                line.number += count
                line.queue.append(Batch(values, ZSTD if self.world.chance(0.2) else NONE))
        self._drain()
        self.call_later(self._write, self.world.between(1, 2 * self.pause_ms))

    # -- sending -------------------------------------------------------------------------------------------------------
    def _drain(self) -> None:
        if self.rejected:
            return
        now_ms = self.clock().mono_ms
        while True:
            ready: dict[int, list[PartitionQueue]] = {}
            for line in self.lines.values():
                if line.ready(now_ms):
                    leader = self.leaders.get(line.place)
                    if leader is None:
                        self._ask_who_leads()
                    elif self._in_flight[leader] < IN_FLIGHT_MAX:
                        ready.setdefault(leader, []).append(line)
            if not ready:
                return
            for leader, lines in ready.items():
                self._send(leader, [(line, line.take()) for line in lines])

    def _ask_who_leads(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self.refresh(lambda: self.call_later(self._on_refreshed))

    def _on_refreshed(self) -> None:
        self._refreshing = False
        self._drain()

    def _send(self, leader: int, sent: list[tuple[PartitionQueue, Batch]]) -> None:
        topics: dict[str, list[Any]] = {}
        now_ms = self.clock().wall_ms
        for line, batch in sent:
            data = records.build(
                [Record(i, now_ms, None, v) for i, v in enumerate(batch.values)],
                producer_id=self.producer_id,
                producer_epoch=0,
                base_sequence=batch.sequence,
                compression=batch.compression,
            )
            part = ProduceRequest.PartitionProduceData(index=line.place[1], records=bytes(data))
            topics.setdefault(line.place[0], []).append(part)
        body = ProduceRequest(
            acks=-1,
            timeout_ms=2000,
            topic_data=[ProduceRequest.TopicProduceData(name=t, partition_data=parts) for t, parts in topics.items()],
        )
        self._in_flight[leader] += 1
        if self._in_flight[leader] > 1:
            self.world.reached["several requests in flight"] += 1

        def on_response(response: Any) -> None:
            self._in_flight[leader] -= 1
            self._on_response(sent, response)

        self.send_request(leader, ApiKey.PRODUCE, 9, body, on_response)

    # -- responses -----------------------------------------------------------------------------------------------------
    def _on_response(self, sent: list[tuple[PartitionQueue, Batch]], body: Any) -> None:
        responses = {}
        if body is not None:
            responses = {(t.name, p.index): p for t in body.responses for p in t.partition_responses}
            if responses.keys() != {line.place for line, _ in sent}:
                raise Violation(
                    f"{self.name} sent {[line.place for line, _ in sent]} and got responses for {sorted(responses)}"
                )
        for line, batch in sent:
            part = responses.get(line.place)
            code = ErrorCode(part.error_code) if part is not None else None
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._on_acknowledged(line, batch, part.base_offset if code == ErrorCode.NONE else None)
            elif code in FATAL and self._final(line, batch, code):
                reason = f"{self.name} at {line.place} {batch.sequence}: {code.name} {part.error_message}"
                self.world.deliver(f"{reason}: it gives up")
                self.history.given_up.append(reason)
                self.rejected = True
            else:
                self.world.reached["pipelined batch retried"] += 1
                line.queue_retry(batch, self.clock().mono_ms + RETRY_MS)
                if code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    self.leaders.pop(line.place, None)
                else:
                    self.world.reached["batch after a lost one"] += 1
                self.call_later(self._drain, RETRY_MS)
        self._drain()

    @staticmethod
    def _final(line: PartitionQueue, batch: Batch, code: ErrorCode) -> bool:
        return code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or batch.sequence == line.acknowledged + 1

    def _on_acknowledged(self, line: PartitionQueue, batch: Batch, base_offset: int | None) -> None:
        line.unresolved.remove(batch)
        line.acknowledged = max(line.acknowledged, batch.sequence + len(batch.values) - 1)
        for i, value in enumerate(batch.values):
            self.history.on_acknowledged(*line.place, value, None if base_offset is None else base_offset + i)
