"""JoinGroup, SyncGroup, LeaveGroup and Heartbeat of a classic group in each state: what is answered at once, what waits, what starts a rebalance."""

from __future__ import annotations

import pytest

from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.wire.errors import ErrorCode as E
from tests.unit.coordinator.classic.harness import GroupHarness, group_completing_rebalance, stable_group

OTHER = (("roundrobin", b"x"),)
BOTH = (("range", b"x"), ("roundrobin", b"x"))


# -- JoinGroup ---------------------------------------------------------------------------------------------------------
def test_a_rejected_member_gets_its_member_id_back() -> None:
    harness = stable_group("a", size_max=1)
    harness.group.end()
    rejected = harness.responses[harness.join("a")]
    assert (rejected.error, rejected.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "a")


def test_a_group_has_a_maximum_size() -> None:
    harness = stable_group("a", size_max=1)
    assert harness.responses[harness.join(new_id="b")].error == E.GROUP_MAX_SIZE_REACHED
    assert harness.group.state is State.STABLE and set(harness.group.members) == {"a"}


def test_a_member_without_a_common_protocol_is_rejected() -> None:
    harness = stable_group("a")
    assert harness.responses[harness.join(new_id="b", protocols=OTHER)].error == E.INCONSISTENT_GROUP_PROTOCOL
    assert harness.group.state is State.STABLE


def test_only_a_dynamic_member_is_sent_back_for_its_member_id() -> None:
    harness = GroupHarness()
    assert harness.responses[harness.join(new_id="a", require_known_member_id=True)].member_id == "a"
    assert "a" not in harness.group.members
    assert harness.responses[harness.join("a", new_id="b", require_known_member_id=True)].member_id == "a"
    static = harness.join(new_id="s", instance="i", require_known_member_id=True)
    assert static not in harness.responses, "it waits for the rebalance"
    assert harness.group.members["s"].join is not None


def test_the_member_id_of_a_static_member_is_not_accepted_without_its_instance_id() -> None:
    harness = stable_group("a", "s", static=("s",))
    for instance in (None, "i-other"):
        assert harness.responses[harness.join("s", instance=instance)].error == E.FENCED_INSTANCE_ID
    assert harness.group.state is State.STABLE
    token = harness.join("a", instance="i-new")
    assert token not in harness.responses, "a dynamic member joins again, whatever it names"


def test_a_lost_response_is_sent_again_while_the_members_synchronize() -> None:
    harness = group_completing_rebalance("a", "b")
    for name in ("a", "b"):
        again = harness.responses[harness.join(name)]
        assert (again.error, again.generation, again.leader) == (E.NONE, harness.group.generation, "a")
    assert harness.group.state is State.COMPLETING
    assert harness.join("b", protocols=BOTH) not in harness.responses, "other protocols: the rebalance starts again"
    assert harness.group.state is State.PREPARING
    harness = group_completing_rebalance("a")
    static = harness.join(new_id="s", instance="i-s")
    harness.join("a")
    generation = harness.responses[static].generation
    assert harness.responses[harness.join("s", instance="i-s")].generation == generation, "static members, too"
    assert harness.group.state is State.COMPLETING


def test_a_stable_group_rebalances_for_its_leader_and_for_other_protocols_only() -> None:
    harness = stable_group("a", "b")
    generation = harness.group.generation
    again = harness.responses[harness.join("b")]
    assert (again.error, again.generation, harness.group.state) == (E.NONE, generation, State.STABLE)
    assert harness.join("b", protocols=BOTH) not in harness.responses
    assert harness.group.state is State.PREPARING
    harness = stable_group("a", "b")
    assert harness.join("a") not in harness.responses and harness.group.state is State.PREPARING
    waiting = harness.join("b")
    assert harness.responses[waiting].generation == generation + 1


def test_a_follower_joins_a_rebalance_in_progress_and_waits() -> None:
    harness = stable_group("a", "b", "c")
    harness.join("a")
    waiting = harness.join("b")
    assert waiting not in harness.responses and harness.group.state is State.PREPARING


def test_a_second_join_of_a_member_ends_its_first() -> None:
    harness = stable_group("a", "b")
    first = harness.join("a")
    second = harness.join("a")
    assert harness.responses[first].error == E.REBALANCE_IN_PROGRESS
    third = harness.join("b")
    assert harness.responses[second].error == harness.responses[third].error == E.NONE


def test_the_first_member_stays_the_leader() -> None:
    harness = stable_group("a", "b")
    harness.join(new_id="c")
    harness.join("b")
    token = harness.join("a")
    assert harness.responses[token].leader == "a"
    assert [m[0] for m in harness.responses[token].members] == ["a", "b", "c"]


