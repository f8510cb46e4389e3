"""Reconciliation of a member's current assignment with its target assignment (KIP-848; Kafka: CurrentAssignmentBuilder). One step per heartbeat.

Pure. Invariant: a partition is assigned to a member only when no other member owns it. A member owns a partition until a heartbeat confirms its
revocation.

| state              | assignment               | next state when                                            |
|--------------------|--------------------------|------------------------------------------------------------|
| STABLE             | the target of its epoch  | there is a newer target                                    |
| UNREVOKED          | part of its old target   | its heartbeat contains no partition that it must revoke    |
| UNRELEASED         | free part of its target  | other members released the rest, or there is a newer target|
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypedDict, Unpack

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import EMPTY_ASSIGNMENT, Assignment


class MemberState(IntEnum):
    """Kafka's numbers in the records of current assignments."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class AssignmentChanges(TypedDict, total=False):
    """The fields of a `MemberAssignment` that a change names."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """A member's current assignment. It owns `assigned`, and `revoking` until it confirms the revocation. `previous_epoch` is accepted again if
    the response with `epoch` was lost. `assignment_epochs`: the epoch in which each owned partition was assigned (KIP-1251)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = EMPTY_ASSIGNMENT
    revoking: Assignment = EMPTY_ASSIGNMENT
    assignment_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def owned(self) -> Assignment:
        return self.assigned | self.revoking

    def with_changes(self, **changes: Unpack[AssignmentChanges]) -> MemberAssignment:
        """A copy with changed fields. Partitions that stay keep their assignment epoch. New ones get the member epoch, also if they were revoked before:
        a late commit with the epoch before must not replace a newer one."""
        after = replace(self, **changes)
        gone = self.revoking - after.revoking
        epochs = {tp: e for tp, e in self.assignment_epochs.items() if tp not in gone}
        return replace(after, assignment_epochs={tp: epochs.get(tp, after.epoch) for tp in after.owned})

    def may_commit(self, tp: TopicPartition, epoch: int) -> bool:
        """Return whether a commit with `epoch` is valid, that is, whether the member has owned the partition since this epoch or an earlier one."""
        return epoch == self.epoch or (
            tp in self.assignment_epochs and self.assignment_epochs[tp] <= epoch < self.epoch
        )


def reconcile(
    at: MemberAssignment,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    free: Callable[[TopicPartition], bool],
) -> MemberAssignment:
    """The next current assignment. `owned` are the partitions in the heartbeat (None: not sent). `free(partition)` returns whether no other member owns the
    partition."""
    if at.state is MemberState.STABLE and at.epoch == target_epoch:
        return at
    if at.state is MemberState.UNREVOKED and (owned is None or owned & at.revoking):
        return at
    keeps = at.assigned & target
    gives_up = at.assigned - keeps
    if gives_up and (owned is None or owned & gives_up):
        return at.with_changes(state=MemberState.UNREVOKED, assigned=keeps, revoking=gives_up)
    missing = target - keeps
    gets = frozenset(tp for tp in missing if free(tp))
    state = MemberState.STABLE if len(gets) == len(missing) else MemberState.UNRELEASED
    previous = at.epoch if at.epoch != target_epoch else at.previous_epoch
    return at.with_changes(
        epoch=target_epoch, previous_epoch=previous, state=state, assigned=keeps | gets, revoking=EMPTY_ASSIGNMENT
    )
