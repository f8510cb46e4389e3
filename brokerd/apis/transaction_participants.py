"""Transactions in partitions led here: WriteTxnMarkers, TxnOffsetCommit, DescribeProducers.

Invariants: a marker is confirmed when it is replicated. Only then a group's offsets are committed. An offset commit is rejected unless the transaction
coordinator has verified it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.fetch_conditions import epoch_error
from brokerd.apis.offset_commits import all_failed, build_topic_responses, no_partition_exists, offsets_of
from brokerd.apis.produce import RETRIABLE_VERIFICATION_ERRORS, ProduceApi
from brokerd.apis.produce_results import AppendOutcome, PartitionResult
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Completed
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.net.request import Handler, Request
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode

MARKER_TIMEOUT_MS = 5_000
"""Time-out of a marker's replication. The coordinator sends it again, possibly to another leader."""
SECOND_KIND_SINCE, ABORTABLE_SINCE = 5, 5


class ParticipantsApi:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        produce: ProduceApi,
        groups: GroupCoordinator,
        clock: Callable[[], Now],
        auth: AuthHelper,
    ) -> None:
        self._replica_manager, self._produce, self._groups = replica_manager, produce, groups
        self._clock, self._auth = clock, auth

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.WRITE_TXN_MARKERS: self.write_markers,
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.DESCRIBE_PRODUCERS: self.describe_producers,
        }

    def _find_leader_replica(self, topic: str, index: int) -> tuple[Replica | None, ErrorCode]:
        state = self._replica_manager.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._replica_manager.find(state, index)
        error = epoch_error(replica, -1)
        return (None, error) if error else (replica, error)

    # -- markers -----------------------------------------------------------------------------------------------------------
    def write_markers(self, request: Request) -> None:
        body: m.WriteTxnMarkersRequest = request.body
        if not self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            request.reply(_markers_denied(body))
            return
        targets = [(marker, t.name, i) for marker in body.markers for t in marker.topics for i in t.partition_indexes]
        outcomes = [self._write_marker(topic, index, marker) for marker, topic, index in targets]

        def on_replicated(results: list[PartitionResult]) -> None:
            for (marker, topic, index), result in zip(targets, results, strict=True):
                if topic == GROUP_OFFSETS_TOPIC and not result.error:
                    self._groups.transaction_ended(
                        index, marker.producer_id, marker.transaction_result, result.base_offset
                    )
            request.reply(_markers_written(body, results))

        self._produce.acknowledgements.wait(outcomes, ACKS_ALL, MARKER_TIMEOUT_MS, on_replicated, client=False)

    def _write_marker(
        self, topic: str, index: int, marker: m.WriteTxnMarkersRequest.WritableTxnMarker
    ) -> AppendOutcome:
        replica, error = self._find_leader_replica(topic, index)
        if replica is None:
            return PartitionResult(error)
        end_marker = Marker(marker.transaction_result, marker.coordinator_epoch)
        self._produce.transaction_verification.marker_written(replica.tp, marker.producer_id)
        return self._produce.appender.append_marker(
            replica, marker.producer_id, marker.producer_epoch, end_marker, next_epoch=marker.transaction_version >= 2
        )

    # -- a group's offsets ---------------------------------------------------------------------------------------------------
    def commit_offsets(self, request: Request) -> None:
        body: m.TxnOffsetCommitRequest = request.body
        version = request.header.api_version
        response_type = m.TxnOffsetCommitResponse
        shapes = _topic_response, response_type.TxnOffsetCommitResponsePartition
        rejection = self._commit_denied(request)
        if rejection:
            request.reply(response_type(topics=all_failed(body.topics, rejection, *shapes)))
            return
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, body.topics, lambda t: t.name
        )
        denied = all_failed(unauthorized, ErrorCode.TOPIC_AUTHORIZATION_FAILED, *shapes)
        if denied and not authorized:
            request.reply(response_type(topics=denied))
            return
        offsets, rejected = offsets_of(authorized, self._groups, self._clock().wall_ms)

        def reply(response: Completed) -> None:
            request.reply(response_type(topics=build_topic_responses(authorized, response, rejected, *shapes) + denied))

        def reject(error: int) -> None:
            reply(Completed(error))

        def on_verified(error: ErrorCode, reason: str | None) -> None:
            if error:
                reject(_commit_error(error, version))
                return
            known = replica.log.producers.known.get(body.producer_id)
            if known is not None and known.epoch > body.producer_epoch:
                reject(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            event = events.TransactionalCommit(
                reply,
                body.member_id,
                body.group_instance_id,
                body.generation_id,
                offsets,
                body.producer_id,
                body.producer_epoch,
            )
            error_now = self._groups.handle(body.group_id, event)
            if error_now:
                reject(ErrorCode.ILLEGAL_GENERATION if error_now == ErrorCode.GROUP_ID_NOT_FOUND else error_now)

        if not body.group_id:
            reject(ErrorCode.INVALID_GROUP_ID)
            return
        if no_partition_exists(offsets, rejected):
            reject(ErrorCode.NONE)
            return
        partition, _, error = self._groups.find(body.group_id)
        if error:
            reject(error)
            return
        found, closed = self._find_leader_replica(GROUP_OFFSETS_TOPIC, partition)
        if found is None:
            reject(ErrorCode.NOT_COORDINATOR if closed else ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        replica = found
        verification = self._produce.transaction_verification
        add = version >= SECOND_KIND_SINCE
        if not verification.needed(replica, body.producer_id, body.producer_epoch, add=add):
            on_verified(ErrorCode.NONE, None)
            return
        verification.verify(replica, body.transactional_id, body.producer_id, body.producer_epoch, on_verified, add=add)

    def _commit_denied(self, request: Request) -> ErrorCode:
        body: m.TxnOffsetCommitRequest = request.body
        if not self._auth.authorize(request, Operation.WRITE, Resource.TRANSACTIONAL_ID, body.transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe_producers(self, request: Request) -> None:
        body: m.DescribeProducersRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, body.topics, lambda t: t.name
        )
        response_type, denied = m.DescribeProducersResponse, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topics = [
            response_type.TopicResponse(
                name=t.name, partitions=[self._describe_producers(t.name, i) for i in t.partition_indexes]
            )
            for t in authorized
        ]
        topics += [
            response_type.TopicResponse(
                name=t.name,
                partitions=[
                    response_type.PartitionResponse(partition_index=i, error_code=denied) for i in t.partition_indexes
                ],
            )
            for t in unauthorized
        ]
        request.reply(response_type(topics=topics))

    def _describe_producers(self, topic: str, index: int) -> m.DescribeProducersResponse.PartitionResponse:
        """The producer states of one replica. Followers respond too, because operators compare replicas to find a hanging transaction."""
        state = self._replica_manager.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return m.DescribeProducersResponse.PartitionResponse(partition_index=index, error_code=error)
        replica = self._replica_manager.find(state, index)
        if replica is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return m.DescribeProducersResponse.PartitionResponse(partition_index=index, error_code=error)
        return m.DescribeProducersResponse.PartitionResponse(
            partition_index=index,
            active_producers=[
                m.DescribeProducersResponse.ProducerState(
                    producer_id=producer_id,
                    producer_epoch=p.epoch,
                    last_sequence=p.batches[-1][1] if p.batches else -1,
                    last_timestamp=p.wall_ms,
                    coordinator_epoch=p.coordinator_epoch,
                    current_txn_start_offset=p.first_offset,
                )
                for producer_id, p in replica.log.producers.known.items()
            ],
        )


def _commit_error(error: ErrorCode, version: int) -> int:
    """The error for an offset commit whose transaction could not be verified."""
    if error in RETRIABLE_VERIFICATION_ERRORS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # retriable for clients of all versions
    if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.NOT_COORDINATOR
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return error


def _markers_written(body: m.WriteTxnMarkersRequest, results: Sequence[PartitionResult]) -> m.WriteTxnMarkersResponse:
    """The response with these results, in the order of the request."""
    response_type = m.WriteTxnMarkersResponse
    left = iter(results)
    responses = []
    for marker in body.markers:
        topics: dict[str, list[m.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
        for topic in marker.topics:
            topics.setdefault(topic.name, []).extend(
                response_type.WritableTxnMarkerPartitionResult(partition_index=i, error_code=next(left).error)
                for i in topic.partition_indexes
            )
        responses.append(
            response_type.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[response_type.WritableTxnMarkerTopicResult(name=t, partitions=ps) for t, ps in topics.items()],
            )
        )
    return response_type(markers=responses)


def _markers_denied(body: m.WriteTxnMarkersRequest) -> m.WriteTxnMarkersResponse:
    r, denied = m.WriteTxnMarkersResponse, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    part = r.WritableTxnMarkerPartitionResult
    return r(
        markers=[
            r.WritableTxnMarkerResult(
                producer_id=w.producer_id,
                topics=[
                    r.WritableTxnMarkerTopicResult(
                        name=t.name,
                        partitions=[part(partition_index=i, error_code=denied) for i in t.partition_indexes],
                    )
                    for t in w.topics
                ],
            )
            for w in body.markers
        ]
    )


def _topic_response(
    topic: m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic,
    partitions: list[m.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition],
) -> m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic:
    return m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)
