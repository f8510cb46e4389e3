"""Clients in a world: idempotent acks=all producers and readers that speak the wire protocol. They know nothing but the responses that they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerd.apis.history_reads import has_history
from brokerd.cluster.model import TopicPartition
from brokerd.wire import framing, records
from brokerd.wire.apis import ApiKey
from brokerd.wire.compression import NONE
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from brokerd.wire.records import Record
from tests.simulation.checkers import History, Violation, key_of
from tests.simulation.cluster import Cluster
from tests.simulation.network import SimPeer
from tests.simulation.world import Node

FATAL = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
}
RETRY_MS = 100
LATEST = -1
WIDE = 600
"""Digits of some records: their batches cross a sector boundary, so that power cuts tear them."""


class Client(Node):
    abortive = False
    """A client closes its connections by a reset: a request that it has given up is not delivered later."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.world, name)
        self.cluster = cluster
        self.peers: dict[int, SimPeer] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The newest leader epoch seen: older metadata is ignored, as in Kafka's own clients."""
        self.stopped = False

    def send_request(self, broker_id: int, key: int, version: int, body: Any, done: Any) -> None:
        peer = self.peers.get(broker_id)
        if peer is None:
            host, port = self.cluster.brokers[broker_id].address
            peer = self.peers[broker_id] = SimPeer(self.cluster.network, self, host, port, 3000, abortive=self.abortive)

        def on_response(frame: memoryview | None) -> None:
            done(None if frame is None else framing.decode_response(key, version, frame)[1])

        peer.send_request(framing.encode_request(key, version, 0, self.name, body), on_response)

    def refresh(self, then: Any) -> None:
        def on_response(body: Any) -> None:
            if body is not None:
                for topic in body.topics:
                    for p in topic.partitions:
                        place = (topic.name, p.partition_index)
                        if p.leader_id >= 0 and p.leader_epoch >= self.epochs.get(place, -1):
                            self.leaders[place], self.epochs[place] = p.leader_id, p.leader_epoch
            then()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        self.send_request(any_broker, ApiKey.METADATA, 9, MetadataRequest(topics=None), on_response)

    def next_offset(self, place: tuple[str, int], part: Any, offset: int) -> int:
        """A fetch at `offset` got OFFSET_OUT_OF_RANGE. Returns the offset to continue at, or 0 to send the fetch to another broker. In the latter
        case no current leader may have `offset`.
        """
        start = int(part.log_start_offset)
        topic = self.cluster.image.topic_named(place[0])
        leader = self.leaders.get(place)
        if topic is None or leader is None or start <= offset:
            return 0
        node = self.cluster.brokers[leader]
        hosted = (
            node.broker.replica_manager.hosted.get(TopicPartition(topic.topic_id, place[1])) if node.alive else None
        )
        if hosted is not None and hosted.log.start_offset <= offset < hosted.core.high_watermark:
            raise Violation(
                f"{place}: offset {offset} is out of range for {self.name}, but the log starts at {hosted.log.start_offset}"
            )
        if hosted is not None and offset < hosted.local_log_start_offset and (state := hosted.core.state) is not None:
            for b in state.history_replicas:
                other = self.cluster.brokers[b].broker.replica_manager.hosted.get(hosted.tp)
                start = max(state.log_start_floor, other.log.start_offset if other is not None else 0)
                if (
                    other is not None
                    and start <= offset < other.log.end_offset
                    and has_history(other, state.handover_offset)
                ):
                    raise Violation(f"{place}: offset {offset} is out of range for {self.name}, but broker {b} has it")
        self.world.reached["read below the log start"] += 1
        return start

    def call_later(self, what: Any, ms: int = RETRY_MS) -> None:
        self.loop.call_later(ms, lambda now: what())


class Producer(Client):
    """Writes numbered records to one partition, one batch in flight at a time, until it is stopped and the last batch is acknowledged.

    In a world without guarantees it starts again after a fatal error.
    """

    def __init__(
        self, cluster: Cluster, history: History, name: str, topic: str, partition: int, pause_ms: int = 60
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.topic, self.partition, self.pause_ms = history, topic, partition, pause_ms
        self.with_keys = topic in history.compacted
        self.producer_id = -1
        self.number = self.sequence = 0
        self.batch: list[bytes] = []
        self.idle = False
        self.compression = NONE
        self.enter(self._begin)

    def _begin(self) -> None:
        def on_response(body: Any) -> None:
            if body is None or body.error_code:
                self.call_later(self._begin)
                return
            self.producer_id = body.producer_id
            self._next()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        self.send_request(
            any_broker,
            ApiKey.INIT_PRODUCER_ID,
            1,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
            on_response,
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
            self.refresh(lambda: self.call_later(self._send))
            return
        data = records.build(
            [self.record(i, v) for i, v in enumerate(self.batch)],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.sequence,
            compression=self.compression,
        )
        body = ProduceRequest(
            acks=-1,
            timeout_ms=2000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=self.topic,
                    partition_data=[ProduceRequest.PartitionProduceData(index=self.partition, records=bytes(data))],
                )
            ],
        )
        self.send_request(leader, ApiKey.PRODUCE, 9, body, self._on_response)

    def record(self, position: int, value: bytes) -> Record:
        return Record(position, self.clock().wall_ms, key_of(value) if self.with_keys else None, value)

    def _on_response(self, body: Any) -> None:
        code = ErrorCode(body.responses[0].partition_responses[0].error_code) if body is not None else None
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            base = body.responses[0].partition_responses[0].base_offset if code == ErrorCode.NONE else None
            for i, value in enumerate(self.batch):
                self.history.on_acknowledged(self.topic, self.partition, value, None if base is None else base + i)
            self.sequence += len(self.batch)
            self.call_later(self._next, self.world.between(1, self.pause_ms))
            return
        if code in FATAL:
            assert code is not None
            if self.topic in self.history.unpromised:
                self.sequence = 0
                self.call_later(self._begin)
                return
            why = body.responses[0].partition_responses[0].error_message
            self.history.given_up.append(f"{self.name} at {self.sequence}: {code.name} {why}")
            self.world.deliver(f"{self.name} gives up at {self.sequence}: {code.name} {why}")
            self.idle = True
            return
        self.leaders.pop((self.topic, self.partition), None)
        self.refresh(lambda: self.call_later(self._send))


