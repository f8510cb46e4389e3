"""A fixed sample of worlds of a share group. Also: such worlds fail when a rule of share groups is removed from the product.
`make simulate WORLD=shares` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from brokerd.apis.share_partitions import SharePartitions
from brokerd.coordinator.share_state import coordinator
from brokerd.coordinator.share_state.coordinator import ShareCoordinator
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import ShareState, StateUpdate, apply_update
from brokerd.runtime.coordinator_ports import InternalLog
from brokerd.sharing.delivery import OffsetRun, RecordState
from brokerd.sharing.share_partition import SharePartition
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.shares import live

SEEDS = (1, 2)
SEEDS_MAX = 12


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_share_group_keeps_its_rules(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_every_end_of_a_delivery() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "confirmed: accept",
        "confirmed: reject",
        "confirmed: release",
        "confirmed: renew",
        "lock ended by its time-out",
        "lock ended with the session",
        "record archived after its last delivery",
        "share partition loaded with records in flight",
        "share member crashed",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached}"


def acknowledgements_are_answered_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "pending_write", property(lambda self: None))


def the_share_coordinator_answers_before_its_write_is_replicated(patch: pytest.MonkeyPatch) -> None:
    append = InternalLog.append

    def mutated_append(self: InternalLog, partition: int, batch: bytes, leader_epoch: int, done: Any) -> None:
        share = self._topic == "__share_group_state" and self.leader_epoch(partition) == leader_epoch
        append(self, partition, batch, leader_epoch, lambda error: None if share else done(error))
        if share:
            done(0)

    patch.setattr(InternalLog, "append", mutated_append)


def locks_do_not_end_by_their_time_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "expire", lambda self, now_ms: False)


def an_acquired_record_is_acquired_again(patch: pytest.MonkeyPatch) -> None:
    release = SharePartition.release

    def also_of_others(self: SharePartition, member: str) -> bool:
        for run_ in self.runs:
            if run_.state is RecordState.ACQUIRED:
                run_.member = member
        return release(self, member)

    patch.setattr(SharePartition, "release", also_of_others)


def a_snapshot_loses_the_delivery_counts(patch: pytest.MonkeyPatch) -> None:
    snapshot = coordinator.formats.snapshot

    def mutated_snapshot(state: ShareState) -> bytes:
        return snapshot(replace(state, batches=tuple(b._replace(deliveries=0) for b in state.batches)))

    patch.setattr(coordinator.formats, "snapshot", mutated_snapshot)


def a_snapshot_loses_the_batches(patch: pytest.MonkeyPatch) -> None:
    snapshot = coordinator.formats.snapshot
    patch.setattr(coordinator.formats, "snapshot", lambda state: snapshot(replace(state, batches=())))


def the_start_offset_passes_records_that_members_hold(patch: pytest.MonkeyPatch) -> None:
    begin = SharePartition.begin_write

    def mutated_begin_write(self: SharePartition) -> StateUpdate | None:
        update = begin(self)
        return replace(update, start=self.end) if update is not None else None

    patch.setattr(SharePartition, "begin_write", mutated_begin_write)


def the_start_offset_goes_back_with_a_late_write(patch: pytest.MonkeyPatch) -> None:
    def mutated_apply_update(old: ShareState, update: StateUpdate, wall_ms: int) -> ShareState:
        new = apply_update(old, update, wall_ms)
        return replace(new, start=max(0, new.start - 1)) if new.start > old.start else new

    patch.setattr(coordinator, "apply_update", mutated_apply_update)


def deposed_leaders_write(patch: pytest.MonkeyPatch) -> None:
    write = ShareCoordinator.write

    def any_leader(self: ShareCoordinator, place: Any, state_epoch: int, change: StateUpdate, done: Any) -> None:
        state, _ = self.summary(place)
        newest = max(change.leader_epoch, state.leader_epoch) if state is not None else change.leader_epoch
        write(self, place, state_epoch, replace(change, leader_epoch=newest), done)

    patch.setattr(ShareCoordinator, "write", any_leader)


def a_leader_uses_its_state_of_an_earlier_epoch(patch: pytest.MonkeyPatch) -> None:
    find = SharePartitions.find

    def mutated_find(self: SharePartitions, group_id: str, tp: Any) -> Any:
        shared = self._shared.get(SharePartitionKey(group_id, tp.topic_id, tp.partition))
        replica = self._replica_manager.hosted.get(tp)
        if shared is not None and replica is not None and replica.leads and shared.core is not None:
            shared.replica, shared.epoch = replica, replica.core.leader_epoch
            shared.core.leader_epoch = shared.epoch
        return find(self, group_id, tp)

    def only_locks(self: SharePartitions, now: Any) -> None:
        for shared in self:
            if shared.core is not None and self._is_current(shared) and shared.core.expire(now.mono_ms):
                self.flush(shared)

    patch.setattr(SharePartitions, "find", mutated_find)
    patch.setattr(SharePartitions, "tick", only_locks)


def the_last_delivery_does_not_end_a_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_end_lock", lambda self, run_, state, rejected=False: self._change(run_, state))


def a_delivery_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    hold = SharePartition._hold

    def mutated_hold(self: SharePartition, run_: OffsetRun, member: str, until_ms: int) -> None:
        hold(self, run_, member, until_ms)
        run_.count = max(1, run_.count - (run_.first % 5 == 0))

    patch.setattr(SharePartition, "_hold", mutated_hold)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (acknowledgements_are_answered_before_they_are_stored, 1),
        (the_share_coordinator_answers_before_its_write_is_replicated, 1),
        (locks_do_not_end_by_their_time_out, 1),
        (an_acquired_record_is_acquired_again, 1),
        (a_snapshot_loses_the_delivery_counts, 1),
        (a_snapshot_loses_the_batches, 3),
        (the_start_offset_passes_records_that_members_hold, 1),
        (the_start_offset_goes_back_with_a_late_write, 1),
        (deposed_leaders_write, 1),
        (a_leader_uses_its_state_of_an_earlier_epoch, 14),
        (the_last_delivery_does_not_end_a_record, 1),
        (a_delivery_is_not_counted, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
