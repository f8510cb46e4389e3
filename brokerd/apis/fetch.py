"""The Fetch API for consumers and followers.

Invariant: the fetch of a follower is accepted only with the follower's current broker epoch and the current leader epoch. Does not contain: reading
records (`fetch_reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from brokerd.apis.fetch_conditions import find_divergence
from brokerd.apis.fetch_lookup import FIRST_BY_ID, Topics, follower_of, look_up, looked_up
from brokerd.apis.fetch_reader import FetchReader
from brokerd.apis.fetch_response import (
    FetchRead,
    build_fetch_response,
    may_pause,
    unauthorized_partition,
    unauthorized_topics,
)
from brokerd.apis.fetch_sessions import (
    FULL_EPOCH,
    LAST_EPOCH,
    NO_SESSION,
    FetchSession,
    Key,
    PartitionRequest,
    Sessions,
)
from brokerd.apis.history_reads import HistoryReader, HistoryReadServer
from brokerd.apis.pending_fetch import FullFetch, PendingFetch, SessionFetch
from brokerd.apis.private_fetches import PrivateFetches
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.net.loop import Loop
from brokerd.net.request import Request
from brokerd.replication import partition_events as core
from brokerd.replication.first_fetches import WAIT_MS_MAX as FIRST_FETCH_WAIT_MS_MAX
from brokerd.replication.history_reads import HistoryReads
from brokerd.replication.partition_events import SessionLiveness
from brokerd.replication.purgatory import DelayedOperation, WaitingFetches
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import Throttles
from brokerd.server.background_work import BackgroundWork
from brokerd.storage.nonblocking import NotInPageCache
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse

WAIT_MS_MAX = 60_000
"""Upper limit of fetch.max.wait.ms. A client that requests more gets its response after this time."""


FIRST_WITH_TAGS = 12
"""First version in which a partition can have tagged fields. History reads use private tagged fields."""
NO_TOPICS: Topics = ()


class FetchApi:
    def __init__(
        self,
        loop: Loop,
        replica_manager: ReplicaManager,
        sessions: Sessions,
        *,
        bytes_max: int,
        throttles: Throttles,
        background_work: BackgroundWork,
        waiting: WaitingFetches,
        auth: AuthHelper,
        history_reads: HistoryReads | None = None,
        by_rack: bool = False,
        read_ahead: ReadAhead | None = None,
        private: PrivateFetches | None = None,
        produced: Callable[[], int] = lambda: 0,
    ) -> None:
        """`by_rack`: consumers are redirected to a closer replica (KIP-392). `read_ahead`: loads data that is not in the page cache. With None, the
        event loop reads the data and blocks. `private`: answers the requests of the control plane. `produced`: number of requests of producers until now."""
        self._auth = auth
        self._reader = FetchReader(
            loop,
            replica_manager,
            HistoryReader(replica_manager, history_reads, bytes_max),
            bytes_max=bytes_max,
            throttles=throttles,
            by_rack=by_rack,
            read_ahead=read_ahead,
        )
        self._history_read_server = HistoryReadServer(replica_manager, lambda: loop.now.wall_ms, find_divergence)
        self._private, self._pacing, self._produced = private, throttles.leader_pacing, produced
        self._loop, self._replica_manager = loop, replica_manager
        self.sessions, self._background_work, self._waiting = sessions, background_work, waiting

    def handle(self, request: Request) -> None:
        body: FetchRequest = request.body
        version = request.header.api_version
        follower = follower_of(body, version)
        if follower is not None and not self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            request.reply(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        topics, unauthorized = self._authorized_topics(request) if follower is None else (body.topics, NO_TOPICS)
        if body.session_epoch not in (FULL_EPOCH, LAST_EPOCH):
            session = self.sessions.find(body.session_id, body.session_epoch, follower, version >= FIRST_BY_ID)
            if isinstance(session, ErrorCode):
                request.reply(FetchResponse(error_code=session))
                return
        else:
            session = None
        if (
            follower is not None
            and self._replica_manager.image.broker_epoch(follower.broker_id) != follower.broker_epoch
        ):
            request.reply(FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        if follower is not None:
            request.from_broker()
        if session is not None:
            self._incremental(request, session, topics, unauthorized)
            return
        if follower is not None and any(p.history_read or p.history_json for t in body.topics for p in t.partitions):
            self._background_work.start(request, self._history_read_server.respond(body), request.reply)
            return
        if body.session_id != NO_SESSION:
            self.sessions.end(body.session_id)
        self._full(request, follower, topics, unauthorized)

    def _full(
        self, request: Request, follower: ReplicaIncarnation | None, topics: Topics, unauthorized: Topics
    ) -> None:
        """Answer for all partitions in the request, and begin a session if the client requests one."""
        body: FetchRequest = request.body
        version = request.header.api_version
        partition_requests = look_up(self._replica_manager, topics, body, version)
        if (
            follower is None
            and version >= FIRST_WITH_TAGS
            and self._private is not None
            and self._private.respond(request, partition_requests.values(), unauthorized)
        ):
            return
        session_liveness = (
            SessionLiveness(self._loop.now.mono_ms)
            if follower is not None and body.session_epoch == FULL_EPOCH
            else None
        )
        if follower is not None:
            self._record_follower_fetch(follower, partition_requests.values(), session_liveness)

        fetch = FullFetch(
            request,
            follower,
            unauthorized,
            self._reader,
            self._reply,
            partition_requests,
            self.sessions,
            session_liveness,
            self._now_ms,
        )
        if unauthorized:
            fetch.respond(True)
        else:
            self._wait(fetch, by_log=True)

    def _now_ms(self) -> int:
        return self._loop.now.mono_ms

    def _authorized_topics(self, request: Request) -> tuple[Topics, Topics]:
        """(authorized, unauthorized) topics that a consumer requests."""
        body: FetchRequest = request.body
        if not self._auth.enabled:
            return body.topics, NO_TOPICS

        def name_of(topic: FetchRequest.FetchTopic) -> str | None:
            if request.header.api_version < FIRST_BY_ID:
                return topic.topic
            state = self._replica_manager.image.topics.get(topic.topic_id)
            return state.name if state is not None else None

        return self._auth.partition_by_authorized(request, Operation.READ, Resource.TOPIC, body.topics, name_of)

    def _reply(self, fetch: PendingFetch, read: list[FetchRead], session_id: int) -> None:
        """Send the response. A consumer is authorized again, so that a removed ACL also applies to a delayed fetch. Followers are not authorized
        again."""
        request, follower = fetch.request, fetch.follower
        if self._auth.enabled and follower is None:
            for r in read:
                name = r.partition_request.topic_name  # empty: no topic has the id
                if name and not self._auth.authorize(request, Operation.READ, Resource.TOPIC, name):
                    r.data, r.served = unauthorized_partition(r.partition_request.requested.partition), 0
        self._reader.count_sent(read, follower, request.traffic if follower is None else None, self._loop.now.mono_ms)
        response = build_fetch_response(read, session_id)
        if follower is not None and may_pause(read, follower):
            response.throttle_time_ms = self._pacing.wanted_ms(follower.broker_id, self._produced())
        if fetch.unauthorized:
            response.responses.extend(unauthorized_topics(fetch.unauthorized))
        request.reply(response)

    def _incremental(self, request: Request, session: FetchSession, topics: Topics, unauthorized: Topics) -> None:
        """Apply the partitions in the request to the session. Then wait for changes of any partition in the session, and send them."""
        body: FetchRequest = request.body
        version = request.header.api_version
        follower = session.follower
        self.sessions.advance_epoch(session, self._loop.now.mono_ms)
        epoch = session.epoch
        named = look_up(self._replica_manager, topics, body, version)
        forgotten: dict[Key, None] = {
            (t.topic_id.int if session.by_id else t.topic, p): None
            for t in body.forgotten_topics_data
            for p in t.partitions
        }
        # Look up failed partitions again: they may be available by now.
        for key, partition_request in [
            (k, session.partition_requests[k]) for k in session.dirty_partitions if session.partition_requests[k].error
        ]:
            if key not in named:
                named[key] = looked_up(
                    self._replica_manager,
                    partition_request.topic_name,
                    partition_request.topic_id,
                    partition_request.requested,
                    body,
                    version,
                )
        if follower is not None:
            for key in [*named, *forgotten]:
                old = session.partition_requests.get(key)
                replica = old.replica if old is not None else None
                if replica is not None and self._replica_manager.hosted.get(replica.tp) is replica:
                    dropped = core.FetchSessionDropped(follower, session.session_liveness)
                    self._replica_manager.run(replica, dropped, self._loop.now)
        for key in forgotten:
            former = session.drop(key)
            if follower is not None and former is not None and former.replica is not None:
                self._replica_manager.first_fetches.on_forgotten(
                    follower.broker_id, former.replica, self._loop.now.mono_ms
                )
            named.pop(
                key, None
            )  # a partition that is both fetched and forgotten in one request is forgotten, as in Kafka
        for key, partition_request in named.items():
            session.put(key, partition_request)
        if session.session_liveness is not None:
            session.session_liveness.ms = self._loop.now.mono_ms
        if follower is not None:
            self._record_follower_fetch(follower, named.values(), session.session_liveness)
        fetch = SessionFetch(request, unauthorized, self._reader, self._reply, session, epoch)
        if not session.partition_requests:
            self.sessions.end(session.session_id)
            self._reply(fetch, [], NO_SESSION)
        elif unauthorized:
            fetch.respond(True)
        else:
            self._wait(fetch, by_log=False)

    def _wait(self, fetch: PendingFetch, *, by_log: bool) -> None:
        """Delay the fetch until enough data is available or its deadline has passed. If `by_log` is True, the purgatory keys are those of partition logs;
        otherwise it is the key of a fetch session, which watches its partitions."""
        body, request = fetch.body, fetch.request
        if body.max_wait_ms <= 0 or body.min_bytes <= 0:
            fetch.respond(True)
            return
        if fetch.respond(
            False
        ):  # most fetches of a consumer with lag end here: they are classified once and never count as waiting
            return
        keys = fetch.purgatory_keys()
        if not keys:
            fetch.respond(True)
            return
        follower = fetch.follower
        purgatory, client = self._replica_manager.purgatory, follower is None
        first_fetches, now_ms = self._replica_manager.first_fetches, self._loop.now.mono_ms
        wait_ms = min(body.max_wait_ms, WAIT_MS_MAX)
        if follower is not None:
            keys = (*keys, first_fetches.key(follower.broker_id))
            if first_fetches.expects(follower.broker_id, now_ms):
                wait_ms = min(wait_ms, FIRST_FETCH_WAIT_MS_MAX)
        needs: Mapping[Hashable, int] | None = None

        def enough() -> bool:
            nonlocal needs
            try:
                with self._reader.reading(0):
                    if self._reader.enough(body, fetch.partition_requests().values(), follower):
                        return True
                    needs = self._reader.needs(body, fetch.partition_requests().values()) if client and by_log else None
            except NotInPageCache:
                return True  # data is available, and the fetch has already waited
            return False

        # If min_bytes is 1, a response with too little data shows that no data is available.
        if body.min_bytes > 1 and request.attempt(enough):
            request.attempt(lambda: fetch.respond(True))
            return
        counted = client and self._waiting.acquire(request.principal, request.client_host)

        def try_complete() -> bool:
            if follower is not None and first_fetches.expects(follower.broker_id, self._loop.now.mono_ms):
                return True
            done = request.abandoned or bool(request.attempt(enough))
            waiter.needs = needs
            return done

        def on_completed(expired: bool) -> None:
            if counted:
                self._waiting.release(request.principal, request.client_host)
            request.attempt(lambda: fetch.respond(True))

        # The limit of waiting fetches is reached: this fetch is answered at its deadline, and appends do not evaluate it. An immediate response would make the
        # client fetch in a busy loop.
        waiter = DelayedOperation(
            keys if counted or not client else (),
            try_complete,
            on_completed,
            client=client,
            owner=request.owner if client else None,
        )
        waiter.needs = needs
        purgatory.add(waiter, now_ms + wait_ms, evaluated=True)
        if client and not waiter.done:
            request.block(needs_client=True, gone=lambda: purgatory.abandon(waiter))

    def _record_follower_fetch(
        self,
        follower: ReplicaIncarnation,
        partition_requests: Iterable[PartitionRequest],
        session_liveness: SessionLiveness | None,
    ) -> None:
        now = self._loop.now
        for partition_request in partition_requests:
            if partition_request.replica is None:
                continue
            self._replica_manager.first_fetches.on_fetched(follower.broker_id, partition_request.replica.tp)
            if (
                partition_request.requested.awaits_bootstrap
                or find_divergence(partition_request.replica, partition_request.requested) is not None
            ):
                continue
            if partition_request.requested.fetch_offset > partition_request.replica.log.end_offset:
                continue
            self._replica_manager.run(
                partition_request.replica,
                core.FollowerFetched(
                    follower,
                    partition_request.requested.fetch_offset,
                    partition_request.requested.log_start_offset,
                    session_liveness,
                    partition_request.requested.remote_start,
                ),
                now,
            )
