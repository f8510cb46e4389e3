"""A fixed sample of worlds of a share group with transactions, deleted records and changed start offsets. Also: such worlds fail when a rule is removed
from the product. `make simulate WORLD=share-changes` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.apis.share_dead_letters import ShareDeadLetters
from brokerd.apis.share_partitions import SharePartitions
from brokerd.coordinator.share_state.coordinator import ShareCoordinator
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import StateUpdate
from brokerd.replication.replica import Replica
from brokerd.sharing.dead_letters import UnwritableReason
from brokerd.sharing.delivery import RecordState
from brokerd.sharing.share_partition import SharePartition
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.share_changes import live

SEEDS = (12, 41)
"""One without dead letters, and one with them."""
SEED_OF_A_REFUSING_BROKER = 51
"""A live broker refuses connections before a new controller has recorded its registration."""
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", [*SEEDS, SEED_OF_A_REFUSING_BROKER])
def test_a_share_group_keeps_its_rules_while_its_log_and_its_offsets_change(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_has_aborted_and_deleted_records_and_changed_offsets() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "a marker passed",
        "an aborted record passed",
        "records deleted",
        "record deleted before its delivery ended",
        "start offsets changed",
        "share partition loaded after a change of its start",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached}"
    for state in ("dead letter", "dead letters in two state epochs"):
        assert reached[state], f"{state}: {reached}"


def test_a_member_whose_leave_request_is_lost_leaves_before_it_fetches_again() -> None:
    """The operator started it again: it stayed a member without an assignment, and no member fetched a partition."""
    outcome = run(92, life=live)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"{outcome.violation}"])


def aborted_records_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartitions, "_leave_out_aborted", staticmethod(lambda replica, data, found: None))


def records_are_delivered_before_their_transaction_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "last_stable", lambda self: self.core.high_watermark)


def deleted_records_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "raise_start", lambda self, log_start: False)


def deleted_records_stay_with_their_members(patch: pytest.MonkeyPatch) -> None:
    change = SharePartition.raise_start

    def mutated_raise_start(self: SharePartition, log_start: int) -> bool:
        return change(self, min(log_start, next((r.first for r in self.runs if r.member), log_start)))

    patch.setattr(SharePartition, "raise_start", mutated_raise_start)


def new_members_use_the_state_before_a_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartitions, "_is_confirmed", lambda self, shared, core, member: True)


def a_change_of_the_start_offset_is_ignored(patch: pytest.MonkeyPatch) -> None:
    initialize = ShareCoordinator.initialize

    def only_first(self: ShareCoordinator, place: SharePartitionKey, state_epoch: int, start: int, done: Any) -> None:
        if self.summary(place)[0] is not None:
            done(0)
        else:
            initialize(self, place, state_epoch, start, done)

    patch.setattr(ShareCoordinator, "initialize", only_first)


def leaders_write_in_an_earlier_state_epoch(patch: pytest.MonkeyPatch) -> None:
    write = ShareCoordinator.write

    def any_epoch(self: ShareCoordinator, place: Any, state_epoch: int, change: StateUpdate, done: Any) -> None:
        state, _ = self.summary(place)
        write(self, place, state.state_epoch if state is not None else state_epoch, change, done)

    patch.setattr(ShareCoordinator, "write", any_epoch)


def dead_letters_of_deleted_records_are_not_written(patch: pytest.MonkeyPatch) -> None:
    raise_start = SharePartition.raise_start

    def archive_all(self: SharePartition, log_start: int) -> bool:
        for run_ in self.runs:
            if run_.state is RecordState.ARCHIVING and run_.last < log_start:
                self._change(run_, RecordState.ARCHIVED)
        return raise_start(self, log_start)

    patch.setattr(SharePartition, "raise_start", archive_all)


def dead_letters_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareDeadLetters, "_target", lambda self, shared, config: UnwritableReason.MISSING)


def dead_letters_are_not_copied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareDeadLetters, "_read_records", lambda self, shared, run_: {})


def a_record_that_has_not_failed_has_a_dead_letter(patch: pytest.MonkeyPatch) -> None:
    write = ShareDeadLetters._write

    def also_the_next(self: ShareDeadLetters, shared: Any, sending: Any, records: Any, *callbacks: Any) -> None:
        run_ = sending.run
        wider = shared.letters.sending = sending._replace(run=run_._replace(last=run_.last + 1))
        write(self, shared, wider, self._read_records(shared, wider.run), *callbacks)

    patch.setattr(ShareDeadLetters, "_write", also_the_next)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (aborted_records_are_delivered, 1),
        (records_are_delivered_before_their_transaction_ends, 1),
        (deleted_records_are_delivered, 1),
        (deleted_records_stay_with_their_members, 7),
        (new_members_use_the_state_before_a_change, 2),
        (a_change_of_the_start_offset_is_ignored, 1),
        (leaders_write_in_an_earlier_state_epoch, 1),
        (dead_letters_of_deleted_records_are_not_written, 75),
        (dead_letters_are_not_written, 1),
        (dead_letters_are_not_copied, 1),
        (a_record_that_has_not_failed_has_a_dead_letter, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
