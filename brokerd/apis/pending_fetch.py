"""One fetch until its response is sent: which partitions it reads, and how its response is sent. Subclasses are fetches without and with a session.

Invariant: a fetch refers to no function that refers to the fetch, so all its objects are freed when it is answered. Cycles would stay until the garbage
collector runs, and a broker answers thousands of fetches per second. Does not contain: waiting, authorization.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from functools import partial

from brokerd.apis.fetch_lookup import FIRST_BY_ID, Topics
from brokerd.apis.fetch_reader import FetchReader
from brokerd.apis.fetch_response import FetchRead, record_responses
from brokerd.apis.fetch_sessions import FULL_EPOCH, NO_SESSION, FetchSession, Key, PartitionRequest, Sessions
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.net.request import Request
from brokerd.replication.partition_events import SessionLiveness
from brokerd.replication.replica import Replica
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse


class PendingFetch(ABC):
    """`reply(fetch, read, session_id)` sends the response."""

    __slots__ = ("_reader", "_reply", "body", "follower", "request", "unauthorized")

    def __init__(
        self,
        request: Request,
        follower: ReplicaIncarnation | None,
        unauthorized: Topics,
        reader: FetchReader,
        reply: Callable[[PendingFetch, list[FetchRead], int], None],
    ) -> None:
        self.request, self.follower, self.unauthorized = request, follower, unauthorized
        self.body: FetchRequest = request.body
        self._reader, self._reply = reader, reply

    @abstractmethod
    def partition_requests(self) -> Mapping[Key, PartitionRequest]:
        """The partitions that this fetch may answer for."""

    @abstractmethod
    def purgatory_keys(self) -> tuple[Hashable, ...]:
        """The keys whose changes may complete this fetch."""

    @abstractmethod
    def send(self, read: list[FetchRead]) -> None: ...

    def is_superseded(self) -> bool:
        """Return whether a later fetch of the same session has arrived."""
        return False

    def respond(self, final: bool, lookups: int = 0) -> bool:
        """Read, and send the result if it is sufficient or `final`. Returns whether the fetch needs no wait. A read that must first load an index or batch
        headers responds later, as final; `lookups` is the number of these loads."""
        request = self.request
        if request.abandoned:
            return True
        if self.is_superseded():
            request.reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
            return True
        body, reader = self.body, self._reader
        version = request.header.api_version
        read = reader.read(body, self.partition_requests(), self.follower, version, self._read_again, lookups)
        if read is None:
            return True
        if not final and not reader.suffices(body, read):
            return False
        self.send(read)
        return True

    def _read_again(self, lookups: int) -> None:
        self.request.attempt(partial(self.respond, True, lookups))


class FullFetch(PendingFetch):
    """Answers for all partitions in the request, and begins a session if the client requests one."""

    __slots__ = ("_now_ms", "_partition_requests", "_session_liveness", "_sessions")

    def __init__(
        self,
        request: Request,
        follower: ReplicaIncarnation | None,
        unauthorized: Topics,
        reader: FetchReader,
        reply: Callable[[PendingFetch, list[FetchRead], int], None],
        partition_requests: dict[Key, PartitionRequest],
        sessions: Sessions,
        session_liveness: SessionLiveness | None,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(request, follower, unauthorized, reader, reply)
        self._partition_requests, self._sessions = partition_requests, sessions
        self._session_liveness, self._now_ms = session_liveness, now_ms

    def partition_requests(self) -> Mapping[Key, PartitionRequest]:
        return self._partition_requests

    def purgatory_keys(self) -> tuple[Hashable, ...]:
        key = Replica.end_key if self.follower is not None else Replica.hw_key
        return tuple(key(p.replica) for p in self._partition_requests.values() if p.replica is not None)

    def send(self, read: list[FetchRead]) -> None:
        session_id = NO_SESSION
        if self.body.session_epoch == FULL_EPOCH:
            by_id = self.request.header.api_version >= FIRST_BY_ID
            session = self._sessions.begin(
                self._partition_requests, self.follower, by_id, self._now_ms(), self._session_liveness
            )
            if session is not None:
                record_responses(session, read)
                session_id = session.session_id
        self._reply(self, read, session_id)


class SessionFetch(PendingFetch):
    """Answers for the changed partitions of a session."""

    __slots__ = ("_epoch", "_session")

    def __init__(
        self,
        request: Request,
        unauthorized: Topics,
        reader: FetchReader,
        reply: Callable[[PendingFetch, list[FetchRead], int], None],
        session: FetchSession,
        epoch: int,
    ) -> None:
        super().__init__(request, session.follower, unauthorized, reader, reply)
        self._session, self._epoch = session, epoch

    def partition_requests(self) -> Mapping[Key, PartitionRequest]:
        session = self._session
        return {key: session.partition_requests[key] for key in session.dirty_partitions}

    def purgatory_keys(self) -> tuple[Hashable, ...]:
        return (self._session,)

    def is_superseded(self) -> bool:
        return self._session.epoch != self._epoch

    def send(self, read: list[FetchRead]) -> None:
        self._reply(self, record_responses(self._session, read), self._session.session_id)
