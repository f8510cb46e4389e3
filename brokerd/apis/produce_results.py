"""Results of a produce request: one result per partition, and the response.

A result is a frozen value. Appended records that are not acknowledged yet are a `PendingAppend`. It becomes a `PartitionResult` when the records
are acknowledged or have failed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from brokerd.replication.replica import Replica
from brokerd.storage.batch_validation import RecordError
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest, ProduceResponse


class PartitionResult(NamedTuple):
    """The fields of the response for one partition. Offsets and the append time (Unix ms) are -1 if they do not apply."""

    error: ErrorCode
    message: str | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()


class PendingAppend(NamedTuple):
    """Records that are in the leader's log. Producers are answered when the high watermark or the flushed end is at `required_end`."""

    replica: Replica
    leader_epoch: int
    required_end: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int

    def acknowledged_result(self) -> PartitionResult:
        return PartitionResult(ErrorCode.NONE, None, self.base_offset, self.log_append_time_ms, self.log_start_offset)

    def error_result(self, error: ErrorCode) -> PartitionResult:
        """The result with an error: the records are in this log, but it is unknown whether they will be kept."""
        return PartitionResult(error, log_start_offset=self.log_start_offset)


class ProducerRejection(NamedTuple):
    """The producer state of a replica, or its half messages, reject a batch. The error is final for the producer. A deposed leader that has not noticed its replacement
    lacks the records that the new leader acknowledged, so it would reject valid batches. The leadership in `leader_epoch` is therefore confirmed
    before the error is sent."""

    error: ErrorCode
    message: str
    replica: Replica
    leader_epoch: int
    record_errors: tuple[RecordError, ...] = ()

    def result(self, *, confirmed: bool) -> PartitionResult:
        """The result for the producer. `confirmed`: this broker has read the newest metadata since the rejection. Without confirmation the error is
        retriable."""
        if confirmed and self.replica.leads and self.replica.core.leader_epoch == self.leader_epoch:
            return PartitionResult(self.error, self.message, record_errors=self.record_errors)
        return PartitionResult(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "this broker cannot confirm that it leads the partition; refresh the metadata and retry",
        )


AppendOutcome = PartitionResult | PendingAppend
ClientAppendOutcome = AppendOutcome | ProducerRejection
UNKNOWN_TOPIC_OR_PARTITION = PartitionResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = PartitionResult(ErrorCode.UNKNOWN_TOPIC_ID)
TOPIC_AUTHORIZATION_FAILED = PartitionResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = PartitionResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
NOT_LEADER = PartitionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def produce_response(body: ProduceRequest, results: Iterable[PartitionResult]) -> ProduceResponse:
    """The response with these results, which are in the order of the request."""
    response_type = ProduceResponse
    left = iter(results)
    if len(body.topic_data) == 1:
        (topic,) = body.topic_data
        parts = _partition_responses(topic, left)
        return response_type(
            responses=[
                response_type.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)
            ]
        )
    topics: dict[tuple[str, UUID], list[ProduceResponse.PartitionProduceResponse]] = {}
    for topic in body.topic_data:
        topics.setdefault((topic.name, topic.topic_id), []).extend(_partition_responses(topic, left))
    return response_type(
        responses=[
            response_type.TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=parts)
            for (name, topic_id), parts in topics.items()
        ]
    )


def _partition_responses(
    topic: ProduceRequest.TopicProduceData, left: Iterator[PartitionResult]
) -> list[ProduceResponse.PartitionProduceResponse]:
    parts = []
    for requested in topic.partition_data:
        error, message, base_offset, append_time_ms, log_start_offset, bad_records = next(left)
        part = ProduceResponse.PartitionProduceResponse(
            index=requested.index,
            error_code=error,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log_start_offset,
            error_message=message,
        )
        if bad_records:
            part.record_errors = [
                ProduceResponse.BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=reason)
                for i, reason in bad_records
            ]
        parts.append(part)
    return parts
