"""Clients of a topic that is deleted and created again under the same name. They use the topic id (KIP-516), as new clients do.

Each incarnation of the topic is a different topic to them: the producer starts its numbers again, the reader starts at offset 0. A topic contains
only records that were written to it: records contain its id. Used by worlds with operator changes.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.checkers import History, Violation
from tests.simulation.clients import FATAL, Client
from tests.simulation.cluster import Cluster


def key_of(topic_id: UUID) -> str:
    """The name of this topic in the history."""
    return f"by-id-{topic_id.hex[:8]}"


class ByIdClient(Client):
    def __init__(self, cluster: Cluster, history: History, name: str, topic: str) -> None:
        super().__init__(cluster, name)
        self.history, self.topic = history, topic
        self.topic_id: UUID | None = None
        self.leader = self.epoch = -1
        self.enter(self.find)

    def find(self) -> None:
        """Requests the topic's id and its leader."""

        def on_response(body: Any) -> None:
            found = None
            for topic in body.topics if body is not None else ():
                if topic.name == self.topic and not topic.error_code and topic.partitions:
                    found = topic
            if found is not None:
                part = found.partitions[0]
                if self._newer(found.topic_id):
                    self.topic_id, self.epoch, self.leader = found.topic_id, -1, -1
                    self.start_with_new_topic()
                if found.topic_id == self.topic_id and part.leader_epoch >= self.epoch and part.leader_id >= 0:
                    self.leader, self.epoch = part.leader_id, part.leader_epoch
            self.call_later(self.proceed if self.leader >= 0 else self.find)

        topics = [MetadataRequest.MetadataRequestTopic(name=self.topic)]
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self.send_request(self.world.rng.choice(list(self.cluster.brokers)), ApiKey.METADATA, 12, body, on_response)

    def _newer(self, topic_id: UUID) -> bool:
        """A broker that lags may return the id of a deleted topic; the client does not accept an id twice."""
        order = self.cluster.created
        return self.topic_id is None or order.index(topic_id) > order.index(self.topic_id)

    def start_with_new_topic(self) -> None:
        """Starts with another topic of this name."""

    def proceed(self) -> None:
        raise NotImplementedError


class ByIdProducer(ByIdClient):
    """Idempotent, acks=all, one batch at a time."""

    def __init__(self, cluster: Cluster, history: History, name: str, topic: str, pause_ms: int) -> None:
        self.pause_ms, self.idle = pause_ms, False
        self.producer_id, self.number, self.batch = -1, 0, list[bytes]()
        super().__init__(cluster, history, name, topic)

    def start_with_new_topic(self) -> None:
        self.producer_id, self.number, self.batch = -1, 0, []

    def proceed(self) -> None:
        if self.stopped and not self.batch:
            self.idle = True
        elif self.producer_id < 0:
            self._draw_id()
        else:
            self._send()

    def _draw_id(self) -> None:
        topic_id = self.topic_id

        def on_response(body: Any) -> None:
            if body is not None and not body.error_code and topic_id == self.topic_id:
                self.producer_id = body.producer_id
            self.call_later(self.proceed)

        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        self.send_request(
            self.world.rng.choice(list(self.cluster.brokers)), ApiKey.INIT_PRODUCER_ID, 1, body, on_response
        )

    def _send(self) -> None:
        assert self.topic_id is not None
        topic_id, first = self.topic_id, self.number
        if not self.batch:
            count = self.world.between(1, 3)
            self.batch = [f"{self.name}@{topic_id.hex[:8]}:{first + i}".encode() for i in range(count)]
        batch = self.batch
        data = records.build(
            [Record(i, self.clock().wall_ms, None, v) for i, v in enumerate(batch)],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=first,
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=bytes(data))
        topics = [ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[part])]

        def on_response(body: Any) -> None:
            part = body.responses[0].partition_responses[0] if body is not None else None
            code = ErrorCode(part.error_code) if part is not None else None
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                assert part is not None
                for i, value in enumerate(batch):
                    offset = part.base_offset + i if code == ErrorCode.NONE else None
                    self.history.on_acknowledged(key_of(topic_id), 0, value, offset)
                self.number, self.batch = first + len(batch), []
                self.call_later(self.proceed, self.world.between(1, self.pause_ms))
            elif code in FATAL:
                assert part is not None and code is not None
                self.history.given_up.append(f"{self.name} at {first}: {code.name} {part.error_message}")
                self.idle = True
            else:
                self.find()

        body = ProduceRequest(acks=-1, timeout_ms=2000, topic_data=topics)
        self.send_request(self.leader, ApiKey.PRODUCE, 13, body, on_response)


class ByIdReader(ByIdClient):
    """Reads each topic of this name from its log start."""

    offset = 0

    def start_with_new_topic(self) -> None:
        self.offset = 0

    def proceed(self) -> None:
        if self.stopped:
            return
        assert self.topic_id is not None
        topic_id, requested = self.topic_id, self.offset
        part = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=requested,
            last_fetched_epoch=-1,
            partition_max_bytes=4096,
        )
        body = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[part])],
        )

        def on_response(body: Any) -> None:
            part = body.responses[0].partitions[0] if body is not None and body.responses else None
            if part is None or part.error_code:
                self.find()
                return
            for record in records.iterate(memoryview(bytes(part.records or b""))):
                if record.offset >= self.offset:
                    self._on_record(topic_id, record)
            self.call_later(self.proceed, self.world.between(1, 60))

        self.send_request(self.leader, ApiKey.FETCH, 13, body, on_response)

    def _on_record(self, topic_id: UUID, record: Record) -> None:
        value = record.value or b""
        if record.offset > self.offset:
            raise Violation(
                f"{self.name} requested offset {self.offset} of {topic_id}, the next record is at {record.offset}"
            )
        if f"@{topic_id.hex[:8]}:".encode() not in value:
            raise Violation(f"{self.name} reads {value!r} in {topic_id}, to which it was not written")
        self.history.on_read(key_of(topic_id), 0, record.offset, value)
        self.offset = record.offset + 1
