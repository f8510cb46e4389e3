"""Share sessions (KIP-932; Kafka: ShareSessionCache): which partitions a member of a share group fetches from this broker. Pure.

Invariants: a member has at most one session. Requests of a session arrive in the order of their epochs. A new session is rejected above the
limit, because a session may hold records. Does not contain: the records that the member holds.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from brokerd.cluster.model import TopicPartition
from brokerd.wire.errors import ErrorCode

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1


@dataclass(slots=True)
class ShareSession:
    """`partitions`: in the order in which they are fetched next. `connection`: the session ends with it."""

    group_id: str
    member_id: str
    connection: Hashable
    epoch: int = 1
    partitions: dict[TopicPartition, None] = field(default_factory=dict)

    def move_to_end(self, tp: TopicPartition) -> None:
        """Called when the partition had records: the other partitions are fetched first next time."""
        if tp in self.partitions:
            del self.partitions[tp]
            self.partitions[tp] = None


class ShareSessions:
    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._by_member: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._by_member)

    def begin(self, group_id: str, member_id: str, connection: Hashable) -> ShareSession | ErrorCode:
        """A new session. It replaces the member's old one."""
        key = (group_id, member_id)
        if key not in self._by_member and len(self._by_member) >= self._sessions_max:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._by_member[key] = ShareSession(group_id, member_id, connection)
        return session

    def find(self, group_id: str, member_id: str, epoch: int) -> ShareSession | ErrorCode:
        """The session of a request with this epoch, which is not the initial one. The next request has the next epoch."""
        session = self._by_member.get((group_id, member_id))
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def current(self, session: ShareSession) -> bool:
        return self._by_member.get((session.group_id, session.member_id)) is session

    def session_of(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._by_member.get((group_id, member_id))

    def end(self, session: ShareSession) -> None:
        if self.current(session):
            del self._by_member[session.group_id, session.member_id]

    def of_connection(self, connection: Hashable) -> list[ShareSession]:
        return [s for s in self._by_member.values() if s.connection == connection]
