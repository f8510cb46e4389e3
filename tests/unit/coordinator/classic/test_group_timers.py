"""The timers of a classic group: the end of a rebalance, the initial delay, sessions."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.wire.errors import ErrorCode as E
from tests.unit.coordinator.classic.harness import (
    REBALANCE_MS,
    SESSION_MS,
    GroupHarness,
    group_completing_rebalance,
    stable_group,
)

OTHER = (("roundrobin", b"x"),)
BOTH = (("range", b"x"), ("roundrobin", b"x"))
DELAY_MS = 3_000


# -- the end of a rebalance ----------------------------------------------------------------------------------------------
def test_a_rebalance_waits_for_the_longest_rebalance_timeout_from_its_start() -> None:
    harness = stable_group("a", "b")
    harness.join("a", rebalance_ms=15_000)
    token = harness.join(new_id="c", rebalance_ms=5_000)
    assert harness.group.rebalance_deadline_ms == 20_000
    harness.now = Now(9_000, 0)
    harness.heartbeat("b")
    assert harness.join(new_id="d") not in harness.responses
    assert harness.group.rebalance_deadline_ms == 20_000, "another member starts no rebalance"
    harness.now = Now(18_000, 0)
    harness.heartbeat("b")
    harness.advance(1_999)
    assert token not in harness.responses
    harness.advance(1)
    assert harness.responses[token].error == E.NONE and set(harness.group.members) == {"a", "c", "d"}
    assert harness.responses[token].generation == 3


def test_a_static_member_keeps_its_membership_until_its_session_ends() -> None:
    harness = stable_group("a", "s", "d", static=("s",))
    harness.join("a")
    harness.now = Now(9_000, 0)
    for name in ("s", "d"):
        harness.heartbeat(name)
    harness.now = Now(18_000, 0)
    harness.heartbeat("s")
    harness.heartbeat("d")
    harness.advance(2_000)
    assert (harness.group.state, set(harness.group.members)) == (State.COMPLETING, {"a", "s"})


@pytest.mark.parametrize(("left_ms", "stays"), [(0, False), (1, True)])
def test_a_join_after_the_rebalance_timeout_removes_a_static_member_whose_session_has_ended(
    left_ms: int, stays: bool
) -> None:
    harness = stable_group("a", "s", static=("s",))
    harness.join("a")
    harness.now = Now(10_000 + left_ms, 0)
    harness.heartbeat("s")
    harness.now = Now(20_000, 0)
    harness.join(new_id="b")
    assert ("s" in harness.group.members) == stays


def test_the_next_leader_is_a_member_that_has_joined() -> None:
    harness = stable_group("s", "a", "b", static=("s",))
    for name in ("a", "b"):
        harness.join(name, protocols=BOTH)
    harness.now = Now(9_000, 0)
    harness.heartbeat("s")
    harness.now = Now(18_000, 0)
    harness.heartbeat("s")
    harness.advance(2_000)
    assert (harness.group.state, harness.group.leader) == (State.COMPLETING, "a")


def test_without_a_member_that_joins_the_generation_stays() -> None:
    """Static members that have not joined again get REBALANCE_IN_PROGRESS, not ILLEGAL_GENERATION."""
    harness = stable_group("s", "d", static=("s",))
    generation = harness.group.generation
    harness.leave("d")
    for ms in range(5_000, 40_001, 5_000):
        harness.now = Now(ms, 0)
        assert harness.heartbeat("s", generation) == E.REBALANCE_IN_PROGRESS
        harness.advance(0)
    joined = harness.responses[harness.join("s", instance="i-s")]
    assert (joined.error, joined.generation, joined.leader) == (E.NONE, generation + 1, "s")


def test_a_stable_group_stays_stable_while_its_members_send_heartbeats() -> None:
    harness = stable_group("a", "b")
    for _ in range(10):
        harness.advance(SESSION_MS // 2)
        assert harness.heartbeat("a") == harness.heartbeat("b") == E.NONE
    assert harness.group.state is State.STABLE and set(harness.group.members) == {"a", "b"}


def test_a_group_whose_members_all_missed_the_rebalance_is_empty() -> None:
    harness = stable_group("a", "b")
    harness.group.members["a"].session_ms = harness.group.members["b"].session_ms = 60_000
    harness.heartbeat("a")
    harness.heartbeat("b")
    harness.group.start_rebalance(harness.now)
    harness.advance(REBALANCE_MS)
    assert harness.group.state is State.EMPTY and harness.stored[-1] == g.PersistGroup(harness.stored[-1].number, {})


# -- the initial delay -----------------------------------------------------------------------------------------------------
def test_the_initial_delay_is_extended_by_members_that_join_during_it() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join()
    harness.advance(DELAY_MS - 1)
    harness.join()
    harness.advance(1)
    assert first not in harness.responses, "one more delay"
    assert harness.group.rebalance_not_before_ms == 2 * DELAY_MS
    harness.advance(DELAY_MS - 1)
    assert first not in harness.responses
    harness.advance(1)
    assert harness.responses[first].error == E.NONE


def test_a_member_that_joins_at_the_end_of_the_initial_delay_completes_the_rebalance() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join()
    harness.now = Now(DELAY_MS, DELAY_MS)
    harness.join()
    assert harness.responses[first].error == E.NONE


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join(rebalance_ms=4_000)
    harness.advance(2_000)
    harness.join(rebalance_ms=4_000)
    harness.advance(1_000)
    assert harness.group.rebalance_not_before_ms == 4_000
    harness.now = Now(3_999, 0)
    harness.join(rebalance_ms=4_000)
    harness.advance(0)
    assert first not in harness.responses
    harness.advance(1)
    assert harness.responses[first].error == E.NONE


def test_a_static_leader_that_restarts_during_the_initial_delay_stays_the_leader() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="s", instance="i-s")
    harness.join(new_id="b")
    token = harness.join(new_id="s2", instance="i-s")
    for _ in range(2):
        harness.advance(DELAY_MS)
    assert harness.responses[token].leader == "s2"


def test_a_later_rebalance_has_no_initial_delay() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="a")
    harness.advance(DELAY_MS)
    harness.join(new_id="b")
    harness.join(new_id="c")
    token = harness.join("a")
    assert harness.responses[token].error == E.NONE and len(harness.responses[token].members) == 3


def test_a_group_whose_only_member_leaves_during_the_initial_delay_waits_for_others_until_its_end() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="a")
    assert harness.leave("a") == (E.NONE,)
    assert harness.group.state is State.PREPARING and not harness.stored
    harness.advance(DELAY_MS)
    assert harness.group.state is State.EMPTY and len(harness.stored) == 1


# -- sessions ----------------------------------------------------------------------------------------------------------------
def test_a_session_ends_at_its_deadline_and_every_request_extends_it() -> None:
    for request in (
        lambda h: h.heartbeat("a"),
        lambda h: h.sync("a", h.group.generation),
        lambda h: h.commit("a", h.group.generation),
        lambda h: h.commit_in_transaction("a", h.group.generation),
        lambda h: h.join("a"),
    ):
        harness = stable_group("b", "a")
        harness.now = Now(5_000, 0)
        harness.heartbeat("b")
        request(harness)
        assert harness.group.members["a"].deadline_ms == 5_000 + SESSION_MS
    harness = stable_group("a")
    harness.advance(SESSION_MS - 1)
    assert "a" in harness.group.members
    harness.advance(1)
    assert harness.group.state is State.EMPTY


def test_a_waiting_join_keeps_the_session_open() -> None:
    harness = stable_group("a", "b")
    harness.join("a", rebalance_ms=30_000)
    harness.now = Now(9_000, 0)
    harness.heartbeat("b")
    harness.advance(SESSION_MS)
    assert set(harness.group.members) == {"a"}, "a waits since longer than its session timeout"
    assert harness.group.state is State.COMPLETING


def test_the_session_starts_again_when_the_assignment_is_stored_and_is_never_shortened() -> None:
    harness = group_completing_rebalance("a")
    harness.sync("a", harness.group.generation, {"a": b"1"})
    harness.now = Now(4_000, 0)
    harness.persist()
    assert harness.group.members["a"].deadline_ms == 4_000 + SESSION_MS
    harness = group_completing_rebalance("a")
    harness.sync("a", harness.group.generation, {"a": b"1"})
    harness.group.reset_session_timeouts(Now(7_000, 0))
    assert harness.group.members["a"].deadline_ms == 7_000 + SESSION_MS
    harness.group.reset_session_timeouts(Now(6_000, 0))
    harness.persist()
    assert harness.group.members["a"].deadline_ms == 7_000 + SESSION_MS


def test_a_member_id_that_is_not_used_expires_with_its_session_timeout() -> None:
    harness = GroupHarness()
    harness.join(new_id="a", require_known_member_id=True)
    assert harness.group.deadline_ms() == SESSION_MS
    harness.advance(SESSION_MS - 1)
    assert "a" in harness.group.pending_members
    harness.advance(1)
    assert harness.responses[harness.join("a")].error == E.UNKNOWN_MEMBER_ID


def test_the_next_deadline_is_the_earliest_of_sessions_member_ids_and_rebalance() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    assert harness.group.deadline_ms() is None
    harness.join(new_id="a", session_ms=1_000)
    assert harness.group.deadline_ms() == DELAY_MS, "the session of a member that waits does not end"
    harness.advance(DELAY_MS)
    assert harness.group.deadline_ms() == DELAY_MS + 1_000
