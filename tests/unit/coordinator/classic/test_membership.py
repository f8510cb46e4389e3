"""Members of a classic group: common protocols, the chosen protocol, identity of static members."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.classic.events import Join, State
from brokerd.coordinator.classic.membership import GroupMembership
from brokerd.wire.errors import ErrorCode


def join(member_id: str, *protocols: str, instance_id: str | None = None, kind: str = "consumer") -> Join:
    pairs = tuple((p, p.encode()) for p in protocols)
    return Join(None, member_id, "", instance_id, "c", "/h", 1_000, 2_000, kind, pairs, False)


def group(**members: str) -> GroupMembership:
    made = GroupMembership("g", protocol_type="consumer", generation=3, state=State.STABLE)
    for member_id, protocols in members.items():
        made._add(member_id, join(member_id, *protocols.split()))
    return made


@pytest.mark.parametrize(
    ("members", "chosen"),
    [
        ({"a": "range sticky", "b": "range sticky"}, "range"),
        ({"a": "range sticky", "b": "sticky range", "c": "sticky range"}, "sticky"),
        ({"a": "only-a sticky", "b": "sticky range"}, "sticky"),
        ({"a": "sticky range", "b": "range sticky"}, "range"),  # a tie: the first by name
    ],
)
def test_each_member_votes_for_its_first_protocol_that_all_support(members: dict[str, str], chosen: str) -> None:
    assert group(**members)._select_protocol() == chosen


@pytest.mark.parametrize(
    ("event", "supported"),
    [
        (join("c", "sticky"), True),
        (join("c", "range"), False),
        (join("c", "other", "sticky"), True),
        (join("c", "sticky", kind="connect"), False),
        (join("c"), False),
        (join("c", "sticky", kind=""), False),
    ],
)
def test_a_member_joins_with_a_protocol_that_all_others_support(event: Join, supported: bool) -> None:
    assert group(a="range sticky", b="sticky")._supports_group_protocols(event) is supported


def test_the_only_member_may_change_its_protocols() -> None:
    assert group(a="range")._supports_group_protocols(join("a", "sticky", kind="connect"))


def test_the_identity_of_a_request_is_checked_in_kafkas_order() -> None:
    it = group(a="range")
    it._add("s", join("s", "range", instance_id="i"))
    assert it._member_error("a", None, 3) == ErrorCode.NONE
    assert it._member_error("a", None, 2) == ErrorCode.ILLEGAL_GENERATION
    assert it._member_error("x", None, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert it._member_error("x", "i", 3) == ErrorCode.FENCED_INSTANCE_ID, "the instance id belongs to another member id"
    it.members["a"].consumer_epoch = 7
    assert it._member_error("a", None, 7) == ErrorCode.NONE, "the epoch of a member that was converted"
    it.state = State.DEAD
    assert it._member_error("x", "i", 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_only_the_leader_gets_the_metadata_of_the_members() -> None:
    it = group(a="range", b="range")
    it.leader, it.protocol = "a", "range"
    assert it._join_response(it.members["a"]).members == (("a", None, b"range"), ("b", None, b"range"))
    assert it._join_response(it.members["b"]).members == ()


def test_a_member_that_joins_again_gets_a_new_session_and_is_not_pending() -> None:
    it = group(a="range")
    it.pending_members["b"] = 5
    it._add("b", join("b", "range"))
    assert it.pending_members == {}
    it._take(it.members["a"], join("a", "sticky"), Now(50, 0))
    assert (it.members["a"].deadline_ms, it.members["a"].protocols) == (1_050, (("sticky", b"sticky"),))
