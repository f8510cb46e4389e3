"""What transactions do to partitions led here: markers are written, a group's offsets committed, producers shown.

Laws: a marker is confirmed when it is replicated, and only then do a group's offsets count; an offset's commit is in its transaction by
the coordinator's word, or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.apis.committed import answered, offsets_of
from brokerd.apis.fetch import epoch_error
from brokerd.apis.produce import PASSING, Outcome, ProduceApi
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.coordinator import events
from brokerd.coordinator.events import Answered
from brokerd.coordinator.groups import INVALID_GROUP_ID, Groups
from brokerd.dispatch import Handler, Request
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Marker

MARKER_TIMEOUT_MS = 5_000
"""A marker that is not replicated within this is asked for again: its partition may have another leader by then."""
SECOND_KIND_SINCE, ABORTABLE_SINCE = 5, 5


class ParticipantsApi:
    def __init__(self, partitions: Partitions, produce: ProduceApi, groups: Groups, clock: Callable[[], Now]) -> None:
        self._partitions, self._produce, self._groups, self._clock = partitions, produce, groups, clock

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.WRITE_TXN_MARKERS: self.write_markers,
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.DESCRIBE_PRODUCERS: self.describe_producers,
        }

    def _led(self, topic: str, index: int) -> tuple[Replica | None, ErrorCode]:
        state = self._partitions.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._partitions.find(state, index)
        error = epoch_error(replica, -1)
        return (None, error) if error else (replica, error)

    # -- markers -----------------------------------------------------------------------------------------------------------
    def write_markers(self, request: Request) -> None:
        body: m.WriteTxnMarkersRequest = request.body
        outcomes = [
            [(t.name, i, self._write_marker(t.name, i, marker)) for t in marker.topics for i in t.partition_indexes]
            for marker in body.markers
        ]

        def kept() -> None:
            for marker, written in zip(body.markers, outcomes, strict=True):
                for topic, index, outcome in written:
                    if topic == GROUP_OFFSETS_TOPIC and not outcome.error:
                        self._groups.transaction_ended(index, marker.producer_id, marker.transaction_result)
            request.reply(_markers_written(body, outcomes))

        everything = [outcome for written in outcomes for _, _, outcome in written]
        self._produce.when_kept(everything, -1, MARKER_TIMEOUT_MS, kept)

    def _write_marker(self, topic: str, index: int, marker: m.WriteTxnMarkersRequest.WritableTxnMarker) -> Outcome:
        replica, error = self._led(topic, index)
        if replica is None:
            return Outcome(error)
        said = Marker(marker.transaction_result, marker.coordinator_epoch)
        self._produce.verification.marker_written(replica.tp, marker.producer_id)
        return self._produce.append_marker(
            replica, marker.producer_id, marker.producer_epoch, said, next_epoch=marker.transaction_version >= 2
        )

    # -- a group's offsets ---------------------------------------------------------------------------------------------------
    def commit_offsets(self, request: Request) -> None:
        body: m.TxnOffsetCommitRequest = request.body
        version = request.header.api_version
        offsets, refused = offsets_of(body.topics, self._groups.metadata_bytes_max, self._clock().wall_ms)

        def reply(answer: Answered) -> None:
            r = m.TxnOffsetCommitResponse
            topics = answered(
                body.topics, answer, refused, r.TxnOffsetCommitResponseTopic, r.TxnOffsetCommitResponsePartition
            )
            request.reply(r(topics=topics))

        def refuse(error: int) -> None:
            reply(Answered(error))

        def verified(error: ErrorCode, why: str | None) -> None:
            if error:
                refuse(_told(error, version))
                return
            known = replica.log.producers.known.get(body.producer_id)
            if known is not None and known.epoch > body.producer_epoch:
                refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            event = events.TransactionalCommit(
                reply, body.member_id, body.group_instance_id, body.generation_id, offsets,
                body.producer_id, body.producer_epoch,
            )  # fmt: skip
            error_now = self._groups.handle(body.group_id, event)
            if error_now:
                refuse(error_now)

        if not body.group_id:
            refuse(INVALID_GROUP_ID)
            return
        partition, _, error = self._groups.find(body.group_id)
        if error:
            refuse(error)
            return
        found, closed = self._led(GROUP_OFFSETS_TOPIC, partition)
        if found is None:
            refuse(ErrorCode.NOT_COORDINATOR if closed else ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        replica = found
        verification = self._produce.verification
        add = version >= SECOND_KIND_SINCE
        if not verification.needed(replica, body.producer_id, body.producer_epoch, add=add):
            verified(ErrorCode.NONE, None)
            return
        verification.ask(replica, body.transactional_id, body.producer_id, body.producer_epoch, verified, add=add)

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe_producers(self, request: Request) -> None:
        body: m.DescribeProducersRequest = request.body
        request.reply(
            m.DescribeProducersResponse(
                topics=[
                    m.DescribeProducersResponse.TopicResponse(
                        name=t.name, partitions=[self._described(t.name, i) for i in t.partition_indexes]
                    )
                    for t in body.topics
                ]
            )
        )

    def _described(self, topic: str, index: int) -> m.DescribeProducersResponse.PartitionResponse:
        """Followers tell, too: who looks for a transaction that hangs compares them."""
        state = self._partitions.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return m.DescribeProducersResponse.PartitionResponse(partition_index=index, error_code=error)
        replica = self._partitions.find(state, index)
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


def _told(error: ErrorCode, version: int) -> int:
    """What whoever commits offsets is told when its transaction could not be verified."""
    if error in PASSING:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # tried again by clients of every age
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return error


def _markers_written(
    body: m.WriteTxnMarkersRequest, outcomes: list[list[tuple[str, int, Outcome]]]
) -> m.WriteTxnMarkersResponse:
    answers = []
    for marker, written in zip(body.markers, outcomes, strict=True):
        topics: dict[str, list[m.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
        for topic, index, outcome in written:
            topics.setdefault(topic, []).append(
                m.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=outcome.error
                )
            )
        answers.append(
            m.WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    m.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=t, partitions=ps)
                    for t, ps in topics.items()
                ],
            )
        )
    return m.WriteTxnMarkersResponse(markers=answers)
