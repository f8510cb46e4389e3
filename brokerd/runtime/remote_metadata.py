"""The internal topic `__remote_log_metadata`: appends of this broker, and the records that it reads.

Invariants: only replicated records are applied, in order, each exactly once. Only the partitions that this broker needs are read. An append has no result: the
sender repeats it until it reads its record back. Does not contain: the meaning of the records (`remote/remote_log`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.forwarding import SendToController
from brokerd.cluster.model import NO_LEADER, REMOTE_LOG_METADATA_TOPIC, Now, TopicPartition, TopicState
from brokerd.cluster.requests import CreateTopics, NewTopic
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.remote.segments import MalformedMetadata, MetadataChange, decode, key_of, metadata_partition, value_of
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse

log = logging.getLogger(__name__)

PRODUCE_VERSION, FETCH_VERSION = 9, 12
TIMEOUT_MS = 5_000
WAIT_MS = 500
"""fetch.max.wait.ms of a fetch from the leader of a metadata partition."""
FETCH_BYTES = 1024 * 1024
RETRY_MS = 500
CREATION_RETRY_MS = 10_000
CONFIGS = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(6 * 3_600_000)}
"""The leader writes an invalid record again long before compaction could delete the valid records with the same key (`remote_log`)."""
Apply = Callable[[int, MetadataChange], None]


class RemoteMetadata:
    """`apply` is called with (metadata partition, change) for each record. `restart` is called before a metadata partition is read from its start again."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        reads: InterBrokerClient,
        appends: InterBrokerClient,
        clock: Callable[[], Now],
        read_ahead: ReadAhead,
        send_to_controller: SendToController,
        apply: Apply,
        restart: Callable[[int], None],
        *,
        partition_count: int,
        replication_factor: int,
    ) -> None:
        self._replica_manager, self._reads, self._appends, self._clock = replica_manager, reads, appends, clock
        self._read_ahead, self._send_to_controller = read_ahead, send_to_controller
        self._apply, self._restart = apply, restart
        self._partition_count, self._replication_factor = partition_count, replication_factor
        self.positions: dict[int, int] = {}
        """{metadata partition: next offset to read}."""
        self.ends: dict[int, int] = {}
        """{metadata partition: high watermark at the last read}."""
        self._in_flight: set[int] = set()
        self._not_before_ms: dict[int, int] = {}
        self._creation_not_before_ms = 0

    @property
    def topic(self) -> TopicState | None:
        topic = self._replica_manager.image.topic_named(REMOTE_LOG_METADATA_TOPIC)
        return topic if topic is not None and topic.ready else None

    def partition_of(self, tp: TopicPartition) -> int | None:
        """The metadata partition of `tp`. None if the topic does not exist yet."""
        topic = self.topic
        return None if topic is None else metadata_partition(tp, topic.partition_count)

    def led_partitions(self) -> list[int]:
        """The metadata partitions that this broker leads."""
        topic = self.topic
        if topic is None:
            return []
        return [i for i in topic.partitions if (r := self._replica_manager.find(topic, i)) is not None and r.leads]

    def is_current(self, index: int) -> bool:
        """Return whether all records that were replicated at the last read are applied."""
        return index in self.ends and self.positions.get(index, -1) >= self.ends[index]

    def refresh(self, index: int) -> bool:
        """Read a partition that this broker leads up to its end. Returns whether all records that are replicated now are applied."""
        self.ends.pop(index, None)
        self.poll()
        return index in self.led_partitions() and self.is_current(index)

    def create_topic(self) -> None:
        """Request the creation of the topic if it does not exist and enough brokers for its replication factor are registered. Until then no segment is copied:
        with fewer replicas, a power failure could destroy the list of the remote objects of each partition."""
        now = self._clock().mono_ms
        if (
            self._replica_manager.image.topic_named(REMOTE_LOG_METADATA_TOPIC) is not None
            or now < self._creation_not_before_ms
        ):
            return
        self._creation_not_before_ms = now + CREATION_RETRY_MS
        factor, registered = self._replication_factor, len(self._replica_manager.image.brokers)
        if registered < factor:
            log.warning(
                "topic not created, nothing is copied to the remote store: topic=%s registered_brokers=%d "
                "remote.log.metadata.topic.replication.factor=%d",
                REMOTE_LOG_METADATA_TOPIC,
                registered,
                factor,
            )
            return
        configs = {**CONFIGS, "min.insync.replicas": "2" if factor >= 3 else "1"}
        topic = NewTopic(REMOTE_LOG_METADATA_TOPIC, self._partition_count, factor, configs=configs)
        payload = CreateTopics(principal="User:broker", items=(topic,), auto=True)
        self._send_to_controller(payload, CREATION_RETRY_MS, lambda response: None)

    # -- appends -------------------------------------------------------------------------------------------------------------
    def append(self, changes: Sequence[MetadataChange]) -> None:
        topic = self.topic
        if topic is None:
            return
        wall_ms = self._clock().wall_ms
        by_partition: dict[int, list[records.Record]] = {}
        for change in changes:
            batch = by_partition.setdefault(metadata_partition(change.tp, topic.partition_count), [])
            batch.append(records.Record(len(batch), wall_ms, key_of(change), value_of(change)))
        for index, batch in by_partition.items():
            state = topic.partitions.get(index)
            leader = state.leader if state is not None else NO_LEADER
            data = ProduceRequest.PartitionProduceData(index=index, records=bytearray(records.build(batch)))
            body = ProduceRequest(
                acks=ACKS_ALL,
                timeout_ms=TIMEOUT_MS,
                topic_data=[ProduceRequest.TopicProduceData(name=topic.name, partition_data=[data])],
            )
            self._appends.send_request(leader, ApiKey.PRODUCE, PRODUCE_VERSION, body, partial(self._on_appended, index))

    def _on_appended(self, index: int, response: ProduceResponse | None) -> None:
        error = ErrorCode.NETWORK_EXCEPTION
        if response is not None:
            error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            log.info("remote log metadata not accepted yet: partition=%d error=%s", index, error.name)

    # -- reads ---------------------------------------------------------------------------------------------------------------
    def need(self, indexes: Iterable[int]) -> None:
        """Set the partitions to read."""
        expected = set(indexes)
        for index in [i for i in self.positions if i not in expected]:
            del self.positions[index]
            self.ends.pop(index, None)
            self._restart(index)
        for index in sorted(expected - self.positions.keys()):
            self.positions[index] = 0

    def poll(self) -> None:
        """Read the new records. Runs periodically and after each response."""
        topic = self.topic
        if topic is None:
            return
        now_ms = self._clock().mono_ms
        elsewhere: dict[int, list[int]] = {}
        for index in list(self.positions):
            replica = self._replica_manager.find(topic, index)
            if replica is not None and replica.leads:
                if replica.core.serves_latest:
                    self._read_local(index, replica)
                continue
            state = topic.partitions.get(index)
            if state is not None and state.leader != NO_LEADER:
                elsewhere.setdefault(state.leader, []).append(index)
        for leader, indexes in elsewhere.items():
            if leader not in self._in_flight and now_ms >= self._not_before_ms.get(leader, 0):
                self._fetch(topic, leader, indexes)

    def _read_local(self, index: int, replica: Replica) -> None:
        try:
            while (position := self.positions[index]) < (limit := replica.core.high_watermark):
                if position < replica.log.start_offset:
                    self._start_again(index, replica.log.start_offset)
                    continue
                with blocking_reads() if self._read_ahead.blind else nonblocking_reads():
                    data = replica.log.read(position, FETCH_BYTES, limit).bytes()
                if not data:
                    self.positions[index] = limit  # compaction removed the records in between
                    break
                self._consume(index, data)
            self.ends[index] = replica.core.high_watermark
        except NotInPageCache as cold:
            self._read_ahead.look_up(cold, lambda: None)  # the next poll reads the record
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)

    def _fetch(self, topic: TopicState, leader: int, indexes: Sequence[int]) -> None:
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=0 if leader == self._replica_manager.broker_id else WAIT_MS,
            min_bytes=1,
            max_bytes=8 * FETCH_BYTES,
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(
                    topic=topic.name,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=i, fetch_offset=self.positions[i], partition_max_bytes=FETCH_BYTES
                        )
                        for i in indexes
                    ],
                )
            ],
        )
        self._in_flight.add(leader)
        self._reads.send_request(
            leader, ApiKey.FETCH, FETCH_VERSION, body, partial(self._on_fetched, leader, dict(self.positions))
        )

    def _on_fetched(self, leader: int, requested: dict[int, int], response: FetchResponse | None) -> None:
        self._in_flight.discard(leader)
        failed = response is None or bool(response.error_code)
        for topic in response.responses if response is not None else ():
            for part in topic.partitions:
                index = part.partition_index
                if self.positions.get(index) != requested.get(index):
                    continue  # the partition is no longer read, or it was started again
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._start_again(index, max(0, part.log_start_offset))
                elif part.error_code:
                    failed = True
                else:
                    self._consume(index, bytes(part.records or b""))
                    self.ends[index] = part.high_watermark
        if failed:
            self._not_before_ms[leader] = self._clock().mono_ms + RETRY_MS
        else:
            self.poll()

    def _start_again(self, index: int, start: int) -> None:
        log.warning("remote log metadata is read from its start again: partition=%d start=%d", index, start)
        self._restart(index)
        self.positions[index] = start

    def _consume(self, index: int, data: bytes) -> None:
        for pos, header in records.batches(data):
            if not header.is_control:
                for record in records.records_of(data, pos, header):
                    if record.offset >= self.positions[index]:
                        self._consume_record(index, record)
            self.positions[index] = max(self.positions[index], header.next_offset)

    def _consume_record(self, index: int, record: records.Record) -> None:
        try:
            change = decode(record.key or b"", record.value)
        except MalformedMetadata as e:
            log.error("remote log metadata ignored: partition=%d offset=%d error=%s", index, record.offset, e)
            return
        self._apply(index, change)
