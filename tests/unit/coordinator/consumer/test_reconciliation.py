"""One step of a member's reconciliation: partitions that it keeps, revokes, waits for and gets."""

from __future__ import annotations

from brokerd.coordinator.consumer.reconciliation import MemberAssignment, MemberState, reconcile
from tests.unit.coordinator.topics import A, share


def member(*partitions: int, epoch: int = 5, state: MemberState = MemberState.STABLE) -> MemberAssignment:
    return MemberAssignment(epoch, epoch - 1, state).with_changes(assigned=share(A, *partitions))


def test_a_stable_member_at_the_target_epoch_does_not_change() -> None:
    at = member(0, 1)
    assert reconcile(at, share(A, 2), 5, None, lambda tp: True) is at


def test_partitions_are_revoked_before_the_member_gets_others() -> None:
    first = reconcile(member(0, 1), share(A, 1, 2), 6, share(A, 0, 1), lambda tp: True)
    assert (first.epoch, first.state, first.assigned, first.revoking) == (
        5,
        MemberState.UNREVOKED,
        share(A, 1),
        share(A, 0),
    )
    assert first.owned == share(A, 0, 1)
    assert reconcile(first, share(A, 1, 2), 6, None, lambda tp: True) is first, "a heartbeat without its partitions"
    assert reconcile(first, share(A, 1, 2), 6, share(A, 0), lambda tp: True) is first, "it still owns the partition"
    second = reconcile(first, share(A, 1, 2), 6, share(A, 1), lambda tp: True)
    assert (second.epoch, second.previous_epoch, second.state) == (6, 5, MemberState.STABLE)
    assert (second.assigned, second.revoking) == (share(A, 1, 2), frozenset())


def test_a_partition_that_returns_after_its_revocation_has_a_new_epoch() -> None:
    """A late commit with the old epoch could replace a newer one."""
    first = reconcile(member(0, 1), share(A), 6, None, lambda tp: True)
    again = reconcile(first, share(A, 0), 7, share(A), lambda tp: True)
    assert (again.assigned, [*again.assignment_epochs.values()]) == (share(A, 0), [7])


def test_a_partition_of_another_member_is_assigned_when_it_is_free() -> None:
    taken = {2}
    first = reconcile(member(1), share(A, 1, 2, 3), 6, None, lambda tp: tp.partition not in taken)
    assert (first.epoch, first.state, first.assigned) == (6, MemberState.UNRELEASED, share(A, 1, 3))
    taken.clear()
    second = reconcile(first, share(A, 1, 2, 3), 6, None, lambda tp: tp.partition not in taken)
    assert (second.state, second.assigned, second.previous_epoch) == (MemberState.STABLE, share(A, 1, 2, 3), 5)


def test_a_member_that_reports_no_revoked_partition_needs_no_extra_heartbeat() -> None:
    at = reconcile(member(0, 1), share(A, 1), 6, share(A, 1), lambda tp: True)
    assert (at.state, at.assigned) == (MemberState.STABLE, share(A, 1))


def test_a_commit_is_valid_since_the_assignment_of_its_partition() -> None:
    """KIP-1251: a commit with an earlier member epoch is valid if the member owned the partition since then."""
    at = member(0, epoch=5)
    at = reconcile(at, share(A, 0, 1), 8, None, lambda tp: True)
    old, new = sorted(share(A, 0, 1))
    assert [at.may_commit(old, epoch) for epoch in (4, 5, 7, 8, 9)] == [False, True, True, True, False]
    assert [at.may_commit(new, epoch) for epoch in (5, 7, 8)] == [False, False, True]
