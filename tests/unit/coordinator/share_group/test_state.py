"""The persisted state of a share group: roll-back, replay, tombstones."""

from __future__ import annotations

from uuid import UUID

from brokerd.coordinator.share_group.events import (
    ShareGroupChange,
    ShareMemberAssignment,
    ShareMemberMetadata,
    ShareRecordKey,
    StatePartitions,
)
from brokerd.coordinator.share_group.state import PersistedShareGroup
from tests.unit.coordinator.topics import A, share

MEMBER = ShareMemberMetadata(None, "c", "/h", frozenset({"a"}))


def group_with_one_member() -> PersistedShareGroup:
    group = PersistedShareGroup("g")
    group.begin(5)
    group.change(ShareRecordKey.GROUP, "", (3, 9))
    group.change(ShareRecordKey.MEMBER, "m", MEMBER)
    group.change(ShareRecordKey.TARGET_ASSIGNMENT, "m", share(A, 0))
    group.change(ShareRecordKey.TARGET_EPOCH, "", 3)
    group.change(ShareRecordKey.CURRENT_ASSIGNMENT, "m", ShareMemberAssignment(3, 2, share(A, 0)))
    group.change(ShareRecordKey.STATE_PARTITIONS, "", StatePartitions(initialized={A: ("a", frozenset({0}))}))
    group.validate()
    return group


def test_changes_are_rolled_back() -> None:
    group = group_with_one_member()
    group.roll_back()
    assert (group.epoch, group.members, group.targets, group.current_assignments) == (0, {}, {}, {})
    assert group.state_partitions == StatePartitions() and group.changes == []


def test_a_value_that_does_not_change_is_no_change() -> None:
    group = group_with_one_member()
    group.begin(6)
    group.change(ShareRecordKey.TARGET_EPOCH, "", 3)
    group.change(ShareRecordKey.MEMBER, "m", MEMBER)
    assert group.changes == []


def test_tombstones_leave_nothing() -> None:
    group = group_with_one_member()
    for change in group.tombstones():
        group.apply(change, 7)
    assert (group.epoch, group.target_epoch, group.members, group.targets) == (0, 0, {}, {})
    assert group.empty_since_wall_ms == 7


def test_assignments_of_removed_members_are_purged() -> None:
    group = group_with_one_member()
    group.apply(ShareGroupChange(ShareRecordKey.CURRENT_ASSIGNMENT, "gone", ShareMemberAssignment(1, 0, share(A, 1))))
    group.apply(ShareGroupChange(ShareRecordKey.TARGET_ASSIGNMENT, "gone", share(A, 1)))
    group.purge()
    group.validate()
    assert UUID(int=1) == A
