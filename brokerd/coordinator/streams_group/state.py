"""The persisted state of a streams group, as its records define it. Pure.

Invariants: only `apply` changes the state, at run time and in replay, so the next coordinator gets the same group from the log. All changes
since `begin` can be rolled back. Does not decide changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from brokerd.coordinator.streams_group.events import (
    StreamsGroupChange,
    StreamsGroupMetadata,
    StreamsMemberMetadata,
    StreamsRecordKey,
    StreamsRecordValue,
)
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment
from brokerd.coordinator.streams_group.tasks import TaskId, Tasks, TaskSet
from brokerd.coordinator.streams_group.topology import Topology

T = TypeVar("T")
INITIAL_EPOCH = 1
"""The group epoch and the epoch of the target assignment before the first heartbeat, as in Kafka. A member whose assignment is delayed gets it: with
epoch 0 it would have to join again."""
INITIAL_METADATA = StreamsGroupMetadata(INITIAL_EPOCH)


@dataclass(slots=True)
class PersistedStreamsGroup:
    group_id: str
    metadata: StreamsGroupMetadata = INITIAL_METADATA
    topology: Topology | None = None
    target_epoch: int = INITIAL_EPOCH
    members: dict[str, StreamsMemberMetadata] = field(default_factory=dict)
    current_assignments: dict[str, StreamsMemberAssignment] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)

    owners: dict[TaskId, str] = field(default_factory=dict)
    """{active task: member id of its owner}, derived from `current_assignments`."""
    copies: dict[TaskId, set[str]] = field(default_factory=dict)
    """{task: ids of members that have it as standby or warm-up task}, derived from `current_assignments`."""
    empty_since_wall_ms: int = 0
    changes: list[StreamsGroupChange] = field(default_factory=list)
    """The changes since `begin`."""
    _undo: list[StreamsGroupChange] = field(default_factory=list)
    _wall_ms: int = 0

    @property
    def epoch(self) -> int:
        return self.metadata.epoch

    def begin(self, wall_ms: int) -> None:
        self.changes, self._undo, self._wall_ms = [], [], wall_ms

    def roll_back(self) -> None:
        """Undo all changes since `begin`."""
        for change in reversed(self._undo):
            self.apply(change, self._wall_ms)
        self.changes, self._undo = [], []

    def value(self, fact: StreamsRecordKey, name: str) -> StreamsRecordValue | None:
        match fact:
            case StreamsRecordKey.GROUP:
                return self.metadata
            case StreamsRecordKey.TOPOLOGY:
                return self.topology
            case StreamsRecordKey.TARGET_EPOCH:
                return self.target_epoch
            case StreamsRecordKey.MEMBER:
                return self.members.get(name)
            case StreamsRecordKey.TARGET_ASSIGNMENT:
                return self.targets.get(name)
            case StreamsRecordKey.CURRENT_ASSIGNMENT:
                return self.current_assignments.get(name)

    def change(self, fact: StreamsRecordKey, name: str, value: StreamsRecordValue | None) -> None:
        old = self.value(fact, name)
        if old != value:
            self._undo.append(StreamsGroupChange(fact, name, old))
            change = StreamsGroupChange(fact, name, value)
            self.changes.append(change)
            self.apply(change, self._wall_ms)

    def apply(self, change: StreamsGroupChange, wall_ms: int = 0) -> None:
        """Apply a decided change, or a record of the log."""
        name = change.name
        match change.fact, change.value:
            case StreamsRecordKey.GROUP, StreamsGroupMetadata() as metadata:
                self.metadata = metadata
            case StreamsRecordKey.TOPOLOGY, (Topology() | None) as topology:
                self.topology = topology
            case StreamsRecordKey.TARGET_EPOCH, int() as epoch:
                self.target_epoch = epoch
            case StreamsRecordKey.MEMBER, (StreamsMemberMetadata() | None) as member:
                self._set_member(name, member, wall_ms)
            case StreamsRecordKey.TARGET_ASSIGNMENT, (Tasks() | None) as tasks:
                _set_or_delete(self.targets, name, tasks)
            case StreamsRecordKey.CURRENT_ASSIGNMENT, StreamsMemberAssignment() as assignment:
                self._set_current(name, assignment)
            case StreamsRecordKey.CURRENT_ASSIGNMENT, None:
                self._set_current(name, StreamsMemberAssignment() if name in self.members else None)
            case StreamsRecordKey.GROUP, None:
                self.metadata = INITIAL_METADATA
            case StreamsRecordKey.TARGET_EPOCH, None:
                self.target_epoch = INITIAL_EPOCH
            case fact, value:
                raise AssertionError(f"{self.group_id}: {fact.name} has the value {value!r}")

    def _set_member(self, name: str, member: StreamsMemberMetadata | None, wall_ms: int) -> None:
        _set_or_delete(self.members, name, member)
        if member is None:
            self._set_current(name, None)
        elif name not in self.current_assignments:
            self._set_current(name, StreamsMemberAssignment())
        self.empty_since_wall_ms = 0 if self.members else wall_ms

    def _set_current(self, name: str, value: StreamsMemberAssignment | None) -> None:
        before = self.current_assignments.get(name, StreamsMemberAssignment()).owned
        for task in before.active:
            if self.owners.get(task) == name:
                del self.owners[task]
        for task in before.standby | before.warmup:
            self.copies[task].discard(name)
            if not self.copies[task]:
                del self.copies[task]
        _set_or_delete(self.current_assignments, name, value)
        if value is not None:
            after = value.owned
            self.owners.update(dict.fromkeys(after.active, name))
            for task in after.standby | after.warmup:
                self.copies.setdefault(task, set()).add(name)

    def free_tasks(self, member_id: str, tasks: Tasks) -> Tasks:
        """The tasks that the member may start: no other member owns an active one, and its process has them in no other role."""

        def copied(task: TaskId) -> bool:
            return any(self._same_process(member_id, m) for m in self.copies.get(task, ()))

        def free(wanted: TaskSet) -> TaskSet:
            return frozenset(
                t for t in wanted if not self._same_process(member_id, self.owners.get(t)) and not copied(t)
            )

        active = frozenset(t for t in free(tasks.active) if self.owners.get(t, member_id) == member_id)
        return Tasks(active, free(tasks.standby), free(tasks.warmup))

    def _same_process(self, member_id: str, other: str | None) -> bool:
        """Return whether `other` is another member of the same process."""
        if other is None or other == member_id or other not in self.members:
            return False
        return self.members[other].process_id == self.members[member_id].process_id

    def tombstones(self) -> list[StreamsGroupChange]:
        """Tombstones of all records of the group."""
        gone = [
            StreamsGroupChange(fact, name, None)
            for fact, names in (
                (StreamsRecordKey.CURRENT_ASSIGNMENT, self.current_assignments),
                (StreamsRecordKey.TARGET_ASSIGNMENT, self.targets),
                (StreamsRecordKey.MEMBER, self.members),
            )
            for name in names
        ]
        rest = (StreamsRecordKey.TARGET_EPOCH, StreamsRecordKey.TOPOLOGY, StreamsRecordKey.GROUP)
        return [*gone, *(StreamsGroupChange(fact, "", None) for fact in rest)]

    def purge(self) -> None:
        """Delete assignments of removed members after a replay."""
        for member_id in {*self.current_assignments, *self.targets} - self.members.keys():
            self.apply(StreamsGroupChange(StreamsRecordKey.CURRENT_ASSIGNMENT, member_id, None))
            self.apply(StreamsGroupChange(StreamsRecordKey.TARGET_ASSIGNMENT, member_id, None))

    def validate(self) -> None:
        owned: dict[TaskId, str] = {}
        for member_id, at in self.current_assignments.items():
            for task in at.owned.active:
                other = owned.setdefault(task, member_id)
                assert other == member_id, f"{self.group_id}: {task} is owned by {other} and {member_id}"
        assert owned == self.owners, f"{self.group_id}: owners differ from the current assignments"
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
