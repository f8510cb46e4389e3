"""Each request of a classic group in each state: what is answered at once, what waits, what starts a rebalance, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.wire.errors import ErrorCode as E
from tests.unit.coordinator.classic.harness import REBALANCE_MS, SESSION_MS, GroupHarness

OTHER = (("roundrobin", b"x"),)
BOTH = (("range", b"x"), ("roundrobin", b"x"))
DELAY_MS = 3_000


def stable(*members: str, static: tuple[str, ...] = (), **settings: Any) -> GroupHarness:
    harness = GroupHarness(**settings)
    harness.stable(*members, static=static)
    return harness


def completing(*members: str) -> GroupHarness:
    """All have joined, and nobody has sent SyncGroup."""
    harness = GroupHarness()
    for name in members:
        harness.join(new_id=name)
    for name in members[:-1]:
        if harness.group.members[name].join is None:
            harness.join(name)
    assert harness.group.state is State.COMPLETING
    return harness


# -- JoinGroup ---------------------------------------------------------------------------------------------------------
def test_a_refused_member_gets_its_member_id_back() -> None:
    harness = stable("a", size_max=1)
    harness.group.end()
    refused = harness.answers[harness.join("a")]
    assert (refused.error, refused.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "a")


def test_a_group_has_a_maximum_size() -> None:
    harness = stable("a", size_max=1)
    assert harness.answers[harness.join(new_id="b")].error == E.GROUP_MAX_SIZE_REACHED
    assert harness.group.state is State.STABLE and set(harness.group.members) == {"a"}


def test_a_member_without_a_common_protocol_is_refused() -> None:
    harness = stable("a")
    assert harness.answers[harness.join(new_id="b", protocols=OTHER)].error == E.INCONSISTENT_GROUP_PROTOCOL
    assert harness.group.state is State.STABLE


def test_only_a_dynamic_member_is_sent_back_for_its_member_id() -> None:
    harness = GroupHarness()
    assert harness.answers[harness.join(new_id="a", require_known_member_id=True)].member_id == "a"
    assert "a" not in harness.group.members
    assert harness.answers[harness.join("a", new_id="b", require_known_member_id=True)].member_id == "a"
    static = harness.join(new_id="s", instance="i", require_known_member_id=True)
    assert static not in harness.answers, "it waits for the rebalance"
    assert harness.group.members["s"].join is not None


def test_the_member_id_of_a_static_member_is_not_accepted_without_its_instance_id() -> None:
    harness = stable("a", "s", static=("s",))
    for instance in (None, "i-other"):
        assert harness.answers[harness.join("s", instance=instance)].error == E.FENCED_INSTANCE_ID
    assert harness.group.state is State.STABLE
    token = harness.join("a", instance="i-new")
    assert token not in harness.answers, "a dynamic member joins again, whatever it names"


def test_a_lost_response_is_sent_again_while_the_members_synchronize() -> None:
    harness = completing("a", "b")
    for name in ("a", "b"):
        again = harness.answers[harness.join(name)]
        assert (again.error, again.generation, again.leader) == (E.NONE, harness.group.generation, "a")
    assert harness.group.state is State.COMPLETING
    assert harness.join("b", protocols=BOTH) not in harness.answers, "other protocols: the rebalance starts again"
    assert harness.group.state is State.PREPARING
    harness = completing("a")
    static = harness.join(new_id="s", instance="i-s")
    harness.join("a")
    generation = harness.answers[static].generation
    assert harness.answers[harness.join("s", instance="i-s")].generation == generation, "static members, too"
    assert harness.group.state is State.COMPLETING


def test_a_stable_group_rebalances_for_its_leader_and_for_other_protocols_only() -> None:
    harness = stable("a", "b")
    generation = harness.group.generation
    again = harness.answers[harness.join("b")]
    assert (again.error, again.generation, harness.group.state) == (E.NONE, generation, State.STABLE)
    assert harness.join("b", protocols=BOTH) not in harness.answers
    assert harness.group.state is State.PREPARING
    harness = stable("a", "b")
    assert harness.join("a") not in harness.answers and harness.group.state is State.PREPARING
    waiting = harness.join("b")
    assert harness.answers[waiting].generation == generation + 1


def test_a_follower_joins_a_rebalance_in_progress_and_waits() -> None:
    harness = stable("a", "b", "c")
    harness.join("a")
    waiting = harness.join("b")
    assert waiting not in harness.answers and harness.group.state is State.PREPARING


def test_a_second_join_of_a_member_ends_its_first() -> None:
    harness = stable("a", "b")
    first = harness.join("a")
    second = harness.join("a")
    assert harness.answers[first].error == E.REBALANCE_IN_PROGRESS
    third = harness.join("b")
    assert harness.answers[second].error == harness.answers[third].error == E.NONE


def test_the_first_member_stays_the_leader() -> None:
    harness = stable("a", "b")
    harness.join(new_id="c")
    harness.join("b")
    token = harness.join("a")
    assert harness.answers[token].leader == "a"
    assert [m[0] for m in harness.answers[token].members] == ["a", "b", "c"]


# -- static members ------------------------------------------------------------------------------------------------------
def test_an_instance_id_belongs_to_one_member() -> None:
    harness = stable("a", "s", static=("s",))
    refused = harness.answers[harness.join("other", instance="i-s")]
    assert (refused.error, refused.member_id) == (E.FENCED_INSTANCE_ID, "other")
    assert harness.heartbeat("s") == E.NONE


def test_a_static_follower_joins_a_stable_group_without_a_rebalance() -> None:
    harness = stable("a", "s", static=("s",))
    generation = harness.group.generation
    assert harness.answers[harness.join("s", instance="i-s")].generation == generation
    restarted = harness.answers[harness.join(new_id="s2", instance="i-s")]
    assert (restarted.error, restarted.generation, restarted.member_id) == (E.NONE, generation, "s2")
    assert harness.group.state is State.STABLE
    assert harness.answers[harness.sync("s2", generation)].assignment == b"s"
    assert harness.heartbeat("s", instance="i-s") == E.FENCED_INSTANCE_ID


@pytest.mark.parametrize("member_id", ["s", ""])
def test_a_static_member_rebalances_as_the_leader_and_with_other_protocols(member_id: str) -> None:
    follower = stable("a", "s", static=("s",))
    assert follower.join(member_id, new_id="s2", instance="i-s", protocols=BOTH) not in follower.answers
    assert follower.group.state is State.PREPARING
    leader = stable("s", "b", static=("s",))
    waiting = leader.join(member_id, new_id="s2", instance="i-s")
    assert waiting not in leader.answers and leader.group.state is State.PREPARING
    leader.join("b")
    assert leader.answers[waiting].leader == leader.answers[waiting].member_id == (member_id or "s2")


@pytest.mark.parametrize("member_id", ["s", ""])
def test_a_static_member_waits_for_a_rebalance_in_progress(member_id: str) -> None:
    harness = stable("a", "b", "s", static=("s",))
    harness.join("b", protocols=BOTH)
    waiting = harness.join(member_id, new_id="s2", instance="i-s")
    assert waiting not in harness.answers
    harness.join("a")
    assert harness.answers[waiting].error == E.NONE


def test_a_restarted_static_member_fences_the_waiting_requests_of_its_predecessor() -> None:
    harness = stable("a", "s", static=("s",))
    join = harness.join("s", instance="i-s", protocols=BOTH)
    harness.join(new_id="s2", instance="i-s")
    fenced = harness.answers[join]
    assert (fenced.error, fenced.member_id) == (E.FENCED_INSTANCE_ID, "s")
    harness.join("a")
    sync = harness.sync("s2", harness.group.generation)
    harness.join(new_id="s3", instance="i-s")
    assert harness.answers[sync].error == E.FENCED_INSTANCE_ID


# -- the end of a rebalance ----------------------------------------------------------------------------------------------
def test_a_rebalance_waits_for_the_longest_rebalance_timeout_from_its_start() -> None:
    harness = stable("a", "b")
    harness.join("a", rebalance_ms=15_000)
    token = harness.join(new_id="c", rebalance_ms=5_000)
    assert harness.group.rebalance_deadline_ms == 20_000
    harness.now = Now(9_000, 0)
    harness.heartbeat("b")
    assert harness.join(new_id="d") not in harness.answers
    assert harness.group.rebalance_deadline_ms == 20_000, "another member starts no rebalance"
    harness.now = Now(18_000, 0)
    harness.heartbeat("b")
    harness.passes(1_999)
    assert token not in harness.answers
    harness.passes(1)
    assert harness.answers[token].error == E.NONE and set(harness.group.members) == {"a", "c", "d"}
    assert harness.answers[token].generation == 3


def test_a_static_member_keeps_its_membership_until_its_session_ends() -> None:
    harness = stable("a", "s", "d", static=("s",))
    harness.join("a")
    harness.now = Now(9_000, 0)
    for name in ("s", "d"):
        harness.heartbeat(name)
    harness.now = Now(18_000, 0)
    harness.heartbeat("s")
    harness.heartbeat("d")
    harness.passes(2_000)
    assert (harness.group.state, set(harness.group.members)) == (State.COMPLETING, {"a", "s"})


@pytest.mark.parametrize(("left_ms", "stays"), [(0, False), (1, True)])
def test_a_join_after_the_rebalance_timeout_removes_a_static_member_whose_session_has_ended(
    left_ms: int, stays: bool
) -> None:
    harness = stable("a", "s", static=("s",))
    harness.join("a")
    harness.now = Now(10_000 + left_ms, 0)
    harness.heartbeat("s")
    harness.now = Now(20_000, 0)
    harness.join(new_id="b")
    assert ("s" in harness.group.members) == stays


def test_the_next_leader_is_a_member_that_has_joined() -> None:
    harness = stable("s", "a", "b", static=("s",))
    for name in ("a", "b"):
        harness.join(name, protocols=BOTH)
    harness.now = Now(9_000, 0)
    harness.heartbeat("s")
    harness.now = Now(18_000, 0)
    harness.heartbeat("s")
    harness.passes(2_000)
    assert (harness.group.state, harness.group.leader) == (State.COMPLETING, "a")


def test_without_a_member_that_joins_the_generation_stays() -> None:
    """Static members that have not joined again are told to do so (REBALANCE_IN_PROGRESS), and not that their generation is over."""
    harness = stable("s", "d", static=("s",))
    generation = harness.group.generation
    harness.leave("d")
    for ms in range(5_000, 40_001, 5_000):
        harness.now = Now(ms, 0)
        assert harness.heartbeat("s", generation) == E.REBALANCE_IN_PROGRESS
        harness.passes(0)
    joined = harness.answers[harness.join("s", instance="i-s")]
    assert (joined.error, joined.generation, joined.leader) == (E.NONE, generation + 1, "s")


def test_a_stable_group_stays_stable_while_its_members_send_heartbeats() -> None:
    harness = stable("a", "b")
    for _ in range(10):
        harness.passes(SESSION_MS // 2)
        assert harness.heartbeat("a") == harness.heartbeat("b") == E.NONE
    assert harness.group.state is State.STABLE and set(harness.group.members) == {"a", "b"}


def test_a_group_whose_members_all_missed_the_rebalance_is_empty() -> None:
    harness = stable("a", "b")
    harness.group.members["a"].session_ms = harness.group.members["b"].session_ms = 60_000
    harness.heartbeat("a")
    harness.heartbeat("b")
    harness.group.start_rebalance(harness.now)
    harness.passes(REBALANCE_MS)
    assert harness.group.state is State.EMPTY and harness.stored[-1] == g.PersistGroup(harness.stored[-1].number, {})


# -- the initial delay -----------------------------------------------------------------------------------------------------
def test_the_initial_delay_is_extended_by_members_that_join_during_it() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join()
    harness.passes(DELAY_MS - 1)
    harness.join()
    harness.passes(1)
    assert first not in harness.answers, "one more delay"
    assert harness.group.rebalance_not_before_ms == 2 * DELAY_MS
    harness.passes(DELAY_MS - 1)
    assert first not in harness.answers
    harness.passes(1)
    assert harness.answers[first].error == E.NONE


def test_a_member_that_joins_at_the_end_of_the_initial_delay_completes_the_rebalance() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join()
    harness.now = Now(DELAY_MS, DELAY_MS)
    harness.join()
    assert harness.answers[first].error == E.NONE


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    first = harness.join(rebalance_ms=4_000)
    harness.passes(2_000)
    harness.join(rebalance_ms=4_000)
    harness.passes(1_000)
    assert harness.group.rebalance_not_before_ms == 4_000
    harness.now = Now(3_999, 0)
    harness.join(rebalance_ms=4_000)
    harness.passes(0)
    assert first not in harness.answers
    harness.passes(1)
    assert harness.answers[first].error == E.NONE


def test_a_static_leader_that_restarts_during_the_initial_delay_stays_the_leader() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="s", instance="i-s")
    harness.join(new_id="b")
    token = harness.join(new_id="s2", instance="i-s")
    for _ in range(2):
        harness.passes(DELAY_MS)
    assert harness.answers[token].leader == "s2"


def test_a_later_rebalance_has_no_initial_delay() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="a")
    harness.passes(DELAY_MS)
    harness.join(new_id="b")
    harness.join(new_id="c")
    token = harness.join("a")
    assert harness.answers[token].error == E.NONE and len(harness.answers[token].members) == 3


def test_a_group_whose_only_member_leaves_during_the_initial_delay_waits_for_others_until_its_end() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    harness.join(new_id="a")
    assert harness.leave("a") == (E.NONE,)
    assert harness.group.state is State.PREPARING and not harness.stored
    harness.passes(DELAY_MS)
    assert harness.group.state is State.EMPTY and len(harness.stored) == 1


# -- SyncGroup -------------------------------------------------------------------------------------------------------------
def test_a_sync_with_another_protocol_is_refused() -> None:
    harness = completing("a")
    generation = harness.group.generation
    for protocol_type, protocol in (("connect", None), (None, "roundrobin"), ("connect", "range")):
        token = harness.sync("a", generation, {}, protocol_type, protocol)
        assert harness.answers[token].error == E.INCONSISTENT_GROUP_PROTOCOL
    assert not harness.stored
    harness.sync("a", generation, {}, "consumer", "range")
    assert len(harness.stored) == 1


def test_a_sync_of_no_member_is_refused_as_such() -> None:
    harness = completing("a")
    token = harness.sync("nobody", harness.group.generation, {}, "connect", "roundrobin")
    assert harness.answers[token].error == E.UNKNOWN_MEMBER_ID
    harness.join("a", protocols=BOTH)
    harness.join(new_id="b")
    harness.join("b", protocols=BOTH)
    assert harness.group.state is State.PREPARING
    assert harness.answers[harness.sync("a", 0)].error == E.ILLEGAL_GENERATION
    assert harness.answers[harness.sync("a", harness.group.generation)].error == E.REBALANCE_IN_PROGRESS


def test_only_the_assignment_of_the_leader_is_stored_and_only_once() -> None:
    harness = completing("a", "b")
    follower = harness.sync("b", harness.group.generation, {"b": b"everything"})
    assert not harness.stored
    first = harness.sync("a", harness.group.generation, {"a": b"1", "b": b"2"})
    second = harness.sync("a", harness.group.generation, {"a": b"3", "b": b"4"})
    assert harness.answers[first].error == E.REBALANCE_IN_PROGRESS and len(harness.stored) == 1
    harness.persist()
    assert (harness.answers[second].assignment, harness.answers[follower].assignment) == (b"1", b"2")
    late = harness.answers[harness.sync("b", harness.group.generation)]
    assert (late.error, late.assignment) == (E.NONE, b"2"), "a stable group answers at once"


def test_a_new_member_ends_the_waiting_sync_of_the_others() -> None:
    harness = completing("a", "b")
    token = harness.sync("b", harness.group.generation)
    harness.join(new_id="c")
    assert harness.answers[token].error == E.REBALANCE_IN_PROGRESS
    assert harness.group.members["b"].sync is None


def test_an_assignment_of_an_earlier_generation_does_not_count() -> None:
    harness = completing("a", "b")
    harness.sync("a", harness.group.generation, {"a": b"old"})
    old = harness.stored[-1].number
    harness.join("a", protocols=BOTH)
    harness.join("b")
    generation = harness.group.generation
    token = harness.sync("a", generation, {"a": b"new"})
    for late in (g.Persisted(old), g.PersistFailed(old, E.COORDINATOR_NOT_AVAILABLE)):
        harness.deliver(late)
        assert harness.group.state is State.COMPLETING and token not in harness.answers
    harness.persist()
    assert harness.answers[token].assignment == b"new"


def test_a_result_without_a_write_changes_nothing() -> None:
    harness = completing("a")
    for late in (g.Persisted(99), g.PersistFailed(99, E.COORDINATOR_NOT_AVAILABLE)):
        harness.deliver(late)
        assert harness.group.state is State.COMPLETING


def test_an_ended_group_stays_ended_when_its_assignment_is_stored() -> None:
    harness = completing("a")
    harness.sync("a", harness.group.generation, {"a": b"1"})
    harness.group.end()
    harness.persist()
    assert harness.group.state is State.DEAD


def test_members_that_do_not_wait_get_no_response_when_the_assignment_is_stored_or_not() -> None:
    for result in (g.Persisted, lambda number: g.PersistFailed(number, E.COORDINATOR_NOT_AVAILABLE)):
        harness = completing("a", "b")
        harness.sync("a", harness.group.generation, {"a": b"1"})
        harness.deliver(result(harness.stored[-1].number))
        assert None not in harness.answers


# -- sessions ----------------------------------------------------------------------------------------------------------------
def test_a_session_ends_at_its_deadline_and_every_request_extends_it() -> None:
    for request in (
        lambda h: h.heartbeat("a"),
        lambda h: h.sync("a", h.group.generation),
        lambda h: h.commit("a", h.group.generation),
        lambda h: h.commit_in_transaction("a", h.group.generation),
        lambda h: h.join("a"),
    ):
        harness = stable("b", "a")
        harness.now = Now(5_000, 0)
        harness.heartbeat("b")
        request(harness)
        assert harness.group.members["a"].deadline_ms == 5_000 + SESSION_MS
    harness = stable("a")
    harness.passes(SESSION_MS - 1)
    assert "a" in harness.group.members
    harness.passes(1)
    assert harness.group.state is State.EMPTY


def test_a_waiting_join_keeps_the_session_open() -> None:
    harness = stable("a", "b")
    harness.join("a", rebalance_ms=30_000)
    harness.now = Now(9_000, 0)
    harness.heartbeat("b")
    harness.passes(SESSION_MS)
    assert set(harness.group.members) == {"a"}, "a waits since longer than its session timeout"
    assert harness.group.state is State.COMPLETING


def test_the_session_starts_again_when_the_assignment_is_stored_and_is_never_shortened() -> None:
    harness = completing("a")
    harness.sync("a", harness.group.generation, {"a": b"1"})
    harness.now = Now(4_000, 0)
    harness.persist()
    assert harness.group.members["a"].deadline_ms == 4_000 + SESSION_MS
    harness = completing("a")
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
    harness.passes(SESSION_MS - 1)
    assert "a" in harness.group.pending_members
    harness.passes(1)
    assert harness.answers[harness.join("a")].error == E.UNKNOWN_MEMBER_ID


def test_the_next_deadline_is_the_earliest_of_sessions_member_ids_and_rebalance() -> None:
    harness = GroupHarness(initial_delay_ms=DELAY_MS)
    assert harness.group.deadline_ms() is None
    harness.join(new_id="a", session_ms=1_000)
    assert harness.group.deadline_ms() == DELAY_MS, "the session of a member that waits does not end"
    harness.passes(DELAY_MS)
    assert harness.group.deadline_ms() == DELAY_MS + 1_000


# -- LeaveGroup ------------------------------------------------------------------------------------------------------------
def test_members_leave_by_member_id_or_instance_id() -> None:
    harness = stable("a", "s", static=("s",))
    assert harness.leave("x", "i-s") == (E.FENCED_INSTANCE_ID,)
    assert harness.leave("x", "i-unknown") == harness.leave("x") == harness.leave() == (E.UNKNOWN_MEMBER_ID,)
    assert harness.group.state is State.STABLE, "nobody left"
    assert harness.leave("", "i-s") == (E.NONE,)
    assert (harness.group.state, set(harness.group.members)) == (State.PREPARING, {"a"})
    assert harness.leave("a") == (E.NONE,)


def test_a_member_id_that_has_not_joined_leaves_without_a_rebalance() -> None:
    harness = stable("a")
    harness.join(new_id="b", require_known_member_id=True)
    assert harness.leave("b") == (E.NONE,)
    assert harness.group.state is State.STABLE and not harness.group.pending_members


def test_the_last_member_that_leaves_empties_the_group_at_once() -> None:
    harness = stable("a")
    harness.leave("a")
    assert harness.group.state is State.EMPTY and harness.stored[-1].assignments == {}


def test_a_member_that_leaves_ends_its_waiting_requests_and_its_leadership() -> None:
    harness = stable("a", "b", "c")
    join = harness.join("a", protocols=BOTH)
    harness.leave("a")
    assert harness.answers[join].error == E.UNKNOWN_MEMBER_ID
    assert harness.group.leader == "b"
    for name in ("b", "c"):
        harness.join(name)
    sync = harness.sync("c", harness.group.generation)
    harness.leave("c")
    assert harness.answers[sync].error == E.UNKNOWN_MEMBER_ID
    assert harness.group.leader == "b"


def test_waiting_requests_end_when_the_coordinator_moves() -> None:
    harness = completing("a", "b")
    sync = harness.sync("b", harness.group.generation)
    harness.run(harness.group.unload())
    assert harness.answers[sync].error == E.NOT_COORDINATOR
    harness = stable("a", "b")
    join = harness.join("a")
    harness.run(harness.group.unload())
    moved = harness.answers[join]
    assert (moved.error, moved.member_id) == (E.NOT_COORDINATOR, "a")


# -- offsets -----------------------------------------------------------------------------------------------------------------
COMMITS = [GroupHarness.commit, GroupHarness.commit_in_transaction]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_to_an_ended_group_is_refused(commit: Any) -> None:
    harness = stable("a")
    harness.group.end()
    assert commit(harness, "a", 1).error == commit(harness).error == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_with_a_generation_needs_a_member(commit: Any) -> None:
    harness = GroupHarness()
    assert commit(harness, "a", 0).error == commit(harness, "", 0).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", -1) is None, "it is written"
    harness = stable("a", "s", static=("s",))
    for generation in (-1, 0, harness.group.generation):
        assert commit(harness, "x", generation).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", 0).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", -1, "i-s").error == E.FENCED_INSTANCE_ID
    assert commit(harness, "a", 0).error == E.ILLEGAL_GENERATION
    assert commit(harness, "a", harness.group.generation) is None


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_without_offsets_is_answered_and_not_written(commit: Any) -> None:
    harness = stable("a")
    written = len(harness.stored)
    assert commit(harness, "a", harness.group.generation, offsets=0) == g.Answered(E.NONE)
    assert len(harness.stored) == written
    empty = GroupHarness()
    assert commit(empty, offsets=0) == g.Answered(E.NONE) and not empty.stored


def test_a_transaction_of_a_client_without_a_member_id_may_commit_nothing() -> None:
    assert stable("a").commit_in_transaction(offsets=0) == g.Answered(E.NONE)


def test_a_commit_between_join_and_assignment_is_refused() -> None:
    harness = completing("a")
    assert harness.commit("a", harness.group.generation).error == E.REBALANCE_IN_PROGRESS
    assert harness.commit("a", 0).error == E.ILLEGAL_GENERATION
    assert harness.commit("x", harness.group.generation).error == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("commit", COMMITS)
def test_a_group_is_empty_since_its_first_commit_or_its_last_member(commit: Any) -> None:
    harness = GroupHarness()
    harness.now = Now(0, 5_000)
    commit(harness)
    assert harness.group.empty_since_wall_ms == 5_000
    harness.now = Now(0, 6_000)
    commit(harness)
    assert harness.group.empty_since_wall_ms == 5_000
    harness = stable("a")
    harness.now = Now(0, 7_000)
    commit(harness, "a", harness.group.generation)
    assert harness.group.empty_since_wall_ms == 0


def test_an_offset_that_is_not_stored_is_refused() -> None:
    harness = GroupHarness()
    assert harness.commit() is None
    harness.deliver(g.PersistFailed(harness.stored[-1].number, E.COORDINATOR_NOT_AVAILABLE))
    assert harness.answers[harness.serial] == g.Answered(E.COORDINATOR_NOT_AVAILABLE)


def test_a_heartbeat_tells_of_a_rebalance() -> None:
    harness = stable("a", "b")
    assert harness.heartbeat("b") == E.NONE
    harness.join("a")
    assert harness.heartbeat("b") == E.REBALANCE_IN_PROGRESS