# -- static members ------------------------------------------------------------------------------------------------------
def test_an_instance_id_belongs_to_one_member() -> None:
    harness = stable_group("a", "s", static=("s",))
    rejected = harness.responses[harness.join("other", instance="i-s")]
    assert (rejected.error, rejected.member_id) == (E.FENCED_INSTANCE_ID, "other")
    assert harness.heartbeat("s") == E.NONE


def test_a_static_follower_joins_a_stable_group_without_a_rebalance() -> None:
    harness = stable_group("a", "s", static=("s",))
    generation = harness.group.generation
    assert harness.responses[harness.join("s", instance="i-s")].generation == generation
    restarted = harness.responses[harness.join(new_id="s2", instance="i-s")]
    assert (restarted.error, restarted.generation, restarted.member_id) == (E.NONE, generation, "s2")
    assert harness.group.state is State.STABLE
    assert harness.responses[harness.sync("s2", generation)].assignment == b"s"
    assert harness.heartbeat("s", instance="i-s") == E.FENCED_INSTANCE_ID


@pytest.mark.parametrize("member_id", ["s", ""])
def test_a_static_member_rebalances_as_the_leader_and_with_other_protocols(member_id: str) -> None:
    follower = stable_group("a", "s", static=("s",))
    assert follower.join(member_id, new_id="s2", instance="i-s", protocols=BOTH) not in follower.responses
    assert follower.group.state is State.PREPARING
    leader = stable_group("s", "b", static=("s",))
    waiting = leader.join(member_id, new_id="s2", instance="i-s")
    assert waiting not in leader.responses and leader.group.state is State.PREPARING
    leader.join("b")
    assert leader.responses[waiting].leader == leader.responses[waiting].member_id == (member_id or "s2")


@pytest.mark.parametrize("member_id", ["s", ""])
def test_a_static_member_waits_for_a_rebalance_in_progress(member_id: str) -> None:
    harness = stable_group("a", "b", "s", static=("s",))
    harness.join("b", protocols=BOTH)
    waiting = harness.join(member_id, new_id="s2", instance="i-s")
    assert waiting not in harness.responses
    harness.join("a")
    assert harness.responses[waiting].error == E.NONE


def test_a_restarted_static_member_fences_the_waiting_requests_of_its_predecessor() -> None:
    harness = stable_group("a", "s", static=("s",))
    join = harness.join("s", instance="i-s", protocols=BOTH)
    harness.join(new_id="s2", instance="i-s")
    fenced = harness.responses[join]
    assert (fenced.error, fenced.member_id) == (E.FENCED_INSTANCE_ID, "s")
    harness.join("a")
    sync = harness.sync("s2", harness.group.generation)
    harness.join(new_id="s3", instance="i-s")
    assert harness.responses[sync].error == E.FENCED_INSTANCE_ID


# -- SyncGroup -------------------------------------------------------------------------------------------------------------
def test_a_sync_with_another_protocol_is_rejected() -> None:
    harness = group_completing_rebalance("a")
    generation = harness.group.generation
    for protocol_type, protocol in (("connect", None), (None, "roundrobin"), ("connect", "range")):
        token = harness.sync("a", generation, {}, protocol_type, protocol)
        assert harness.responses[token].error == E.INCONSISTENT_GROUP_PROTOCOL
    assert not harness.stored
    harness.sync("a", generation, {}, "consumer", "range")
    assert len(harness.stored) == 1


def test_a_sync_of_no_member_is_rejected_as_such() -> None:
    harness = group_completing_rebalance("a")
    token = harness.sync("nobody", harness.group.generation, {}, "connect", "roundrobin")
    assert harness.responses[token].error == E.UNKNOWN_MEMBER_ID
    harness.join("a", protocols=BOTH)
    harness.join(new_id="b")
    harness.join("b", protocols=BOTH)
    assert harness.group.state is State.PREPARING
    assert harness.responses[harness.sync("a", 0)].error == E.ILLEGAL_GENERATION
    assert harness.responses[harness.sync("a", harness.group.generation)].error == E.REBALANCE_IN_PROGRESS


def test_only_the_assignment_of_the_leader_is_stored_and_only_once() -> None:
    harness = group_completing_rebalance("a", "b")
    follower = harness.sync("b", harness.group.generation, {"b": b"everything"})
    assert not harness.stored
    first = harness.sync("a", harness.group.generation, {"a": b"1", "b": b"2"})
    second = harness.sync("a", harness.group.generation, {"a": b"3", "b": b"4"})
    assert harness.responses[first].error == E.REBALANCE_IN_PROGRESS and len(harness.stored) == 1
    harness.persist()
    assert (harness.responses[second].assignment, harness.responses[follower].assignment) == (b"1", b"2")
    late = harness.responses[harness.sync("b", harness.group.generation)]
    assert (late.error, late.assignment) == (E.NONE, b"2"), "a stable group answers at once"


