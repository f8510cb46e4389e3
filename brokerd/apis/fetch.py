"""Fetch: consumers and followers read here.

Laws: a consumer never sees beyond the high watermark (a follower's own, where it reads from one), with read_committed not beyond the last
stable offset; a follower counts only with its current incarnation and epoch; the first batch goes out whole even above the byte limits (KIP-74). Answers are file regions, sent by sendfile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from uuid import UUID

from brokerd import partition_events as core
from brokerd.apis.closest import closest, serves
from brokerd.apis.fetchanswers import Read, regions_of, response, settle
from brokerd.apis.fetchsessions import FULL_EPOCH, LAST_EPOCH, NO_SESSION, Ask, Key, Session, Sessions
from brokerd.apis.held import Below, Holder
from brokerd.archives import Archives
from brokerd.cluster.model import Seat, TopicState
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.partition_events import Pulse
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.storage.disk import DiskFailed
from brokerd.throttles import Bucket, Throttles
from brokerd.waiters import Waiter
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchRequest, FetchResponse

READ_COMMITTED = 1
WAIT_MS_MAX = 60_000
"""A client may ask to wait longer; a promise older than this is more likely forgotten than kept."""


FIRST_WITH_RACK = 11
"""Who sends this knows preferred read replicas."""
FIRST_BY_ID = 13
"""Fetch names topics by id from here on."""


class FetchApi:
    def __init__(
        self,
        loop: Loop,
        partitions: Partitions,
        sessions: Sessions,
        *,
        bytes_max: int,
        throttles: Throttles,
        archives: Archives | None = None,
        by_rack: bool = False,
    ) -> None:
        """`by_rack`: consumers are told of a closer replica."""
        self._by_rack = by_rack
        self._below = Below(partitions, archives, bytes_max)
        self._holder = Holder(partitions, lambda: loop.now.wall_ms, self._diverging)
        self._loop, self._partitions, self._bytes_max, self._throttles = loop, partitions, bytes_max, throttles
        self.sessions = sessions

    def handle(self, request: Request) -> None:
        body: FetchRequest = request.body
        version = request.header.api_version
        follower = self._follower(body, version)
        if body.session_epoch not in (FULL_EPOCH, LAST_EPOCH):
            session = self.sessions.find(body.session_id, body.session_epoch, follower, version >= FIRST_BY_ID)
            if isinstance(session, ErrorCode):
                request.reply(FetchResponse(error_code=session))
                return
        else:
            session = None
        if follower is not None and self._partitions.image.incarnation(follower.broker_id) != follower.incarnation:
            request.reply(FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        if session is not None:
            self._incremental(request, session)
            return
        if follower is not None and any(p.held for t in body.topics for p in t.partitions):
            request.reply(self._holder.answer(body))
            return
        if body.session_id != NO_SESSION:
            self.sessions.end(body.session_id)
        asks = self._look_up(body, version)
        pulse = Pulse(self._loop.now.mono_ms) if follower is not None and body.session_epoch == FULL_EPOCH else None
        if follower is not None:
            self._heard_from(follower, asks.values(), pulse)

        def complete(expired: bool) -> None:
            if request.abandoned:
                return
            session = None
            if body.session_epoch == FULL_EPOCH:
                session = self.sessions.begin(asks, follower, version >= FIRST_BY_ID, self._loop.now.mono_ms, pulse)
            read = self._read(body, asks, follower, version)
            if session is not None:
                settle(session, read)
            request.reply(response(read, session.session_id if session is not None else NO_SESSION))

        key = Replica.end_key if follower is not None else Replica.hw_key
        keys = tuple(key(a.replica) for a in asks.values() if a.replica is not None)
        self._wait(body, request, keys, lambda: asks, follower, complete)

    def _incremental(self, request: Request, session: Session) -> None:
        """What the request names takes effect now; then whatever there is to tell of the whole session is waited for, and told."""
        body: FetchRequest = request.body
        version = request.header.api_version
        follower = session.follower
        self.sessions.used(session, self._loop.now.mono_ms)
        epoch = session.epoch
        named = self._look_up(body, version)
        forgotten: dict[Key, None] = {
            (t.topic_id if session.by_id else t.topic, p): None
            for t in body.forgotten_topics_data
            for p in t.partitions
        }
        # What could not be served before is looked up again: it may be by now.
        for key, ask in [(k, session.asks[k]) for k in session.unheard if session.asks[k].error]:
            if key not in named:
                named[key] = self._looked_up(ask.topic_name, ask.topic_id, ask.wanted, body, version)
        if follower is not None:
            for key in [*named, *forgotten]:
                old = session.asks.get(key)
                replica = old.replica if old is not None else None
                if replica is not None and self._partitions.hosted.get(replica.tp) is replica:
                    self._partitions.run(replica, core.Unheard(follower), self._loop.now)
        for key in forgotten:
            session.drop(key)
            named.pop(key, None)  # named as well: Kafka forgets it
        for key, ask in named.items():
            session.put(key, ask)
        if session.pulse is not None:
            session.pulse.ms = self._loop.now.mono_ms
        if follower is not None:
            self._heard_from(follower, named.values(), session.pulse)
        if not session.asks:
            self.sessions.end(session.session_id)
            request.reply(FetchResponse())
            return

        def complete(expired: bool) -> None:
            if request.abandoned:
                return
            if session.epoch != epoch:
                request.reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
                return
            read = self._read(body, unheard(), follower, version)
            request.reply(response(settle(session, read), session.session_id))

        def unheard() -> dict[Key, Ask]:
            return {key: session.asks[key] for key in session.unheard}

        self._wait(body, request, (session,), unheard, follower, complete)

    def _wait(
        self,
        body: FetchRequest,
        request: Request,
        keys: tuple[Hashable, ...],
        asks: Callable[[], Mapping[Key, Ask]],
        follower: Seat | None,
        complete: Callable[[bool], None],
    ) -> None:
        def try_complete() -> bool:
            return request.abandoned or self._enough(body, asks().values(), follower)

        if body.max_wait_ms <= 0 or body.min_bytes <= 0 or not keys:
            complete(False)
            return
        deadline = self._loop.now.mono_ms + min(body.max_wait_ms, WAIT_MS_MAX)
        self._partitions.waiters.add(Waiter(keys, try_complete, complete), deadline)

    def _enough(self, body: FetchRequest, asks: Iterable[Ask], follower: Seat | None) -> bool:
        """Whether there is something to tell at once: records enough, or anything that is not as it was asked for."""
        total, limit_of = 0, self._limit(body, follower)
        for ask in asks:
            replica = ask.replica
            if ask.error or replica is None or replica.core.leader_epoch != ask.epoch:
                return True
            if not serves(replica, ask.may_follow) or self._elsewhere(body, ask, follower) is not None:
                return True
            if ask.wanted.unseeded or _stranger(replica, follower):
                return True
            limit = limit_of(replica)
            offset = ask.wanted.fetch_offset
            if offset < replica.asks_below:
                if self._below.held(replica, ask, limit) is not None:
                    return True
                continue
            if offset < replica.log.start_offset or offset > replica.log.end_offset:
                return True
            if offset < limit:
                bucket = self._bucket(replica, follower)
                if bucket is not None and not bucket.room(self._loop.now.mono_ms):
                    continue  # there is more, and it has to wait: for the rest of this fetch's time at most
                if body.min_bytes <= 1:
                    return True
                total += self._size(replica, offset, limit, ask.wanted.partition_max_bytes)
                if total >= body.min_bytes:
                    return True
            elif self._diverging(replica, ask.wanted) is not None:
                return True
        return False

    def _bucket(self, replica: Replica, follower: Seat | None) -> Bucket | None:
        """What an answer to this follower draws from; None: it is not held back. Never in the ISR, nor where this leader counts on it."""
        if follower is None or not self._throttles.active:
            return None
        bucket = self._throttles.leading(replica.tp)
        return None if bucket is None or follower in replica.core.maximal_isr() else bucket

    def _elsewhere(self, body: FetchRequest, ask: Ask, follower: Seat | None) -> int | None:
        """The broker that the asker had better ask."""
        if (
            not (self._by_rack and ask.may_follow)
            or follower is not None
            or ask.replica is None
            or not ask.replica.leads
        ):
            return None
        return closest(ask.replica, body.rack_id, ask.wanted.fetch_offset, self._partitions.image)

    @staticmethod
    def _limit(body: FetchRequest, follower: Seat | None) -> Callable[[Replica], int]:
        """Where the asker's reading ends."""
        if follower is not None:
            return lambda replica: replica.log.end_offset
        if body.isolation_level == READ_COMMITTED:
            return Replica.last_stable
        return lambda replica: replica.core.high_watermark

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

    def _look_up(self, body: FetchRequest, version: int) -> dict[Key, Ask]:
        asks: dict[Key, Ask] = {}  # a partition named twice is read once, as it was named last
        for topic in body.topics:
            for wanted in topic.partitions:
                key = (topic.topic_id if version >= FIRST_BY_ID else topic.topic, wanted.partition)
                asks[key] = self._looked_up(topic.topic, topic.topic_id, wanted, body, version)
        return asks

    def _looked_up(
        self, name: str, topic_id: UUID, wanted: FetchRequest.FetchPartition, body: FetchRequest, version: int
    ) -> Ask:
        image = self._partitions.image
        state: TopicState | None
        if version >= FIRST_BY_ID:
            state, missing = image.topics.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            state, missing = image.topic_named(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if state is None or not state.ready:
            return Ask(name, topic_id, wanted, None, missing)
        if wanted.partition not in state.partitions:
            return Ask(state.name, state.topic_id, wanted, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica = self._partitions.find(state, wanted.partition)
        may_follow = version >= FIRST_WITH_RACK and bool(body.rack_id) and self._follower(body, version) is None
        error = epoch_error(replica, wanted.current_leader_epoch, from_follower=may_follow)
        if error or replica is None:
            return Ask(state.name, state.topic_id, wanted, None, error)
        return Ask(state.name, state.topic_id, wanted, replica, error, replica.core.leader_epoch, may_follow=may_follow)

    def _heard_from(self, follower: Seat, asks: Iterable[Ask], pulse: Pulse | None) -> None:
        now = self._loop.now
        for ask in asks:
            if ask.replica is None or ask.wanted.unseeded or self._diverging(ask.replica, ask.wanted) is not None:
                continue
            if ask.wanted.fetch_offset > ask.replica.log.end_offset:
                continue
            self._partitions.run(
                ask.replica,
                core.FollowerFetched(follower, ask.wanted.fetch_offset, ask.wanted.log_start_offset, pulse),
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

    @staticmethod
    def _aborted(replica: Replica, offset: int, limit: int, last: FileRegion) -> list[FetchResponse.AbortedTransaction]:
        if not replica.log.aborted.counts:
            return []
        upto = min(limit, replica.log.bound_after(offset, last))
        found = replica.log.aborted.between(offset, upto)
        return [FetchResponse.AbortedTransaction(producer_id=e.producer_id, first_offset=e.first_offset) for e in found]

    # -- answering -----------------------------------------------------------------------------------------------------
    def _read(self, body: FetchRequest, asks: Mapping[Key, Ask], follower: Seat | None, version: int) -> list[Read]:
        left = min(body.max_bytes, self._bytes_max) if follower is None else body.max_bytes
        nothing_yet, limit_of = True, self._limit(body, follower)
        committed = body.isolation_level == READ_COMMITTED and follower is None
        out: list[Read] = []
        for key, ask in asks.items():
            data = FetchResponse.PartitionData(
                partition_index=ask.wanted.partition,
                error_code=ask.error,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
                aborted_transactions=[] if committed else None,
                preferred_read_replica=-1,
                records=b"",
            )
            read = Read(key, ask, data)
            out.append(read)
            replica = ask.replica
            if replica is None:
                continue
            if error := epoch_error(replica, ask.wanted.current_leader_epoch, from_follower=ask.may_follow):
                data.error_code = error
                continue
            if _stranger(replica, follower):
                data.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
                continue
            ask.epoch = replica.core.leader_epoch
            offset = ask.wanted.fetch_offset
            data.high_watermark = replica.core.high_watermark
            data.last_stable_offset = replica.last_stable()
            data.log_start_offset = replica.start_offset
            if ask.wanted.unseeded:
                self._seed(replica, data, follower)
                nothing_yet = nothing_yet and not data.seed
                continue
            if offset < replica.asks_below:
                left -= self._below.read(replica, read, limit_of(replica), left, nothing_yet)
                nothing_yet = nothing_yet and not read.served
                continue
            parted = self._diverging(replica, ask.wanted)
            if parted is not None and version >= 12:
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=parted[0], end_offset=parted[1])
                continue
            if offset < replica.log.start_offset or offset > replica.log.end_offset:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                continue
            if (elsewhere := self._elsewhere(body, ask, follower)) is not None:
                data.preferred_read_replica, read.more = elsewhere, True
                continue
            limit = limit_of(replica)
            if offset >= limit:
                continue
            read.more = True
            if left <= 0 and not nothing_yet:
                continue
            bytes_max = min(left, ask.wanted.partition_max_bytes)
            bucket = self._bucket(replica, follower)
            if bucket is not None:
                if not (room := bucket.room(self._loop.now.mono_ms)):
                    continue
                bytes_max = min(bytes_max, room)
            try:
                whole = (
                    nothing_yet or bucket is not None
                )  # a batch above what is left makes a debt, or it would never go
                regions = replica.log.read(offset, bytes_max, limit, at_least_one=whole).regions
            except DiskFailed as e:
                self._partitions.fail(replica, e)
                data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            if regions:
                data.records = regions_of(regions)
                if committed:
                    data.aborted_transactions = self._aborted(replica, offset, limit, regions[-1])
                count = sum(r.length for r in regions)
                left -= count
                if bucket is not None:
                    bucket.spend(count, self._loop.now.mono_ms)
                nothing_yet, read.served = False, True
        return out

    def _seed(self, replica: Replica, data: FetchResponse.PartitionData, follower: Seat | None) -> None:
        """What an observer's copy begins with, once it may."""
        state = replica.core.state
        if follower is None or state is None or follower.broker_id not in state.observers:
            data.error_code = ErrorCode.INVALID_REQUEST  # it has not read yet that it is an observer no more
            return
        try:
            data.seed = self._partitions.seeds.asked(replica, self._loop.now) or b""
        except DiskFailed as e:
            self._partitions.fail(replica, e)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return
        if not data.seed:
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE


def epoch_error(replica: Replica | None, epoch: int, *, from_follower: bool = False) -> ErrorCode:
    """What a request that carries `epoch` (-1: none) hears from a replica that may not lead, or leads in another epoch; `from_follower`: it
    may be answered by one that follows."""
    if replica is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.offline_reason is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if epoch >= 0:
        if epoch < replica.core.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > replica.core.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if serves(replica, from_follower) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _stranger(replica: Replica, follower: Seat | None) -> bool:
    """A follower that this leader has not read of yet, or no more. It has to come again: what it said would not be remembered, and in its
    session it would not say it twice (Kafka answers with the same code)."""
    state = replica.core.state
    return follower is not None and state is not None and follower.broker_id not in state.hosts
