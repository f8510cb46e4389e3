"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

Invariant: no consumer is shown an offset above the high watermark (with read_committed: the last stable offset), and the visible end never goes
back (KIP-207).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.apis.combined_response import CombinedResponse
from brokerd.apis.fetch import WAIT_MS_MAX
from brokerd.apis.fetch_conditions import epoch_error
from brokerd.apis.fetch_reader import READ_COMMITTED
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import TopicState
from brokerd.net.loop import Loop
from brokerd.net.request import Request
from brokerd.replication import partition_events as core
from brokerd.replication.history_reads import HistoryOperation, HistoryReadResult, HistoryReads
from brokerd.replication.purgatory import DelayedOperation
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.server.background_work import BackgroundWork
from brokerd.storage.disk import DiskFailed
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from brokerd.wire.records import UnpackBudget
from brokerd.wire.steps import Steps

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The request version that introduced each special timestamp. In an older version it is an error, and so is any other negative timestamp."""
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Lookup:
    """The request for one partition, and its response."""

    __slots__ = ("_committed", "replica", "requested", "response", "version")

    def __init__(
        self,
        replica: Replica,
        requested: ListOffsetsRequest.ListOffsetsPartition,
        version: int,
        committed: bool,
        response: ListOffsetsResponse.ListOffsetsPartitionResponse,
    ) -> None:
        self.replica, self.requested, self.version, self._committed, self.response = (
            replica,
            requested,
            version,
            committed,
            response,
        )

    def end(self) -> int:
        """The upper bound (exclusive) of the offsets that this consumer may read."""
        return self.replica.last_stable() if self._committed else self.replica.core.high_watermark

    def set_edge(self) -> None:
        """Set the response for a request of the start or the end of the log, which needs no search."""
        log, machine, response, timestamp = self.replica.log, self.replica.core, self.response, self.requested.timestamp
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            response.offset = log.start_offset
            response.leader_epoch = log.epochs.epoch_at(log.start_offset)
        elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            self._set_tier_edge(latest=timestamp == LATEST_TIERED)
        elif not machine.serves_latest:
            # Until the high watermark reaches the start of the leader epoch, the visible end of the log could move backwards (KIP-207).
            response.error_code = _passing(self.version)
        else:
            response.offset, response.leader_epoch = self.end(), machine.leader_epoch

    def _set_tier_edge(self, *, latest: bool) -> None:
        """Set the last offset in the remote store, or the first one that is not there yet. Without tiered storage the offset is -1."""
        log, remote, response = self.replica.log, self.replica.remote, self.response
        if remote is None:
            return
        if not remote.loaded:
            response.error_code = _passing(self.version)
            return
        end = remote.chain.end
        if latest:
            response.offset = end - 1 if end > 0 else -1
        else:
            response.offset = max(end, log.start_offset)
        response.leader_epoch = max(
            (e for e, at in remote.chain.epochs(log.epochs.entries) if at <= response.offset), default=-1
        )

    def search(self, budget: UnpackBudget) -> Steps[None]:
        """Search by timestamp. The result is valid only if this broker was the leader throughout and the log was not truncated."""
        replica, log, response = self.replica, self.replica.log, self.response
        if not replica.core.serves_latest:
            response.error_code = _passing(self.version)
            return
        epoch, cuts, end = replica.core.leader_epoch, log.flushing.cuts, self.end()
        if self.requested.timestamp == MAX_TIMESTAMP:
            newest = yield from log.max_timestamp(budget)
            found = (*newest, log.epochs.epoch_at(newest[0])) if newest is not None and newest[0] < end else None
        else:
            found = yield from log.offset_for_timestamp(self.requested.timestamp, end, budget)
        if (replica.core.leader_epoch, log.flushing.cuts) != (epoch, cuts) or not replica.leads:
            response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif found is not None:
            response.offset, response.timestamp, response.leader_epoch = found


class OffsetsApi:
    def __init__(
        self,
        loop: Loop,
        replica_manager: ReplicaManager,
        history_reads: HistoryReads,
        background_work: BackgroundWork,
        auth: AuthHelper,
        request_remote_start: Callable[[Replica, int], None] = lambda replica, offset: None,
    ) -> None:
        """`request_remote_start`: raise the log start offset of a partition with tiered storage in the remote log."""
        self._loop, self._replica_manager, self._auth = loop, replica_manager, auth
        self._request_remote_start = request_remote_start
        self._history_reads, self._background_work = history_reads, background_work

    def _replica(self, state: TopicState | None, index: int, epoch: int) -> tuple[Replica | None, ErrorCode]:
        if state is None or not state.ready or index not in state.partitions:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._replica_manager.find(state, index)
        return replica, epoch_error(replica, epoch)

    def list_offsets(self, request: Request) -> None:
        body: ListOffsetsRequest = request.body
        version = request.header.api_version
        committed = body.isolation_level == READ_COMMITTED
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = []
        lookups: list[Lookup] = []
        seen: dict[str, set[int]] = {}

        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, body.topics, lambda t: t.name
        )
        combined = CombinedResponse(lambda: request.reply(ListOffsetsResponse(topics=topics)))
        for topic in authorized:
            parts = []
            state = self._replica_manager.image.topic_named(topic.name)
            indexes = seen.setdefault(topic.name, set())
            for requested in topic.partitions:
                index, timestamp = requested.partition_index, requested.timestamp
                response = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=index, timestamp=-1, offset=-1, leader_epoch=-1
                )
                parts.append(response)
                if index in indexes:
                    response.error_code = ErrorCode.INVALID_REQUEST  # as in Kafka; each duplicate would cost a search
                    continue
                indexes.add(index)
                if timestamp < 0 and version < SINCE.get(timestamp, version + 1):
                    response.error_code = ErrorCode.UNSUPPORTED_VERSION
                    continue
                replica, error = self._replica(state, index, requested.current_leader_epoch)
                if replica is None or error:
                    response.error_code = error
                    continue
                lookup = Lookup(replica, requested, version, committed, response)
                if timestamp >= 0 or timestamp in (EARLIEST, MAX_TIMESTAMP):
                    if replica.local_log_start_offset:
                        self._look_up_below(request, lookup, combined)
                    elif timestamp == EARLIEST:
                        lookup.set_edge()
                    else:
                        lookups.append(lookup)
                else:
                    lookup.set_edge()
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        topics += [_unauthorized_list(t) for t in unauthorized]
        if lookups:
            self._look_up(request, lookups, combined.part_done)
        else:
            combined.part_done()

    def _look_up(self, request: Request, lookups: list[Lookup], done: Callable[[], None]) -> None:
        """Search batches for timestamps, in steps: a batch of a few bytes may have a million records."""
        search_done = False

        def on_search_done(_: object) -> None:
            nonlocal search_done
            search_done = True
            done()

        def steps() -> Steps[None]:
            budget = UnpackBudget.for_lookups()
            for lookup in lookups:
                budget.next_partition()
                try:
                    yield from lookup.search(budget)
                except DiskFailed as e:
                    self._replica_manager.fail(lookup.replica, e)
                    lookup.response.error_code = ErrorCode.KAFKA_STORAGE_ERROR

        self._background_work.start(request, steps(), on_search_done)
        if not search_done:
            request.block(needs_client=True)

    def _look_up_below(self, request: Request, lookup: Lookup, combined: CombinedResponse) -> None:
        """Search the records on history replicas first. The first record at or after the timestamp, or the record with the maximum timestamp, may be
        below the local log start offset."""
        replica, requested, response = lookup.replica, lookup.requested, lookup.response

        def on_result(result: HistoryReadResult) -> None:
            error = epoch_error(replica, requested.current_leader_epoch)
            if error or result.error:
                response.error_code = error or _passing(lookup.version)
                combined.part_done()
                return
            found = result.found
            if requested.timestamp != EARLIEST and found is not None and found[0] >= lookup.end():
                found = None

            def use_local_result() -> None:
                if found is not None and not response.error_code and found[1] >= response.timestamp:
                    response.offset, response.timestamp, response.leader_epoch = found
                combined.part_done()

            if found is not None and requested.timestamp != MAX_TIMESTAMP:
                use_local_result()
            elif requested.timestamp == EARLIEST:
                lookup.set_edge()
                use_local_result()
            else:
                self._look_up(request, [lookup], use_local_result)

        combined.expect()
        self._history_reads.look_up(replica, HistoryOperation.TIME, requested.timestamp, on_result)

    def offset_for_leader_epoch(self, request: Request) -> None:
        body: OffsetForLeaderEpochRequest = request.body
        broker = self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER)
        # A broker needs no permission on topics. `partition_by_authorized` authorizes an item whose name is None.
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, body.topics, lambda t: None if broker else t.topic
        )
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = []
        combined = CombinedResponse(lambda: request.reply(OffsetForLeaderEpochResponse(topics=topics)))
        for topic in authorized:
            parts = []
            state = self._replica_manager.image.topic_named(topic.topic)
            for requested in topic.partitions:
                response = OffsetForLeaderEpochResponse.EpochEndOffset(
                    partition=requested.partition, leader_epoch=-1, end_offset=-1
                )
                parts.append(response)
                replica, error = self._replica(state, requested.partition, requested.current_leader_epoch)
                if replica is None or error:
                    response.error_code = error
                    continue
                response.leader_epoch, response.end_offset = replica.log.epochs.end_offset_for(requested.leader_epoch)
                if (
                    requested.leader_epoch >= 0
                    and replica.local_log_start_offset
                    and response.end_offset <= replica.local_log_start_offset
                ):
                    self._look_up_epoch(replica, requested, response, combined)
            topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
        topics += [_unauthorized_epochs(t) for t in unauthorized]
        combined.part_done()

    def _look_up_epoch(
        self,
        replica: Replica,
        requested: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
        response: OffsetForLeaderEpochResponse.EpochEndOffset,
        combined: CombinedResponse,
    ) -> None:
        """Look up the end offset of an epoch on the history replicas, because the epoch ends at or below the local log start offset."""

        def on_result(result: HistoryReadResult) -> None:
            response.error_code = epoch_error(replica, requested.current_leader_epoch) or result.error
            if response.error_code or result.found is None:
                response.leader_epoch = response.end_offset = -1
                response.error_code = response.error_code or ErrorCode.OFFSET_NOT_AVAILABLE
            else:
                response.end_offset, _, response.leader_epoch = result.found

        self._history_reads.look_up(
            replica, HistoryOperation.EPOCH, requested.leader_epoch, combined.deferred_part(on_result)
        )

    def delete_records(self, request: Request) -> None:
        """Raise the log start offset. The request is answered when every in-sync replica has raised and flushed its log start offset. So deleted
        records stay deleted after a leader election and after a power failure. Records on history replicas are deleted when the metadata log
        contains the new log start offset."""
        body: DeleteRecordsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DELETE, Resource.TOPIC, body.topics, lambda t: t.name
        )
        topics = []
        waiting: list[tuple[Replica, int, DeleteRecordsResponse.DeleteRecordsPartitionResult]] = []
        for topic in authorized:
            parts = []
            state = self._replica_manager.image.topic_named(topic.name)
            for requested in topic.partitions:
                response = DeleteRecordsResponse.DeleteRecordsPartitionResult(
                    partition_index=requested.partition_index, low_watermark=-1
                )
                parts.append(response)
                replica, error = self._replica(state, requested.partition_index, -1)
                if replica is None or error:
                    response.error_code = error
                    continue
                upto = replica.core.high_watermark if requested.offset == -1 else requested.offset
                rejected = self._delete_below(replica, upto)
                # The error stays if a replica in sync has not deleted the records at the end of the timeout.
                response.error_code = rejected or ErrorCode.REQUEST_TIMED_OUT
                if not rejected:
                    waiting.append((replica, upto, response))
            topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=parts))
        topics += [_unauthorized_deletion(t) for t in unauthorized]

        def is_complete() -> bool:
            return all(_deleted_below(replica) >= upto or not replica.leads for replica, upto, _ in waiting)

        def complete(expired: bool) -> None:
            for replica, upto, response in waiting:
                if (start := _deleted_below(replica)) >= upto:
                    response.error_code, response.low_watermark = ErrorCode.NONE, start
                elif not replica.leads:
                    response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            request.reply(DeleteRecordsResponse(topics=topics))

        if is_complete():
            complete(False)
            return
        keys = tuple(replica.hw_key() for replica, _, _ in waiting)
        wait_ms = min(max(body.timeout_ms, 0), WAIT_MS_MAX)
        self._replica_manager.purgatory.add(
            DelayedOperation(keys, is_complete, complete), self._loop.now.mono_ms + wait_ms
        )

    def _delete_below(self, replica: Replica, upto: int) -> ErrorCode:
        """Begin the deletion of the records below `upto`, or return the error. It ends when `_deleted_below` has reached `upto`."""
        if not 0 <= upto <= replica.core.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if replica.config.compacts and not replica.config.deletes:
            return ErrorCode.POLICY_VIOLATION
        if replica.remote is not None and upto > replica.start_offset:
            # The remote log gets the new start first, because it is valid for every leader. Then the local log gets it (`RaiseLocalStart`).
            self._request_remote_start(replica, upto)
        elif upto > replica.start_offset and replica.is_contiguous:
            # History replicas have old records too. So the metadata log gets the new log start first, and then every replica deletes its records.
            self._history_reads.propose_log_start(replica, upto)
        else:
            try:
                self._replica_manager.delete_below(replica, upto)
            except DiskFailed as e:
                self._replica_manager.fail(replica, e)
                return ErrorCode.KAFKA_STORAGE_ERROR
            self._replica_manager.run(replica, core.LogStartRaised(replica.log.start_offset), self._loop.now)
        return ErrorCode.NONE


def _deleted_below(replica: Replica) -> int:
    """The offset below which deleted records stay deleted after a leader election and after a power failure. It comes from the metadata log, or
    else from the log start offsets that this leader and all in-sync replicas have flushed. -1: none."""
    state = replica.core.state
    floor = state.log_start_floor if state is not None else -1
    if state is None or not replica.leads:
        return floor
    flushed = replica.log.stored_start.flushed
    if replica.remote is not None:
        # The remote log start is replicated. Local logs that start below it need the same start before they are elected.
        start, local = replica.remote.log_start, replica.log.start_offset
        followed = not replica.log.stored_start.pending and replica.core.low_watermark >= min(start, local)
        return start if replica.remote.loaded and start <= local and followed else -1
    if state.handover_offset >= 0:
        return max(floor, min(flushed, replica.start_offset))
    return max(floor, min(flushed, replica.core.low_watermark))


def _passing(version: int) -> ErrorCode:
    """The retriable error that clients of this request version know."""
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE


def _unauthorized_list(topic: ListOffsetsRequest.ListOffsetsTopic) -> ListOffsetsResponse.ListOffsetsTopicResponse:
    """The response for an unauthorized topic."""
    return ListOffsetsResponse.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=p.partition_index, error_code=DENIED, timestamp=-1, offset=-1, leader_epoch=-1
            )
            for p in topic.partitions
        ],
    )


def _unauthorized_epochs(
    topic: OffsetForLeaderEpochRequest.OffsetForLeaderTopic,
) -> OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult:
    """The response for an unauthorized topic."""
    return OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            OffsetForLeaderEpochResponse.EpochEndOffset(
                partition=p.partition, error_code=DENIED, leader_epoch=-1, end_offset=-1
            )
            for p in topic.partitions
        ],
    )


def _unauthorized_deletion(
    topic: DeleteRecordsRequest.DeleteRecordsTopic,
) -> DeleteRecordsResponse.DeleteRecordsTopicResult:
    """The response for an unauthorized topic."""
    return DeleteRecordsResponse.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsResponse.DeleteRecordsPartitionResult(
                partition_index=p.partition_index, low_watermark=-1, error_code=DENIED
            )
            for p in topic.partitions
        ],
    )
