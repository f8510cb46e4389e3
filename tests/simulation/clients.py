"""Clients in a world: idempotent acks=all producers and readers, speaking the wire. They know nothing but what they are answered."""

from __future__ import annotations

from typing import Any

from brokerd.apis.held import holds
from brokerd.cluster.model import TopicPartition
from brokerd.wire import framing, records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from brokerd.wire.records import Record
from tests.simulation.checkers import History, Violation
from tests.simulation.cluster import Cluster
from tests.simulation.network import SimPeer
from tests.simulation.world import Node

FATAL = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
}  # fmt: skip
RETRY_MS = 100
LATEST = -1
WIDE = 600
"""Digits of some records: their batches reach over a sector's end, so that power cuts tear them."""


class Client(Node):
    abortive = False
    """What it has given up is not delivered later: it closes its connections by a reset."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.world, name)
        self.cluster = cluster
        self.peers: dict[int, SimPeer] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The newest leader epoch heard of: older metadata is not believed, as with Kafka's own clients."""
        self.stopped = False

    def ask(self, broker_id: int, key: int, version: int, body: Any, done: Any) -> None:
        peer = self.peers.get(broker_id)
        if peer is None:
            host, port = self.cluster.brokers[broker_id].address
            peer = self.peers[broker_id] = SimPeer(self.cluster.network, self, host, port, 3000, abortive=self.abortive)

        def answered(frame: memoryview | None) -> None:
            done(None if frame is None else framing.decode_response(key, version, frame)[1])

        peer.ask(framing.encode_request(key, version, 0, self.name, body), answered)

    def refresh(self, then: Any) -> None:
        def answered(body: Any) -> None:
            if body is not None:
                for topic in body.topics:
                    for p in topic.partitions:
                        place = (topic.name, p.partition_index)
                        if p.leader_id >= 0 and p.leader_epoch >= self.epochs.get(place, -1):
                            self.leaders[place], self.epochs[place] = p.leader_id, p.leader_epoch
            then()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        self.ask(any_broker, ApiKey.METADATA, 9, MetadataRequest(topics=None), answered)

    def let_go(self, place: tuple[str, int], part: Any, offset: int) -> int:
        """A fetch at `offset` was answered with OFFSET_OUT_OF_RANGE: where to go on, 0 to ask somebody else. Whoever leads keeps nothing at
        `offset` then."""
        start = int(part.log_start_offset)
        topic = self.cluster.image.topic_named(place[0])
        leader = self.leaders.get(place)
        if topic is None or leader is None or start <= offset:
            return 0
        node = self.cluster.brokers[leader]
        held = node.broker.partitions.hosted.get(TopicPartition(topic.topic_id, place[1])) if node.alive else None
        if held is not None and held.log.start_offset <= offset < held.core.high_watermark:
            raise Violation(
                f"{place}: offset {offset} is out of range to {self.name}, and kept from {held.log.start_offset}"
            )
        if held is not None and offset < held.asks_below and (state := held.core.state) is not None:
            for b in state.holders:
                other = self.cluster.brokers[b].broker.partitions.hosted.get(held.tp)
                start = max(state.log_start_floor, other.log.start_offset if other is not None else 0)
                if other is not None and start <= offset < other.log.end_offset and holds(other, state.archive_start):
                    raise Violation(f"{place}: offset {offset} is out of range to {self.name}, and {b} holds it")
        self.world.reached["a reader meets what was let go"] += 1
        return start

    def later(self, what: Any, ms: int = RETRY_MS) -> None:
        self.loop.call_later(ms, lambda now: what())


class Producer(Client):
    """Writes numbered records to one partition, one batch under way at a time, until it is stopped and the last is acknowledged.

    Where nothing is promised any more, it answers a refusal for good by beginning anew.
    """

    def __init__(
        self, cluster: Cluster, history: History, name: str, topic: str, partition: int, pause_ms: int = 60
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.topic, self.partition, self.pause_ms = history, topic, partition, pause_ms
        self.producer_id = -1
        self.number = self.sequence = 0
        self.batch: list[bytes] = []
        self.idle = False
        self.enter(self._begin)

    def _begin(self) -> None:
        def answered(body: Any) -> None:
            if body is None or body.error_code:
                self.later(self._begin)
                return
            self.producer_id = body.producer_id
            self._next()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        self.ask(
            any_broker,
            ApiKey.INIT_PRODUCER_ID,
            1,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
            answered,
        )

    def _next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        count = self.world.between(1, 4)
        width = WIDE if self.world.chance(0.1) else 0
        self.batch = [f"{self.name}:{self.number + i:0{width}d}".encode() for i in range(count)]
        self.number += count
        self._send()

    def _send(self) -> None:
        leader = self.leaders.get((self.topic, self.partition))
        if leader is None:
            self.refresh(lambda: self.later(self._send))
            return
        data = records.build(
            [Record(i, self.clock().wall_ms, None, v) for i, v in enumerate(self.batch)],
            producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence,
        )  # fmt: skip
        body = ProduceRequest(
            acks=-1, timeout_ms=2000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=self.topic,
                    partition_data=[ProduceRequest.PartitionProduceData(index=self.partition, records=bytes(data))],
                )
            ],
        )  # fmt: skip
        self.ask(leader, ApiKey.PRODUCE, 9, body, self._answered)

    def _answered(self, body: Any) -> None:
        code = ErrorCode(body.responses[0].partition_responses[0].error_code) if body is not None else None
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            for value in self.batch:
                self.history.acked(self.topic, self.partition, value)
            self.sequence += len(self.batch)
            self.later(self._next, self.world.between(1, self.pause_ms))
            return
        if code in FATAL:
            assert code is not None
            if self.topic in self.history.unpromised:
                self.sequence = 0
                self.later(self._begin)
                return
            why = body.responses[0].partition_responses[0].error_message
            self.history.given_up.append(f"{self.name} at {self.sequence}: {code.name} {why}")
            self.world.tell(f"{self.name} gives up at {self.sequence}: {code.name} {why}")
            self.idle = True
            return
        self.leaders.pop((self.topic, self.partition), None)
        self.refresh(lambda: self.later(self._send))


