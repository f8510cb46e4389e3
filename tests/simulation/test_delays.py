"""A fixed sample of worlds of delayed messages. Also: such worlds fail when a rule of the delivery is removed from the product.
`make simulate WORLD=delays` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from brokerd.delivery import delay_schedule, transfer
from brokerd.delivery.delay_schedule import DelaySchedule, Due, TombstoneAppended
from brokerd.delivery.front_partition import FrontPartition
from brokerd.delivery.journal import JournalReplay, JournalState, ProducerIdentity, TransferEntry
from brokerd.delivery.offset_set import OffsetSet
from brokerd.delivery.stored_delays import PendingSegment, StoredDelays
from brokerd.delivery.transfer import Transfer
from brokerd.delivery.transfer_lane import TransferLane
from brokerd.storage import delay_index
from brokerd.storage.delay_index import DelayIndex
from brokerd.wire.errors import ErrorCode
from tests.simulation.delays import live
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run

SEEDS = (1, 2, 9)
SEEDS_MAX = 20


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_delayed_record_arrives_once_and_never_early(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_sends_batches_again_and_cancels_records() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in ("delayed batch", "delayed record sent again", "delayed record cancelled", "truncation by epoch"):
        assert reached[state] >= len(SEEDS), f"{state}: {reached[state]}"
    assert reached["metric of delayed messages"] > 3, "the metrics were compared"
    for state in (
        "segment read from its delay index",
        "bucket read from a delay index",
        "delay index replaced memory",
        "delay index of an earlier content",
        "delay index discarded",
    ):
        assert reached[state] >= 5, f"{state}: {reached[state]}"


def a_new_leader_ignores_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalReplay, "state", lambda self, log_start: JournalState(None, 0, (), OffsetSet()))


def unconfirmed_entries_are_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    state = JournalReplay.state

    def mutated_state(self: JournalReplay, log_start: int) -> JournalState:
        return replace(state(self, log_start), unconfirmed=())

    patch.setattr(JournalReplay, "state", mutated_state)


def each_leader_is_another_producer(patch: pytest.MonkeyPatch) -> None:
    batch = TransferLane._batch
    numbers = count(1 << 40)

    def mutated_batch(self: TransferLane, entry: Any, now: Any) -> bytes | None:
        producer = ProducerIdentity(self.__dict__.setdefault("own", next(numbers)), 0)
        return batch(self, TransferEntry(producer, entry.base_sequence, entry.offsets), now)

    patch.setattr(TransferLane, "_batch", mutated_batch)


def records_are_due_early(patch: pytest.MonkeyPatch) -> None:
    tick = DelaySchedule._tick
    patch.setattr(DelaySchedule, "_tick", lambda self, room, now_ms: tick(self, room, now_ms + 200))


def tombstones_are_ignored(patch: pytest.MonkeyPatch) -> None:
    handle = DelaySchedule.handle

    def mutated_handle(self: DelaySchedule, event: Any, now_ms: int) -> Any:
        return [] if isinstance(event, TombstoneAppended) else handle(self, event, now_ms)

    patch.setattr(DelaySchedule, "handle", mutated_handle)


def equal_times_are_reversed(patch: pytest.MonkeyPatch) -> None:
    tick = DelaySchedule._tick

    def mutated_tick(self: DelaySchedule, room: int, now_ms: int) -> list[delay_schedule.DelayEffect]:
        effects = tick(self, room, now_ms)
        return [Due(e.offsets[::-1]) if isinstance(e, Due) else e for e in effects]

    patch.setattr(DelaySchedule, "_tick", mutated_tick)


def waiting_records_do_not_keep_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FrontPartition, "_count", lambda self, offsets, change: None)


def a_response_is_never_an_error(patch: pytest.MonkeyPatch) -> None:
    handle = Transfer.handle

    def accepting(self: Transfer, event: Any, now_ms: int) -> Any:
        if isinstance(event, transfer.BatchResponseReceived):
            event = transfer.BatchResponseReceived(event.number, ErrorCode.NONE)
        return handle(self, event, now_ms)

    patch.setattr(Transfer, "handle", accepting)


def an_index_of_an_earlier_content_is_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delay_index, "belongs_to", lambda header, log: True)


def transferred_records_of_an_indexed_segment_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetSet, "bits", lambda self, start, end: 0)


def records_of_an_index_stay_in_memory(patch: pytest.MonkeyPatch) -> None:
    def mutated_replace(self: StoredDelays, index: DelayIndex, near_until: int) -> bool:
        self.add_segment(PendingSegment(index, near_until))
        return True

    patch.setattr(StoredDelays, "replace", mutated_replace)


def a_bucket_that_is_being_read_does_not_delay_later_ones(patch: pytest.MonkeyPatch) -> None:
    tick = DelaySchedule._tick

    def mutated_tick(self: DelaySchedule, room: int, now_ms: int) -> list[delay_schedule.DelayEffect]:
        loading, self._loading = self._loading, {}
        effects = tick(self, room, now_ms)
        self._loading.update(loading)
        return effects

    patch.setattr(DelaySchedule, "_tick", mutated_tick)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_new_leader_ignores_the_journal, 1),
        (unconfirmed_entries_are_not_sent_again, 1),
        (each_leader_is_another_producer, 1),
        (records_are_due_early, 1),
        (tombstones_are_ignored, 1),
        (equal_times_are_reversed, 1),
        (waiting_records_do_not_keep_the_log, 1),
        (a_response_is_never_an_error, 1),
        (an_index_of_an_earlier_content_is_used, 4),
        (transferred_records_of_an_indexed_segment_are_forgotten, 2),
        (records_of_an_index_stay_in_memory, 2),
        (a_bucket_that_is_being_read_does_not_delay_later_ones, 2),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