class Reader(Client):
    """Reads one partition from its start, repeatedly from its position up to the end that it sees.

    A `careful` reader sends its leader epoch and sometimes requests the end offset, which may never go back (KIP-207). It uses fetch sessions and names
    its partition only when it changes something in the session.
    """

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        name: str,
        topic: str,
        partition: int,
        *,
        careful: bool = True,
        rack: str = "",
    ) -> None:
        """`rack`: its rack. It reads from the preferred read replica that its leader returns (KIP-392), until a fetch from it fails."""
        super().__init__(cluster, name)
        self.rack, self.closest = rack, -1
        self.history, self.topic, self.partition, self.careful = history, topic, partition, careful
        self.offset = 0
        self.end = 0
        self.ends_told = 0
        self.session, self.named = (-1, 0, 0), (-1, -1)
        """(leader, session id, epoch of the next fetch); (offset, leader epoch) as the session has them."""
        self.enter(self._fetch)

    def _fetch(self) -> None:
        if self.stopped:
            return
        leader = self.leaders.get((self.topic, self.partition))
        if leader is None:
            self.refresh(lambda: self.call_later(self._fetch))
            return
        if self.careful and self.world.chance(0.2):
            self._ask_end(leader)
            return
        if self.closest >= 0:
            leader = self.closest
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
            replica_id=-1,
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            rack_id=self.rack,
            session_id=session_id,
            session_epoch=session_epoch if self.careful else -1,
            topics=[] if same else [FetchRequest.FetchTopic(topic=self.topic, partitions=[part])],
        )
        self.send_request(leader, ApiKey.FETCH, 11, body, self._on_response)

    @property
    def _epoch(self) -> int:
        return self.epochs[self.topic, self.partition] if self.careful else -1

    def _ask_end(self, leader: int) -> None:
        part = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=self.partition, current_leader_epoch=self._epoch, timestamp=LATEST
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[part])]
        body = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        self.send_request(leader, ApiKey.LIST_OFFSETS, 5, body, self._got_end)

    def _got_end(self, body: Any) -> None:
        part = body.topics[0].partitions[0] if body is not None else None
        if part is None or part.error_code:
            self.leaders.pop((self.topic, self.partition), None)
        else:
            self.ends_told += 1
            known = max(self.end, self.offset)
            if part.offset < known and self.topic not in self.history.unpromised:
                raise Violation(
                    f"{self.topic}-{self.partition}: the end offset was {known} for {self.name} and is now {part.offset}"
                )
            self.end = part.offset
        self.call_later(self._fetch)

    def _on_response(self, body: Any) -> None:
        if body is not None and self.careful:
            leader, _, session_epoch = self.session
            self.session = (leader, body.session_id, session_epoch + 1 if body.session_id else 0)
            if body.error_code:
                self.world.reached["fetch session not found"] += 1
            elif session_epoch and not body.responses:
                self.world.reached["empty fetch session response"] += 1
            if body.error_code or (session_epoch and not body.responses):
                self.call_later(self._fetch, self.world.between(1, 40))
                return
        elif body is None:
            self.session = (-1, 0, 0)
        part = body.responses[0].partitions[0] if body is not None and body.responses else None
        followed, self.closest = self.closest, -1
        if part is not None and not part.error_code:
            self.closest = part.preferred_read_replica if part.preferred_read_replica >= 0 else followed
            if followed >= 0 and part.records:
                self.world.reached["read from a follower"] += 1
        elif part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and followed < 0:
            self.offset = self.next_offset((self.topic, self.partition), part, self.offset) or self.offset
        if part is None or part.error_code:
            self.leaders.pop((self.topic, self.partition), None)
            self.call_later(self._fetch)
            return
        for record in self._data_records(memoryview(bytes(part.records or b""))):
            if record.offset >= self.offset:
                gaps = self.topic in self.history.unpromised or self.topic in self.history.compacted
                if record.offset > self.offset and not gaps:
                    raise Violation(
                        f"{self.topic}-{self.partition}: {self.name} requested offset {self.offset}, the next record is at {record.offset}"
                    )
                self.history.on_read(self.topic, self.partition, record.offset, record.value or b"")
                self.offset = record.offset + 1
        self.call_later(self._fetch, self.world.between(1, 40))

    def _data_records(self, fetched: memoryview) -> Iterator[Record]:
        """The records of the response. A control batch has no record for the application, and the next fetch begins after it."""
        for at, header in records.batches(fetched):
            if not header.is_control:
                yield from records.records_of(fetched, at, header)
            elif header.base_offset <= self.offset:
                self.offset = max(self.offset, header.next_offset)
