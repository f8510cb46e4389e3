"""History reads over the network: a Fetch request with a tagged field that only Weir brokers use.

Invariants: only brokers are served. A history replica answers only requests for its own hand-over offset, and only if its log reaches this offset. It serves no
records at or above the offset. Does not contain the selection of the broker (`replication/history_reads`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from brokerd.apis.fetch_response import FetchRead
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.history_read_messages import position_of, put_position, put_request, request_of
from brokerd.cluster.model import TopicPartition
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.replication.history_reads import (
    UNAVAILABLE,
    HistoryOperation,
    HistoryPosition,
    HistoryReadRequest,
    HistoryReadResult,
    HistoryReads,
)
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage import retention, timestamp_search
from brokerd.storage.disk import DiskFailed
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.history import HistoryReadRequestData
from brokerd.wire.records import UnpackBudget
from brokerd.wire.steps import Steps

log = logging.getLogger(__name__)

VERSION = 15
EARLIEST, MAX_TIMESTAMP = -2, -3


class HistoryReadClient:
    """Sends history reads of a leader to a history replica, over an inter-broker connection."""

    def __init__(self, replica_manager: ReplicaManager, client: InterBrokerClient) -> None:
        self._replica_manager, self._client = replica_manager, client

    def read(
        self, broker_id: int, request: HistoryReadRequest, done: Callable[[HistoryReadResult | None], None]
    ) -> None:
        data, broker_epoch = request, self._replica_manager.registered_epoch
        part = FetchRequest.FetchPartition(
            partition=data.tp.partition,
            fetch_offset=data.target if data.operation is HistoryOperation.READ else 0,
            last_fetched_epoch=data.last_epoch,
            partition_max_bytes=data.bytes_max,
        )
        put_request(part, data)
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._replica_manager.broker_id, replica_epoch=-1 if broker_epoch is None else broker_epoch
            ),
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=data.tp.topic_id, partitions=[part])],
        )

        def on_response(response: FetchResponse | None) -> None:
            try:
                result = None if response is None or not response.responses else _decode(response)
            except ValueError as e:
                log.error("malformed history read response: broker=%d error=%s", broker_id, e)
                result = None
            done(result)

        self._client.send_request(broker_id, ApiKey.FETCH, VERSION, body, on_response)


def _decode(response: FetchResponse) -> HistoryReadResult:
    part = response.responses[0].partitions[0]
    parted = part.diverging_epoch
    return HistoryReadResult(
        ErrorCode(response.error_code or part.error_code),
        part.log_start_offset,
        bytes(part.records or b""),
        (parted.epoch, parted.end_offset) if parted is not None and parted.epoch >= 0 else None,
        tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
        position_of(part),
    )


class HistoryReader:
    """Serves records below the leader's own log to a client (or follower) of the leader. Remote records also on a follower, to a consumer (KIP-392)."""

    def __init__(self, replica_manager: ReplicaManager, history_reads: HistoryReads | None, bytes_max: int) -> None:
        self._replica_manager, self._history_reads, self._bytes_max = replica_manager, history_reads, bytes_max

    def result(self, replica: Replica, partition_request: PartitionRequest, limit: int) -> HistoryReadResult | None:
        """The result of the history read. None if the result is not available yet; when it arrives, the purgatory keys of the partition are checked."""
        upto, requested = min(limit, replica.local_log_start_offset), partition_request.requested
        if self._history_reads is None or not (replica.leads or replica.reads_remote):
            return UNAVAILABLE  # the next leader can read it
        if requested.fetch_offset >= upto:
            return None

        def on_result() -> None:
            self._replica_manager.purgatory.check(replica.hw_key())
            self._replica_manager.purgatory.check(replica.end_key())

        bytes_max = min(requested.partition_max_bytes, self._bytes_max)
        return self._history_reads.read(
            replica, requested.fetch_offset, upto, requested.last_fetched_epoch, bytes_max, on_result
        )

    def remote_bootstrap_snapshot(self, replica: Replica) -> bytes | None:
        """The snapshot at the local log start of a leader with remote records. None if it is not available yet; the follower repeats its request."""
        remote = self._history_reads.remote if self._history_reads is not None else None
        return remote.bootstrap_snapshot(replica) if remote is not None and replica.leads else None

    def read(self, replica: Replica, read: FetchRead, limit: int, left: int, nothing_yet: bool) -> int:
        """Fill `read` with records below the local log. Returns their bytes."""
        data, result = read.data, self.result(replica, read.partition_request, limit)
        offset = read.partition_request.requested.fetch_offset
        if result is None or (result.size > left and not nothing_yet):
            read.more = offset < limit
            return 0
        read.reportable = True
        data.error_code, data.log_start_offset = result.error, replica.start_offset
        if result.diverging is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(
                epoch=result.diverging[0], end_offset=result.diverging[1]
            )
        if result.error or result.diverging is not None:
            return 0
        data.records, read.more, read.served = result.records, True, len(result.records)
        if data.aborted_transactions is not None:
            # A transaction that was open at the local log start has its marker in the local log.
            ended_here = replica.log.aborted.overlapping(offset, min(limit, replica.local_log_start_offset))
            spans = dict.fromkeys((*result.aborted, *((e.producer_id, e.first_offset) for e in ended_here)))
            data.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=p, first_offset=o) for p, o in spans
            ]
        return result.size


