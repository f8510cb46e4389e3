"""The state of a consumer group is the sum of its records: roll back, tombstones, purge, and inconsistencies."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.events import (
    ClassicMemberMetadata,
    ConsumerGroupChange,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    ResolvedRegularExpression,
)
from brokerd.coordinator.consumer.group_state import PersistedGroup
from brokerd.coordinator.consumer.reconciliation import MemberAssignment
from tests.unit.coordinator.topics import A, share

CLASSIC = ClassicMemberMetadata(6_000, ())


def member(instance_id: str | None = None, classic: ClassicMemberMetadata | None = None) -> MemberMetadata:
    return MemberMetadata(instance_id, None, "c", "/h", frozenset({"a"}), None, 5_000, None, classic)


def member_with_partitions(*partitions: int) -> MemberAssignment:
    return MemberAssignment(1).with_changes(assigned=share(A, *partitions))


def group() -> PersistedGroup:
    it = PersistedGroup("g")
    it.begin(17)
    it.change(GroupRecordKey.GROUP, "", GroupMetadata(2, 5))
    it.change(GroupRecordKey.MEMBER, "m", member("i"))
    it.change(GroupRecordKey.CURRENT_ASSIGNMENT, "m", member_with_partitions(0, 1))
    it.change(GroupRecordKey.TARGET_ASSIGNMENT, "m", share(A, 0, 1))
    it.change(GroupRecordKey.TARGET_EPOCH, "", 2)
    it.validate()
    return it


def state(it: PersistedGroup) -> dict[str, Any]:
    return {f.name: repr(getattr(it, f.name)) for f in fields(it) if f.name not in ("changes", "_undo")}


def test_all_changes_since_begin_are_rolled_back() -> None:
    it = group()
    it.begin(99)
    before = state(it)
    it.change(GroupRecordKey.MEMBER, "n", member("k", CLASSIC))
    it.change(GroupRecordKey.CURRENT_ASSIGNMENT, "m", member_with_partitions(0))
    it.change(GroupRecordKey.CURRENT_ASSIGNMENT, "n", member_with_partitions(1))
    it.change(GroupRecordKey.REGULAR_EXPRESSION, "a.*", ResolvedRegularExpression(frozenset("a"), 1, 1))
    it.change(GroupRecordKey.TARGET_EPOCH, "", 3)
    assert len(it.changes) == 5 and it.owners[TopicPartition(A, 1)] == "n" and it.classic_member_count == 1
    it.roll_back()
    assert state(it) == before and it.changes == []


def test_a_change_to_the_same_value_is_no_record() -> None:
    it = group()
    it.begin(99)
    it.change(GroupRecordKey.MEMBER, "m", member("i"))
    assert it.changes == []


def test_a_removed_member_owns_nothing_and_leaves_its_instance_id() -> None:
    it = group()
    it.begin(99)
    it.change(GroupRecordKey.MEMBER, "n", member("i"))
    assert it.static == {"i": "n"}
    it.change(GroupRecordKey.MEMBER, "m", None)
    assert (it.owners, it.static) == ({}, {"i": "n"}), "another member has the instance id now"
    it.change(GroupRecordKey.MEMBER, "n", None)
    assert (it.static, it.empty_since_wall_ms) == ({}, 99)


def test_tombstones_delete_every_record() -> None:
    it = group()
    it.change(GroupRecordKey.REGULAR_EXPRESSION, "a.*", ResolvedRegularExpression(frozenset("a"), 1, 1))
    for change in it.tombstones():
        assert change.value is None
        it.apply(change)
    assert not (it.members or it.current_assignments or it.targets or it.patterns or it.owners or it.epoch)


def test_a_replay_purges_assignments_of_removed_members() -> None:
    it = group()
    it.apply(ConsumerGroupChange(GroupRecordKey.TARGET_ASSIGNMENT, "gone", share(A, 2)))
    it.apply(ConsumerGroupChange(GroupRecordKey.CURRENT_ASSIGNMENT, "gone", member_with_partitions(2)))
    it.purge()
    it.validate()
    assert "gone" not in it.targets and list(it.targets) == ["m"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda it: it.owners.clear(), "owners differ"),
        (lambda it: it.current_assignments.pop("m") and it.owners.clear(), "without a member"),
        (lambda it: it.targets.update(x=share(A, 3)), "a target assignment without"),
        (lambda it: it.static.update(k="x"), "a static member without"),
        (lambda it: setattr(it, "target_epoch", 9), "above the group epoch"),
    ],
)
def test_an_inconsistent_group_is_detected(broken: Any, message: str) -> None:
    it = group()
    broken(it)
    with pytest.raises(AssertionError, match=message):
        it.validate()


def test_two_owners_of_a_partition_are_detected() -> None:
    it = group()
    it._apply_member("n", member())
    it.current_assignments["n"] = member_with_partitions(1)
    with pytest.raises(AssertionError, match="is owned by"):
        it.validate()
