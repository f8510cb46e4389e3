"""What a leader asks a holder of its partition's archive, on the wire and at the holder's: a Fetch with a word of our own (tag `HELD_TAG`).

Laws: only another broker is answered; a holder speaks only of the archive that it is asked about (its end must be the same), if its copy reaches up to
there; what lies beyond is not told. Called by `fetch` (the holder's side) and the broker (the leader's). Must not come in: whom to ask (`archives`).
"""

from __future__ import annotations

import json
from collections.abc import Callable

from brokerd.apis.fetchanswers import Read
from brokerd.apis.fetchsessions import Ask
from brokerd.archives import EPOCH, KEPT, READ, TIME, UNANSWERED, Archives, Held, Question
from brokerd.cluster.model import TopicPartition
from brokerd.net.colleagues import Colleagues
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.storage import retention, times
from brokerd.storage.disk import DiskFailed
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.records import Room

VERSION = 15
EARLIEST, MAX_TIMESTAMP = -2, -3


class Inquiries:
    """The leader's side: a question to a holder, on a connection of the kind that coordinators use."""

    def __init__(self, partitions: Partitions, colleagues: Colleagues) -> None:
        self._partitions, self._colleagues = partitions, colleagues

    def ask(self, holder: int, question: Question, done: Callable[[Held | None], None]) -> None:
        q, seat = question, self._partitions.seat
        part = FetchRequest.FetchPartition(
            partition=q.tp.partition,
            fetch_offset=q.at if q.what == READ else 0,
            last_fetched_epoch=q.last_epoch,
            partition_max_bytes=q.bytes_max,
            held=json.dumps([q.archive_start, q.what, q.at, q.upto, q.floor]).encode(),
        )
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._partitions.broker_id, replica_epoch=-1 if seat is None else seat
            ),
            max_wait_ms=0, min_bytes=0, session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=q.tp.topic_id, partitions=[part])],
        )  # fmt: skip

        def answered(answer: FetchResponse | None) -> None:
            done(None if answer is None or not answer.responses else _heard(answer))

        self._colleagues.ask(holder, ApiKey.FETCH, VERSION, body, answered)


def _heard(answer: FetchResponse) -> Held:
    part = answer.responses[0].partitions[0]
    said = json.loads(part.held) if part.held else None
    parted = part.diverging_epoch
    return Held(
        ErrorCode(answer.error_code or part.error_code),
        part.log_start_offset,
        bytes(part.records or b""),
        (parted.epoch, parted.end_offset) if parted is not None and parted.epoch >= 0 else None,
        tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
        (said[0], said[1], said[2]) if said is not None else None,
    )


class Below:
    """What a client (or a follower) of the leader is told of records below the leader's log."""

    def __init__(self, partitions: Partitions, archives: Archives | None, bytes_max: int) -> None:
        self._partitions, self._archives, self._bytes_max = partitions, archives, bytes_max

    def held(self, replica: Replica, ask: Ask, limit: int) -> Held | None:
        """What a holder of the partition's archive says; None: nothing yet, whoever waits hears of it."""
        upto, wanted = min(limit, replica.asks_below), ask.wanted
        if self._archives is None or not replica.leads:
            return UNANSWERED  # (whoever leads can ask for it)
        if wanted.fetch_offset >= upto:
            return None

        def told() -> None:
            self._partitions.waiters.check(replica.hw_key())
            self._partitions.waiters.check(replica.end_key())

        bytes_max = min(wanted.partition_max_bytes, self._bytes_max)
        return self._archives.read(replica, wanted.fetch_offset, upto, wanted.last_fetched_epoch, bytes_max, told)

    def read(self, replica: Replica, read: Read, limit: int, left: int, nothing_yet: bool) -> int:
        """Into `read` what lies below this log; the bytes of it."""
        data, held = read.data, self.held(replica, read.ask, limit)
        offset = read.ask.wanted.fetch_offset
        if held is None or (len(held.records) > left and not nothing_yet):
            read.more = offset < limit
            return 0
        data.error_code, data.log_start_offset = held.error, replica.start_offset
        if held.diverging is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=held.diverging[0], end_offset=held.diverging[1])
        if held.error or held.diverging is not None:
            return 0
        data.records, read.more, read.served = held.records, True, bool(held.records)
        if data.aborted_transactions is not None:
            # One that was open where the copy begins found its marker here.
            ended_here = replica.log.aborted.between(offset, min(limit, replica.asks_below))
            spans = dict.fromkeys((*held.aborted, *((e.producer_id, e.first_offset) for e in ended_here)))
            data.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=p, first_offset=o) for p, o in spans
            ]
        return len(held.records)


