"""A world of producers without idempotence and with five requests in flight: which reordering is allowed in a log.

Two batches that were each sent once over the same connection are in the log in the order of sending. A retried batch may be after its successors,
or duplicated: max.in.flight.requests.per.connection above 1 guarantees no more without idempotence. Retries follow librdkafka: a failed batch is
sent before unsent ones; batches in flight are not affected.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree, values
from tests.simulation.clients import RETRY_MS, Client
from tests.simulation.cluster import Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.world import S, World

TOPIC = "plain"
IN_FLIGHT_MAX = 5
PAUSE_MS = 20
Connection = tuple[int, int]
"""(broker, number of the connection)."""


class PlainProducer(Client):
    def __init__(self, cluster: Cluster, name: str, acks: int) -> None:
        super().__init__(cluster, name)
        self.acks = acks
        self.sent: dict[int, list[Connection]] = {}
        """{batch number: connections over which it was sent}."""
        self._queue: deque[int] = deque()
        self._next = self._in_flight = 0
        self._refreshing = False
        self.enter(self._write)

    @property
    def idle(self) -> bool:
        return self.stopped and not self._queue and not self._in_flight

    def _write(self) -> None:
        if self.stopped:
            return
        for _ in range(self.world.between(1, 4)):
            if len(self._queue) < 2 * IN_FLIGHT_MAX:
                self._queue.append(self._next)
                self._next += 1
        self._drain()
        self.call_later(self._write, self.world.between(1, PAUSE_MS))

    def _drain(self) -> None:
        while self._queue and self._in_flight < IN_FLIGHT_MAX:
            leader = self.leaders.get((TOPIC, 0))
            if leader is None:
                if not self._refreshing:
                    self._refreshing = True
                    self.refresh(lambda: self.call_later(self._on_refreshed))
                return
            self._send(leader, self._queue.popleft())

    def _on_refreshed(self) -> None:
        self._refreshing = False
        self._drain()

    def _send(self, leader: int, number: int) -> None:
        data = records.build([Record(0, self.clock().wall_ms, None, f"{self.name}:{number}".encode())])
        part = ProduceRequest.PartitionProduceData(index=0, records=bytes(data))
        topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])]
        body = ProduceRequest(acks=self.acks, timeout_ms=2000, topic_data=topics)
        peer = self.peers.get(leader)
        self.sent.setdefault(number, []).append((leader, peer.number if peer is not None else 0))
        self._in_flight += 1

        def on_response(response: Any) -> None:
            self._in_flight -= 1
            error = response.responses[0].partition_responses[0].error_code if response is not None else None
            if error != ErrorCode.NONE:
                self.leaders.pop((TOPIC, 0), None)
                at = sum(1 for waiting in self._queue if waiting < number)
                self._queue.insert(at, number)
                self.call_later(self._drain, RETRY_MS)
            else:
                self._drain()

        self.send_request(leader, ApiKey.PRODUCE, 9, body, on_response)

    def verify(self, numbers: list[int]) -> None:
        """`numbers`: the batches in the log, in order."""
        newest: dict[Connection, int] = {}
        highest, seen = -1, Counter[int]()
        for number in numbers:
            seen[number] += 1
            once = len(self.sent[number]) == 1
            if once and seen[number] > 1:
                raise Violation(f"{self.name}: batch {number} was sent once and is duplicated in the log")
            if number < highest and not once:
                self.world.reached["retried batch after its successor"] += 1
            highest = max(highest, number)
            if once:
                connection = self.sent[number][0]
                before = newest.get(connection, -1)
                if number < before:
                    raise Violation(
                        f"{self.name}: batch {number} is after {before}; each was sent once, over connection {connection}"
                    )
                newest[connection] = number


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    acks = world.rng.choice((1, -1))
    world.deliver(f"fault kinds: {fault_kinds}; producers with acks={acks}")
    cluster = Cluster(world, probes=PROBES[world.seed % 2])
    InvariantChecker(cluster)
    topic_id = cluster.want_topic(TOPIC, 1, 3, min_insync_replicas=world.rng.choice(("1", "2")))
    history.unpromised.add(TOPIC)
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    producers = [PlainProducer(cluster, f"n{n}", acks) for n in "ab"]
    world.run(world.now_us + 1 * S)
    injector = FaultInjector(cluster, history, fault_kinds, faults_max)
    injector.run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    for producer in producers:
        producer.stopped = True
    cluster.run_until(lambda: all(p.idle for p in producers), 40, "the last acknowledgements")
    cluster.run_until(cluster.level, 20, "equal high watermarks")
    logs_agree(cluster)
    tp = TopicPartition(topic_id, 0)
    state = cluster.image.partition(tp)
    assert state is not None
    stored = [value.decode().split(":") for _, value in values(cluster, state.leader, tp)]
    for producer in producers:
        numbers = [int(number) for name, number in stored if name == producer.name]
        producer.verify(numbers)
        history.acks += len(numbers)
