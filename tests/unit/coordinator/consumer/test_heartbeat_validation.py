"""Which heartbeats of the consumer protocol are rejected because of their member id, instance id or member epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.coordinator.consumer.events import LEAVE_GROUP_STATIC_MEMBER_EPOCH, ConsumerHeartbeat
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.consumer.heartbeat_validation import membership_error
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.consumer.test_group import GroupHarness

JOIN = ConsumerHeartbeat("token", "m1", 0, "client", "/host")


def group_with_two_members() -> ConsumerGroupMachine:
    """A group with the dynamic member m1 and the static member s1 of instance i."""
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.join("s1", "a", instance_id="i")
    return harness.group


def code(group: ConsumerGroupMachine, **changes: Any) -> ErrorCode | int:
    rejected = membership_error(group, replace(JOIN, **changes))
    return ErrorCode.NONE if rejected is None else rejected.error


def test_a_known_member_continues_with_its_epoch_and_rejoins_with_0() -> None:
    group = group_with_two_members()
    epoch = group.current_assignments["m1"].epoch
    assert epoch > 0
    assert code(group, epoch=epoch) == code(group, epoch=0) == ErrorCode.NONE


@pytest.mark.parametrize("ahead", [1, -1])
def test_another_epoch_is_fenced(ahead: int) -> None:
    group = group_with_two_members()
    epoch = group.current_assignments["s1"].epoch
    assert epoch + ahead > 0
    assert code(group, member_id="s1", epoch=epoch + ahead) == ErrorCode.FENCED_MEMBER_EPOCH


def test_an_unknown_member_must_join_first() -> None:
    assert code(group_with_two_members(), member_id="m9", epoch=3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(group_with_two_members(), member_id="m9") == ErrorCode.NONE


def test_an_instance_id_has_one_active_member() -> None:
    group = group_with_two_members()
    assert code(group, member_id="s2", instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert code(group, member_id="s2", instance_id="i", epoch=1) == ErrorCode.FENCED_INSTANCE_ID
    assert code(group, member_id="s1", instance_id="j", epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    group.current_assignments["s1"] = replace(group.current_assignments["s1"], epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    assert code(group, member_id="s2", instance_id="i") == ErrorCode.NONE, "the static member has left"


def test_a_full_group_accepts_no_new_member() -> None:
    group = group_with_two_members()
    group.group_config = replace(group.group_config, size_max=2)
    assert code(group, member_id="m9") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(group) == ErrorCode.NONE
