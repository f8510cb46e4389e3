"""Appends of routes to a target partition: a Produce request with a tagged field that only Weir brokers use.

Invariants: only brokers are served. A batch is appended only if the sender knows the last record of its route in this partition, and leads the
source partition as far as this broker knows. A sender that does not know the last record gets its response when that record is replicated. Does not
contain: what is routed (`brokerd/delivery`).
"""

from __future__ import annotations

from brokerd.apis.delayed_produce import ACKS_ALL, Acknowledgements
from brokerd.apis.local_append import LocalAppender, RouteConflict
from brokerd.apis.produce_results import (
    NOT_LEADER,
    UNKNOWN_TOPIC_ID,
    AppendOutcome,
    PartitionResult,
    produce_response,
)
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import TopicPartition
from brokerd.net.request import Request
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest, ProduceResponse
from brokerd.wire.messages.routes import RoutedAppendRequestData, RoutedAppendResponseData

VERSION = 0
"""Version of the private messages."""
PRODUCE_VERSION = 13
"""Version of Produce between brokers: the first one with topic ids. A target topic that was created again is another topic."""


def routed_request(
    part: TopicPartition, batch: bytes, query: RoutedAppendRequestData, timeout_ms: int
) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=part.partition, records=bytearray(batch))
    topic = ProduceRequest.TopicProduceData(topic_id=part.topic_id, partition_data=[data])
    return ProduceRequest(
        acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=[topic], route=versioned.encode(query, VERSION)
    )


def routed_result(response: ProduceResponse | None) -> tuple[ErrorCode, int]:
    """(error code; the source offset of the last record in the target partition, if the code is OUT_OF_ORDER_SEQUENCE_NUMBER)"""
    if response is None or not response.responses:
        return ErrorCode.NETWORK_EXCEPTION, -1
    error = ErrorCode(response.responses[0].partition_responses[0].error_code)
    if error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return error, -1
    try:
        return error, versioned.decode(RoutedAppendResponseData, response.route, VERSION).last
    except ValueError:
        return ErrorCode.UNSUPPORTED_VERSION, -1


class RoutedAppends:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        appender: LocalAppender,
        acknowledgements: Acknowledgements,
        auth: AuthHelper,
    ) -> None:
        self._replica_manager, self._appender = replica_manager, appender
        self._acknowledgements, self._auth = acknowledgements, auth

    def handle(self, request: Request) -> None:
        body: ProduceRequest = request.body
        allowed = self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER)
        outcome = self._append(body) if allowed else PartitionResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        conflict = outcome if isinstance(outcome, RouteConflict) else None
        waiting: AppendOutcome = outcome.written if isinstance(outcome, RouteConflict) else outcome

        def on_acknowledged(results: list[PartitionResult]) -> None:
            if conflict is None or results[0].error:
                request.reply(produce_response(body, results))
                return
            response = produce_response(body, [PartitionResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
            response.route = versioned.encode(RoutedAppendResponseData(conflict.found), VERSION)
            request.reply(response)

        self._acknowledgements.wait(
            [waiting], ACKS_ALL, body.timeout_ms, on_acknowledged, lambda: request.abandoned, client=False
        )

    def _append(self, body: ProduceRequest) -> AppendOutcome | RouteConflict:
        try:
            query = versioned.decode(RoutedAppendRequestData, body.route, VERSION)
        except ValueError:
            return PartitionResult(ErrorCode.INVALID_REQUEST)
        if len(body.topic_data) != 1 or len(body.topic_data[0].partition_data) != 1:
            return PartitionResult(ErrorCode.INVALID_REQUEST)
        topic, part = body.topic_data[0], body.topic_data[0].partition_data[0]
        image = self._replica_manager.image
        source = image.partition(TopicPartition(query.source_topic_id, query.source_partition))
        if source is not None and source.leader_epoch > query.source_epoch:
            return PartitionResult(ErrorCode.FENCED_LEADER_EPOCH)
        state = image.topics.get(topic.topic_id)
        if state is None or part.index not in state.partitions:
            return UNKNOWN_TOPIC_ID
        if state.internal or part.records is None:
            return PartitionResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = self._replica_manager.find(state, part.index)
        return NOT_LEADER if replica is None else self._appender.append_routed(replica, part.records, query.expected)
