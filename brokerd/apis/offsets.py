"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition's log begins, ends and parts.

Law: an answer never shows more than the high watermark to a consumer (with read_committed: the last stable offset), and the visible end never goes back (KIP-207).
"""

from __future__ import annotations

from brokerd import partition as core
from brokerd.apis.fetch import READ_COMMITTED, epoch_error
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from brokerd.wire.records import Room

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version of the request that brought each; below it, and of a negative time that is none of them, nobody can know what is meant."""


class OffsetsApi:
    def __init__(self, loop: Loop, partitions: Partitions) -> None:
        self._loop, self._partitions = loop, partitions

    def _replica(self, topic: str, index: int, epoch: int) -> tuple[Replica | None, ErrorCode]:
        state = self._partitions.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._partitions.find(state, index)
        return replica, epoch_error(replica, epoch)

    def list_offsets(self, request: Request) -> None:
        body: ListOffsetsRequest = request.body
        version = request.header.api_version
        topics = []
        room = Room()
        seen: set[tuple[str, int]] = set()
        for topic in body.topics:
            parts = []
            for wanted in topic.partitions:
                answer = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index, timestamp=-1, offset=-1, leader_epoch=-1
                )
                parts.append(answer)
                if (topic.name, wanted.partition_index) in seen:
                    answer.error_code = ErrorCode.INVALID_REQUEST  # as in Kafka; each costs a search
                    continue
                seen.add((topic.name, wanted.partition_index))
                if wanted.timestamp < 0 and version < SINCE.get(wanted.timestamp, version + 1):
                    answer.error_code = ErrorCode.UNSUPPORTED_VERSION
                    continue
                replica, error = self._replica(topic.name, wanted.partition_index, wanted.current_leader_epoch)
                if replica is None or error:
                    answer.error_code = error
                    continue
                committed = body.isolation_level == READ_COMMITTED
                self._answer(replica, wanted.timestamp, version, committed, answer, room)
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        request.reply(ListOffsetsResponse(topics=topics))

    @staticmethod
    def _answer(
        replica: Replica,
        timestamp: int,
        version: int,
        committed: bool,
        answer: ListOffsetsResponse.ListOffsetsPartitionResponse,
        room: Room,
    ) -> None:
        log, machine = replica.log, replica.core
        end = log.last_stable(machine.high_watermark) if committed else machine.high_watermark
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            answer.offset = log.start_offset
            answer.leader_epoch = log.epochs.epoch_at(log.start_offset)
            return
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return  # nothing is tiered: -1 says so
        if not machine.serves_latest:
            # Until HW reaches the epoch's start, the end that clients saw before might seem to go back.
            answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
            return
        if timestamp == LATEST:
            answer.offset = end
            answer.leader_epoch = machine.leader_epoch
            return
        if timestamp == MAX_TIMESTAMP:
            newest = log.max_timestamp(room)
            if newest is not None and newest[0] < end:
                answer.offset, answer.timestamp = newest
                answer.leader_epoch = log.epochs.epoch_at(answer.offset)
            return
        found = log.offset_for_timestamp(timestamp, end, room)
        if found is not None:
            answer.offset, answer.timestamp, answer.leader_epoch = found

    def offset_for_leader_epoch(self, request: Request) -> None:
        body: OffsetForLeaderEpochRequest = request.body
        topics = []
        for topic in body.topics:
            parts = []
            for wanted in topic.partitions:
                answer = OffsetForLeaderEpochResponse.EpochEndOffset(
                    partition=wanted.partition, leader_epoch=-1, end_offset=-1
                )
                parts.append(answer)
                replica, error = self._replica(topic.topic, wanted.partition, wanted.current_leader_epoch)
                if replica is None or error:
                    answer.error_code = error
                    continue
                answer.leader_epoch, answer.end_offset = replica.log.epochs.end_offset_for(wanted.leader_epoch)
            topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
        request.reply(OffsetForLeaderEpochResponse(topics=topics))

    def delete_records(self, request: Request) -> None:
        """Raise the log's start. Followers hear of it with their next fetch."""
        body: DeleteRecordsRequest = request.body
        topics = []
        for topic in body.topics:
            parts = []
            for wanted in topic.partitions:
                answer = DeleteRecordsResponse.DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=-1
                )
                parts.append(answer)
                replica, error = self._replica(topic.name, wanted.partition_index, -1)
                if replica is None or error:
                    answer.error_code = error
                    continue
                upto = replica.core.high_watermark if wanted.offset == -1 else wanted.offset
                if not 0 <= upto <= replica.core.high_watermark:
                    answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                elif not replica.config.deletes:
                    answer.error_code = ErrorCode.POLICY_VIOLATION
                else:
                    replica.log.raise_start(upto)
                    self._partitions.run(replica, core.LogStartRaised(replica.log.start_offset), self._loop.now)
                    answer.low_watermark = replica.log.start_offset
            topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=parts))
        request.reply(DeleteRecordsResponse(topics=topics))