class Holder:
    """The holder's side."""

    def __init__(
        self,
        partitions: Partitions,
        wall_ms: Callable[[], int],
        diverging: Callable[[Replica, FetchRequest.FetchPartition], tuple[int, int] | None],
    ) -> None:
        self._partitions, self._wall_ms, self._diverging = partitions, wall_ms, diverging

    def answer(self, body: FetchRequest) -> FetchResponse:
        topics = [
            FetchResponse.FetchableTopicResponse(
                topic_id=t.topic_id,
                partitions=[self._part(TopicPartition(t.topic_id, p.partition), p) for p in t.partitions],
            )
            for t in body.topics
        ]
        return FetchResponse(responses=topics)

    def _part(self, tp: TopicPartition, wanted: FetchRequest.FetchPartition) -> FetchResponse.PartitionData:
        data = FetchResponse.PartitionData(
            partition_index=tp.partition, error_code=ErrorCode.NONE, high_watermark=-1, records=b""
        )
        replica = self._partitions.hosted.get(tp)
        archive_start, what, at, upto, floor = json.loads(wanted.held)
        if replica is None or not holds(replica, archive_start):
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
            return data
        data.log_start_offset = replica.log.start_offset
        try:
            if what == READ:
                self._read(replica, wanted, min(upto, archive_start), data)
            elif (found := self._found(replica, archive_start, what, at, floor)) is not None:
                data.held = json.dumps(found).encode()
        except DiskFailed as e:
            self._partitions.fail(replica, e)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return data

    def _read(
        self, replica: Replica, wanted: FetchRequest.FetchPartition, upto: int, data: FetchResponse.PartitionData
    ) -> None:
        log_, offset = replica.log, wanted.fetch_offset
        if offset < log_.start_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return
        parted = self._diverging(replica, wanted)
        if parted is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=parted[0], end_offset=parted[1])
            return
        regions = log_.read(offset, wanted.partition_max_bytes, upto).regions
        if regions:
            data.records = list(regions)
            aborted = log_.aborted.between(offset, min(upto, log_.bound_after(offset, regions[-1])))
            data.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=e.producer_id, first_offset=e.first_offset)
                for e in aborted
            ]

    def _found(
        self, replica: Replica, archive_start: int, what: str, at: int, floor: int
    ) -> tuple[int, int, int] | None:
        log_, room = replica.log, Room()
        start = max(log_.start_offset, floor)
        if what == KEPT:
            kept = retention.archived_start(log_.segments, replica.config, self._wall_ms(), archive_start, at)
            return max(kept, start), -1, -1
        if what == EPOCH:
            epoch, end = log_.epochs.end_offset_for(at)
            return min(end, archive_start), -1, epoch
        if what != TIME:
            return None
        if at == EARLIEST:
            return start, -1, log_.epochs.epoch_at(start)
        if at == MAX_TIMESTAMP:
            newest = times.newest_below(log_.segments, archive_start, room)
            return None if newest is None or newest[0] < start else (*newest, log_.epochs.epoch_at(newest[0]))
        return times.first_at(log_.segments, at, start, archive_start, room)


def holds(replica: Replica, archive_start: int) -> bool:
    """Whether all that is kept below `archive_start` stands in this copy."""
    state = replica.core.state
    return (
        state is not None
        and 0 <= archive_start == state.archive_start
        and replica.core.broker_id in state.holders
        and replica.offline_reason is None
        and replica.log.start_offset < archive_start <= replica.log.end_offset
    )
