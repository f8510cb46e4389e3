"""The persisted state of a share group, as its records define it. Pure.

Invariants: only `apply` changes the state, at run time and in replay, so the next coordinator gets the same group from the log. All changes
since `begin` can be rolled back. Does not decide changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.share_group.events import (
    ShareGroupChange,
    ShareMemberAssignment,
    ShareMemberMetadata,
    ShareRecordKey,
    StatePartitions,
)

T = TypeVar("T")


@dataclass(slots=True)
class PersistedShareGroup:
    group_id: str
    epoch: int = 0
    topics_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ShareMemberMetadata] = field(default_factory=dict)
    current_assignments: dict[str, ShareMemberAssignment] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    state_partitions: StatePartitions = field(default_factory=StatePartitions)
    empty_since_wall_ms: int = 0
    changes: list[ShareGroupChange] = field(default_factory=list)
    """The changes since `begin`."""
    _undo: list[ShareGroupChange] = field(default_factory=list)
    _wall_ms: int = 0

    def begin(self, wall_ms: int) -> None:
        self.changes, self._undo, self._wall_ms = [], [], wall_ms

    def roll_back(self) -> None:
        """Undo all changes since `begin`."""
        for change in reversed(self._undo):
            self.apply(change)
        self.changes, self._undo = [], []

    def value(self, fact: ShareRecordKey, name: str) -> object:
        match fact:
            case ShareRecordKey.GROUP:
                return self.epoch, self.topics_hash
            case ShareRecordKey.TARGET_EPOCH:
                return self.target_epoch
            case ShareRecordKey.MEMBER:
                return self.members.get(name)
            case ShareRecordKey.TARGET_ASSIGNMENT:
                return self.targets.get(name)
            case ShareRecordKey.CURRENT_ASSIGNMENT:
                return self.current_assignments.get(name)
            case ShareRecordKey.STATE_PARTITIONS:
                return self.state_partitions

    def change(self, fact: ShareRecordKey, name: str, value: Any) -> None:
        old = self.value(fact, name)
        if old != value:
            self._undo.append(ShareGroupChange(fact, name, old))
            change = ShareGroupChange(fact, name, value)
            self.changes.append(change)
            self.apply(change, self._wall_ms)

    def apply(self, change: ShareGroupChange, wall_ms: int = 0) -> None:
        """Apply a decided change, or a record of the log."""
        name, value = change.name, change.value
        match change.fact:
            case ShareRecordKey.GROUP:
                self.epoch, self.topics_hash = value if value is not None else (0, 0)
            case ShareRecordKey.TARGET_EPOCH:
                self.target_epoch = value or 0
            case ShareRecordKey.MEMBER:
                _set_or_delete(self.members, name, value)
                if value is None:
                    self.current_assignments.pop(name, None)
                else:
                    self.current_assignments.setdefault(name, ShareMemberAssignment())
                self.empty_since_wall_ms = 0 if self.members else wall_ms
            case ShareRecordKey.TARGET_ASSIGNMENT:
                _set_or_delete(self.targets, name, value)
            case ShareRecordKey.CURRENT_ASSIGNMENT:
                if value is None and name in self.members:
                    value = ShareMemberAssignment()
                _set_or_delete(self.current_assignments, name, value)
            case ShareRecordKey.STATE_PARTITIONS:
                self.state_partitions = value if value is not None else StatePartitions()

    def tombstones(self) -> list[ShareGroupChange]:
        """Tombstones of all records of the group."""
        gone = [
            ShareGroupChange(fact, name, None)
            for fact, names in (
                (ShareRecordKey.CURRENT_ASSIGNMENT, self.current_assignments),
                (ShareRecordKey.TARGET_ASSIGNMENT, self.targets),
                (ShareRecordKey.MEMBER, self.members),
            )
            for name in names
        ]
        rest = (ShareRecordKey.STATE_PARTITIONS, ShareRecordKey.TARGET_EPOCH, ShareRecordKey.GROUP)
        return [*gone, *(ShareGroupChange(fact, "", None) for fact in rest)]

    def purge(self) -> None:
        """Delete assignments of removed members after a replay."""
        for member_id in {*self.current_assignments, *self.targets} - self.members.keys():
            self.apply(ShareGroupChange(ShareRecordKey.CURRENT_ASSIGNMENT, member_id, None))
            self.apply(ShareGroupChange(ShareRecordKey.TARGET_ASSIGNMENT, member_id, None))

    def validate(self) -> None:
        assert self.current_assignments.keys() == self.members.keys(), (
            f"{self.group_id}: a current assignment without a member"
        )
        assert self.targets.keys() <= self.members.keys(), f"{self.group_id}: a target assignment without a member"
        assert self.target_epoch <= self.epoch, f"{self.group_id}: target assignment epoch above the group epoch"


def _set_or_delete(table: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
