"""A leader's state of a follower: fetches of a session that do not name a partition mean that its position is unchanged."""

from __future__ import annotations

from brokerd.replication.follower import Follower
from brokerd.replication.partition_events import SessionLiveness


def follower(log_end: int, session_ms: int | None) -> Follower:
    liveness = None if session_ms is None else SessionLiveness(session_ms)
    return Follower(22, log_end=log_end, caught_up_ms=100, fetched_ms=100, session_liveness=liveness)


def test_a_follower_at_the_log_end_was_caught_up_at_each_fetch_of_its_session() -> None:
    one = follower(10, 500)
    one.apply_session_liveness(10)
    assert (one.caught_up_ms, one.fetched_ms, one.leader_end_at_fetch) == (500, 500, 10)


def test_a_follower_below_the_log_end_is_not_caught_up_by_its_session() -> None:
    one = follower(9, 500)
    one.apply_session_liveness(10)
    assert (one.caught_up_ms, one.fetched_ms) == (100, 100)


def test_a_session_never_makes_a_follower_caught_up_earlier() -> None:
    one = follower(10, 50)
    one.apply_session_liveness(10)
    assert one.caught_up_ms == 100


def test_the_last_fetch_is_that_of_the_partition_or_of_its_session() -> None:
    assert follower(0, None).last_fetch_ms == 100
    assert follower(0, 500).last_fetch_ms == 500
