"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition's log begins, ends and parts.

Law: an answer never shows more than the high watermark to a consumer (with read_committed: the last stable offset), and the visible end never goes back (KIP-207).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd import partition_events as core
from brokerd.apis.fetch import READ_COMMITTED, WAIT_MS_MAX, epoch_error
from brokerd.archives import EPOCH, TIME, Archives, Held
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.waiters import Waiter
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


class Together:
    """An answer of several parts, some of which come later: `done` is called when all of them are there."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._left, self._done = 1, done

    def later(self, put: Callable[[Held], None]) -> Callable[[Held], None]:
        self._left += 1

        def told(held: Held) -> None:
            put(held)
            self.here()

        return told

    def here(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()


class OffsetsApi:
    def __init__(self, loop: Loop, partitions: Partitions, archives: Archives) -> None:
        self._loop, self._partitions, self._archives = loop, partitions, archives

    def _replica(self, topic: str, index: int, epoch: int) -> tuple[Replica | None, ErrorCode]:
        state = self._partitions.image.topic_named(topic)
        if state is None or not state.ready or index not in state.partitions:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._partitions.find(state, index)
        return replica, epoch_error(replica, epoch)

    def list_offsets(self, request: Request) -> None:
        body: ListOffsetsRequest = request.body
        version = request.header.api_version
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = []
        room = Room()
        seen: set[tuple[str, int]] = set()
        together = Together(lambda: request.reply(ListOffsetsResponse(topics=topics)))
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
                if replica.asks_below and (wanted.timestamp >= 0 or wanted.timestamp in (EARLIEST, MAX_TIMESTAMP)):
                    self._ask_below(replica, wanted, version, committed, answer, room, together)
                else:
                    self._answer(replica, wanted.timestamp, version, committed, answer, room)
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        together.here()

    def _ask_below(
        self,
        replica: Replica,
        wanted: ListOffsetsRequest.ListOffsetsPartition,
        version: int,
        committed: bool,
        answer: ListOffsetsResponse.ListOffsetsPartitionResponse,
        room: Room,
        together: Together,
    ) -> None:
        """What lies below is asked first: the first record at or after a time may be there, and so may the newest."""

        def told(held: Held) -> None:
            error = epoch_error(replica, wanted.current_leader_epoch)
            if error or held.error:
                answer.error_code = error or _passing(version)
                return
            end = replica.last_stable() if committed else replica.core.high_watermark
            found = held.found
            if wanted.timestamp != EARLIEST and found is not None and found[0] >= end:
                found = None
            if found is None or wanted.timestamp == MAX_TIMESTAMP:
                self._answer(replica, wanted.timestamp, version, committed, answer, room)
            if found is not None and not answer.error_code and found[1] >= answer.timestamp:
                answer.offset, answer.timestamp, answer.leader_epoch = found

        self._archives.ask(replica, TIME, wanted.timestamp, together.later(told))

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
        end = replica.last_stable() if committed else machine.high_watermark
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            answer.offset = log.start_offset
            answer.leader_epoch = log.epochs.epoch_at(log.start_offset)
            return
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return  # nothing is tiered: -1 says so
        if not machine.serves_latest:
            # Until HW reaches the epoch's start, the end that clients saw before might seem to go back.
            answer.error_code = _passing(version)
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
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = []
        together = Together(lambda: request.reply(OffsetForLeaderEpochResponse(topics=topics)))
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
                if wanted.leader_epoch >= 0 and replica.asks_below and answer.end_offset <= replica.asks_below:
                    self._ask_epoch(replica, wanted, answer, together)
            topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
        together.here()

    def _ask_epoch(
        self,
        replica: Replica,
        wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
        answer: OffsetForLeaderEpochResponse.EpochEndOffset,
        together: Together,
    ) -> None:
        """An epoch that ends at or below where this log begins."""

        def told(held: Held) -> None:
            answer.error_code = epoch_error(replica, wanted.current_leader_epoch) or held.error
            if answer.error_code or held.found is None:
                answer.leader_epoch = answer.end_offset = -1
                answer.error_code = answer.error_code or ErrorCode.OFFSET_NOT_AVAILABLE
            else:
                answer.end_offset, _, answer.leader_epoch = held.found

        self._archives.ask(replica, EPOCH, wanted.leader_epoch, together.later(told))

    def delete_records(self, request: Request) -> None:
        """Raise the log's start; answered once everybody in sync has raised theirs, so that what is said to be deleted stays so whoever of them leads next. What lies
        with others goes once the metadata log says so."""
        body: DeleteRecordsRequest = request.body
        topics = []
        waiting: list[tuple[Replica, int, DeleteRecordsResponse.DeleteRecordsPartitionResult]] = []
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
                elif upto > replica.start_offset and replica.goes_on:
                    # Others hold old records, too: first the metadata log says so, then everybody lets go.
                    self._archives.begins_at(replica, upto)
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
                    waiting.append((replica, upto, answer))
                else:
                    replica.log.raise_start(upto)
                    self._partitions.run(replica, core.LogStartRaised(replica.log.start_offset), self._loop.now)
                    if replica.core.state is not None and replica.core.state.archive_start >= 0:
                        answer.low_watermark = replica.start_offset
                        continue
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
                    waiting.append((replica, upto, answer))
            topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=parts))

        def granted() -> bool:
            return all(_begins_at(replica) >= upto or not replica.leads for replica, upto, _ in waiting)

        def complete(expired: bool) -> None:
            for replica, upto, answer in waiting:
                if _begins_at(replica) >= upto:
                    answer.error_code, answer.low_watermark = ErrorCode.NONE, _begins_at(replica)
                elif not replica.leads:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            request.reply(DeleteRecordsResponse(topics=topics))

        if granted():
            complete(False)
            return
        keys = tuple(replica.hw_key() for replica, _, _ in waiting)
        wait_ms = min(max(body.timeout_ms, 0), WAIT_MS_MAX)
        self._partitions.waiters.add(Waiter(keys, granted, complete), self._loop.now.mono_ms + wait_ms)


def _begins_at(replica: Replica) -> int:
    """Below it nothing is shown any more, whoever leads next: by the metadata log, and where nothing lies apart by all who are in sync."""
    state = replica.core.state
    floor = state.log_start_floor if state is not None else -1
    if state is None or state.archive_start >= 0 or not replica.leads:
        return floor
    return max(floor, replica.core.low_watermark)


def _passing(version: int) -> ErrorCode:
    """For a while it cannot be said."""
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