def test_a_new_member_ends_the_waiting_sync_of_the_others() -> None:
    harness = group_completing_rebalance("a", "b")
    token = harness.sync("b", harness.group.generation)
    harness.join(new_id="c")
    assert harness.responses[token].error == E.REBALANCE_IN_PROGRESS
    assert harness.group.members["b"].sync is None


def test_an_assignment_of_an_earlier_generation_does_not_count() -> None:
    harness = group_completing_rebalance("a", "b")
    harness.sync("a", harness.group.generation, {"a": b"old"})
    old = harness.stored[-1].number
    harness.join("a", protocols=BOTH)
    harness.join("b")
    generation = harness.group.generation
    token = harness.sync("a", generation, {"a": b"new"})
    for late in (g.Persisted(old), g.PersistFailed(old, E.COORDINATOR_NOT_AVAILABLE)):
        harness.deliver(late)
        assert harness.group.state is State.COMPLETING and token not in harness.responses
    harness.persist()
    assert harness.responses[token].assignment == b"new"


def test_a_result_without_a_write_changes_nothing() -> None:
    harness = group_completing_rebalance("a")
    for late in (g.Persisted(99), g.PersistFailed(99, E.COORDINATOR_NOT_AVAILABLE)):
        harness.deliver(late)
        assert harness.group.state is State.COMPLETING


def test_an_ended_group_stays_ended_when_its_assignment_is_stored() -> None:
    harness = group_completing_rebalance("a")
    harness.sync("a", harness.group.generation, {"a": b"1"})
    harness.group.end()
    harness.persist()
    assert harness.group.state is State.DEAD


def test_members_that_do_not_wait_get_no_response_when_the_assignment_is_stored_or_not() -> None:
    for result in (g.Persisted, lambda number: g.PersistFailed(number, E.COORDINATOR_NOT_AVAILABLE)):
        harness = group_completing_rebalance("a", "b")
        harness.sync("a", harness.group.generation, {"a": b"1"})
        harness.deliver(result(harness.stored[-1].number))
        assert None not in harness.responses


# -- LeaveGroup ------------------------------------------------------------------------------------------------------------
def test_members_leave_by_member_id_or_instance_id() -> None:
    harness = stable_group("a", "s", static=("s",))
    assert harness.leave("x", "i-s") == (E.FENCED_INSTANCE_ID,)
    assert harness.leave("x", "i-unknown") == harness.leave("x") == harness.leave() == (E.UNKNOWN_MEMBER_ID,)
    assert harness.group.state is State.STABLE, "nobody left"
    assert harness.leave("", "i-s") == (E.NONE,)
    assert (harness.group.state, set(harness.group.members)) == (State.PREPARING, {"a"})
    assert harness.leave("a") == (E.NONE,)


def test_a_member_id_that_has_not_joined_leaves_without_a_rebalance() -> None:
    harness = stable_group("a")
    harness.join(new_id="b", require_known_member_id=True)
    assert harness.leave("b") == (E.NONE,)
    assert harness.group.state is State.STABLE and not harness.group.pending_members


def test_the_last_member_that_leaves_empties_the_group_at_once() -> None:
    harness = stable_group("a")
    harness.leave("a")
    assert harness.group.state is State.EMPTY and harness.stored[-1].assignments == {}


def test_a_member_that_leaves_ends_its_waiting_requests_and_its_leadership() -> None:
    harness = stable_group("a", "b", "c")
    join = harness.join("a", protocols=BOTH)
    harness.leave("a")
    assert harness.responses[join].error == E.UNKNOWN_MEMBER_ID
    assert harness.group.leader == "b"
    for name in ("b", "c"):
        harness.join(name)
    sync = harness.sync("c", harness.group.generation)
    harness.leave("c")
    assert harness.responses[sync].error == E.UNKNOWN_MEMBER_ID
    assert harness.group.leader == "b"


def test_waiting_requests_end_when_the_coordinator_moves() -> None:
    harness = group_completing_rebalance("a", "b")
    sync = harness.sync("b", harness.group.generation)
    harness.run(harness.group.unload())
    assert harness.responses[sync].error == E.NOT_COORDINATOR
    harness = stable_group("a", "b")
    join = harness.join("a")
    harness.run(harness.group.unload())
    moved = harness.responses[join]
    assert (moved.error, moved.member_id) == (E.NOT_COORDINATOR, "a")


# -- Heartbeat -------------------------------------------------------------------------------------------------------------
def test_a_heartbeat_during_a_rebalance_has_its_error() -> None:
    harness = stable_group("a", "b")
    assert harness.heartbeat("b") == E.NONE
    harness.join("a")
    assert harness.heartbeat("b") == E.REBALANCE_IN_PROGRESS
