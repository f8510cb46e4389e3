"""A fixed sample of worlds of a streams group. Also: such worlds fail when a rule of streams groups is removed from the product.
`make simulate WORLD=streams` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.coordinator.streams_group import group
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment
from brokerd.coordinator.streams_group.state import PersistedStreamsGroup
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS
from brokerd.wire.errors import ErrorCode
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.streams import live

SEEDS = (1, 2, 3)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_streams_group_keeps_its_rules(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "too few commits: the run shows nothing"


def test_the_sample_reaches_delays_standby_tasks_and_growth() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "standby task assigned",
        "revoked task closed",
        "late commit: STALE_MEMBER_EPOCH",
        "streams status: ASSIGNMENT_DELAYED",
        "source topic grown",
    ):
        assert reached[state] > 0, f"{state}: {reached}"


def a_task_starts_before_its_owner_has_closed_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PersistedStreamsGroup, "free_tasks", lambda self, member_id, tasks: tasks)


def a_revocation_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    reconcile = group.reconcile

    def mutated_reconcile(at: Any, target: Any, target_epoch: int, owned: Any, free: Any) -> StreamsMemberAssignment:
        return reconcile(at, target, target_epoch, EMPTY_TASKS, free)

    patch.setattr(group, "reconcile", mutated_reconcile)


def a_returned_task_keeps_its_epoch(patch: pytest.MonkeyPatch) -> None:
    def mutated_with_changes(self: StreamsMemberAssignment, **changes: Any) -> StreamsMemberAssignment:
        after = replace(self, **changes)
        epochs = {t: self.assignment_epochs.get(t, after.epoch) for t in after.owned.active}
        return replace(after, assignment_epochs=epochs)

    patch.setattr(StreamsMemberAssignment, "with_changes", mutated_with_changes)


def every_epoch_may_commit(patch: pytest.MonkeyPatch) -> None:
    def mutated_epoch_error(self: StreamsGroup, member_id: str, epoch: int, instance_id: str | None = None) -> int:
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    patch.setattr(StreamsGroup, "epoch_error", mutated_epoch_error)


def a_process_gets_a_task_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PersistedStreamsGroup, "_same_process", lambda self, member_id, other: False)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_task_starts_before_its_owner_has_closed_it, 1),
        (a_revocation_is_not_awaited, 1),
        (every_epoch_may_commit, 1),
        (a_process_gets_a_task_twice, 1),
        (a_returned_task_keeps_its_epoch, 197),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
