"""ShareFetch and ShareAcknowledge (KIP-932): records for the members of share groups, and their acknowledgements.

Invariants: acknowledgements in a fetch are applied before records are acquired, and answered together with the records. A session ends with its
connection, and with it the locks of the member. Does not contain: delivery states (`sharing`), loading and writing (`share_partitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from brokerd.apis.share_observer import ShareObserver
from brokerd.apis.share_partitions import Fetched, FetchLimits, Shared, SharePartitions
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import NO_LEADER, TopicPartition
from brokerd.config.share_groups import ShareGroupConfig
from brokerd.net.loop import Loop
from brokerd.net.request import Handler, Request
from brokerd.replication.purgatory import DelayedOperation, WaitingFetches
from brokerd.replication.replica import TO_CONSUMERS
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType
from brokerd.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, ShareSessions
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

WAIT_MS_MAX = 60_000
"""Upper limit of the wait of a ShareFetch. A client that requests more gets its response after this time."""
EXACT = 1
"""ShareAcquireMode record-limit (KIP-1206). 0 is batch-optimized."""
BY_BATCH = 0
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Endpoint = Callable[[int, str], tuple[str, int, str | None] | None]
"""(broker id, listener) -> (host, port, rack) of a live broker."""


@dataclass(slots=True)
class ShareResult:
    """The result of one partition of a request."""

    error: int = ErrorCode.NONE
    acknowledge_error: int = ErrorCode.NONE
    fetched: Fetched | None = None


@dataclass(slots=True)
class ShareWork:
    """A request in progress. `acknowledging` are the partitions whose acknowledgements are not durable yet."""

    request: Request
    results: dict[TopicPartition, ShareResult] = field(default_factory=dict)
    acknowledging: int = 0
    fetched: bool = False
    responded: bool = False

    def result(self, tp: TopicPartition) -> ShareResult:
        return self.results.setdefault(tp, ShareResult())


class ShareFetchApi:
    """`endpoint(broker id, listener)`: (host, port, rack) of a live broker."""

    def __init__(
        self,
        loop: Loop,
        replica_manager: ReplicaManager,
        shared: SharePartitions,
        sessions: ShareSessions,
        waiting: WaitingFetches,
        auth: AuthHelper,
        config_of: Callable[[str], ShareGroupConfig],
        endpoint: Endpoint,
        *,
        bytes_max: int,
        observer: ShareObserver | None = None,
    ) -> None:
        self._loop, self._replica_manager, self._shared, self._sessions = loop, replica_manager, shared, sessions
        self._waiting, self._auth, self._config_of = waiting, auth, config_of
        self._endpoint, self._bytes_max, self._observer = endpoint, bytes_max, observer

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.SHARE_FETCH: self.fetch, ApiKey.SHARE_ACKNOWLEDGE: self.acknowledge}

    # -- requests ------------------------------------------------------------------------------------------------------
    def fetch(self, request: Request) -> None:
        body: m.ShareFetchRequest = request.body
        rejected = self._request_problem(request) or _fetch_problem(body)
        if rejected:
            self._reject(request, *rejected)
            return
        group_id, member_id = body.group_id or "", body.member_id or ""
        requested = {TopicPartition(t.topic_id, p.partition_index): p for t in body.topics for p in t.partitions}
        if body.share_session_epoch == INITIAL_EPOCH:
            self._end_session(self._sessions.session_of(group_id, member_id))
            session = self._begin_session(group_id, member_id, request.connection)
        else:
            session = self._sessions.find(group_id, member_id, body.share_session_epoch)
        if isinstance(session, ErrorCode):
            self._reject(request, session)
            return
        self._watch(request, session)
        work = ShareWork(request)
        acknowledged = {tp: p.acknowledgement_batches for tp, p in requested.items() if p.acknowledgement_batches}
        if body.share_session_epoch == FINAL_EPOCH:
            self._acknowledge(work, session, acknowledged, body.is_renew_ack)
            self._end_session(session)
            self._finish_fetch(work)
            return
        for tp in requested:
            session.partitions.setdefault(tp)
        for t in body.forgotten_topics_data:
            for p in t.partitions:
                session.partitions.pop(TopicPartition(t.topic_id, p), None)
        self._acknowledge(work, session, acknowledged, body.is_renew_ack)
        self._fetch(work, session)

    def acknowledge(self, request: Request) -> None:
        body: m.ShareAcknowledgeRequest = request.body
        rejected = self._request_problem(request)
        if rejected:
            self._reject(request, *rejected)
            return
        session: ShareSession | ErrorCode = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        if body.share_session_epoch != INITIAL_EPOCH:
            session = self._sessions.find(body.group_id or "", body.member_id or "", body.share_session_epoch)
        if isinstance(session, ErrorCode):
            self._reject(request, session)
            return
        self._watch(request, session)
        work = ShareWork(request)
        acknowledged = {
            TopicPartition(t.topic_id, p.partition_index): p.acknowledgement_batches
            for t in body.topics
            for p in t.partitions
        }
        self._acknowledge(work, session, acknowledged, body.is_renew_ack)
        if body.share_session_epoch == FINAL_EPOCH:
            self._end_session(session)
        self._finish_fetch(work)

    def _request_problem(self, request: Request) -> tuple[ErrorCode, str] | None:
        body = request.body
        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id or ""):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, ""
        if not body.group_id or not body.member_id:
            return ErrorCode.INVALID_REQUEST, "GroupId and MemberId must not be empty"
        return None

    @staticmethod
    def _reject(request: Request, error: ErrorCode, message: str = "") -> None:
        fetch = request.header.api_key == ApiKey.SHARE_FETCH
        response = m.ShareFetchResponse if fetch else m.ShareAcknowledgeResponse
        request.reply(response(error_code=error, error_message=message or None))

    # -- sessions ------------------------------------------------------------------------------------------------------
    def _begin_session(self, group_id: str, member_id: str, connection: Hashable) -> ShareSession | ErrorCode:
        session = self._sessions.begin(group_id, member_id, connection)
        if self._observer is not None and isinstance(session, ShareSession):
            self._observer.on_session_began(session)
        return session

    def _watch(self, request: Request, session: ShareSession) -> None:
        session.connection = request.connection
        request.when_disconnected(lambda: self._on_disconnected(request.connection))

    def _on_disconnected(self, connection: Hashable) -> None:
        for session in self._sessions.of_connection(connection):
            self._end_session(session)

    def _end_session(self, session: ShareSession | None) -> None:
        """End a session and the locks of its member on this broker."""
        if session is None:
            return
        self._sessions.end(session)
        for shared in self._shared:
            if shared.place.group_id == session.group_id:
                tp = TopicPartition(shared.place.topic_id, shared.place.partition)
                self._shared.release(session.group_id, session.member_id, tp)

    # -- acknowledgements ----------------------------------------------------------------------------------------------
    def _acknowledge(
        self, work: ShareWork, session: ShareSession, acknowledged: Mapping[TopicPartition, Sequence[Any]], renew: bool
    ) -> None:
        for tp, found in acknowledged.items():
            result = work.result(tp)
            error = self._topic_error(work.request, tp.topic_id)
            shared = error or self._shared.find(session.group_id, tp)
            if isinstance(shared, ErrorCode):
                result.acknowledge_error = shared
                continue
            work.acknowledging += 1

            def done(error: int, result: ShareResult = result) -> None:
                result.acknowledge_error = error
                work.acknowledging -= 1
                self._respond(work)

            steps = [Acknowledgement(b.first_offset, b.last_offset, tuple(b.acknowledge_types)) for b in found]
            self._shared.acknowledge(shared, session.member_id, steps, renew, done)

    def _topic_error(self, request: Request, topic_id: UUID) -> ErrorCode:
        """The error of a topic that does not exist or that the client may not read, or NONE."""
        topic = self._replica_manager.image.topics.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._auth.authorize(request, Operation.READ, Resource.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    # -- fetching ------------------------------------------------------------------------------------------------------
    def _fetch(self, work: ShareWork, session: ShareSession) -> None:
        request = work.request
        body: m.ShareFetchRequest = request.body
        ready: dict[TopicPartition, Shared] = {}
        for tp in session.partitions:
            error = self._topic_error(request, tp.topic_id)
            shared = error or self._shared.find(session.group_id, tp)
            if isinstance(shared, ErrorCode):
                work.result(tp).error = shared
            else:
                ready[tp] = shared
        if body.max_records <= 0 or body.max_bytes <= 0 or not ready:
            self._finish_fetch(work)
            return
        failed = any(r.error for r in work.results.values())
        keys: list[Hashable] = []
        for shared in ready.values():
            keys += (shared.key, shared.replica.hw_key())
        counted = self._waiting.acquire(request.principal, request.client_host)

        def try_complete() -> bool:
            return request.abandoned or bool(request.attempt(lambda: self._acquire(work, session, ready)))

        def on_completed(expired: bool) -> None:
            if counted:
                self._waiting.release(request.principal, request.client_host)
            request.attempt(lambda: self._finish_fetch(work))

        waiter = DelayedOperation(tuple(keys) if counted else (), try_complete, on_completed, owner=request.owner)
        wait_ms = 0 if failed else max(0, min(body.max_wait_ms, WAIT_MS_MAX))
        if not wait_ms:
            try_complete()
            on_completed(False)
            return
        purgatory = self._replica_manager.purgatory
        purgatory.add(waiter, self._loop.now.mono_ms + wait_ms)
        if not waiter.done:
            request.block(needs_client=True, gone=lambda: purgatory.abandon(waiter))

    def _acquire(self, work: ShareWork, session: ShareSession, ready: dict[TopicPartition, Shared]) -> bool:
        """Acquire records of the first partitions that have some. Returns whether the fetch need not wait any longer."""
        body: m.ShareFetchRequest = work.request.body
        if not self._sessions.current(session):
            return True
        bytes_left, records_left = min(body.max_bytes, self._bytes_max), body.max_records
        traffic = work.request.traffic
        stop = False
        for tp in list(session.partitions):
            shared = ready.get(tp)
            if shared is None:
                continue
            if shared.error:
                work.result(tp).error = shared.error
                stop = True
                continue
            limits = FetchLimits(bytes_left, records_left, body.batch_size, body.share_acquire_mode == EXACT)
            core, fetched = shared.core, self._shared.acquire(shared, session.member_id, limits)
            if fetched is None:
                continue
            if self._observer is not None:
                assert core is not None
                self._observer.on_acquired(core, session, fetched.acquired, self._loop.now.mono_ms)
            work.result(tp).fetched = fetched
            session.move_to_end(tp)
            stop = True
            bytes_left -= len(fetched.data)
            shared.replica.sent_bytes[TO_CONSUMERS] += len(fetched.data)
            if traffic is not None:
                traffic.add_fetched(shared.replica.topic, len(fetched.data), self._loop.now.mono_ms)
            records_left -= sum(a.last - a.first + 1 for a in fetched.acquired)
            if bytes_left <= 0 or records_left <= 0:
                break
        return stop

    def _finish_fetch(self, work: ShareWork) -> None:
        """The records are acquired, or there are none. The response may still wait for acknowledgements."""
        work.fetched = True
        self._respond(work)

    # -- responses -----------------------------------------------------------------------------------------------------
    def _respond(self, work: ShareWork) -> None:
        if work.responded or not work.fetched or work.acknowledging:
            return
        work.responded = True
        request = work.request
        if request.header.api_key == ApiKey.SHARE_FETCH:
            self._respond_to_fetch(work)
            return
        response_type = m.ShareAcknowledgeResponse
        request.reply(
            response_type(
                acquisition_lock_timeout_ms=self._config_of(request.body.group_id).lock_ms,
                responses=[
                    response_type.ShareAcknowledgeTopicResponse(
                        topic_id=topic_id,
                        partitions=[
                            response_type.PartitionData(
                                partition_index=tp.partition,
                                error_code=result.acknowledge_error,
                                current_leader=response_type.LeaderIdAndEpoch(
                                    *self._leader(tp, result.acknowledge_error)
                                ),
                            )
                            for tp, result in of_topic
                        ],
                    )
                    for topic_id, of_topic in _by_topic(work)
                ],
                node_endpoints=[response_type.NodeEndpoint(*e) for e in self._endpoints(work)],
            )
        )

    def _respond_to_fetch(self, work: ShareWork) -> None:
        request = work.request
        response_type = m.ShareFetchResponse

        def data(tp: TopicPartition, result: ShareResult) -> Any:
            fetched = result.fetched
            error = result.error or result.acknowledge_error
            return response_type.PartitionData(
                partition_index=tp.partition,
                error_code=result.error,
                acknowledge_error_code=result.acknowledge_error,
                current_leader=response_type.LeaderIdAndEpoch(*self._leader(tp, error)),
                records=fetched.data if fetched is not None else b"",
                acquired_records=[
                    response_type.AcquiredRecords(first_offset=a.first, last_offset=a.last, delivery_count=a.deliveries)
                    for a in (fetched.acquired if fetched is not None else ())
                ],
            )

        request.reply(
            response_type(
                acquisition_lock_timeout_ms=self._config_of(request.body.group_id).lock_ms,
                responses=[
                    response_type.ShareFetchableTopicResponse(
                        topic_id=topic_id, partitions=[data(tp, result) for tp, result in of_topic]
                    )
                    for topic_id, of_topic in _by_topic(work)
                ],
                node_endpoints=[response_type.NodeEndpoint(*e) for e in self._endpoints(work)],
            )
        )

    def _leader(self, tp: TopicPartition, error: int) -> tuple[int, int]:
        """(leader, leader epoch) for a client that sent its request to another broker than the leader."""
        topic = self._replica_manager.image.topics.get(tp.topic_id)
        state = topic.partitions.get(tp.partition) if topic is not None and error in LEADER_ERRORS else None
        return (state.leader, state.leader_epoch) if state is not None else (NO_LEADER, -1)

    def _endpoints(self, work: ShareWork) -> list[tuple[int, str, int, str | None]]:
        leaders = {self._leader(tp, x.error or x.acknowledge_error)[0] for tp, x in work.results.items()}
        found = ((b, self._endpoint(b, work.request.listener)) for b in sorted(leaders) if b >= 0)
        return [(b, *address) for b, address in found if address is not None]


def _by_topic(work: ShareWork) -> Iterable[tuple[UUID, list[tuple[TopicPartition, ShareResult]]]]:
    out: dict[UUID, list[tuple[TopicPartition, ShareResult]]] = {}
    for tp, result in work.results.items():
        out.setdefault(tp.topic_id, []).append((tp, result))
    return out.items()


def _fetch_problem(body: m.ShareFetchRequest) -> tuple[ErrorCode, str] | None:
    """Return the reason why a ShareFetch is invalid, or None."""
    batches = [b for t in body.topics for p in t.partitions for b in p.acknowledgement_batches]
    if body.share_session_epoch == INITIAL_EPOCH and batches:
        return ErrorCode.INVALID_REQUEST, "the first request of a share session must not acknowledge records"
    if body.share_session_epoch < FINAL_EPOCH:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH, ""
    if body.share_acquire_mode not in (BY_BATCH, EXACT):
        return ErrorCode.INVALID_REQUEST, f"unknown ShareAcquireMode {body.share_acquire_mode}"
    if body.is_renew_ack and (body.max_bytes or body.max_wait_ms or body.max_records or body.min_bytes):
        return ErrorCode.INVALID_REQUEST, "a request that renews locks must not fetch records"
    renews = any(AcknowledgeType.RENEW in b.acknowledge_types for b in batches)
    if renews and not body.is_renew_ack:
        return ErrorCode.INVALID_REQUEST, "acknowledgements of type renew need IsRenewAck"
    return None
