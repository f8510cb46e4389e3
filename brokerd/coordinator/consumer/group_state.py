"""The persisted state of a group of the consumer protocol, as its records define it. Pure.

Invariants: only `apply` changes the state, at run time and in replay, so the next coordinator gets the same group from the log. All changes
since `begin` can be rolled back. Does not decide changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.events import (
    ConsumerGroupChange,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    ResolvedRegularExpression,
)
from brokerd.coordinator.consumer.reconciliation import MemberAssignment

T = TypeVar("T")


@dataclass(slots=True)
class PersistedGroup:
    group_id: str
    epoch: int = 0
    topics_hash: int = 0
    target_epoch: int = 0
    members: dict[str, MemberMetadata] = field(default_factory=dict)
    current_assignments: dict[str, MemberAssignment] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    patterns: dict[str, ResolvedRegularExpression] = field(default_factory=dict)

    static: dict[str, str] = field(default_factory=dict)
    """{instance id: member id}, derived from `members`."""
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """{partition: member id of its owner}, derived from `current_assignments`."""
    classic_member_count: int = 0
    """Members that use the classic protocol, derived from `members`."""
    empty_since_wall_ms: int = 0
    changes: list[ConsumerGroupChange] = field(default_factory=list)
    """The changes since `begin`."""
    _undo: list[ConsumerGroupChange] = field(default_factory=list)
    _wall_ms: int = 0

    def begin(self, wall_ms: int) -> None:
        self.changes, self._undo, self._wall_ms = [], [], wall_ms

    def roll_back(self) -> None:
        """Roll back all changes since `begin`."""
        for change in reversed(self._undo):
            self.apply(change)
        self.changes, self._undo = [], []

    def value(self, fact: GroupRecordKey, name: str) -> object:
        match fact:
            case GroupRecordKey.GROUP:
                return GroupMetadata(self.epoch, self.topics_hash)
            case GroupRecordKey.TARGET_EPOCH:
                return self.target_epoch
            case GroupRecordKey.MEMBER:
                return self.members.get(name)
            case GroupRecordKey.TARGET_ASSIGNMENT:
                return self.targets.get(name)
            case GroupRecordKey.CURRENT_ASSIGNMENT:
                return self.current_assignments.get(name)
            case GroupRecordKey.REGULAR_EXPRESSION:
                return self.patterns.get(name)

    def change(self, fact: GroupRecordKey, name: str, value: object) -> None:
        old = self.value(fact, name)
        if old != value:
            change = ConsumerGroupChange(fact, name, value)
            self._undo.append(ConsumerGroupChange(fact, name, old))
            self.changes.append(change)
            self.apply(change, self._wall_ms)

    def apply(self, change: ConsumerGroupChange, wall_ms: int = 0) -> None:
        """Apply a decided change, or a record of the log."""
        name, value = change.name, change.value
        match change.fact:
            case GroupRecordKey.GROUP:
                header = value if value is not None else GroupMetadata(0)
                self.epoch, self.topics_hash = header.epoch, header.topics_hash
            case GroupRecordKey.TARGET_EPOCH:
                self.target_epoch = value or 0
            case GroupRecordKey.MEMBER:
                self._apply_member(name, value)
                self.empty_since_wall_ms = 0 if self.members else wall_ms
            case GroupRecordKey.TARGET_ASSIGNMENT:
                _set_or_delete(self.targets, name, value)
            case GroupRecordKey.CURRENT_ASSIGNMENT:
                for tp in self.current_assignments.get(name, MemberAssignment()).owned:
                    if self.owners.get(tp) == name:
                        del self.owners[tp]
                if value is not None:
                    self.owners.update(dict.fromkeys(value.owned, name))
                elif name in self.members:
                    value = MemberAssignment()
                _set_or_delete(self.current_assignments, name, value)
            case GroupRecordKey.REGULAR_EXPRESSION:
                _set_or_delete(self.patterns, name, value)

    def _apply_member(self, name: str, member_metadata: MemberMetadata | None) -> None:
        old = self.members.get(name)
        if old is not None and old.instance_id is not None and self.static.get(old.instance_id) == name:
            del self.static[old.instance_id]
        self.classic_member_count += (member_metadata is not None and member_metadata.classic is not None) - (
            old is not None and old.classic is not None
        )
        _set_or_delete(self.members, name, member_metadata)
        if member_metadata is None:
            self.apply(ConsumerGroupChange(GroupRecordKey.CURRENT_ASSIGNMENT, name, None))
            return
        self.current_assignments.setdefault(name, MemberAssignment())
        if member_metadata.instance_id is not None:
            self.static[member_metadata.instance_id] = name

    def tombstones(self) -> list[ConsumerGroupChange]:
        """Tombstones of all records of the group. Its committed offsets stay."""
        gone = [
            ConsumerGroupChange(fact, name, None)
            for fact, names in (
                (GroupRecordKey.CURRENT_ASSIGNMENT, self.current_assignments),
                (GroupRecordKey.TARGET_ASSIGNMENT, self.targets),
                (GroupRecordKey.MEMBER, self.members),
                (GroupRecordKey.REGULAR_EXPRESSION, self.patterns),
            )
            for name in names
        ]
        return [
            *gone,
            ConsumerGroupChange(GroupRecordKey.TARGET_EPOCH, "", None),
            ConsumerGroupChange(GroupRecordKey.GROUP, "", None),
        ]

    def purge(self) -> None:
        """Delete assignments of removed members after a replay."""
        for member_id in {*self.current_assignments, *self.targets} - self.members.keys():
            self.apply(ConsumerGroupChange(GroupRecordKey.CURRENT_ASSIGNMENT, member_id, None))
            self.apply(ConsumerGroupChange(GroupRecordKey.TARGET_ASSIGNMENT, member_id, None))

    def validate(self) -> None:
        owned: dict[TopicPartition, str] = {}
        for member_id, at in self.current_assignments.items():
            for tp in at.owned:
                other = owned.setdefault(tp, member_id)
                assert other == member_id, f"{self.group_id}: {tp} is owned by {other} and {member_id}"
        assert owned == self.owners, f"{self.group_id}: owners differ from the current assignments"
        assert self.current_assignments.keys() == self.members.keys(), (
            f"{self.group_id}: a current assignment without a member"
        )
        assert self.targets.keys() <= self.members.keys(), f"{self.group_id}: a target assignment without a member"
        assert set(self.static.values()) <= self.members.keys(), f"{self.group_id}: a static member without a member"
        assert self.classic_member_count == sum(m.classic is not None for m in self.members.values()), self.group_id
        assert self.target_epoch <= self.epoch, f"{self.group_id}: target assignment epoch above the group epoch"


def _set_or_delete(table: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
