"""Fetch: consumers and followers read here.

Laws: a consumer never sees beyond the high watermark; a follower counts only with its current incarnation and epoch; the first
batch goes out whole even above the byte limits (KIP-74). Answers are file regions, sent by sendfile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from brokerd import partition as core
from brokerd.cluster.model import Seat, TopicPartition, TopicState
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.partitions import Partitions, Replica
from brokerd.storage.disk import DiskFailed
from brokerd.waiters import Waiter
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchRequest, FetchResponse

READ_COMMITTED = 1
WAIT_MS_MAX = 60_000
"""A client may ask to wait longer; a promise older than this is more likely forgotten than kept."""


@dataclass(slots=True)
class Ask:
    """One partition of a fetch, looked up."""

    topic_name: str
    topic_id: UUID
    wanted: FetchRequest.FetchPartition
    replica: Replica | None
    error: ErrorCode


class FetchApi:
    def __init__(self, loop: Loop, partitions: Partitions, *, bytes_max: int) -> None:
        self._loop, self._partitions, self._bytes_max = loop, partitions, bytes_max

    def handle(self, request: Request) -> None:
        body: FetchRequest = request.body
        version = request.header.api_version
        follower = self._follower(body, version)
        if body.session_id != 0 and body.session_epoch > 0:
            # No sessions are kept: the client starts over with a full request.
            request.reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        if follower is not None and self._partitions.image.incarnation(follower.broker_id) != follower.incarnation:
            request.reply(FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        asks = self._look_up(body, version)
        if follower is not None:
            self._heard_from(follower, asks)
        key = Replica.end_key if follower is not None else Replica.hw_key
        epochs = [a.replica.core.leader_epoch if a.replica is not None else -1 for a in asks]

        def try_complete() -> bool:
            if request.abandoned:
                return True
            total = 0
            for ask, epoch in zip(asks, epochs, strict=True):
                replica = ask.replica
                if ask.error or replica is None or not replica.leads or replica.core.leader_epoch != epoch:
                    return True
                limit = replica.log.end_offset if follower is not None else replica.core.high_watermark
                offset = ask.wanted.fetch_offset
                if offset < replica.log.start_offset or offset > replica.log.end_offset:
                    return True
                if offset < limit:
                    if body.min_bytes <= 1:
                        return True
                    total += self._size(replica, offset, limit, ask.wanted.partition_max_bytes)
                    if total >= body.min_bytes:
                        return True
                elif self._diverging(replica, ask.wanted) is not None:
                    return True
            return False

        def complete(expired: bool) -> None:
            if not request.abandoned:
                request.reply(self._read(body, asks, follower, version))

        if body.max_wait_ms <= 0 or body.min_bytes <= 0 or not asks:
            complete(False)
            return
        keys = tuple(key(a.replica) for a in asks if a.replica is not None)
        deadline = self._loop.now.mono_ms + min(body.max_wait_ms, WAIT_MS_MAX)
        self._partitions.waiters.add(Waiter(keys, try_complete, complete), deadline)

    # -- looking up --------------------------------------------------------------------------------------------------
    @staticmethod
    def _follower(body: FetchRequest, version: int) -> Seat | None:
        if version >= 15:
            state = body.replica_state
            if state is not None and state.replica_id >= 0:
                return Seat(state.replica_id, state.replica_epoch)
        elif body.replica_id >= 0:
            # A follower that cannot name its incarnation cannot prove that it is the one in the ISR.
            return Seat(body.replica_id, -1)
        return None

    def _look_up(self, body: FetchRequest, version: int) -> list[Ask]:
        image = self._partitions.image
        asks: dict[tuple[object, int], Ask] = {}  # a partition named twice is read once, as it was named last
        for topic in body.topics:
            state: TopicState | None
            if version >= 13:
                state, missing = image.topics.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
            else:
                state, missing = image.topic_named(topic.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for wanted in topic.partitions:
                replica = None
                error = ErrorCode.NONE
                if state is None or not state.ready:
                    error = missing
                elif wanted.partition not in state.partitions:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    replica = self._partitions.find(state, wanted.partition)
                    error = epoch_error(replica, wanted.current_leader_epoch)
                    if error:
                        replica = None
                name = state.name if state is not None else topic.topic
                topic_id = state.topic_id if state is not None else topic.topic_id
                key = (topic_id if version >= 13 else name, wanted.partition)
                asks[key] = Ask(name, topic_id, wanted, replica, error)
        return list(asks.values())

    def _heard_from(self, follower: Seat, asks: Sequence[Ask]) -> None:
        now = self._loop.now
        for ask in asks:
            if ask.replica is None or self._diverging(ask.replica, ask.wanted) is not None:
                continue
            if ask.wanted.fetch_offset > ask.replica.log.end_offset:
                continue
            self._partitions.run(
                ask.replica,
                core.FollowerFetched(follower, ask.wanted.fetch_offset, ask.wanted.log_start_offset),
                now,
            )

    @staticmethod
    def _diverging(replica: Replica, wanted: FetchRequest.FetchPartition) -> tuple[int, int] | None:
        """(epoch, end offset) when the asker's last epoch ends elsewhere in this log than at its fetch offset."""
        last = wanted.last_fetched_epoch
        if last < 0 or (last == replica.log.last_epoch and wanted.fetch_offset <= replica.log.end_offset):
            return None
        epoch, end = replica.log.epochs.end_offset_for(last)
        if epoch == last and wanted.fetch_offset <= end:
            return None
        if epoch < 0:
            if wanted.fetch_offset <= replica.log.start_offset:
                return (
                    None  # older than all that is kept: OFFSET_OUT_OF_RANGE or a read from the start, not a divergence
                )
            # Nothing here is that old: a leader that was emptied. An epoch of -1 would say "no divergence" on the wire.
            return 0, replica.log.start_offset
        return epoch, end

    @staticmethod
    def _size(replica: Replica, offset: int, limit: int, bytes_max: int) -> int:
        return sum(r.length for r in replica.log.read(offset, bytes_max, limit).regions)

    # -- answering -----------------------------------------------------------------------------------------------------
    def _read(self, body: FetchRequest, asks: Sequence[Ask], follower: Seat | None, version: int) -> FetchResponse:
        left = min(body.max_bytes, self._bytes_max) if follower is None else body.max_bytes
        nothing_yet = True
        topics: dict[tuple[str, UUID], list[FetchResponse.PartitionData]] = {}
        for ask in asks:
            data = FetchResponse.PartitionData(
                partition_index=ask.wanted.partition,
                error_code=ask.error,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
                aborted_transactions=[] if body.isolation_level == READ_COMMITTED else None,
                preferred_read_replica=-1,
                records=b"",
            )
            topics.setdefault((ask.topic_name, ask.topic_id), []).append(data)
            replica = ask.replica
            if replica is None:
                continue
            if error := epoch_error(replica, ask.wanted.current_leader_epoch):
                data.error_code = error
                continue
            offset = ask.wanted.fetch_offset
            data.high_watermark = data.last_stable_offset = replica.core.high_watermark
            data.log_start_offset = replica.log.start_offset
            parted = self._diverging(replica, ask.wanted)
            if parted is not None and version >= 12:
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=parted[0], end_offset=parted[1])
                continue
            if offset < replica.log.start_offset or offset > replica.log.end_offset:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                continue
            limit = replica.log.end_offset if follower is not None else replica.core.high_watermark
            if offset >= limit or (left <= 0 and not nothing_yet):
                continue
            bytes_max = min(left, ask.wanted.partition_max_bytes)
            try:
                regions = replica.log.read(offset, bytes_max, limit, at_least_one=nothing_yet).regions
            except DiskFailed as e:
                self._partitions.fail(replica, e)
                data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            if regions:
                data.records = regions_of(regions)
                left -= sum(r.length for r in regions)
                nothing_yet = False
        return FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts)
                for (name, topic_id), parts in topics.items()
            ]
        )


def regions_of(regions: Sequence[FileRegion]) -> FileRegion | list[FileRegion]:
    return regions[0] if len(regions) == 1 else list(regions)


def epoch_error(replica: Replica | None, epoch: int) -> ErrorCode:
    """What a request that carries `epoch` (-1: none) hears from a replica that may not lead, or leads in another epoch."""
    if replica is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.offline_reason is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if epoch >= 0:
        if epoch < replica.core.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > replica.core.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not replica.leads:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def partition_key(topic: TopicState, partition: int) -> TopicPartition:
    return TopicPartition(topic.topic_id, partition)