class Reader(Client):
    """Reads one partition from its start, over and over from where it is, up to what it is shown.

    A `careful` one names the leader epoch it knows of and asks for the end now and then: that may never go back (KIP-207). It reads in fetch
    sessions, and names its partition only when it asks for something else than before.
    """

    def __init__(
        self, cluster: Cluster, history: History, name: str, topic: str, partition: int, *, careful: bool = True
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.topic, self.partition, self.careful = history, topic, partition, careful
        self.offset = 0
        self.end = 0
        self.ends_told = 0
        self.session, self.named = (-1, 0, 0), (-1, -1)
        """(leader, session id, epoch of the next fetch); (offset, leader epoch) as that session knows them."""
        self.enter(self._fetch)

    def _fetch(self) -> None:
        if self.stopped:
            return
        leader = self.leaders.get((self.topic, self.partition))
        if leader is None:
            self.refresh(lambda: self.later(self._fetch))
            return
        if self.careful and self.world.chance(0.2):
            self._ask_end(leader)
            return
        part = FetchRequest.FetchPartition(
            partition=self.partition,
            current_leader_epoch=self._epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=-1,
            partition_max_bytes=4096,
        )
        if self.session[0] != leader:
            self.session = (leader, 0, 0)
        _, session_id, session_epoch = self.session
        same = session_epoch > 0 and self.named == (self.offset, self._epoch)
        self.named = (self.offset, self._epoch)
        body = FetchRequest(
            replica_id=-1, max_wait_ms=300, min_bytes=1, max_bytes=1 << 20,
            session_id=session_id, session_epoch=session_epoch if self.careful else -1,
            topics=[] if same else [FetchRequest.FetchTopic(topic=self.topic, partitions=[part])],
        )  # fmt: skip
        self.ask(leader, ApiKey.FETCH, 11, body, self._answered)

    @property
    def _epoch(self) -> int:
        return self.epochs[self.topic, self.partition] if self.careful else -1

    def _ask_end(self, leader: int) -> None:
        part = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=self.partition, current_leader_epoch=self._epoch, timestamp=LATEST
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[part])]
        body = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        self.ask(leader, ApiKey.LIST_OFFSETS, 5, body, self._end_told)

    def _end_told(self, body: Any) -> None:
        part = body.topics[0].partitions[0] if body is not None else None
        if part is None or part.error_code:
            self.leaders.pop((self.topic, self.partition), None)
        else:
            self.ends_told += 1
            known = max(self.end, self.offset)
            if part.offset < known and self.topic not in self.history.unpromised:
                raise Violation(
                    f"{self.topic}-{self.partition}: the end was {known} to {self.name} and is told as {part.offset}"
                )
            self.end = part.offset
        self.later(self._fetch)

    def _answered(self, body: Any) -> None:
        if body is not None and self.careful:
            leader, _, session_epoch = self.session
            self.session = (leader, body.session_id, session_epoch + 1 if body.session_id else 0)
            if body.error_code:
                self.world.reached["fetch session not found"] += 1
            elif session_epoch and not body.responses:
                self.world.reached["nothing new in a fetch session"] += 1
            if body.error_code or (session_epoch and not body.responses):
                self.later(self._fetch, self.world.between(1, 40))
                return
        elif body is None:
            self.session = (-1, 0, 0)
        part = body.responses[0].partitions[0] if body is not None and body.responses else None
        if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offset = self.let_go((self.topic, self.partition), part, self.offset) or self.offset
        if part is None or part.error_code:
            self.leaders.pop((self.topic, self.partition), None)
            self.later(self._fetch)
            return
        for record in records.iterate(memoryview(bytes(part.records or b""))):
            if record.offset >= self.offset:
                self.history.saw(self.topic, self.partition, record.offset, record.value or b"")
                self.offset = record.offset + 1
        self.later(self._fetch, self.world.between(1, 40))
