"""Reconciliation of a member's tasks with its target assignment (KIP-1071; Kafka: CurrentAssignmentBuilder). One step per heartbeat.

Pure. Invariants: an active task has one owner. A process has a task in one role only. A member owns a task until a heartbeat confirms its
revocation.

| state              | assignment               | next state when                                            |
|--------------------|--------------------------|------------------------------------------------------------|
| STABLE             | the target of its epoch  | there is a newer target                                    |
| UNREVOKED          | part of its old target   | its heartbeat contains no task that it must revoke         |
| UNRELEASED         | free part of its target  | other members released the rest, or there is a newer target|
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypedDict, Unpack

from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, TaskId, Tasks


class StreamsMemberState(IntEnum):
    """Kafka's numbers in the records of current assignments."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3


class StreamsAssignmentChanges(TypedDict, total=False):
    """The fields of a `StreamsMemberAssignment` that a change names."""

    epoch: int
    previous_epoch: int
    state: StreamsMemberState
    assigned: Tasks
    revoking: Tasks


@dataclass(frozen=True, slots=True)
class StreamsMemberAssignment:
    """A member's current assignment. It owns `assigned`, and `revoking` until it confirms the revocation. `previous_epoch` is accepted again if
    the response with `epoch` was lost. `assignment_epochs`: the epoch in which each owned active task was assigned."""

    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: Tasks = EMPTY_TASKS
    revoking: Tasks = EMPTY_TASKS
    assignment_epochs: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def owned(self) -> Tasks:
        return self.assigned | self.revoking

    def with_changes(self, **changes: Unpack[StreamsAssignmentChanges]) -> StreamsMemberAssignment:
        """A copy with changed fields. Active tasks that stay keep their assignment epoch. New ones get the member epoch, also if they were revoked
        before: the member has closed them, and late commits of them are not accepted."""
        after = replace(self, **changes)
        gone = self.revoking.active - after.revoking.active
        epochs = {task: e for task, e in self.assignment_epochs.items() if task not in gone}
        return replace(after, assignment_epochs={t: epochs.get(t, after.epoch) for t in after.owned.active})

    def has_owned_since(self, task: TaskId, epoch: int) -> bool:
        """Return whether the member has owned the active task since `epoch` or an earlier one."""
        return task in self.assignment_epochs and self.assignment_epochs[task] <= epoch


def is_reconciled(at: StreamsMemberAssignment, target_epoch: int) -> bool:
    return at.state is StreamsMemberState.STABLE and at.epoch == target_epoch


def reconcile(
    at: StreamsMemberAssignment,
    target: Tasks,
    target_epoch: int,
    owned: Tasks | None,
    free: Callable[[Tasks], Tasks],
) -> StreamsMemberAssignment:
    """The next current assignment. `owned` are the tasks in the heartbeat (None: not sent). `free(tasks)` returns the tasks that no other member
    prevents this member from starting."""
    if is_reconciled(at, target_epoch):
        return at
    epoch = at.epoch
    if at.state is StreamsMemberState.UNREVOKED:
        if owned is None or owned & at.revoking:
            return at
        # Commits with the epoch before are now accepted only for tasks that the member keeps.
        epoch += 1
    keeps = at.assigned & target
    gives_up = at.assigned - keeps
    if gives_up and (owned is None or owned & gives_up):
        previous = at.previous_epoch if epoch == at.epoch else at.epoch
        return at.with_changes(
            epoch=epoch,
            previous_epoch=previous,
            state=StreamsMemberState.UNREVOKED,
            assigned=keeps,
            revoking=gives_up,
        )
    missing = target - keeps
    gets = free(missing)
    state = StreamsMemberState.STABLE if gets == missing else StreamsMemberState.UNRELEASED
    previous = at.epoch if at.epoch != target_epoch else at.previous_epoch
    return at.with_changes(
        epoch=target_epoch, previous_epoch=previous, state=state, assigned=keeps | gets, revoking=EMPTY_TASKS
    )