class HistoryReadServer:
    """Serves history reads of the leader on a history replica."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        wall_ms: Callable[[], int],
        diverging: Callable[[Replica, FetchRequest.FetchPartition], tuple[int, int] | None],
    ) -> None:
        self._replica_manager, self._wall_ms, self._diverging = replica_manager, wall_ms, diverging

    def respond(self, body: FetchRequest) -> Steps[FetchResponse]:
        topics = []
        for t in body.topics:
            parts = []
            for p in t.partitions:
                parts.append((yield from self._part(TopicPartition(t.topic_id, p.partition), p)))
            topics.append(FetchResponse.FetchableTopicResponse(topic_id=t.topic_id, partitions=parts))
        return FetchResponse(responses=topics)

    def _part(self, tp: TopicPartition, requested: FetchRequest.FetchPartition) -> Steps[FetchResponse.PartitionData]:
        data = FetchResponse.PartitionData(
            partition_index=tp.partition, error_code=ErrorCode.NONE, high_watermark=-1, records=b""
        )
        replica = self._replica_manager.hosted.get(tp)
        query = request_of(requested)
        if isinstance(query, ErrorCode):
            data.error_code = query
            return data
        if replica is None or not has_history(replica, query.handover_offset):
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
            return data
        data.log_start_offset = replica.log.start_offset
        try:
            if query.operation == HistoryOperation.READ:
                self._read_records(replica, requested, min(query.end_offset, query.handover_offset), data)
            elif (found := (yield from self._find_position(replica, query))) is not None:
                put_position(data, requested, found)
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return data

    def _read_records(
        self, replica: Replica, requested: FetchRequest.FetchPartition, upto: int, data: FetchResponse.PartitionData
    ) -> None:
        log_, offset = replica.log, requested.fetch_offset
        if offset < log_.start_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return
        parted = self._diverging(replica, requested)
        if parted is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=parted[0], end_offset=parted[1])
            return
        regions = log_.read(offset, requested.partition_max_bytes, upto).regions
        if regions:
            data.records = list(regions)
            aborted = log_.aborted.overlapping(offset, min(upto, log_.bound_after(offset, regions[-1])))
            data.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=e.producer_id, first_offset=e.first_offset)
                for e in aborted
            ]

    def _find_position(self, replica: Replica, data: HistoryReadRequestData) -> Steps[HistoryPosition | None]:
        log_, budget = replica.log, UnpackBudget.for_lookups()
        start, target = max(log_.start_offset, data.log_start_floor), data.target
        if data.operation == HistoryOperation.RETAINED:
            kept = retention.archived_start(
                log_.segments, replica.config, self._wall_ms(), data.handover_offset, target
            )
            return HistoryPosition(max(kept, start))
        if data.operation == HistoryOperation.EPOCH:
            epoch, end = log_.epochs.end_offset_for(target)
            return HistoryPosition(min(end, data.handover_offset), leader_epoch=epoch)
        if target == EARLIEST:
            return HistoryPosition(start, leader_epoch=log_.epochs.epoch_at(start))
        if target == MAX_TIMESTAMP:
            newest = yield from timestamp_search.newest_below(log_.segments, data.handover_offset, budget)
            if newest is None or newest[0] < start:
                return None
            return HistoryPosition(*newest, log_.epochs.epoch_at(newest[0]))
        first = yield from timestamp_search.first_at(log_.segments, target, start, data.handover_offset, budget)
        return None if first is None else HistoryPosition(*first)


def has_history(replica: Replica, handover_offset: int) -> bool:
    """Return whether this replica has all records below `handover_offset` that are retained."""
    state = replica.core.state
    return (
        state is not None
        and 0 <= handover_offset == state.handover_offset
        and replica.core.broker_id in state.history_replicas
        and replica.offline_reason is None
        and replica.log.start_offset < handover_offset <= replica.log.end_offset
    )
