"""The steps of a member towards its target assignment."""

from __future__ import annotations

from dataclasses import replace

from brokerd.coordinator.streams_group.reconciliation import (
    StreamsMemberAssignment,
    StreamsMemberState,
    is_reconciled,
    reconcile,
)
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, TaskId, Tasks
from tests.unit.coordinator.streams_group.scene import active, ids


def all_free(tasks: Tasks) -> Tasks:
    return tasks


def none_free(tasks: Tasks) -> Tasks:
    return EMPTY_TASKS


AT = StreamsMemberAssignment(3, 2).with_changes(assigned=active("0", 0, 1))


def test_free_tasks_are_assigned_at_once() -> None:
    after = reconcile(AT, active("0", 0, 1, 2), 5, None, all_free)
    assert (after.epoch, after.previous_epoch, after.state) == (5, 3, StreamsMemberState.STABLE)
    assert after.assigned == active("0", 0, 1, 2)
    assert after.assignment_epochs == {TaskId("0", 0): 3, TaskId("0", 1): 3, TaskId("0", 2): 5}
    assert is_reconciled(after, 5) and reconcile(after, active("0"), 5, None, all_free) is after


def test_tasks_are_revoked_before_others_are_assigned() -> None:
    first = reconcile(AT, active("0", 1, 2), 6, None, all_free)
    assert (first.epoch, first.state) == (3, StreamsMemberState.UNREVOKED)
    assert (first.assigned, first.revoking) == (active("0", 1), active("0", 0))
    assert reconcile(first, active("0", 1, 2), 6, None, all_free) is first
    assert reconcile(first, active("0", 1, 2), 6, active("0", 0, 1), all_free) is first
    last = reconcile(first, active("0", 1, 2), 6, active("0", 1), all_free)
    assert (last.epoch, last.assigned, last.revoking) == (6, active("0", 1, 2), EMPTY_TASKS)


def test_a_newer_target_during_a_revocation() -> None:
    first = reconcile(AT, active("0", 1), 6, None, all_free)
    second = reconcile(first, active("0", 2), 7, active("0", 1), all_free)
    assert (second.epoch, second.previous_epoch, second.state) == (4, 3, StreamsMemberState.UNREVOKED)
    assert second.revoking == active("0", 1), "commits of the revoked task with epoch 3 are not accepted any more"


def test_a_member_that_does_not_have_the_tasks_need_not_revoke_them() -> None:
    after = reconcile(AT, active("0", 2), 5, EMPTY_TASKS, all_free)
    assert (after.epoch, after.state, after.assigned) == (5, StreamsMemberState.STABLE, active("0", 2))


def test_a_member_waits_for_tasks_of_others() -> None:
    waiting = reconcile(AT, active("0", 0, 1, 2), 5, None, none_free)
    assert (waiting.epoch, waiting.state, waiting.assigned) == (5, StreamsMemberState.UNRELEASED, AT.assigned)
    assert reconcile(waiting, active("0", 0, 1, 2), 5, None, none_free) == replace(waiting, previous_epoch=3)
    assert reconcile(waiting, active("0", 0, 1, 2), 5, None, all_free).state is StreamsMemberState.STABLE


def test_a_standby_task_that_becomes_active_is_closed_first() -> None:
    standby = StreamsMemberAssignment(3, 2, assigned=Tasks(standby=ids("0", 0)))
    first = reconcile(standby, active("0", 0), 4, None, all_free)
    assert first.revoking == Tasks(standby=ids("0", 0)) and first.assigned == EMPTY_TASKS
    assert reconcile(first, active("0", 0), 4, EMPTY_TASKS, all_free).assigned == active("0", 0)


def test_since_when_a_task_is_owned() -> None:
    assert AT.has_owned_since(TaskId("0", 0), 3) and not AT.has_owned_since(TaskId("0", 0), 2)
    assert not AT.has_owned_since(TaskId("0", 9), 3)


def test_a_task_that_returns_after_its_revocation_has_a_new_epoch() -> None:
    """A simulated world found that a late commit with the old epoch was accepted (seed 57)."""
    first = reconcile(AT, EMPTY_TASKS, 5, None, all_free)
    assert first.assignment_epochs == {TaskId("0", 0): 3, TaskId("0", 1): 3}
    again = reconcile(first, active("0", 0), 6, EMPTY_TASKS, all_free)
    assert again.assigned == active("0", 0) and again.assignment_epochs == {TaskId("0", 0): 6}
