"""Share sessions: epochs, replacement, the limit, and the end with the connection."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.sharing.sessions import EPOCH_MAX, FINAL_EPOCH, ShareSession, ShareSessions
from brokerd.wire.errors import ErrorCode

TP = TopicPartition(UUID(int=1), 0)


def test_the_epochs_of_a_session_follow_each_other() -> None:
    sessions = ShareSessions(2)
    session = sessions.begin("g", "a", "connection")
    assert isinstance(session, ShareSession)
    assert sessions.find("g", "a", 1) is session
    assert sessions.find("g", "a", 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.find("g", "a", 2) is session
    assert sessions.find("g", "a", FINAL_EPOCH) is session
    assert sessions.find("g", "b", 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session.epoch = EPOCH_MAX
    assert sessions.find("g", "a", EPOCH_MAX) is session
    assert sessions.find("g", "a", 1) is session


def test_a_session_above_the_limit_is_rejected_and_a_member_may_start_again() -> None:
    sessions = ShareSessions(1)
    first = sessions.begin("g", "a", "c1")
    assert sessions.begin("g", "b", "c2") == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    again = sessions.begin("g", "a", "c3")
    assert isinstance(first, ShareSession) and isinstance(again, ShareSession)
    assert not sessions.current(first) and sessions.current(again)
    sessions.end(first)
    assert len(sessions) == 1, "an old session does not end the new one"
    assert sessions.of_connection("c3") == [again] and sessions.of_connection("c1") == []
    sessions.end(again)
    assert len(sessions) == 0


def test_a_partition_with_records_is_fetched_last_next_time() -> None:
    session = ShareSession("g", "a", "c")
    other = TopicPartition(UUID(int=1), 1)
    session.partitions = {TP: None, other: None}
    session.move_to_end(TP)
    assert list(session.partitions) == [other, TP]
    session.move_to_end(TopicPartition(UUID(int=2), 0))
    assert list(session.partitions) == [other, TP]
