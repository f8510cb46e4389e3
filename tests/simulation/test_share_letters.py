"""Dead letters of a share group in worlds with faults (KIP-1191): each failed record has one, and only a change of the leader writes a second one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.apis.share_dead_letters import ShareDeadLetters
from brokerd.coordinator.share_state.state import ShareState
from brokerd.delivery.route_producer import UNKNOWN
from brokerd.sharing.delivery import FailedRun, OffsetRun, RecordState
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.errors import ErrorCode
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.shares import live_with_letters

SEEDS_MAX = 10


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live_with_letters)


def test_each_failed_record_has_a_dead_letter() -> None:
    outcome = run_seed(1)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"{outcome.violation}"])
    for state in ("confirmed: reject", "record archived after its last delivery", "dead letter"):
        assert outcome.reached[state] > 3, outcome.reached


def a_dead_letter_does_not_wait_for_the_stored_state(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: SharePartition, records_max: int) -> FailedRun | None:
        found = next((r for r in self.runs if r.state is RecordState.ARCHIVING), None)
        if found is None:
            return None
        return FailedRun(found.first, min(found.last, found.first + records_max - 1), found.count, found.rejected)

    patch.setattr(SharePartition, "next_failed", at_once)


def a_request_without_a_response_counts_as_written(patch: pytest.MonkeyPatch) -> None:
    def mutated_retry_later(self: ShareDeadLetters, shared: Any, error: ErrorCode, now: Any) -> None:
        letters = shared.letters
        self._archive(shared, letters.sending.run)
        letters.sending, letters.last = None, UNKNOWN

    patch.setattr(ShareDeadLetters, "_retry_later", mutated_retry_later)


def a_repeated_request_has_a_new_number(patch: pytest.MonkeyPatch) -> None:
    failed = ShareDeadLetters._retry_later

    def retry_without_number(shared: Any, error: ErrorCode, now: Any) -> None:
        failed(shared, error, now)
        shared.letters.last = UNKNOWN

    patch.setattr(ShareDeadLetters, "_retry_later", staticmethod(retry_without_number))


def a_new_leader_does_not_write_what_the_last_one_had_to_write(patch: pytest.MonkeyPatch) -> None:
    load = SharePartition.load

    def load_without_archiving(state: ShareState, *arguments: Any, **options: Any) -> SharePartition:
        batches = tuple(
            b._replace(state=RecordState.ARCHIVED) if b.state == RecordState.ARCHIVING else b for b in state.batches
        )
        return load(replace(state, batches=batches), *arguments, **options)

    patch.setattr(SharePartition, "load", staticmethod(load_without_archiving))


def a_record_without_deliveries_left_has_no_dead_letter(patch: pytest.MonkeyPatch) -> None:
    end_lock = SharePartition._end_lock

    def mutated_end_lock(self: SharePartition, run_: OffsetRun, state: RecordState, *, rejected: bool = False) -> None:
        used_up = state is RecordState.AVAILABLE and run_.count >= self.deliveries_max
        end_lock(self, run_, RecordState.ARCHIVED if used_up else state, rejected=rejected)

    patch.setattr(SharePartition, "_end_lock", mutated_end_lock)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_dead_letter_does_not_wait_for_the_stored_state, 2),
        (a_request_without_a_response_counts_as_written, 8),
        (a_repeated_request_has_a_new_number, 23),
        (a_new_leader_does_not_write_what_the_last_one_had_to_write, 4),
        (a_record_without_deliveries_left_has_no_dead_letter, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
